//! What a store said when it refused a request.

use std::fmt::Write;

use http::HeaderMap;

/// The header in which S3 names the region of a bucket.
pub(crate) const REGION_HEADER: &str = "x-amz-bucket-region";
/// The header in which Azure names its error.
const AZURE_CODE_HEADER: &str = "x-ms-error-code";

/// Begins and ends an encoded refusal, and stands between its parts. No text of a store has control characters.
const FRAME: char = '\u{1e}';
const SEPARATOR: char = '\u{1f}';
/// The most characters of a message.
const MOST_CHARACTERS: usize = 300;

/// What a store said when it refused a request: the code and the message of its error, without the rest, which may hold parts of
/// signatures.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct StoreRefusal {
    /// The HTTP status.
    pub status: u16,
    /// The store's code, such as `AccessDenied`; empty if it gives none.
    pub code: String,
    /// The region of the bucket; empty if the store names none.
    pub region: String,
    /// The store's message; empty if it gives none.
    pub message: String,
}

impl StoreRefusal {
    /// The refusal in an answer.
    pub fn of(status: u16, headers: &HeaderMap, body: &[u8]) -> Self {
        let header = |name| {
            let value = headers.get(name).and_then(|value| value.to_str().ok());
            value.map(str::to_owned)
        };
        let body = String::from_utf8_lossy(body);
        let element = |name| element(&body, name);
        Self {
            status,
            code: element("Code")
                .or_else(|| header(AZURE_CODE_HEADER))
                .unwrap_or_default(),
            region: header(REGION_HEADER)
                .or_else(|| element("Region"))
                .unwrap_or_default(),
            message: element("Message")
                .or_else(|| json_message(&body))
                .unwrap_or_default(),
        }
        .cleaned()
    }

    fn cleaned(self) -> Self {
        let clean = |text: String| {
            let line = text.lines().next().unwrap_or_default().trim();
            let shown = line.chars().filter(|c| !c.is_control());
            shown.take(MOST_CHARACTERS).collect::<String>()
        };
        Self {
            status: self.status,
            code: clean(self.code),
            region: clean(self.region),
            message: clean(self.message),
        }
    }
}

impl StoreRefusal {
    /// The refusal as a text that [`Self::find`] finds in others.
    pub fn encoded(&self) -> String {
        let mut text = String::new();
        let Self {
            status,
            code,
            region,
            message,
        } = self;
        // Writing to a string doesn't fail.
        let _ = write!(
            text,
            "{FRAME}{status}{SEPARATOR}{code}{SEPARATOR}{region}{SEPARATOR}{message}{FRAME}"
        );
        text
    }

    /// The encoded refusal in the text of an error.
    pub fn find(text: &str) -> Option<Self> {
        let (_, rest) = text.split_once(FRAME)?;
        let (encoded, _) = rest.split_once(FRAME)?;
        let mut parts = encoded.splitn(4, SEPARATOR);
        Some(Self {
            status: parts.next()?.parse().ok()?,
            code: parts.next()?.to_owned(),
            region: parts.next()?.to_owned(),
            message: parts.next()?.to_owned(),
        })
    }
}

/// The text of the first XML element of a name.
fn element(body: &str, name: &str) -> Option<String> {
    let (_, rest) = body.split_once(&format!("<{name}>"))?;
    let (text, _) = rest.split_once(&format!("</{name}>"))?;
    let text = text
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&apos;", "'")
        .replace("&#39;", "'")
        .replace("&amp;", "&");
    Some(text).filter(|text| !text.trim().is_empty())
}

/// The message of an error in JSON: the first text under `"message"` or `"error_description"`.
fn json_message(body: &str) -> Option<String> {
    if !body.trim_start().starts_with('{') {
        return None;
    }
    ["\"message\"", "\"error_description\""]
        .iter()
        .find_map(|key| {
            let (_, rest) = body.split_once(key)?;
            let rest = rest
                .trim_start()
                .strip_prefix(':')?
                .trim_start()
                .strip_prefix('"')?;
            let (text, _) = rest.split_once('"')?;
            Some(text.to_owned())
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(status: u16, headers: &[(&'static str, &'static str)], body: &str) -> StoreRefusal {
        let headers = headers.iter().map(|(name, value)| {
            let value = http::HeaderValue::from_static(value);
            (http::HeaderName::from_static(name), value)
        });
        StoreRefusal::of(status, &headers.collect(), body.as_bytes())
    }

    #[test]
    fn each_store_has_its_own_words() {
        let s3 = "<?xml version=\"1.0\"?><Error><Code>SignatureDoesNotMatch</Code><Message>no &lt;match&gt;</Message>\
                  <StringToSign>AWS4 hush</StringToSign></Error>";
        let malformed = "<Error><Code>AuthorizationHeaderMalformed</Code><Message>wrong</Message><Region>eu-west-1</Region></Error>";
        for (found, expected) in [
            (
                of(403, &[], s3),
                (403, "SignatureDoesNotMatch", "", "no <match>"),
            ),
            (
                of(400, &[], malformed),
                (400, "AuthorizationHeaderMalformed", "eu-west-1", "wrong"),
            ),
            (
                of(301, &[("x-amz-bucket-region", "eu-west-1")], ""),
                (301, "", "eu-west-1", ""),
            ),
            (
                of(
                    403,
                    &[("x-ms-error-code", "AuthenticationFailed")],
                    "<Error><Message>one\nRequestId:2</Message></Error>",
                ),
                (403, "AuthenticationFailed", "", "one"),
            ),
            (
                of(
                    404,
                    &[],
                    r#"{"error": {"code": 404, "message": "no such bucket"}}"#,
                ),
                (404, "", "", "no such bucket"),
            ),
            (
                of(502, &[], "<html><body>Bad gateway</body></html>"),
                (502, "", "", ""),
            ),
            (
                of(500, &[], "\u{1e}\u{1f}<Code>a\u{1f}b</Code>"),
                (500, "ab", "", ""),
            ),
        ] {
            let StoreRefusal {
                status,
                code,
                region,
                message,
            } = &found;
            assert_eq!(
                (*status, code.as_str(), region.as_str(), message.as_str()),
                expected
            );
            let text = format!(
                "Server returned non-2xx status code: 403 Forbidden: {}",
                found.encoded()
            );
            assert_eq!(StoreRefusal::find(&text), Some(found));
        }
        assert_eq!(StoreRefusal::find("an error without one"), None);
        assert_eq!(StoreRefusal::find("\u{1e}cut"), None);
    }
}
