//! Answering a pending call.

use axum::Json;
use axum::extract::State;
use helix_agents_core::canonical::Digest;
use helix_agents_core::entries::{Continuation, ToolAnswer};
use helix_agents_core::session::{Submission, SubmissionOutcome};
use helix_agents_core::store::Snapshot;
use helix_agents_core::{ApprovalId, CallId, RunId, SessionId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::body::JsonBody;
use crate::builder::App;
use crate::caller::Caller;
use crate::view::schemas::{ContinuationSchema, IdSchema, SubmissionOutcomeSchema};
use crate::{Access, ApiError};

/// An answer: the result or error of a client, or the decision of a person.
///
/// It is described here and parsed as core's `Submission`, whose errors are more precise than those
/// of an untagged enum.
#[derive(Deserialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it describes the body")]
pub(crate) enum SubmitBody {
    Result(ClientResultBody),
    Error(ClientErrorBody),
    Decision(ApprovalResponseBody),
}

/// The result of a tool that a client ran.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "it describes the body")]
pub(crate) struct ClientResultBody {
    #[schema(value_type = IdSchema)]
    session_id: SessionId,
    kind: ClientKind,
    #[schema(value_type = IdSchema)]
    tool_call_id: CallId,
    /// Any JSON, including `null`. At most 1 MB.
    result: Value,
    /// The digest of the pending call; if given, it is checked.
    digest: Option<String>,
    /// The run of the pending call; if given, it is checked.
    #[schema(value_type = Option<IdSchema>)]
    run_id: Option<RunId>,
}

/// The error of a client that has no result, or of an approval that is abandoned.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "it describes the body")]
pub(crate) struct ClientErrorBody {
    #[schema(value_type = IdSchema)]
    session_id: SessionId,
    kind: ClientKind,
    #[schema(value_type = IdSchema)]
    tool_call_id: CallId,
    /// The text for the model. At most 8 KB.
    error: String,
    /// The digest of the pending call; if given, it is checked.
    digest: Option<String>,
    /// The run of the pending call; if given, it is checked.
    #[schema(value_type = Option<IdSchema>)]
    run_id: Option<RunId>,
}

/// The decision of a person.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "it describes the body")]
pub(crate) struct ApprovalResponseBody {
    #[schema(value_type = IdSchema)]
    session_id: SessionId,
    kind: ApprovalKind,
    #[schema(value_type = IdSchema)]
    tool_call_id: CallId,
    /// The `approvalId` of the pending call.
    #[schema(value_type = IdSchema)]
    approval_id: ApprovalId,
    approved: bool,
    /// The reason. The model reads the reason of a denial.
    reason: Option<String>,
    /// The digest of the pending call; if given, it is checked.
    digest: Option<String>,
    /// The run of the pending call; if given, it is checked.
    #[schema(value_type = Option<IdSchema>)]
    run_id: Option<RunId>,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
enum ClientKind {
    ClientToolResult,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
enum ApprovalKind {
    ApprovalResponse,
}

/// The result of a submission.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SubmittedView {
    #[schema(value_type = SubmissionOutcomeSchema)]
    status: SubmissionOutcome,
    #[schema(value_type = ContinuationSchema)]
    continuation: Continuation,
}

pub(crate) async fn submit(
    State(app): State<App>,
    caller: Caller,
    JsonBody(body): JsonBody<Map<String, Value>>,
) -> Result<Json<SubmittedView>, ApiError> {
    let (session, submission) = read(body)?;
    let found = caller.find(&app, &session).await?;
    // Answers go to the root, whichever session of its tree made the call.
    let root = found.state.root().clone();
    let found = if root == session {
        found
    } else {
        caller.find(&app, &root).await?
    };
    let call = submission.tool_call_id().clone();
    let digest = digest_of_pending(&app, &found, &call).await?;
    let mut access = Access::new(caller.operation).to(&root, &found.state.agent_type);
    access.call = Some(&call);
    access.digest = digest.as_ref();
    caller.may(&app, access).await?;

    let mut answer = ToolAnswer::new(root.clone(), submission);
    answer.decided_by = caller.principal.user;
    let submitted = app.runtime.submit_answer(answer).await?;
    if submitted.outcome == SubmissionOutcome::UnknownToolCall {
        return Err(ApiError::not_found(format!(
            "unknown_tool_call: call {call} is not pending in session {root}; read /status again"
        )));
    }
    Ok(Json(SubmittedView {
        status: submitted.outcome,
        continuation: submitted.continuation,
    }))
}

/// Parses the session and the answer from a body.
fn read(mut body: Map<String, Value>) -> Result<(SessionId, Submission), ApiError> {
    let bad = |error: serde_json::Error| {
        ApiError::invalid(format!("the body is not an answer to a call: {error}"))
    };
    let session = body.remove("sessionId").unwrap_or_default();
    let session = serde_json::from_value(session).map_err(bad)?;
    let submission = serde_json::from_value(Value::Object(body)).map_err(bad)?;
    Ok((session, submission))
}

/// Returns the stored digest of the pending call, to which approvals are bound.
async fn digest_of_pending(
    app: &App,
    root: &Snapshot,
    call: &CallId,
) -> Result<Option<Digest>, ApiError> {
    let digest = |found: &Snapshot| {
        let pending = found.state.pending_client_tool_calls.get(call);
        pending.map(|pending| pending.digest.clone())
    };
    match root.state.client_tool_call_ownership.get(call) {
        Some(owner) if *owner != root.state.session_id => {
            let owner = app.store().load(root.state.key().beside(owner)).await?;
            Ok(owner.as_ref().and_then(digest))
        }
        _ => Ok(digest(root)),
    }
}
