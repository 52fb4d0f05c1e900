//! The path, query and header parameters of each route.

use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn, ParameterStyle};
use utoipa::openapi::schema::{Array, ObjectBuilder, Schema, Type};
use utoipa::openapi::{RefOr, Required};

use crate::Operation;
use crate::view::schemas::{IdSchema, SessionStatusSchema, reference};

/// Returns every parameter of a route.
pub(super) fn of(operation: Operation) -> Vec<Parameter> {
    let mut all = Vec::new();
    if operation.path().contains("{id}") {
        let id = parameter("id", "The session.", reference::<IdSchema>());
        all.push(id.parameter_in(ParameterIn::Path).required(Required::True));
    }
    if operation == Operation::ChatNested {
        let again = parameter("session", "The session once more.", reference::<IdSchema>());
        all.push(
            again
                .parameter_in(ParameterIn::Path)
                .required(Required::True),
        );
    }
    match operation {
        Operation::Chat | Operation::ChatIn => {
            let about = "The agent of a new session, if the body names none.";
            all.push(parameter("agentType", about, of_type(Type::String)));
        }
        Operation::ChatStream | Operation::ChatReplay | Operation::ChatNested => {
            let after = "The last `id:` that was read; omit it to read the whole answer.";
            let after = parameter("Last-Event-ID", after, whole());
            all.push(after.parameter_in(ParameterIn::Header));
        }
        Operation::ChatMessages => all.extend(page(50, 200)),
        Operation::ChatSnapshot => {
            let about = "The checkpoint at which the session is shown; omit it to see it as it is.";
            all.push(parameter("checkpointId", about, reference::<IdSchema>()));
            let about = "Whether the messages are included; true by default.";
            all.push(parameter("messages", about, of_type(Type::Boolean)));
        }
        Operation::Stream => all.extend(stream()),
        Operation::Status | Operation::Workspaces => all.push(session()),
        Operation::ListSessions => all.extend(sessions()),
        Operation::ListRuns | Operation::ListCheckpoints | Operation::ListMessages => {
            all.extend(page(200, 1000));
        }
        Operation::Usage => {
            let about = "Whether to list the individual usage entries.";
            all.push(parameter("entries", about, of_type(Type::Boolean)));
            all.extend(page(200, 1000));
        }
        Operation::Pending => {
            all.push(user());
            all.extend(page(200, 200));
        }
        _ => {}
    }
    all.into_iter().map(ParameterBuilder::build).collect()
}

fn stream() -> Vec<ParameterBuilder> {
    let after = "The sequence of the last frame that was read; omit it to read from the start.";
    let which = "The stream that the sequence belongs to, from the `X-Helix-Stream` header.";
    vec![
        session(),
        parameter("fromSequence", after, whole()),
        parameter("streamIncarnation", which, whole()),
        parameter("Last-Event-ID", after, whole()).parameter_in(ParameterIn::Header),
        parameter("X-Helix-Stream", which, whole()).parameter_in(ParameterIn::Header),
    ]
}

fn sessions() -> Vec<ParameterBuilder> {
    let status = Array::new(reference::<SessionStatusSchema>());
    let tags = Array::new(of_type(Type::String));
    let metadata = ObjectBuilder::new().additional_properties(Some(of_type(Type::String)));
    let parent = "Children of this session, or with `null` sessions without a parent.";
    let pairs = "Pairs that the session's metadata must contain, as `metadata[key]=value`.";
    let mut all = vec![
        user(),
        parameter(
            "agentType",
            "Sessions of this agent.",
            of_type(Type::String),
        ),
        parameter("status", "Sessions with one of these statuses.", status),
        parameter("parentSessionId", parent, reference::<IdSchema>()),
        parameter("tags", "Sessions that have all of these tags.", tags),
        parameter("metadata", pairs, metadata.build())
            .style(Some(ParameterStyle::DeepObject))
            .explode(Some(true)),
        parameter(
            "from",
            "Created at or after this time, in milliseconds since 1970.",
            whole(),
        ),
        parameter(
            "to",
            "Created before this time, in milliseconds since 1970.",
            whole(),
        ),
    ];
    all.extend(page(50, 200));
    all
}

fn session() -> ParameterBuilder {
    let id = parameter("sessionId", "The session.", reference::<IdSchema>());
    id.required(Required::True)
}

fn user() -> ParameterBuilder {
    let about = "The owner. Only administrators see those of other users.";
    parameter("userId", about, reference::<IdSchema>())
}

/// Returns the parameters of a page, with the default and the maximum size.
fn page(usual: u32, most: u32) -> [ParameterBuilder; 2] {
    let start = number().default(Some(0.into())).build();
    let limit = number().default(Some(usual.into())).build();
    let about = format!("The maximum number of items, at most {most}.");
    [
        parameter("offset", "The number of items to skip.", start),
        parameter("limit", &about, limit),
    ]
}

fn parameter(name: &str, about: &str, schema: impl Into<RefOr<Schema>>) -> ParameterBuilder {
    ParameterBuilder::new()
        .name(name)
        .description(Some(about))
        .parameter_in(ParameterIn::Query)
        .required(Required::False)
        .schema(Some(schema))
}

fn of_type(kind: Type) -> Schema {
    ObjectBuilder::new().schema_type(kind).build().into()
}

fn whole() -> Schema {
    number().build().into()
}

fn number() -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(Type::Integer)
        .minimum(Some(0))
}
