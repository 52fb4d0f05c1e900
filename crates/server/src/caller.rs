//! The caller of a request, and the sessions that belong to it.

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use helix_agents_core::SessionId;
use helix_agents_core::session::SessionState;
use helix_agents_core::store::{Snapshot, StoreError};

use crate::builder::App;
use crate::{Access, ApiError, Operation, Principal};

/// The identity and the operation of a request, set by the guard.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) principal: Principal,
    pub(crate) operation: Operation,
}

impl FromRequestParts<App> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, ApiError> {
        let found = parts.extensions.get::<Self>().cloned();
        found.ok_or_else(|| ApiError::internal("a route has no guard; report this"))
    }
}

/// An extractor for the session in the path.
#[derive(Debug)]
pub(crate) struct SessionPath(pub(crate) SessionId);

impl FromRequestParts<App> for SessionPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let path = Path::<String>::from_request_parts(parts, app).await;
        let Path(id) = path.map_err(|error| ApiError::invalid(error.to_string()))?;
        Ok(Self(SessionId::new(id)?))
    }
}

impl Caller {
    /// Asks the authorization hook whether an access is allowed.
    pub(crate) async fn may(&self, app: &App, access: Access<'_>) -> Result<(), ApiError> {
        match &app.authorize {
            Some(hook) => Ok(hook.authorize(&self.principal, &access).await?),
            None => Ok(()),
        }
    }

    /// Asks the authorization hook about an operation that does not concern one session.
    pub(crate) async fn may_do(&self, app: &App) -> Result<(), ApiError> {
        self.may(app, Access::new(self.operation)).await
    }

    /// Returns a session of the caller. A session of another user is not found.
    pub(crate) async fn find(&self, app: &App, session: &SessionId) -> Result<Snapshot, ApiError> {
        let found = self.find_if_any(app, session).await?;
        found.ok_or_else(|| not_found(session))
    }

    /// Returns a session of the caller, if the session exists. A session of another user is not found.
    pub(crate) async fn find_if_any(
        &self,
        app: &App,
        session: &SessionId,
    ) -> Result<Option<Snapshot>, ApiError> {
        let Some(found) = app.store().find(session).await? else {
            return Ok(None);
        };
        if self.owns(app, &found.state).await? {
            Ok(Some(found))
        } else {
            Err(not_found(session))
        }
    }

    /// Returns a session of the caller, if the operation on it is authorized.
    pub(crate) async fn open(&self, app: &App, session: &SessionId) -> Result<Snapshot, ApiError> {
        let found = self.find(app, session).await?;
        let access = Access::new(self.operation).to(session, &found.state.agent_type);
        self.may(app, access).await?;
        Ok(found)
    }

    async fn owns(&self, app: &App, state: &SessionState) -> Result<bool, ApiError> {
        if self.principal.admin {
            return Ok(true);
        }
        let Some(user) = &self.principal.user else {
            return Ok(false);
        };
        if state.user_id.is_some() || state.root() == &state.session_id {
            return Ok(state.user_id.as_ref() == Some(user));
        }
        // A child without an owner belongs to the owner of its root.
        let root = app.store().load(state.root().as_root()).await?;
        Ok(root.is_some_and(|root| root.state.user_id.as_ref() == Some(user)))
    }
}

fn not_found(session: &SessionId) -> ApiError {
    let session = session.clone();
    StoreError::NotFound { session }.into()
}
