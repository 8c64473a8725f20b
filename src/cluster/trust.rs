//! How coordinator and workers know each other.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use tiledb_engine::ResultExt;
use tonic::service::Interceptor;
use tonic::{Request, Status};
use zeroize::Zeroizing;

use super::tls::ClusterTls;
use crate::{Error, Result};

/// A token is at least this long: shorter ones can be guessed.
const SHORTEST_TOKEN: usize = 16;
/// A token file is no longer than this.
const LONGEST_TOKEN: usize = 4096;

/// A secret that coordinator and workers share.
#[derive(Clone)]
pub struct ClusterToken(Arc<Zeroizing<String>>);

impl fmt::Debug for ClusterToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterToken(…)")
    }
}

impl ClusterToken {
    /// A token of visible ASCII characters, at least 16.
    ///
    /// # Errors
    /// The text is no such token. The error doesn't repeat it.
    pub fn new(text: &str) -> Result<Self> {
        let text = text.trim_ascii();
        let visible = text.bytes().all(|byte| byte.is_ascii_graphic());
        if !visible || text.len() < SHORTEST_TOKEN || text.len() > LONGEST_TOKEN {
            return Err(Error::invalid(format!(
                "a token has {SHORTEST_TOKEN} to {LONGEST_TOKEN} visible ASCII characters, found {} characters",
                text.chars().count()
            )));
        }
        Ok(Self(Arc::new(Zeroizing::new(text.to_owned()))))
    }

    /// The token in a file, without the spaces and line ends around it.
    ///
    /// # Errors
    /// The file can't be read, or holds no token.
    pub fn from_file(path: &Path) -> Result<Self> {
        let read = std::fs::read(path).map(Zeroizing::new);
        let bytes = read.map_err(|e| {
            Error::invalid(format!("the token file {} can't be read", path.display()))
                .with_source(e)
        })?;
        let text = std::str::from_utf8(&bytes);
        let text = text.map_err(|_| Error::invalid("a token has visible ASCII characters only"));
        text.and_then(Self::new).context("file", || path.display())
    }

    /// Whether a text is the token. The time that this takes doesn't depend on where they differ.
    fn is(&self, text: &[u8]) -> bool {
        let token = self.0.as_bytes();
        let differing = token
            .iter()
            .zip(text.iter().chain(std::iter::repeat(&0)))
            .fold(0, |differing, (a, b)| differing | (a ^ b));
        std::hint::black_box(differing) == 0 && token.len() == text.len()
    }

    fn text(&self) -> &str {
        &self.0
    }
}

/// What a coordinator, or a worker that asks another, shows and expects.
#[derive(Debug, Clone, Default)]
pub struct ClusterTrust {
    /// The token that every request carries; without one, workers ask for none.
    pub token: Option<ClusterToken>,
    /// The certificates; without them, nothing is encrypted.
    pub tls: Option<ClusterTls>,
}

impl ClusterTrust {
    /// Whether what is sent is encrypted, and workers can tell whom they run plans for: by a token, or by a certificate.
    pub fn is_closed(&self) -> bool {
        let Some(tls) = &self.tls else {
            return false;
        };
        tls.has_identity() && (self.token.is_some() || tls.has_authority())
    }

    /// The value of the header that carries the token.
    pub(super) fn header(&self) -> Option<http::HeaderValue> {
        let token = self.token.as_ref()?;
        let text = Zeroizing::new(format!("Bearer {}", token.text()));
        let mut value = http::HeaderValue::from_str(&text).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

/// Refuses requests without the token, before anything of them is decoded.
#[derive(Debug, Clone)]
pub(super) struct TokenCheck(pub ClusterTrust);

impl TokenCheck {
    fn is_known(&self, headers: &HeaderMap) -> bool {
        let Some(token) = &self.0.token else {
            return true;
        };
        let given = headers.get(AUTHORIZATION).map(http::HeaderValue::as_bytes);
        let given = given.and_then(|given| given.strip_prefix(b"Bearer "));
        token.is(given.unwrap_or_default())
    }
}

impl Interceptor for TokenCheck {
    fn call(&mut self, request: Request<()>) -> std::result::Result<Request<()>, Status> {
        if self.is_known(&request.metadata().clone().into_headers()) {
            return Ok(request);
        }
        Err(Status::unauthenticated(
            "the worker asks for a token, and this one is missing or wrong: give both sides the same --token-file",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    #[test]
    fn only_the_token_is_let_in() {
        let trust = ClusterTrust {
            token: Some(ClusterToken::new(TOKEN).unwrap()),
            tls: None,
        };
        let check = TokenCheck(trust.clone());
        let with = |value: &str| HeaderMap::from_iter([(AUTHORIZATION, value.parse().unwrap())]);
        assert!(check.is_known(&HeaderMap::from_iter([(
            AUTHORIZATION,
            trust.header().unwrap()
        )])));
        assert!(check.is_known(&with(&format!("Bearer {TOKEN}"))));
        for wrong in [
            "",
            "Bearer ",
            TOKEN,
            "Bearer 0123456789abcdeg",
            "Bearer 0123456789abcdefg",
            "Bearer 0123456789abcde",
        ] {
            assert!(!check.is_known(&with(wrong)), "{wrong}");
        }
        assert!(!check.is_known(&HeaderMap::new()));
        assert!(TokenCheck(ClusterTrust::default()).is_known(&HeaderMap::new()));
    }

    #[test]
    fn tokens_stay_secret() {
        let token = ClusterToken::new(TOKEN).unwrap();
        assert!(!format!("{token:?}").contains(TOKEN));
        for wrong in [
            "short",
            "with a space in the middle",
            "ümlauts are not ascii",
        ] {
            let error = ClusterToken::new(wrong).unwrap_err().to_string();
            assert!(!error.contains(wrong), "{error}");
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        assert!(ClusterToken::from_file(&path).is_err());
        std::fs::write(&path, format!("{TOKEN}\n")).unwrap();
        assert!(ClusterToken::from_file(&path).unwrap().is(TOKEN.as_bytes()));
    }
}
