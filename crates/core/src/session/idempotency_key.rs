//! The idempotency key of a call.

use std::fmt;
use std::sync::OnceLock;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::canonical::idempotency_key;
use crate::id::{CallId, RunId, SessionId};
use crate::shared_str::SharedStr;

/// The key of a call, which a tool passes to other systems so that they notice a repetition.
///
/// The key is the SHA-256 of session, run and call, in hexadecimal: the same in every process and for every
/// attempt at the call. It is computed when it is first read or stored.
#[derive(Clone)]
pub struct IdempotencyKey {
    text: OnceLock<SharedStr>,
    /// The call of which the key is computed; `None` if the text was given.
    call: Option<(SessionId, RunId, CallId)>,
}

impl IdempotencyKey {
    /// The key of a call that the model of this run made.
    #[must_use]
    #[doc(hidden)]
    pub fn of(session: &SessionId, run: &RunId, call: &CallId) -> Self {
        Self {
            text: OnceLock::new(),
            call: Some((session.clone(), run.clone(), call.clone())),
        }
    }

    /// Returns the key as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.text.get_or_init(|| {
            let call = self.call.as_ref();
            let key = call.map(|(session, run, call)| idempotency_key(session, run, call));
            key.unwrap_or_default().into()
        })
    }
}

impl From<SharedStr> for IdempotencyKey {
    fn from(text: SharedStr) -> Self {
        Self {
            text: OnceLock::from(text),
            call: None,
        }
    }
}

impl From<&str> for IdempotencyKey {
    fn from(text: &str) -> Self {
        SharedStr::from(text).into()
    }
}

/// Keys are equal when their texts are.
impl PartialEq for IdempotencyKey {
    fn eq(&self, other: &Self) -> bool {
        let same_call = self.call.is_some() && self.call == other.call;
        same_call || self.as_str() == other.as_str()
    }
}

impl Eq for IdempotencyKey {}

impl fmt::Debug for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl Serialize for IdempotencyKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for IdempotencyKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        SharedStr::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(call: &str) -> IdempotencyKey {
        let (session, run) = (SessionId::new("s"), RunId::new("r"));
        IdempotencyKey::of(
            &session.unwrap(),
            &run.unwrap(),
            &CallId::new(call).unwrap(),
        )
    }

    #[test]
    fn a_key_that_is_computed_equals_the_one_that_was_stored() {
        let stored = serde_json::to_string(&key("a")).unwrap();
        let read: IdempotencyKey = serde_json::from_str(&stored).unwrap();
        assert_eq!(read, key("a"));
        assert_eq!(key("a"), key("a"));
        assert_ne!(read, key("b"));
        assert_ne!(key("a"), key("b"));
        assert_eq!(key("a").as_str().len(), 64);
    }
}
