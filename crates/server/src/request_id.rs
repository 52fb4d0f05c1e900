//! The id of each request, in the log and in the response.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use helix_agents_core::MessageId;
use helix_agents_core::id::IdSource;

pub(crate) const HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// Returns the id that the caller sent, if it is valid, or a new one.
pub(crate) fn of(headers: &HeaderMap, ids: &dyn IdSource) -> String {
    let given = headers.get(HEADER).and_then(|value| value.to_str().ok());
    // An id of core has the characters and the length that logs and headers can carry.
    let given = given.filter(|text| MessageId::new(text).is_ok());
    given.map_or_else(|| ids.next("req"), str::to_owned)
}

/// Returns the id as a header value. Ids contain only characters that a header can carry.
pub(crate) fn value(id: &str) -> Option<HeaderValue> {
    HeaderValue::from_str(id).ok()
}
