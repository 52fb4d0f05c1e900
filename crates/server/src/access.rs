//! Who may do what.

use async_trait::async_trait;
use helix_agents_core::canonical::Digest;
use helix_agents_core::{CallId, SessionId};

use crate::{Operation, Principal, Refusal};

/// What somebody is about to do, once it is known who it is and that the session is theirs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Access<'a> {
    /// What is asked.
    pub operation: Operation,
    /// The session, for operations on one.
    pub session: Option<&'a SessionId>,
    /// The agent of the session.
    pub agent_type: Option<&'a str>,
    /// The call that is answered.
    pub call: Option<&'a CallId>,
    /// The digest of the call's tool and arguments as they are stored, while it waits.
    pub digest: Option<&'a Digest>,
}

impl<'a> Access<'a> {
    /// An operation that is not about one session.
    #[must_use]
    pub fn new(operation: Operation) -> Self {
        Self {
            operation,
            session: None,
            agent_type: None,
            call: None,
            digest: None,
        }
    }

    pub(crate) fn to(mut self, session: &'a SessionId, agent_type: &'a str) -> Self {
        self.session = Some(session);
        self.agent_type = Some(agent_type);
        self
    }
}

/// Says who may do what. It is asked once in each request that got that far.
///
/// A function `Fn(&Principal, &Access) -> Result<(), Refusal>` is one.
#[async_trait]
pub trait Authorize: Send + Sync {
    /// Whether this may be done.
    ///
    /// # Errors
    /// [`Refusal`]; the request is answered with it, and nothing was done.
    async fn authorize(&self, principal: &Principal, access: &Access<'_>) -> Result<(), Refusal>;
}

#[async_trait]
impl<F> Authorize for F
where
    F: Fn(&Principal, &Access<'_>) -> Result<(), Refusal> + Send + Sync,
{
    async fn authorize(&self, principal: &Principal, access: &Access<'_>) -> Result<(), Refusal> {
        self(principal, access)
    }
}
