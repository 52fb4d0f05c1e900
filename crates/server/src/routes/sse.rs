//! A session's stream as server-sent events.
//!
//! What a reader is sent comes from the store, a batch at a time, and the next batch is read when
//! the reader has taken the last: however slow it is, it costs no more memory.

mod frames;
mod pump;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use helix_agents_core::stream::{Incarnation, Sequence, StreamInfo, StreamStatus};
use tokio::sync::mpsc;

use crate::ApiError;
use crate::builder::App;
use crate::caller::Caller;
use crate::query::Pairs;
use crate::serve::Closing;

use pump::Pump;

/// How many pieces of frames wait for a reader.
const AHEAD: usize = 2;

pub(crate) async fn sse(
    State(app): State<App>,
    caller: Caller,
    query: Pairs,
    headers: HeaderMap,
    closing: Option<Extension<Closing>>,
) -> Result<Response, ApiError> {
    let cursor = cursor(&query, &headers)?;
    let session = query.session()?;
    let found = caller.find(&app, &session).await?;
    let info = app.streams().info(found.state.root()).await?;
    // Looked at after the stream: a session that somebody else made meanwhile under this id has
    // another stream than the one that was looked at.
    let found = caller.open(&app, &session).await?;
    let stream = info.map(|info| info.incarnation);
    let after = cursor.place_in(info)?;
    let closing = closing.map(|Extension(closing)| closing);
    let (send, receive) = mpsc::channel(AHEAD);
    let pump = Pump::new(app, &found, stream, after, send);
    tokio::spawn(pump.run(closing.unwrap_or_default()));
    let pieces = stream::unfold(receive, async |mut receive| {
        let piece = receive.recv().await?;
        Some((piece, receive))
    });
    let no_buffer = HeaderName::from_static("x-accel-buffering");
    let headers = [
        (CONTENT_TYPE, "text/event-stream"),
        (CACHE_CONTROL, "no-cache"),
        (no_buffer, "no"),
    ];
    let mut response = (headers, Body::from_stream(pieces)).into_response();
    if let Some(Incarnation(number)) = stream {
        response.headers_mut().insert(STREAM, number.into());
    }
    Ok(response)
}

/// Names the stream that is read, of all that ever had its session's id. Whoever comes back with a
/// sequence sends it too, here or as `streamIncarnation`, and is told when that stream is gone.
pub(crate) const STREAM: HeaderName = HeaderName::from_static("x-helix-stream");

/// Where a reader was.
#[derive(Debug, Clone, Copy)]
struct Cursor {
    /// In which stream, if it says so.
    stream: Option<Incarnation>,
    after: Sequence,
}

impl Cursor {
    /// After which chunk of this stream to begin, unless it is the place in another one.
    fn place_in(self, info: Option<StreamInfo>) -> Result<Sequence, ApiError> {
        let now = info.map(|info| info.incarnation);
        let last = info.map_or(Sequence::START, |info| info.last);
        let is_active = info.is_some_and(|info| info.status == StreamStatus::Active);
        let fits = match self.stream {
            Some(stream) => Some(stream) == now && self.after <= last,
            // A place past the end is in another stream. Who does not say in which is told the end
            // where there is one, and must not wait until this stream is as long.
            None => self.after <= last || !is_active,
        };
        if fits {
            return Ok(self.after.min(last));
        }
        let now = match now {
            Some(now) => format!("it is stream {now} now, which ends at {last}"),
            None => "nothing was written since".to_owned(),
        };
        let was = match self.stream {
            Some(stream) => format!("stream {stream}"),
            None => "another stream".to_owned(),
        };
        Err(ApiError::stale(format!(
            "sequence {} belongs to {was}: the session was deleted and made again, {now}; read it \
             from the start, without a sequence",
            self.after
        )))
    }
}

fn cursor(query: &Pairs, headers: &HeaderMap) -> Result<Cursor, ApiError> {
    let stream = match headers.get(STREAM) {
        Some(header) => {
            let number = header
                .to_str()
                .ok()
                .and_then(|text| text.trim().parse().ok());
            let bad = || ApiError::invalid("X-Helix-Stream is not a whole number; send it back");
            Some(number.ok_or_else(bad)?)
        }
        None => query.number("streamIncarnation")?,
    };
    Ok(Cursor {
        stream: stream.map(Incarnation),
        after: after(query, headers)?,
    })
}

/// After which chunk to begin. A browser that reconnects repeats its query and adds the header, so
/// the later of the two counts.
fn after(query: &Pairs, headers: &HeaderMap) -> Result<Sequence, ApiError> {
    let asked = query.number("fromSequence")?.unwrap_or(0);
    let Some(header) = headers.get("last-event-id") else {
        return Ok(Sequence(asked));
    };
    let seen = header.to_str().ok().map(str::trim);
    let seen = match seen {
        Some("") => Some(0),
        seen => seen.and_then(|text| text.parse().ok()),
    };
    let bad = || ApiError::invalid("Last-Event-ID is not a whole number; send the last `id:`");
    Ok(Sequence(asked.max(seen.ok_or_else(bad)?)))
}
