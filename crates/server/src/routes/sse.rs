//! The stream of a session as server-sent events.
//!
//! Chunks are read from the store in batches, and the next batch is read when the reader has taken
//! the last one. A slow reader therefore needs no more memory.

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

/// The number of pieces that are buffered for a reader.
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
    // Read after the stream: a session that was created again meanwhile under this id has another
    // stream.
    let found = caller.open(&app, &session).await?;
    let stream = info.map(|info| info.incarnation);
    let after = cursor.sequence_in(info)?;
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

/// The header that names the stream that is read, among all that have had the session's id. A
/// reader that resumes from a sequence sends it back, here or as `streamIncarnation`, and is told
/// if that stream was deleted.
pub(crate) const STREAM: HeaderName = HeaderName::from_static("x-helix-stream");

/// The position of a reader.
#[derive(Debug, Clone, Copy)]
struct Cursor {
    /// The stream, if the reader named it.
    stream: Option<Incarnation>,
    after: Sequence,
}

impl Cursor {
    /// Returns the sequence to read after, or an error if it belongs to another stream.
    fn sequence_in(self, info: Option<StreamInfo>) -> Result<Sequence, ApiError> {
        let now = info.map(|info| info.incarnation);
        let last = info.map_or(Sequence::START, |info| info.last);
        let is_active = info.is_some_and(|info| info.status == StreamStatus::Active);
        let fits = match self.stream {
            Some(stream) => Some(stream) == now && self.after <= last,
            // A sequence past the end belongs to another stream. A reader that does not name its
            // stream gets the outcome if the run has ended, and must not wait until this stream is
            // as long.
            None => self.after <= last || !is_active,
        };
        if fits {
            return Ok(self.after.min(last));
        }
        let now = match now {
            Some(now) => format!("it is now stream {now}, which ends at {last}"),
            None => "nothing has been written since".to_owned(),
        };
        let was = match self.stream {
            Some(stream) => format!("stream {stream}"),
            None => "another stream".to_owned(),
        };
        Err(ApiError::stale(format!(
            "sequence {} belongs to {was}: the session was deleted and created again, {now}; read it \
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

/// Returns the sequence to read after. A browser that reconnects repeats its query and adds the
/// header, so the later of the two counts.
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
