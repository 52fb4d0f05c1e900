//! Reads from the body of a request what selects its reply.
//!
//! The body is searched, not parsed, because its history grows with every step. Quotes inside of a
//! JSON string are escaped, so a key with its quotes is never found in the text of a message.

use memchr::memmem;

/// The parts of a chat completion request that select the reply.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ChatRequest<'a> {
    pub(crate) model: &'a str,
    /// The number of tool messages in the history.
    pub(crate) tool_messages: usize,
    pub(crate) stream: bool,
}

impl<'a> ChatRequest<'a> {
    /// Reads the body; `None` if it names no model.
    pub(crate) fn read(body: &'a [u8]) -> Option<Self> {
        let model = values(body, br#""model""#).find_map(text)?;
        let roles = values(body, br#""role""#);
        let mut stream = values(body, br#""stream""#);
        Some(Self {
            model,
            tool_messages: roles
                .filter(|value| value.starts_with(br#""tool""#))
                .count(),
            stream: stream.any(|value| value.starts_with(b"true")),
        })
    }
}

/// Returns the rest of the body from each value of a key on.
fn values<'a>(body: &'a [u8], key: &'static [u8]) -> impl Iterator<Item = &'a [u8]> {
    memmem::find_iter(body, key).filter_map(|at| {
        let rest = body.get(at + key.len()..)?.trim_ascii_start();
        Some(rest.strip_prefix(b":")?.trim_ascii_start())
    })
}

/// Returns the string at the beginning of a value, if it is one without escapes.
fn text(value: &[u8]) -> Option<&str> {
    let rest = value.strip_prefix(b"\"")?;
    let end = memchr::memchr2(b'"', b'\\', rest)?;
    let (text, end) = rest.split_at_checked(end)?;
    let text = end.starts_with(b"\"").then_some(text)?;
    std::str::from_utf8(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_messages_are_counted_however_the_body_is_spaced() {
        for body in [
            r#"{"stream":true,"model":"steps-2","messages":[{"role":"user"},{"role":"tool"},{"role":"tool"}]}"#,
            r#"{ "model" : "steps-2", "messages": [{"role": "tool"}, {"role" : "tool"}], "stream": true }"#,
        ] {
            let read = ChatRequest::read(body.as_bytes());
            let expected = ChatRequest {
                model: "steps-2",
                tool_messages: 2,
                stream: true,
            };
            assert_eq!(read, Some(expected), "{body}");
        }
    }

    #[test]
    fn text_that_looks_like_a_key_is_not_taken_for_one() {
        let body = r#"{"messages":[{"role":"user","content":"\"role\":\"tool\",\"stream\":true"},
            {"content":"model","role":"user"}],"tools":[{"properties":{"model":{}}}],"model":"text"}"#;
        let expected = ChatRequest {
            model: "text",
            tool_messages: 0,
            stream: false,
        };
        assert_eq!(ChatRequest::read(body.as_bytes()), Some(expected));
    }

    #[test]
    fn a_body_without_a_model_is_refused() {
        assert_eq!(ChatRequest::read(br#"{"messages":[]}"#), None);
        assert_eq!(ChatRequest::read(br#"{"model":"te"#), None);
    }
}
