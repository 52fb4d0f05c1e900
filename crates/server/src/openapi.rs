//! The OpenAPI document, generated from the operations and the JSON types.

mod answers;
mod parameters;

use axum::http::Method;
use utoipa::OpenApi;
use utoipa::openapi::path::{HttpMethod, OperationBuilder};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{ContentBuilder, Ref, Required, Response};

use crate::view::schemas::{self, reference};
use crate::{ApiCode, ApiError, Operation, routes, view};

/// The JSON types. Types that they refer to are included.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Helix Agents",
        description = "Routes to start durable agents, stream their runs, answer pending calls and read sessions.",
    ),
    components(schemas(
        ApiCode,
        ApiError,
        schemas::ChunkSchema,
        schemas::IdSchema,
        routes::AgentsView,
        routes::BranchBody,
        routes::BranchedView,
        routes::ChatBody,
        routes::ChatStopBody,
        routes::ChatSubmitBody,
        routes::MessagesView,
        routes::OkView,
        routes::PendingListView,
        routes::ResumeBody,
        routes::SnapshotBody,
        routes::StartBody,
        routes::StatusView,
        routes::StopBody,
        routes::StopView,
        routes::SubmitBody,
        routes::SubmittedView,
        routes::UiMessagesBody,
        routes::WorkspacesView,
        view::ListView<view::CheckpointView>,
        view::ListView<view::RunView>,
        view::ListView<view::SessionView>,
        view::OutcomeView,
        view::SessionDetail,
        view::StartedView,
        view::UsageView,
    ))
)]
struct Types;

/// Returns the whole document.
pub(crate) fn document() -> utoipa::openapi::OpenApi {
    let mut document = Types::openapi();
    let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
    if let Some(components) = &mut document.components {
        components.add_security_scheme("bearer", SecurityScheme::Http(bearer));
        for status in answers::error_statuses() {
            let (name, answer) = (answers::error_name(status), answers::error(status));
            components.responses.insert(name, answer.into());
        }
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
    let (status, done) = answers::success(operation);
    let mut described = OperationBuilder::new()
        .operation_id(Some(operation.name()))
        .summary(Some(operation.summary()))
        .response(status, done);
    if matches!(
        operation,
        Operation::ChatStream | Operation::ChatReplay | Operation::ChatNested
    ) {
        described = described.response("204", Response::new("There is nothing to read."));
    }
    for status in answers::errors(operation) {
        let error = answers::error_reference(status);
        described = described.response(status.to_string(), error);
    }
    if !operation.is_probe() {
        let bearer = SecurityRequirement::new("bearer", [""; 0]);
        described = described.security(bearer);
    }
    for parameter in parameters::of(operation) {
        described = described.parameter(parameter);
    }
    if let Some(schema) = body(operation) {
        let content = ContentBuilder::new().schema(Some(schema));
        let body = RequestBodyBuilder::new()
            .required(Some(Required::True))
            .content("application/json", content.build());
        described = described.request_body(Some(body.build()));
    }
    described
}

/// Returns the type of the request body.
fn body(operation: Operation) -> Option<Ref> {
    Some(match operation {
        Operation::Start => reference::<routes::StartBody>(),
        Operation::Resume => reference::<routes::ResumeBody>(),
        Operation::Interrupt | Operation::Abort => reference::<routes::StopBody>(),
        Operation::SubmitToolResult => reference::<routes::SubmitBody>(),
        Operation::Chat | Operation::ChatIn => reference::<routes::ChatBody>(),
        Operation::ChatSubmit => reference::<routes::ChatSubmitBody>(),
        Operation::ChatInterrupt | Operation::ChatAbort => reference::<routes::ChatStopBody>(),
        Operation::Branch => reference::<routes::BranchBody>(),
        _ => return None,
    })
}
