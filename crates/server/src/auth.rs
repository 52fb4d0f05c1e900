//! Authentication: who sent a request.

use async_trait::async_trait;
use axum::http::request::Parts;
use helix_agents_core::UserId;

use crate::Operation;

/// The identity of a caller.
///
/// ```
/// use helix_agents_server::Principal;
///
/// let alice = Principal::user("alice".parse()?);
/// assert!(!alice.admin && alice.admin().admin);
/// # Ok::<(), helix_agents_core::IdError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Principal {
    /// The user, who owns the sessions it starts and sees no others.
    pub user: Option<UserId>,
    /// Whether the caller is an administrator, who sees all sessions.
    pub admin: bool,
}

impl Principal {
    /// Creates the identity of a user, who sees only their own sessions.
    #[must_use]
    pub fn user(user: UserId) -> Self {
        Self {
            user: Some(user),
            admin: false,
        }
    }

    /// Creates an identity without a user, who sees no sessions.
    #[must_use]
    pub fn anonymous() -> Self {
        Self::default()
    }

    /// Makes the caller an administrator, who sees all sessions.
    #[must_use]
    pub fn admin(mut self) -> Self {
        self.admin = true;
        self
    }
}

/// The reason why a request is refused. The text becomes `detail`, for the developer.
///
/// ```
/// use helix_agents_server::{Access, Principal, Refusal};
///
/// fn admins_only(principal: &Principal, _access: &Access<'_>) -> Result<(), Refusal> {
///     match principal.admin {
///         true => Ok(()),
///         false => Err(Refusal::Forbidden("only administrators".to_owned())),
///     }
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The caller could not be identified.
    #[error("{0}")]
    Unauthenticated(String),
    /// The caller is identified but not allowed.
    #[error("{0}")]
    Forbidden(String),
    /// The caller sends too many requests.
    #[error("{0}")]
    RateLimited(String),
}

/// Identifies the caller from the head of a request. It is called before the body is read, for
/// every operation; probes ([`Operation::is_probe`]) usually come without credentials.
///
/// Implemented by functions `Fn(&Parts, Operation) -> Result<Principal, Refusal>`.
///
/// ```
/// use axum::http::request::Parts;
/// use helix_agents_server::{Operation, Principal, Refusal, Server};
/// # use helix_agents_core::memory::MemoryStore;
/// # use helix_agents_runtime_local::LocalRuntime;
/// # let runtime = LocalRuntime::new(MemoryStore::new());
///
/// let by_header = |request: &Parts, _operation: Operation| {
///     let user = request.headers.get("x-user").and_then(|user| user.to_str().ok()?.parse().ok());
///     user.map(Principal::user).ok_or_else(|| Refusal::Unauthenticated("no x-user".to_owned()))
/// };
/// let server = Server::builder(runtime).authenticate(by_header).build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[async_trait]
pub trait Authenticate: Send + Sync {
    /// Returns the caller of this operation.
    ///
    /// # Errors
    /// A [`Refusal`], which becomes the response.
    async fn authenticate(
        &self,
        request: &Parts,
        operation: Operation,
    ) -> Result<Principal, Refusal>;
}

#[async_trait]
impl<F> Authenticate for F
where
    F: Fn(&Parts, Operation) -> Result<Principal, Refusal> + Send + Sync,
{
    async fn authenticate(
        &self,
        request: &Parts,
        operation: Operation,
    ) -> Result<Principal, Refusal> {
        self(request, operation)
    }
}
