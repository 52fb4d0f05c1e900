//! A name for each request, in the log and in the answer.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use helix_agents_core::MessageId;
use helix_agents_core::id::IdSource;

pub(crate) const HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// The id that the caller gave, when it is one, or else a new one.
pub(crate) fn of(headers: &HeaderMap, ids: &dyn IdSource) -> String {
    let given = headers.get(HEADER).and_then(|value| value.to_str().ok());
    // Any of core's ids has the characters and the length that logs and headers can carry.
    let given = given.filter(|text| MessageId::new(text).is_ok());
    given.map_or_else(|| ids.next("req"), str::to_owned)
}

/// The id as a header's value. Ids have no character that a header has not.
pub(crate) fn value(id: &str) -> Option<HeaderValue> {
    HeaderValue::from_str(id).ok()
}
