//! Who asks, and what is theirs.

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use helix_agents_core::SessionId;
use helix_agents_core::session::SessionState;
use helix_agents_core::store::{Snapshot, StoreError};

use crate::builder::App;
use crate::{Access, ApiError, Operation, Principal};

/// Who asks for what, as the guard found it.
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

/// The session that the path names.
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
    /// Asks whether this may be done.
    pub(crate) async fn may(&self, app: &App, access: Access<'_>) -> Result<(), ApiError> {
        match &app.authorize {
            Some(hook) => Ok(hook.authorize(&self.principal, &access).await?),
            None => Ok(()),
        }
    }

    /// Asks whether an operation that is not about one session may be done.
    pub(crate) async fn may_do(&self, app: &App) -> Result<(), ApiError> {
        self.may(app, Access::new(self.operation)).await
    }

    /// A session of theirs. Somebody else's is as if it were not there.
    pub(crate) async fn find(&self, app: &App, session: &SessionId) -> Result<Snapshot, ApiError> {
        let found = app.store().find(session).await?;
        let missing = || StoreError::NotFound {
            session: session.clone(),
        };
        let found = found.ok_or_else(missing)?;
        if self.owns(app, &found.state).await? {
            Ok(found)
        } else {
            Err(missing().into())
        }
    }

    /// A session of theirs, with which this may be done.
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
        // A child without an owner of its own belongs to whoever has its root.
        let root = app.store().load(state.root().as_root()).await?;
        Ok(root.is_some_and(|root| root.state.user_id.as_ref() == Some(user)))
    }
}
