//! OpenAPI schemas of core's types, which have none of their own; tests compare them with core.

use std::borrow::Cow;

use helix_agents_core::ErrorCode;
use helix_agents_core::entries::Continuation;
use helix_agents_core::error::Category;
use helix_agents_core::message::ResultStatus;
use helix_agents_core::session::{
    PendingKind, RunStatus, RunTrigger, SessionStatus, SubmissionOutcome,
};
use helix_agents_core::step::StopCause;
use serde_json::Value;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::openapi::{Ref, RefOr};
use utoipa::{PartialSchema, ToSchema};

use super::named;

macro_rules! names {
    ($($(#[doc = $doc:literal])* $schema:ident, $name:literal: $of:ty = $all:expr;)*) => {
        $(
            $(#[doc = $doc])*
            pub(crate) struct $schema;

            impl PartialSchema for $schema {
                fn schema() -> RefOr<Schema> {
                    let all: &[$of] = $all;
                    ObjectBuilder::new()
                        .schema_type(Type::String)
                        .description(Some(concat!($($doc),*).trim()))
                        .enum_values(Some(all.iter().map(named)))
                        .into()
                }
            }

            impl ToSchema for $schema {
                fn name() -> Cow<'static, str> {
                    Cow::Borrowed($name)
                }
            }
        )*

        /// Every described name, with every name that core reads.
        #[cfg(test)]
        fn described_and_read() -> Vec<(RefOr<Schema>, Vec<String>)> {
            vec![$(($schema::schema(), tests::names_read_by::<$of>())),*]
        }
    };
}

names! {
    /// The status of a session. A session with pending calls is active.
    SessionStatusSchema, "SessionStatus": SessionStatus = {
        use SessionStatus::{Active, Completed, Failed, Interrupted, Paused};
        &[Active, Completed, Failed, Interrupted, Paused]
    };
    /// The status of a run.
    RunStatusSchema, "RunStatus": RunStatus = {
        use RunStatus::{
            Completed, Failed, Interrupted, Running, SuspendedAwaitingChildren, SuspendedClientTool,
            SuspendedStepPartial,
        };
        &[
            Running, Completed, Failed, Interrupted, SuspendedClientTool,
            SuspendedAwaitingChildren, SuspendedStepPartial,
        ]
    };
    /// The reason why a run began.
    RunTriggerSchema, "RunTrigger": RunTrigger = {
        use RunTrigger::{Continue, Execute, FromCheckpoint, Retry, WithMessage};
        &[Execute, Continue, WithMessage, Retry, FromCheckpoint]
    };
    /// The reason why a run ended by itself.
    StopCauseSchema, "CompletionReason": StopCause = {
        use StopCause::{Budget, Error, MaxSteps, StopWhen, StructuredOutput, Text};
        &[StructuredOutput, Error, Text, StopWhen, MaxSteps, Budget]
    };
    /// Who answers a pending call: the client that runs the tool, or a person who approves it.
    PendingKindSchema, "PendingKind": PendingKind = &[PendingKind::Client, PendingKind::Approval];
    /// The result of a tool call.
    ResultStatusSchema, "ResultStatus": ResultStatus = {
        use ResultStatus::{Denied, Error, NotExecuted, Success, TimedOut, Unknown};
        &[Success, Error, Denied, TimedOut, NotExecuted, Unknown]
    };
    /// The result of a submitted answer. `unknown_tool_call` is the error NOT_FOUND over HTTP.
    SubmissionOutcomeSchema, "SubmissionOutcome": SubmissionOutcome = {
        use SubmissionOutcome::{
            Accepted, AlreadyCompleted, LateAnswerAfterTimeout, UnknownToolCall,
        };
        &[Accepted, AlreadyCompleted, LateAnswerAfterTimeout, UnknownToolCall]
    };
    /// The continuation after an answer: `new_run`: a run was started; `caller_resumes`: send
    /// `/resume`; `none`: other calls are pending, or a running run takes the answer.
    ContinuationSchema, "Continuation": Continuation = {
        use Continuation::{CallerResumes, NewRun, None};
        &[None, NewRun, CallerResumes]
    };
    /// The code of the error that ended a run. More may be added.
    ErrorCodeSchema, "RunErrorCode": ErrorCode = ErrorCode::ALL;
    /// The part of the system that a run's error belongs to.
    CategorySchema, "RunErrorCategory": Category = {
        use Category::{Framework, Provider, State, Store, Validation};
        &[Validation, State, Store, Provider, Framework]
    };
}

/// An id that a caller may choose.
pub(crate) struct IdSchema;

impl PartialSchema for IdSchema {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .description(Some("An id: 1 to 256 letters, digits, `-_.:`."))
            .pattern(Some("^[A-Za-z0-9_.:-]{1,256}$"))
            .into()
    }
}

impl ToSchema for IdSchema {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("Id")
    }
}

/// Returns a reference to the schema of a type.
pub(crate) fn reference<T: ToSchema>() -> Ref {
    Ref::from_schema_name(T::name())
}

/// The error that ended a run.
#[derive(ToSchema)]
#[schema(as = RunError, rename_all = "camelCase")]
#[expect(dead_code, reason = "it describes core's `ErrorRecord`")]
pub(crate) struct ErrorRecordSchema {
    code: ErrorCodeSchema,
    category: CategorySchema,
    /// Whether retrying without a change may succeed.
    retryable: bool,
    /// A sentence that can be shown to anyone.
    message: String,
    /// The details for a developer.
    detail: String,
}

/// A file, included by value.
#[derive(ToSchema)]
#[schema(as = File, rename_all = "camelCase")]
#[expect(dead_code, reason = "it describes core's `FilePart`")]
pub(crate) struct FileSchema {
    /// The content as a data URL, or an address that the provider can fetch.
    data: String,
    /// The media type, like `image/png`.
    media_type: String,
    /// The file name to show.
    #[schema(nullable = false)]
    filename: Option<String>,
}

/// A usage entry. The other fields depend on `kind`.
#[derive(ToSchema)]
#[schema(as = UsageEntry, rename_all = "camelCase")]
#[expect(dead_code, reason = "it describes core's `UsageEntry`")]
pub(crate) struct UsageEntrySchema {
    id: String,
    run_id: String,
    step: u32,
    /// The time in milliseconds since 1970.
    timestamp: u64,
    kind: UsageKindSchema,
    /// With `tokens`: the model.
    #[schema(nullable = false)]
    model: Option<String>,
    /// With `tokens` and `subagent`: the number of tokens.
    #[schema(nullable = false)]
    tokens: Option<TokenUsageSchema>,
    /// With `tokens`: their price in millionths of a US dollar, if it is known.
    #[schema(nullable = false)]
    micro_dollars: Option<u64>,
    /// With all but `tokens`: the name of the tool, of the agent, or of the custom entry.
    #[schema(nullable = false)]
    name: Option<String>,
    /// With `tool`: whether the call succeeded.
    #[schema(nullable = false)]
    success: Option<bool>,
    /// With `tool`: the duration of the call.
    #[schema(nullable = false)]
    duration_ms: Option<u64>,
    /// With `client_tool_wait_ms`: the time until the answer.
    #[schema(nullable = false)]
    wait_ms: Option<u64>,
    /// With `custom`: the quantity.
    #[schema(nullable = false)]
    quantity: Option<f64>,
    /// With `custom`: additional data.
    data: Option<Value>,
}

/// The kind of a usage entry.
#[derive(ToSchema)]
#[schema(as = UsageKind, rename_all = "snake_case")]
#[expect(dead_code, reason = "it describes core's `UsageKind`")]
enum UsageKindSchema {
    Tokens,
    Tool,
    ClientToolWaitMs,
    Subagent,
    Custom,
}

/// The tokens that a model read and wrote.
#[derive(ToSchema)]
#[schema(as = TokenUsage)]
#[expect(dead_code, reason = "it describes core's `TokenUsage`")]
struct TokenUsageSchema {
    input: u64,
    output: u64,
    #[schema(nullable = false)]
    cached: Option<u64>,
    #[schema(nullable = false)]
    reasoning: Option<u64>,
}

/// The `data:` of a frame of `/sse` that has no `event:`. The other fields depend on `type`;
/// readers ignore unknown types.
#[derive(ToSchema)]
#[schema(as = Chunk, rename_all = "camelCase")]
#[expect(dead_code, reason = "it describes core's `Chunk`")]
pub(crate) struct ChunkSchema {
    /// The type of the chunk, like `text_delta` or `tool_start`.
    r#type: String,
    agent_id: String,
    agent_type: String,
    session_id: String,
    run_id: String,
    step: u32,
    /// The time in milliseconds since 1970.
    timestamp: u64,
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;
    use serde_json::Value;

    /// Returns the names that serde lists in the error for an unknown one.
    pub(super) fn names_read_by<T: DeserializeOwned>() -> Vec<String> {
        let error = serde_json::from_value::<T>(Value::from("")).err();
        let error = error.map(|error| error.to_string()).unwrap_or_default();
        let (_, names) = error.split_once("expected").unwrap_or_default();
        let names = names.split('`').skip(1).step_by(2);
        names.map(str::to_owned).collect()
    }

    #[test]
    fn every_name_of_core_is_described() {
        for (schema, mut read) in super::described_and_read() {
            let schema = serde_json::to_value(schema).unwrap_or_default();
            let listed = schema["enum"].as_array().cloned().unwrap_or_default();
            let text = |name: &Value| name.as_str().map(str::to_owned);
            let mut described: Vec<_> = listed.iter().filter_map(text).collect();
            described.sort();
            read.sort();
            assert!(!read.is_empty(), "{schema}");
            assert_eq!(described, read);
        }
    }
}
