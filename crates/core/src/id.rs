//! Identifiers: one newtype per kind, all within the limits of the wire protocol.

use std::fmt::{self, Write as _};
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::{Coded, ErrorCode};

/// The maximum length of an id, in characters.
pub const MAX_ID_CHARS: usize = 256;

/// Why a text is not a valid id.
///
/// ```
/// use helix_agents::prelude::*;
/// use helix_agents::IdError;
///
/// let refused = SessionId::new("chat 7").unwrap_err();
/// assert!(matches!(refused, IdError::BadCharacter { found: ' ', at: 4, .. }));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdError {
    /// Ids have at least one character.
    #[error("a {kind} is empty; give it 1 to {MAX_ID_CHARS} letters, digits or `-_.:`")]
    Empty {
        /// The kind of id that was expected.
        kind: &'static str,
    },
    /// Ids have at most [`MAX_ID_CHARS`] characters.
    #[error("a {kind} has {chars} characters; shorten it to at most {MAX_ID_CHARS}")]
    TooLong {
        /// The kind of id that was expected.
        kind: &'static str,
        /// The number of characters in the text.
        chars: usize,
    },
    /// Ids are made of letters, digits and `-_.:`.
    #[error("a {kind} contains {found:?} at character {at}; use only letters, digits and `-_.:`")]
    BadCharacter {
        /// The kind of id that was expected.
        kind: &'static str,
        /// The first character that is not allowed.
        found: char,
        /// The position of that character, counted from 0.
        at: usize,
    },
}

impl Coded for IdError {
    fn code(&self) -> ErrorCode {
        ErrorCode::ValidationError
    }
}

fn check(kind: &'static str, text: &str) -> Result<(), IdError> {
    if text.is_empty() {
        return Err(IdError::Empty { kind });
    }
    let bad = |c: &char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':'));
    if let Some((at, found)) = text.chars().enumerate().find(|(_, c)| bad(c)) {
        return Err(IdError::BadCharacter { kind, found, at });
    }
    // Every allowed character is one byte, so bytes and characters agree from here on.
    if text.len() > MAX_ID_CHARS {
        return Err(IdError::TooLong {
            kind,
            chars: text.len(),
        });
    }
    Ok(())
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident, $kind:literal;)*) => {$(
        $(#[$doc])*
        ///
        /// 1 to 256 characters of letters, digits and `-_.:`. Clones share the text.
        ///
        /// ```
        #[doc = concat!("use helix_agents::core::id::", stringify!($name), ";")]
        ///
        #[doc = concat!("let id = ", stringify!($name), "::new(\"a-7\")?;")]
        /// assert_eq!(id.as_str(), "a-7");
        /// # Ok::<(), helix_agents::IdError>(())
        /// ```
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks a text and converts it into an id.
            ///
            /// # Errors
            /// [`IdError`] if the text is empty, too long, or has a character that is not allowed.
            pub fn new(text: impl AsRef<str>) -> Result<Self, IdError> {
                let text = text.as_ref();
                check($kind, text)?;
                Ok(Self(text.into()))
            }

            /// Returns the id as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                Self::new(text)
            }
        }

        impl TryFrom<&str> for $name {
            type Error = IdError;
            fn try_from(text: &str) -> Result<Self, IdError> {
                Self::new(text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;
            fn try_from(text: String) -> Result<Self, IdError> {
                Self::new(text)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                Self::new(text).map_err(serde::de::Error::custom)
            }
        }
    )*};
}

ids! {
    /// The id of a session: the container of one conversation.
    SessionId, "session id";
    /// The id of a run: one execution within a session.
    RunId, "run id";
    /// The id of a step: a model call and the calls it made.
    StepId, "step id";
    /// The id of a tool call. Unique in its session, for ever.
    CallId, "tool call id";
    /// The id of a checkpoint.
    CheckpointId, "checkpoint id";
    /// The id of one approval request. Single use.
    ApprovalId, "approval id";
    /// The id of a stream of chunks; one per root session.
    StreamId, "stream id";
    /// The id of the agent instance that wrote a chunk.
    AgentId, "agent id";
    /// The id of a message, if a client gave it one.
    MessageId, "message id";
    /// The id of a usage entry.
    UsageId, "usage id";
    /// The id of a user, who owns sessions.
    UserId, "user id";
}

impl SessionId {
    /// Returns a placeholder for an id that is set later.
    pub(crate) fn placeholder() -> Self {
        Self(Arc::from("-"))
    }
}

impl CallId {
    /// The id of a call whose model gives no ids. It is made unique in its session.
    pub(crate) fn of_reply() -> Self {
        Self(Arc::from("call"))
    }
}

impl StreamId {
    /// Returns the id of a root session's stream.
    #[must_use]
    pub fn of_session(root: &SessionId) -> Self {
        Self(Arc::clone(&root.0))
    }
}

impl AgentId {
    /// Returns the id of a session's agent instance.
    #[must_use]
    pub(crate) fn of_session(session: &SessionId) -> Self {
        Self(Arc::clone(&session.0))
    }
}

impl ApprovalId {
    /// Returns an id that no approval request has.
    pub(crate) fn none() -> Self {
        Self(Arc::from("-"))
    }
}

impl UsageId {
    /// Returns the id of a call's usage entry, the same however often the call is settled.
    pub(crate) fn of_call(call: &CallId, what: impl fmt::Display) -> Self {
        Self(call.with_suffix(format_args!(":{what}")).0)
    }
}

impl CallId {
    /// Returns this id with a suffix, shortened to stay a valid id. `suffix` comes from this crate,
    /// so its characters are allowed ones.
    pub(crate) fn with_suffix(&self, suffix: fmt::Arguments<'_>) -> Self {
        let mut text = String::with_capacity(self.0.len() + 8);
        text.push_str(&self.0);
        // Writing to a string does not fail.
        let _ = text.write_fmt(suffix);
        let excess = text.len().saturating_sub(MAX_ID_CHARS);
        let stem = self.0.len();
        text.replace_range(stem.saturating_sub(excess)..stem, "");
        Self(text.into())
    }
}

/// The port that generates new ids.
///
/// Core generates no random numbers; the embedding program provides the ids. Tests use a counting
/// source, so that every run has the same ids.
pub trait IdSource: Send + Sync + fmt::Debug {
    /// Returns a text that this source has never returned before, made of letters, digits and `-`
    /// only, at most 64 characters long. It begins with `prefix`, which names the kind of id.
    fn next(&self, prefix: &str) -> String;
}

macro_rules! minted {
    ($($method:ident -> $name:ident, $prefix:literal;)*) => {
        /// Typed ids from any [`IdSource`].
        pub trait IdSourceExt: IdSource {
            $(
                #[doc = concat!("A new [`", stringify!($name), "`].")]
                ///
                /// # Errors
                /// [`IdError`] if the source violates its contract and returns an invalid id.
                fn $method(&self) -> Result<$name, IdError> {
                    $name::new(self.next($prefix))
                }
            )*
        }
    };
}

minted! {
    session_id -> SessionId, "session";
    run_id -> RunId, "run";
    step_id -> StepId, "step";
    call_id -> CallId, "call";
    checkpoint_id -> CheckpointId, "cp";
    approval_id -> ApprovalId, "approval";
    usage_id -> UsageId, "usage";
}

impl<T: IdSource + ?Sized> IdSourceExt for T {}
