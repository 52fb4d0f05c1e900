//! Reads server-sent events from bytes that arrive in pieces of any size.

use memchr::memchr2;

/// The maximum size of one event. A provider that sends more is broken.
const MAX_EVENT: usize = 32 << 20;

/// The maximum size of JSON that stands in the stream without a field. It is an error, and errors are short.
const MAX_BARE: usize = 64 << 10;

const BOM: &[u8] = b"\xef\xbb\xbf";

/// One event: its name, if it has one, and its data.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SseEvent<'a> {
    pub(crate) name: &'a str,
    pub(crate) data: &'a str,
}

/// Why a body is not a stream of events.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SseError {
    #[error("the stream is not valid UTF-8")]
    Utf8,
    #[error("one event of the stream is larger than {MAX_EVENT} bytes")]
    TooLarge,
}

/// A parser of server-sent events.
#[derive(Debug, Default)]
pub(crate) struct SseParser {
    /// The bytes of the line that has begun.
    line: Vec<u8>,
    name: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    /// Whether the last line ended with a carriage return, so that a line feed belongs to it.
    after_return: bool,
    /// Whether a first line has ended.
    begun: bool,
    /// The lines of JSON without a field, as far as they are here.
    bare: Vec<u8>,
}

impl SseParser {
    /// Reads the next bytes, and hands each event that they complete to `act`.
    pub(crate) fn feed<E: From<SseError>>(
        &mut self,
        mut bytes: &[u8],
        mut act: impl FnMut(SseEvent<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        while !bytes.is_empty() {
            if std::mem::take(&mut self.after_return)
                && let Some(rest) = bytes.strip_prefix(b"\n")
            {
                bytes = rest;
                continue;
            }
            let Some(end) = memchr2(b'\n', b'\r', bytes) else {
                self.keep(bytes)?;
                return Ok(());
            };
            let (line, rest) = bytes.split_at(end);
            let (ending, rest) = rest.split_at(1);
            self.after_return = ending == b"\r";
            bytes = rest;
            if self.line.is_empty() {
                self.line(line, &mut act)?;
            } else {
                self.keep(line)?;
                let whole = std::mem::take(&mut self.line);
                self.line(&whole, &mut act)?;
                // Its memory is used for the next line.
                self.line = whole;
                self.line.clear();
            }
        }
        Ok(())
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<(), SseError> {
        if self.line.len() + bytes.len() > MAX_EVENT {
            return Err(SseError::TooLarge);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn line<E: From<SseError>>(
        &mut self,
        mut line: &[u8],
        act: &mut impl FnMut(SseEvent<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if !std::mem::replace(&mut self.begun, true) {
            line = line.strip_prefix(BOM).unwrap_or(line);
        }
        if line.is_empty() {
            return self.dispatch(act);
        }
        if self.is_bare(line) {
            return self.bare_line(line, act);
        }
        self.bare.clear();
        let colon = memchr::memchr(b':', line).unwrap_or(line.len());
        let (field, value) = line.split_at(colon);
        let value = value.get(1..).unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                if self.data.len() + value.len() > MAX_EVENT {
                    return Err(SseError::TooLarge.into());
                }
                if self.has_data {
                    self.data.push(b'\n');
                }
                self.has_data = true;
                self.data.extend_from_slice(value);
            }
            b"event" => {
                self.name.clear();
                self.name.extend_from_slice(value);
            }
            // Comments, ids and retry times say nothing about a reply.
            _ => {}
        }
        Ok(())
    }

    /// Whether a line belongs to JSON without a field: it begins some, or some has begun.
    fn is_bare(&self, line: &[u8]) -> bool {
        let has_field = line.starts_with(b"data:") || line.starts_with(b"event:");
        matches!(line.first(), Some(b'{' | b'[')) || (!self.bare.is_empty() && !has_field)
    }

    /// Reads a line of JSON without a field, as Gemini and some proxies send errors in the middle of a
    /// stream, on one line or on many. Once it is whole, it is an event.
    fn bare_line<E: From<SseError>>(
        &mut self,
        line: &[u8],
        act: &mut impl FnMut(SseEvent<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.bare.extend_from_slice(line);
        self.bare.push(b'\n');
        if self.bare.len() > MAX_BARE {
            self.bare.clear();
            return Ok(());
        }
        let may_end = matches!(line.trim_ascii_end().last(), Some(b'}' | b']'));
        if !may_end || serde_json::from_slice::<serde::de::IgnoredAny>(&self.bare).is_err() {
            return Ok(());
        }
        let whole = std::mem::take(&mut self.bare);
        let data = str::from_utf8(&whole).map_err(|_| SseError::Utf8)?;
        act(SseEvent { name: "", data })
    }

    /// Ends the last line, which may be an error without a line feed behind it. An event that has no empty
    /// line behind it is not whole.
    pub(crate) fn end<E: From<SseError>>(
        &mut self,
        act: impl FnMut(SseEvent<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        match self.line.is_empty() {
            true => Ok(()),
            false => self.feed(b"\n", act),
        }
    }

    fn dispatch<E: From<SseError>>(
        &mut self,
        act: &mut impl FnMut(SseEvent<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if std::mem::take(&mut self.has_data) {
            let text = |bytes| str::from_utf8(bytes).map_err(|_| SseError::Utf8);
            act(SseEvent {
                name: text(&self.name)?,
                data: text(&self.data)?,
            })?;
        }
        self.name.clear();
        self.data.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(pieces: &[&[u8]]) -> Result<Vec<(String, String)>, SseError> {
        let mut parser = SseParser::default();
        let mut events = Vec::new();
        for piece in pieces {
            parser.feed(piece, |event| {
                events.push((event.name.to_owned(), event.data.to_owned()));
                Ok::<_, SseError>(())
            })?;
        }
        Ok(events)
    }

    fn event(name: &str, data: &str) -> (String, String) {
        (name.to_owned(), data.to_owned())
    }

    const STREAM: &str = "\u{feff}: hello\n\nevent: a\ndata: one\u{2028}\n\ndata:two\r\ndata: \u{e9}t\u{e9}\r\nid: 7\r\n\r\n\
                          event: ping\n\ndata\n\nevent:b\rdata:  three\r\rdata: unfinished\n";

    fn expected() -> Vec<(String, String)> {
        vec![
            event("a", "one\u{2028}"),
            event("", "two\n\u{e9}t\u{e9}"),
            event("", ""),
            event("b", " three"),
        ]
    }

    #[test]
    fn lines_end_in_three_ways_and_comments_are_skipped() {
        assert_eq!(parse(&[STREAM.as_bytes()]).unwrap(), expected());
    }

    #[test]
    fn pieces_of_any_size_give_the_same_events() {
        let bytes = STREAM.as_bytes();
        for at in 0..=bytes.len() {
            let (one, two) = bytes.split_at(at);
            assert_eq!(parse(&[one, two]).unwrap(), expected(), "split at {at}");
        }
        let single: Vec<_> = bytes.chunks(1).collect();
        assert_eq!(parse(&single).unwrap(), expected());
    }

    #[test]
    fn json_without_a_field_is_an_event_once_it_is_whole() {
        let lines =
            "data: one\n\n{\n  \"error\": {\n    \"a\": [1]\n  }\n}\n\ndata: two\n\n[{\"b\":2}]\n";
        let expected = [
            event("", "one"),
            event("", "{\n  \"error\": {\n    \"a\": [1]\n  }\n}\n"),
            event("", "two"),
            event("", "[{\"b\":2}]\n"),
        ];
        for at in 0..=lines.len() {
            let (one, two) = lines.as_bytes().split_at(at);
            assert_eq!(parse(&[one, two]).unwrap(), expected, "split at {at}");
        }
        // Neither a field that follows nor a flood is taken for a part of it.
        let begun = parse(&[b"{\"a\":\ndata: one\n\n"]).unwrap();
        assert_eq!(begun, [event("", "one")]);
        let flood = format!("[\n{}\n]\ndata: one\n\n", " ".repeat(MAX_BARE));
        assert_eq!(parse(&[flood.as_bytes()]).unwrap(), [event("", "one")]);
    }

    #[test]
    fn the_last_line_needs_no_end() {
        let mut parser = SseParser::default();
        let mut seen = Vec::new();
        let mut note = |event: SseEvent<'_>| {
            seen.push(event.data.to_owned());
            Ok::<_, SseError>(())
        };
        parser
            .feed(b"data: one\n\n{\"error\":1}", &mut note)
            .unwrap();
        parser.end(&mut note).unwrap();
        assert_eq!(seen, ["one", "{\"error\":1}\n"]);
        let mut parser = SseParser::default();
        let mut note = |event: SseEvent<'_>| panic!("{event:?}");
        parser
            .feed::<SseError>(b"data: unfinished", &mut note)
            .unwrap();
        parser.end::<SseError>(&mut note).unwrap();
    }

    #[test]
    fn a_broken_body_is_refused() {
        assert_eq!(parse(&[b"data: \xff\n\n"]), Err(SseError::Utf8));
        let mut parser = SseParser::default();
        let piece = vec![b'x'; 1 << 20];
        let refused = (0..40).find_map(|_| {
            let fed = parser.feed(&piece, |_| Ok::<_, SseError>(()));
            fed.err()
        });
        assert_eq!(refused, Some(SseError::TooLarge));
    }
}
