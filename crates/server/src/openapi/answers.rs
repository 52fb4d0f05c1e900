//! The responses of each route: success and errors.

use serde_json::Value;
use utoipa::ToSchema;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::schema::{AllOfBuilder, ObjectBuilder, Schema, Type};
use utoipa::openapi::{Content, ContentBuilder, Ref, Response, ResponseBuilder};

use super::body;
use crate::routes::{
    AgentsView, BranchedView, MessagesView, OkView, PendingListView, SnapshotBody, StatusView,
    StopView, SubmittedView, UiMessagesBody, WorkspacesView,
};
use crate::view::schemas::reference;
use crate::view::{
    CheckpointView, ListView, RunView, SessionDetail, SessionView, StartedView, UsageView, named,
};
use crate::{ApiCode, ApiError, Operation};

/// Returns the status and the response of success.
pub(super) fn success(operation: Operation) -> (&'static str, Response) {
    use Operation as O;
    let answer = match operation {
        O::Start | O::Resume => json::<StartedView>("The run that was started."),
        O::Stream => events(),
        O::Status => json::<StatusView>("The session's status and its pending calls."),
        O::Interrupt | O::Abort | O::ChatInterrupt | O::ChatAbort => {
            json::<StopView>("Whether there was a run to stop.")
        }
        O::SubmitToolResult | O::ChatSubmit => {
            json::<SubmittedView>("The result of the submission, which is stored.")
        }
        O::Workspaces => json::<WorkspacesView>("The session's workspaces."),
        O::Agents => json::<AgentsView>("The agents."),
        O::ListSessions => list::<SessionView>("A page of sessions."),
        O::GetSession => json::<SessionDetail>("The session."),
        O::ListRuns => list::<RunView>("A page of runs."),
        O::ListCheckpoints => list::<CheckpointView>("A page of checkpoints."),
        O::ListMessages => json::<MessagesView>("A page of messages."),
        O::Usage => json::<UsageView>("The usage of the session."),
        O::DeleteSession => return ("204", Response::new("The session was deleted.")),
        O::Branch => json::<BranchedView>("The new session."),
        O::Pending => json::<PendingListView>("Pending calls, oldest first."),
        O::Chat | O::ChatIn | O::ChatStream | O::ChatReplay | O::ChatNested => ui_stream(),
        O::ChatSnapshot => json::<SnapshotBody>("The session, its messages and what waits."),
        O::ChatMessages => json::<UiMessagesBody>("A page of turns."),
        O::Health => json::<OkView>("The process is alive."),
        O::Ready => json::<OkView>("The store can be reached."),
        O::Metrics => text("text/plain", "Metrics in Prometheus' text format."),
        O::OpenApi => {
            let any = ObjectBuilder::new().schema_type(Type::Object).build();
            let content = ContentBuilder::new().schema(Some(any)).build();
            answer("The OpenAPI document.", "application/json", content)
        }
    };
    ("200", answer)
}

/// Returns the statuses of the errors that a route can give.
pub(super) fn errors(operation: Operation) -> Vec<u16> {
    use Operation as O;
    // The application's hooks may refuse any operation, including probes.
    let mut all = vec![401, 403, 429, 500];
    let reads_session = operation.path().contains("{id}")
        || matches!(operation, O::Stream | O::Status | O::Workspaces);
    let is_list = matches!(operation, O::ListSessions | O::Pending);
    if reads_session || is_list || body(operation).is_some() {
        all.push(400);
    }
    if reads_session || body(operation).is_some() {
        all.push(404);
    }
    if body(operation).is_some() {
        all.extend([409, 413]);
    }
    if matches!(operation, O::Stream | O::DeleteSession) {
        all.push(409);
    }
    if !matches!(operation, O::Agents | O::Health | O::Metrics | O::OpenApi) {
        all.push(503);
    }
    all
}

/// Returns every status of an error.
pub(super) fn error_statuses() -> Vec<u16> {
    let mut all: Vec<_> = ApiCode::ALL
        .iter()
        .map(|code| code.status().as_u16())
        .collect();
    all.dedup();
    all
}

/// Returns the component name of the response for an error status.
pub(super) fn error_name(status: u16) -> String {
    format!("Error{status}")
}

/// Returns the response for an error status, with the codes that have it.
pub(super) fn error(status: u16) -> Response {
    let with_status = ApiCode::ALL
        .iter()
        .filter(|code| code.status().as_u16() == status);
    let codes: Vec<_> = with_status.map(named).collect();
    let texts: Vec<_> = codes.iter().filter_map(Value::as_str).collect();
    let about = format!("Error: {}.", texts.join(" or "));
    let code = ObjectBuilder::new()
        .schema_type(Type::String)
        .enum_values(Some(codes.iter().cloned()));
    let schema: Schema = AllOfBuilder::new()
        .item(reference::<ApiError>())
        .item(ObjectBuilder::new().property("code", code))
        .into();
    let content = ContentBuilder::new().schema(Some(schema)).build();
    answer(&about, "application/json", content)
}

/// Returns a reference to the response for an error status.
pub(super) fn error_reference(status: u16) -> Ref {
    Ref::from_response_name(error_name(status))
}

fn json<T: ToSchema>(about: &str) -> Response {
    json_of(about, reference::<T>())
}

/// Returns the response for a page of a list. The schema name of a generic type is derived from its
/// parts.
fn list<T: ToSchema>(about: &str) -> Response {
    let name = format!("{}_{}", ListView::<T>::name(), T::name());
    json_of(about, Ref::from_schema_name(name))
}

fn json_of(about: &str, schema: Ref) -> Response {
    let content = ContentBuilder::new().schema(Some(schema));
    answer(about, "application/json", content.build())
}

fn ui_stream() -> Response {
    let about = "A UI message stream of the Vercel AI SDK: frames `data:` with a chunk as JSON, with `id: SEQUENCE` on \
                 the last frame of each position, then `data: [DONE]`. A GET with nothing to read is answered with 204.";
    text("text/event-stream", about)
}

fn events() -> Response {
    let about = "Frames `id: SEQUENCE` and `data:` with a `Chunk` as JSON. The last one has `event: \
                 end` and an `OutcomeView`, if the reader is connected when the run ends. `event: trimmed` \
                 with `{upTo}` means that earlier chunks are no longer kept, and `event: gone` that \
                 the session was deleted.";
    let mut events = text("text/event-stream", about);
    let number = ObjectBuilder::new().schema_type(Type::Integer);
    let header = HeaderBuilder::new()
        .description(Some(
            "The stream that is read. Send it back with the last sequence.",
        ))
        .schema(number.build());
    events
        .headers
        .insert("X-Helix-Stream".to_owned(), header.build());
    events
}

fn text(kind: &str, about: &str) -> Response {
    let text = ObjectBuilder::new().schema_type(Type::String).build();
    answer(
        about,
        kind,
        ContentBuilder::new().schema(Some(text)).build(),
    )
}

fn answer(about: &str, kind: &str, content: Content) -> Response {
    ResponseBuilder::new()
        .description(about)
        .content(kind, content)
        .build()
}
