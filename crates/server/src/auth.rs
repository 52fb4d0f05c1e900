//! Who asks.

use async_trait::async_trait;
use axum::http::request::Parts;
use helix_agents_core::UserId;

use crate::Operation;

/// Who asks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Principal {
    /// Owns the sessions it starts, and sees no others.
    pub user: Option<UserId>,
    /// Sees all sessions.
    pub admin: bool,
}

impl Principal {
    /// A user, who sees their own sessions.
    #[must_use]
    pub fn user(user: UserId) -> Self {
        Self {
            user: Some(user),
            admin: false,
        }
    }

    /// Somebody without a name, who sees no session at all.
    #[must_use]
    pub fn anonymous() -> Self {
        Self::default()
    }

    /// Lets the principal see all sessions.
    #[must_use]
    pub fn admin(mut self) -> Self {
        self.admin = true;
        self
    }
}

/// Why somebody is not let in. The text is for the developer who reads `detail`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Nobody knows who asks.
    #[error("{0}")]
    Unauthenticated(String),
    /// It is known, and may not.
    #[error("{0}")]
    Forbidden(String),
    /// It asks too often.
    #[error("{0}")]
    RateLimited(String),
}

/// Says who asks, from the head of a request. It is asked before anything else is read, for every
/// operation; probes ([`Operation::is_probe`]) usually come without credentials.
///
/// A function `Fn(&Parts, Operation) -> Result<Principal, Refusal>` is one.
#[async_trait]
pub trait Authenticate: Send + Sync {
    /// Who asks for this operation.
    ///
    /// # Errors
    /// [`Refusal`]; the request is answered with it.
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
