//! Tests that wrong answers and failures of a store are errors of the storage.

use super::odd::{Odd, Oddity};
use super::*;
use crate::error::ErrorKind;

#[tokio::test]
async fn stores_that_answer_wrongly_are_caught() {
    for oddity in [Oddity::DropsBytes, Oddity::ShiftsRanges] {
        let fixture = Fixture::over(Odd::store(oddity));
        fixture.put("f", digits(1000)).await;
        let error = fixture.storage.read_range("f", 10..20).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Storage, "{error}");
    }
    let fixture = Fixture::over(Odd::store(Oddity::DropsBytes));
    fixture.put("f", digits(1000)).await;
    assert_eq!(
        fixture.storage.read("f").await.unwrap_err().kind(),
        ErrorKind::Storage
    );
    let error = fixture.storage.read_suffix("f", 10).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Storage);
    // The failed request is in the log, and its returned bytes are counted.
    assert_eq!(fixture.log.len(), 2);

    let fixture = Fixture::over(Odd::store(Oddity::Fails));
    fixture.put("f", digits(1000)).await;
    for error in [
        fixture.storage.list("").await.unwrap_err(),
        fixture.storage.read("f").await.unwrap_err(),
        fixture.storage.read_range("f", 1..2).await.unwrap_err(),
        fixture.storage.read_suffix("f", 1).await.unwrap_err(),
        fixture.storage.head("f").await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Storage);
        assert!(error.to_string().contains("memory://some/array"), "{error}");
        assert!(error.to_string().contains("out of order"), "{error}");
    }
}
