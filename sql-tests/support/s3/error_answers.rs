//! Answers with errors that s3s doesn't know: planned ones, and those about regions.

use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{HeaderMap, Response, StatusCode, header};

use super::options::{S3Bucket, WrongRegionAnswer};

/// The header with the region of a bucket.
pub const BUCKET_REGION: HeaderName = HeaderName::from_static("x-amz-bucket-region");

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// An error as XML, with elements beside its code and its message.
pub fn error_answer(
    status: StatusCode,
    code: &str,
    message: &str,
    others: &[(&str, &str)],
) -> Response<Bytes> {
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error>");
    for (name, text) in [("Code", code), ("Message", message)].iter().chain(others) {
        xml += &format!("<{name}>{}</{name}>", escaped(text));
    }
    xml += "</Error>";
    let mut answer = Response::new(Bytes::from(xml));
    *answer.status_mut() = status;
    let xml_type = HeaderValue::from_static("application/xml");
    answer.headers_mut().insert(CONTENT_TYPE, xml_type);
    answer
}

/// The region that the signature of a request names.
pub fn signed_region(headers: &HeaderMap) -> Option<&str> {
    let authorization = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (_, scope) = authorization.split_once("Credential=")?;
    // <access key>/<date>/<region>/s3/aws4_request
    scope.split('/').nth(2)
}

/// The value of [`BUCKET_REGION`].
pub fn region_header(region: &str) -> HeaderValue {
    HeaderValue::from_str(region).expect("the name of a region is ASCII")
}

/// The answer to a request that is signed for another region than the bucket's.
pub fn wrong_region(
    answer: WrongRegionAnswer,
    bucket: &S3Bucket,
    region: &str,
    signed: &str,
) -> Response<Bytes> {
    let mut answer = match answer {
        WrongRegionAnswer::Malformed => error_answer(
            StatusCode::BAD_REQUEST,
            "AuthorizationHeaderMalformed",
            &format!(
                "The authorization header is malformed; the region '{signed}' is wrong; expecting '{region}'"
            ),
            &[("Region", region)],
        ),
        WrongRegionAnswer::Redirect => error_answer(
            StatusCode::MOVED_PERMANENTLY,
            "PermanentRedirect",
            "The bucket you are attempting to access must be addressed using the specified endpoint. Please send all future requests to this endpoint.",
            &[
                ("Endpoint", &format!("s3.{region}.amazonaws.com")),
                ("Bucket", &bucket.name),
            ],
        ),
    };
    answer
        .headers_mut()
        .insert(BUCKET_REGION, region_header(region));
    answer
}
