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
use helix_agents_core::stream::Sequence;
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
    let after = after(&query, &headers)?;
    let found = caller.open(&app, &query.session()?).await?;
    let closing = closing.map(|Extension(closing)| closing);
    let (send, receive) = mpsc::channel(AHEAD);
    let pump = Pump::new(app, &found, after, send);
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
    Ok((headers, Body::from_stream(pieces)).into_response())
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
