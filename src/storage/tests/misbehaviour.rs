//! A store that answers wrongly, or fails, is an error of the storage.

use super::odd::{Odd, Oddity};
use super::*;
use crate::error::ErrorKind;

#[tokio::test]
async fn stores_that_answer_wrongly_are_caught() {
    for oddity in [Oddity::DropsBytes, Oddity::ShiftsRanges] {
        let place = Place::over(Odd::store(oddity));
        place.put("f", digits(1000)).await;
        let error = place.storage.read_range("f", 10..20).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Storage, "{error}");
    }
    let place = Place::over(Odd::store(Oddity::DropsBytes));
    place.put("f", digits(1000)).await;
    assert_eq!(
        place.storage.read("f").await.unwrap_err().kind(),
        ErrorKind::Storage
    );
    let error = place.storage.read_suffix("f", 10).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Storage);
    // The failed request is in the log, the bytes that came back are not lost.
    assert_eq!(place.log.len(), 2);

    let place = Place::over(Odd::store(Oddity::Fails));
    place.put("f", digits(1000)).await;
    for error in [
        place.storage.list("").await.unwrap_err(),
        place.storage.read("f").await.unwrap_err(),
        place.storage.read_range("f", 1..2).await.unwrap_err(),
        place.storage.read_suffix("f", 1).await.unwrap_err(),
        place.storage.head("f").await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Storage);
        assert!(error.to_string().contains("memory://some/array"), "{error}");
        assert!(error.to_string().contains("out of order"), "{error}");
    }
}
