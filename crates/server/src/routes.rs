//! The routes, one file per group.

mod agents;
mod branch;
mod budgets;
mod chat;
mod message;
mod pending;
mod probes;
mod resume;
mod session;
mod sessions;
mod sse;
mod start;
mod status;
mod stop;
mod submit;

use axum::Router;
use axum::extract::Request;
use axum::handler::Handler;
use axum::http::header::{AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderName, HeaderValue, Method};
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodRouter, delete, get, post};
use tower_http::cors::CorsLayer;

use crate::body::drain;
use crate::builder::App;
use crate::guard::guard;
use crate::{ApiError, Operation, request_id};

pub(crate) use agents::AgentsView;
pub(crate) use branch::{BranchBody, BranchedView};
pub(crate) use chat::{ChatBody, ChatStopBody, ChatSubmitBody, SnapshotBody, UiMessagesBody};
pub(crate) use message::MessagesBody;
pub(crate) use pending::PendingListView;
pub(crate) use probes::{OkView, Readiness};
pub(crate) use resume::ResumeBody;
pub(crate) use session::{MessagesView, WorkspacesView};
pub(crate) use start::StartBody;
pub(crate) use status::StatusView;
pub(crate) use stop::{StopBody, StopView};
pub(crate) use submit::{SubmitBody, SubmittedView};

/// Builds all routes, each with its guard.
pub(crate) fn router(app: &App, cors_origins: &[HeaderValue]) -> Router {
    use Operation as O;
    let routes = Router::new();
    let routes = route(routes, app, O::Start, start::start);
    let routes = route(routes, app, O::Resume, resume::resume);
    let routes = route(routes, app, O::Stream, sse::sse);
    let routes = route(routes, app, O::Status, status::status);
    let routes = route(routes, app, O::Interrupt, stop::interrupt);
    let routes = route(routes, app, O::Abort, stop::abort);
    let routes = route(routes, app, O::SubmitToolResult, submit::submit);
    let routes = route(routes, app, O::Workspaces, session::workspaces);
    let routes = route(routes, app, O::Agents, agents::agents);
    let routes = route(routes, app, O::ListSessions, sessions::list);
    let routes = route(routes, app, O::GetSession, session::get);
    let routes = route(routes, app, O::DeleteSession, session::delete);
    let routes = route(routes, app, O::ListRuns, session::runs);
    let routes = route(routes, app, O::ListCheckpoints, session::checkpoints);
    let routes = route(routes, app, O::ListMessages, session::messages);
    let routes = route(routes, app, O::Usage, session::usage);
    let routes = route(routes, app, O::Branch, branch::branch);
    let routes = route(routes, app, O::Pending, pending::pending);
    let routes = route(routes, app, O::Chat, chat::post);
    let routes = route(routes, app, O::ChatIn, chat::post_to);
    let routes = route(routes, app, O::ChatStream, chat::attach);
    let routes = route(routes, app, O::ChatReplay, chat::attach);
    let routes = route(routes, app, O::ChatNested, chat::attach_nested);
    let routes = route(routes, app, O::ChatSnapshot, chat::snapshot);
    let routes = route(routes, app, O::ChatMessages, chat::messages);
    let routes = route(routes, app, O::ChatSubmit, chat::submit);
    let routes = route(routes, app, O::ChatInterrupt, chat::interrupt);
    let routes = route(routes, app, O::ChatAbort, chat::abort);
    let routes = route(routes, app, O::Health, probes::health);
    let routes = route(routes, app, O::Ready, probes::ready);
    let routes = route(routes, app, O::Metrics, probes::metrics);
    let routes = route(routes, app, O::OpenApi, probes::openapi);
    let routes = routes
        .fallback(route_not_found)
        .method_not_allowed_fallback(route_not_found)
        .with_state(app.clone());
    if cors_origins.is_empty() {
        return routes;
    }
    routes.layer(cors(cors_origins))
}

/// Adds the route of an operation. Each route has its own guard, which knows the operation.
fn route<H, T>(routes: Router<App>, app: &App, operation: Operation, handler: H) -> Router<App>
where
    H: Handler<T, App>,
    T: 'static,
{
    let method: MethodRouter<App> = match operation.method() {
        Method::POST => post(handler),
        Method::DELETE => delete(handler),
        _ => get(handler),
    };
    let guarded = method.layer(from_fn_with_state((app.clone(), operation), guard));
    let routes = match operation.alias() {
        Some(alias) => routes.route(&alias, guarded.clone()),
        None => routes,
    };
    routes.route(operation.path(), guarded)
}

async fn route_not_found(request: Request) -> ApiError {
    let (parts, body) = request.into_parts();
    drain(&parts.headers, body).await;
    let (method, path) = (parts.method, parts.uri.path());
    ApiError::not_found(format!(
        "route {method} {path} not found; /openapi.json lists all routes"
    ))
}

fn cors(origins: &[HeaderValue]) -> CorsLayer {
    const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
    const EXISTING_MESSAGE_ID: HeaderName = HeaderName::from_static("x-existing-message-id");
    const RESUME_AT: HeaderName = HeaderName::from_static("x-resume-at");
    const RESUME_FROM: HeaderName = HeaderName::from_static("x-resume-from-sequence");
    const SESSION_ID: HeaderName = HeaderName::from_static("x-session-id");
    CorsLayer::new()
        .allow_origin(origins.to_vec())
        .allow_methods([Method::GET, Method::POST, Method::DELETE])
        .allow_headers([
            AUTHORIZATION,
            CACHE_CONTROL,
            CONTENT_TYPE,
            LAST_EVENT_ID,
            EXISTING_MESSAGE_ID,
            RESUME_AT,
            RESUME_FROM,
            sse::STREAM,
            request_id::HEADER,
        ])
        .expose_headers([SESSION_ID, sse::STREAM, request_id::HEADER])
}
