//! Who may do what: signatures, session tokens and grants.

use std::sync::Arc;

use async_trait::async_trait;
use s3s::access::{S3Access, S3AccessContext};
use s3s::auth::{S3Auth, SecretKey};
use s3s::path::S3Path;
use s3s::{S3Result, s3_error};

use super::options::{S3Action, S3ServerOptions, S3User};

/// The header of session tokens.
const SESSION_TOKEN: &str = "x-amz-security-token";

/// Finds the keys of users, for s3s to check their signatures.
pub struct UserKeys(pub Arc<S3ServerOptions>);

#[async_trait]
impl S3Auth for UserKeys {
    async fn get_secret_key(&self, access_key: &str) -> S3Result<SecretKey> {
        let Some(user) = self.0.user(access_key) else {
            return Err(s3_error!(
                InvalidAccessKeyId,
                "The AWS Access Key Id you provided does not exist in our records."
            ));
        };
        Ok(SecretKey::from(user.secret_key.as_str()))
    }
}

/// Checks session tokens and grants of requests whose signatures are right.
pub struct UserGrants(pub Arc<S3ServerOptions>);

/// The action that an operation needs. Operations without one don't exist here, which s3s answers.
fn needed_action(operation: &str) -> Option<S3Action> {
    match operation {
        "GetObject" | "HeadObject" => Some(S3Action::Read),
        "ListObjectsV2" | "HeadBucket" | "GetBucketLocation" => Some(S3Action::List),
        "PutObject"
        | "CreateMultipartUpload"
        | "UploadPart"
        | "CompleteMultipartUpload"
        | "AbortMultipartUpload" => Some(S3Action::Write),
        "DeleteObject" | "DeleteObjects" => Some(S3Action::Delete),
        _ => None,
    }
}

/// Checks that a request carries the session token of its user.
fn check_session_token(user: &S3User, cx: &S3AccessContext<'_>) -> S3Result<()> {
    let found = cx.headers().get(SESSION_TOKEN);
    if found.map(|token| token.as_bytes()) == user.session_token.as_deref().map(str::as_bytes) {
        return Ok(());
    }
    Err(s3_error!(
        ExpiredToken,
        "The provided token has expired or is not the token of this key."
    ))
}

#[async_trait]
impl S3Access for UserGrants {
    async fn check(&self, cx: &mut S3AccessContext<'_>) -> S3Result<()> {
        let access_key = cx.credentials().map(|keys| keys.access_key.as_str());
        if let Some(user) = access_key.and_then(|key| self.0.user(key)) {
            check_session_token(user, cx)?;
        }
        let Some(action) = needed_action(cx.s3_op().name()) else {
            return Ok(());
        };
        let (S3Path::Bucket { bucket } | S3Path::Object { bucket, .. }) = cx.s3_path() else {
            return Ok(());
        };
        let Some(bucket) = self.0.bucket(bucket) else {
            return Err(s3_error!(
                NoSuchBucket,
                "The specified bucket does not exist"
            ));
        };
        if self.0.allows(access_key, action, bucket) {
            return Ok(());
        }
        Err(s3_error!(AccessDenied, "Access Denied"))
    }
}
