//! The description of the routes, made from the list of operations and the types on the wire.

use axum::http::Method;
use utoipa::OpenApi;
use utoipa::openapi::path::{
    HttpMethod, OperationBuilder, Parameter, ParameterBuilder, ParameterIn,
};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{ContentBuilder, Ref, Required, ResponseBuilder};

use crate::{ApiCode, ApiError, Operation, routes, view};

/// The types on the wire.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Helix Agents",
        description = "Agents that do not lose work: start them, watch them, answer them.",
    ),
    components(schemas(
        ApiCode,
        ApiError,
        routes::BranchBody,
        routes::MessageBody,
        routes::MessagesBody,
        routes::ResumeBody,
        routes::ResumeMode,
        routes::StartBody,
        routes::StatusView,
        routes::StopBody,
        routes::StopView,
        routes::SubmittedView,
        view::CheckpointView,
        view::MessageView,
        view::PendingView,
        view::RunView,
        view::SessionDetail,
        view::SessionView,
        view::StartedView,
        view::UsageView,
    ))
)]
struct Types;

/// The whole description.
pub(crate) fn document() -> utoipa::openapi::OpenApi {
    let mut document = Types::openapi();
    let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
    if let Some(components) = &mut document.components {
        components.add_security_scheme("bearer", SecurityScheme::Http(bearer));
    }
    for operation in Operation::ALL {
        let method = match operation.method() {
            Method::POST => HttpMethod::Post,
            Method::DELETE => HttpMethod::Delete,
            _ => HttpMethod::Get,
        };
        let described = describe(*operation).build();
        let paths = &mut document.paths;
        paths.add_path_operation(operation.path(), vec![method], described);
    }
    document
}

fn describe(operation: Operation) -> OperationBuilder {
    let (status, answer) = answer(operation);
    let mut done = ResponseBuilder::new().description("It was done.");
    if let Some((kind, schema)) = answer {
        let content = match schema {
            Some(name) => ContentBuilder::new().schema(Some(Ref::from_schema_name(name))),
            None => ContentBuilder::new(),
        };
        done = done.content(kind, content.build());
    }
    let error = ContentBuilder::new().schema(Some(Ref::from_schema_name("ApiError")));
    let error = ResponseBuilder::new()
        .description("Why it was not done.")
        .content("application/json", error.build());
    let mut described = OperationBuilder::new()
        .operation_id(Some(operation.name()))
        .summary(Some(operation.summary()))
        .response(status, done.build())
        .response("default", error.build());
    if !operation.is_probe() {
        let bearer = SecurityRequirement::new("bearer", [""; 0]);
        described = described.security(bearer);
    }
    if operation.path().contains("{id}") {
        described = described.parameter(parameter("id", ParameterIn::Path, true));
    }
    for name in query(operation) {
        let required = *name == "sessionId";
        described = described.parameter(parameter(name, ParameterIn::Query, required));
    }
    if let Some(name) = body(operation) {
        let content = match name {
            "" => ContentBuilder::new(),
            name => ContentBuilder::new().schema(Some(Ref::from_schema_name(name))),
        };
        let body = RequestBodyBuilder::new()
            .required(Some(Required::True))
            .content("application/json", content.build());
        described = described.request_body(Some(body.build()));
    }
    described
}

fn parameter(name: &str, place: ParameterIn, required: bool) -> Parameter {
    let required = if required {
        Required::True
    } else {
        Required::False
    };
    ParameterBuilder::new()
        .name(name)
        .parameter_in(place)
        .required(required)
        .schema(Some(ObjectBuilder::new().schema_type(Type::String)))
        .build()
}

/// The type of what is sent; an empty name for one that has many shapes.
fn body(operation: Operation) -> Option<&'static str> {
    Some(match operation {
        Operation::Start => "StartBody",
        Operation::Resume => "ResumeBody",
        Operation::Interrupt | Operation::Abort => "StopBody",
        Operation::SubmitToolResult => "",
        Operation::Branch => "BranchBody",
        _ => return None,
    })
}

/// The parameters of the query.
fn query(operation: Operation) -> &'static [&'static str] {
    match operation {
        Operation::Stream => &["sessionId", "fromSequence", "streamIncarnation"],
        Operation::Status | Operation::Workspaces => &["sessionId"],
        Operation::ListSessions => &[
            "userId",
            "agentType",
            "status",
            "parentSessionId",
            "tags",
            "metadata",
            "from",
            "to",
            "offset",
            "limit",
        ],
        Operation::ListRuns | Operation::ListCheckpoints | Operation::ListMessages => {
            &["offset", "limit"]
        }
        Operation::Usage => &["entries"],
        Operation::Pending => &["userId", "offset", "limit"],
        _ => &[],
    }
}

/// The status of success, and what comes with it.
fn answer(operation: Operation) -> (&'static str, Option<(&'static str, Option<&'static str>)>) {
    let json = "application/json";
    let schema = match operation {
        Operation::DeleteSession => return ("204", None),
        Operation::Stream => return ("200", Some(("text/event-stream", None))),
        Operation::Metrics => return ("200", Some(("text/plain", None))),
        Operation::Start | Operation::Resume => Some("StartedView"),
        Operation::Status => Some("StatusView"),
        Operation::Interrupt | Operation::Abort => Some("StopView"),
        Operation::SubmitToolResult => Some("SubmittedView"),
        Operation::GetSession => Some("SessionDetail"),
        Operation::Usage => Some("UsageView"),
        _ => None,
    };
    ("200", Some((json, schema)))
}
