//! Authorization: what a caller may do.

use async_trait::async_trait;
use helix_agents_core::canonical::Digest;
use helix_agents_core::{CallId, SessionId};

use crate::{Operation, Principal, Refusal};

/// A requested operation, once the caller is identified and owns the session.
///
/// ```
/// use helix_agents_server::{Access, Operation};
///
/// fn is_probe(access: &Access<'_>) -> bool {
///     access.operation.is_probe()
/// }
/// assert!(Operation::ALL.iter().any(|operation| is_probe(&Access::new(*operation))));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Access<'a> {
    /// The operation that the caller asks for.
    pub operation: Operation,
    /// The session, for operations on one.
    pub session: Option<&'a SessionId>,
    /// The agent of the session.
    pub agent_type: Option<&'a str>,
    /// The call that is being answered.
    pub call: Option<&'a CallId>,
    /// The digest of the stored tool and arguments of the call, while it is pending.
    pub digest: Option<&'a Digest>,
}

impl<'a> Access<'a> {
    /// Creates the access for an operation that does not concern one session.
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

/// Decides what a caller may do. It is called once per request, after authentication.
///
/// Implemented by functions `Fn(&Principal, &Access) -> Result<(), Refusal>`.
///
/// ```
/// use helix_agents_server::{Access, Principal, Refusal, Server, Tokens};
/// # use helix_agents_core::memory::MemoryStore;
/// # use helix_agents_runtime_local::LocalRuntime;
/// # let runtime = LocalRuntime::new(MemoryStore::new());
///
/// let rule = |principal: &Principal, access: &Access<'_>| match access.agent_type {
///     Some("billing") if !principal.admin => Err(Refusal::Forbidden("only administrators".to_owned())),
///     _ => Ok(()),
/// };
/// let server = Server::builder(runtime).authenticate(Tokens::new()).authorize(rule).build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[async_trait]
pub trait Authorize: Send + Sync {
    /// Decides whether the operation is allowed.
    ///
    /// # Errors
    /// A [`Refusal`], which becomes the response; the operation is not performed.
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
