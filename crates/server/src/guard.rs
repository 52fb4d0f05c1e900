//! What happens around every request: its name, its span, who asks, and how long it took.

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
use crate::builder::{App, Entrance};
use crate::caller::Caller;
use crate::{ApiError, Operation, Principal, request_id};

/// Lets a request in, or answers it. Nothing of its body is looked at before.
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

/// What is answered. A hook or a route that panics has answered too: the caller is not at fault.
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
        ApiError::internal("the server panicked; its log has more").into_response()
    })
}

/// Answers out of the budget of memory, where an answer may be large.
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

/// Says who asks, to the route and to the caller of this.
async fn admit(
    app: &App,
    operation: Operation,
    parts: &mut Parts,
) -> Result<Option<UserId>, ApiError> {
    let principal = match &app.entrance {
        Entrance::Known(hook) => hook.authenticate(parts, operation).await?,
        Entrance::Anybody(origins) => {
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
