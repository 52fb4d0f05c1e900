//! A reader of server-sent events.

use crate::serving::Served;

/// One event of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Frame {
    /// A chunk with its sequence.
    Chunk(u64, String),
    /// The end, with its data.
    End(String),
}

/// A connection that is being read.
pub(crate) struct Reader {
    response: reqwest::Response,
    text: String,
}

impl Reader {
    /// Reads the frames after a sequence.
    pub(crate) async fn after(served: &Served, session: &str, sequence: u64) -> Self {
        let path = format!("/sse?sessionId={session}&fromSequence={sequence}");
        Self::of(served.get(&path).await)
    }

    pub(crate) fn of(response: reqwest::Response) -> Self {
        assert_eq!(response.status().as_u16(), 200, "{response:?}");
        Self {
            response,
            text: String::new(),
        }
    }

    /// Returns the next event; `None` if the connection has ended.
    pub(crate) async fn next(&mut self) -> Option<Frame> {
        loop {
            while let Some((frame, rest)) = self.text.split_once("\n\n") {
                let read = parsed(frame);
                self.text = rest.to_owned();
                if read.is_some() {
                    return read;
                }
            }
            let piece = self.response.chunk().await.ok()??;
            self.text.push_str(std::str::from_utf8(&piece).unwrap());
        }
    }

    /// Returns everything up to the end, which has to come.
    pub(crate) async fn all(mut self) -> Vec<Frame> {
        let mut all = Vec::new();
        loop {
            let frame = self.next().await;
            let frame = frame.unwrap_or_else(|| panic!("no end after {:?}", all.last()));
            let is_end = matches!(frame, Frame::End(_));
            all.push(frame);
            if is_end {
                return all;
            }
        }
    }
}

/// Parses an event; `None` for a comment.
fn parsed(frame: &str) -> Option<Frame> {
    let field = |name: &str| frame.lines().find_map(|line| line.strip_prefix(name));
    let data = field("data: ")?.to_owned();
    match (field("id: "), field("event: ")) {
        (Some(id), None) => Some(Frame::Chunk(id.parse().unwrap(), data)),
        (None, Some("end")) => Some(Frame::End(data)),
        _ => panic!("what is {frame:?}?"),
    }
}
