//! Files of user messages, as providers take them.

use std::borrow::Cow;

use helix_agents_core::message::FilePart;
use helix_agents_core::model::{ModelError, ModelErrorKind};

/// Where the content of a file is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FileSource<'a> {
    /// At an address that the provider can fetch.
    Url(&'a str),
    /// Here, in base64.
    Base64(Cow<'a, str>),
}

impl<'a> FileSource<'a> {
    /// Reads where a file is: a data URL, an address, or plain base64.
    pub(crate) fn of(file: &'a FilePart) -> Self {
        let data = file.data.as_str();
        if let Some(rest) = data.strip_prefix("data:")
            && let Some((kind, content)) = rest.split_once(',')
        {
            return Self::Base64(if kind.ends_with(";base64") {
                Cow::Borrowed(content)
            } else {
                Cow::Owned(base64(&percent_decoded(content)))
            });
        }
        if data.contains("://") {
            return Self::Url(data);
        }
        Self::Base64(Cow::Borrowed(data))
    }

    /// Returns the file as a data URL, or its address.
    pub(crate) fn url(&self, media_type: &str) -> Cow<'a, str> {
        match self {
            Self::Url(url) => Cow::Borrowed(url),
            Self::Base64(data) => Cow::Owned(format!("data:{media_type};base64,{data}")),
        }
    }
}

/// The error of a file that a provider cannot be given.
pub(crate) fn unsupported(provider: &str, file: &FilePart, remedy: &str) -> ModelError {
    let media_type = &file.media_type;
    let detail = format!("{provider} takes no file of type {media_type:?} like this; {remedy}");
    ModelError::new(ModelErrorKind::Invalid, detail)
}

/// Returns the text of a file that is a text and is here, so that it can be sent as one.
pub(crate) fn text_of(file: &FilePart) -> Option<String> {
    let is_text = file.media_type.starts_with("text/") || file.media_type == "application/json";
    match FileSource::of(file) {
        FileSource::Base64(data) if is_text => String::from_utf8(unbase64(&data)?).ok(),
        _ => None,
    }
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

pub(crate) fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| chunk.get(at).copied().map_or(0, u32::from);
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let six = (bits >> (18 - 6 * at)) & 63;
            let letter = usize::try_from(six).ok().and_then(|six| ALPHABET.get(six));
            match letter {
                Some(letter) if at <= chunk.len() => text.push(char::from(*letter)),
                _ => text.push('='),
            }
        }
    }
    text
}

/// Decodes base64 in either alphabet.
fn unbase64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count) = (0_u32, 0_u32);
    for letter in text.bytes().filter(|byte| !byte.is_ascii_whitespace()) {
        let letter = match letter {
            b'=' => break,
            b'-' => b'+',
            b'_' => b'/',
            other => other,
        };
        let six = ALPHABET.iter().position(|known| *known == letter)?;
        bits = bits << 6 | u32::try_from(six).ok()?;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from(bits >> count & 0xff).ok()?);
        }
    }
    Some(bytes)
}

fn percent_decoded(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = (*first == b'%').then(|| after.get(..2)).flatten();
        let code = code.and_then(|code| str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_where_they_are() {
        let source = |data: &'static str| {
            let file = FilePart::new(data, "text/plain");
            match FileSource::of(&file) {
                FileSource::Url(url) => format!("url {url}"),
                FileSource::Base64(data) => format!("base64 {data}"),
            }
        };
        assert_eq!(source("https://a.b/c.png"), "url https://a.b/c.png");
        assert_eq!(source("data:text/plain;base64,aGk="), "base64 aGk=");
        assert_eq!(source("data:text/plain,h%69"), "base64 aGk=");
        assert_eq!(source("aGk="), "base64 aGk=");
    }

    #[test]
    fn base64_is_read_as_it_was_written() {
        for text in ["", "f", "fo", "foo", "foob", "\u{fffd}?>"] {
            let encoded = base64(text.as_bytes());
            assert_eq!(encoded.len() % 4, 0);
            assert_eq!(unbase64(&encoded).unwrap(), text.as_bytes());
        }
        assert_eq!(base64(b"foob"), "Zm9vYg==");
        assert_eq!(unbase64("?"), None);
        assert_eq!(unbase64("_-8=").unwrap(), [0xff, 0xef]);
    }

    #[test]
    fn a_text_is_read_and_an_image_is_not() {
        let text = FilePart::new("data:text/csv,a%2Cb", "text/csv");
        assert_eq!(text_of(&text).as_deref(), Some("a,b"));
        assert_eq!(text_of(&FilePart::new("aGk=", "image/png")), None);
        assert_eq!(text_of(&FilePart::new("https://a.b/c", "text/csv")), None);
    }
}
