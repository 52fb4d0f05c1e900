//! The guard of every route: request id, span, authentication and metrics.

use std::panic::AssertUnwindSafe;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use helix_agents_core::UserId;
use tracing::Instrument;

use crate::body::drain;
use crate::builder::{App, Authentication};
use crate::caller::Caller;
use crate::{ApiError, Operation, Principal, request_id};

/// Authenticates a request and passes it on, or refuses it before its body is read.
pub(crate) async fn guard(
    State((app, operation)): State<(App, Operation)>,
    request: Request,
    next: Next,
) -> Response {
    let started = Instant::now();
    let id = request_id::of(request.headers(), app.runtime.ids().as_ref());
    let span = tracing::info_span!("http.request", operation = operation.name(), request = id);
    let mut response = async {
        let answer = answer(&app, operation, request, next).await;
        let status = answer.status().as_u16();
        tracing::debug!(event = "http.answered", status);
        answer
    }
    .instrument(span)
    .await;
    if let Some(value) = request_id::value(&id) {
        response.headers_mut().insert(request_id::HEADER, value);
    }
    let status = response.status().as_u16();
    app.metrics.answered(operation, status, started.elapsed());
    response
}

/// Returns the response of a request. A panic of a hook or a route gives an internal error.
async fn answer(app: &App, operation: Operation, request: Request, next: Next) -> Response {
    let answered = async {
        let (mut parts, body) = request.into_parts();
        match admit(app, operation, &mut parts).await {
            Ok(user) => {
                let request = Request::from_parts(parts, body);
                within_budget(app, operation, user, next.run(request)).await
            }
            Err(refused) => {
                refused.log_refusal();
                drain(&parts.headers, body).await;
                refused.into_response()
            }
        }
    };
    let answered = AssertUnwindSafe(answered).catch_unwind().await;
    answered.unwrap_or_else(|_| {
        tracing::error!(event = "http.panicked");
        ApiError::internal("the server panicked; see its log").into_response()
    })
}

/// Takes memory from the budget for a response that may be large.
async fn within_budget(
    app: &App,
    operation: Operation,
    user: Option<UserId>,
    answer: impl Future<Output = Response>,
) -> Response {
    if !operation.may_be_large() {
        return answer.await;
    }
    match app.budget.reserve(user.as_ref()).await {
        Ok(held) => {
            let answer = answer.await;
            app.budget.charge(user.as_ref(), held, answer).await
        }
        Err(refused) => refused.into_response(),
    }
}

/// Identifies the caller, for the route and for the quota.
async fn admit(
    app: &App,
    operation: Operation,
    parts: &mut Parts,
) -> Result<Option<UserId>, ApiError> {
    let principal = match &app.authentication {
        Authentication::Hook(hook) => hook.authenticate(parts, operation).await?,
        Authentication::Open(origins) => {
            origins.check(parts)?;
            Principal::anonymous().admin()
        }
    };
    let user = principal.user.clone();
    parts.extensions.insert(Caller {
        principal,
        operation,
    });
    Ok(user)
}
