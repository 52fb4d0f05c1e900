//! The JSON types of requests and responses. They are pinned, and independent of the stored types.

mod answered;
mod budget;
mod checkpoint;
mod message;
mod pending;
mod run;
pub(crate) mod schemas;
mod session;
mod usage;

use helix_agents_core::runtime::StartedRun;
use helix_agents_core::store::{Paged, Snapshot};
use helix_agents_core::{ErrorRecord, RunId, SessionId, StreamId};
use schemas::{ErrorRecordSchema, SessionStatusSchema};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

pub(crate) use answered::{AnsweredView, all_answered, answered_calls};
pub(crate) use budget::BudgetsView;
pub(crate) use checkpoint::CheckpointView;
pub use message::MessageView;
pub(crate) use pending::{PendingView, all_pending};
pub(crate) use run::{RunView, SuspendedView};
pub(crate) use session::{SessionDetail, SessionView};
pub(crate) use usage::UsageView;

/// A run that was started.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StartedView {
    #[schema(value_type = String)]
    session_id: SessionId,
    #[schema(value_type = String)]
    stream_id: StreamId,
    #[schema(value_type = String)]
    run_id: RunId,
}

impl StartedView {
    pub(crate) fn of(run: &StartedRun) -> Self {
        Self {
            stream_id: StreamId::of_session(&run.root_session_id),
            session_id: run.session_id.clone(),
            run_id: run.run_id.clone(),
        }
    }
}

/// A page of a list.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ListView<T> {
    pub(crate) items: Vec<T>,
    pub(crate) total: usize,
    pub(crate) has_more: bool,
}

impl<T> ListView<T> {
    pub(crate) fn of<U>(page: Paged<U>, view: impl FnMut(U) -> T) -> Self {
        let page = page.map(view);
        Self {
            items: page.items,
            total: page.total,
            has_more: page.has_more,
        }
    }

    pub(crate) fn empty() -> Self {
        Self {
            items: Vec::new(),
            total: 0,
            has_more: false,
        }
    }
}

/// The outcome of a session, sent at the end of a stream and as a part of its status.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OutcomeView {
    /// The status of the session.
    #[schema(value_type = SessionStatusSchema)]
    pub(crate) status: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = ErrorRecordSchema)]
    error: Option<ErrorRecord>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    suspended: Option<SuspendedView>,
}

impl OutcomeView {
    pub(crate) fn of(found: &Snapshot) -> Self {
        let run = found.run.as_ref();
        let suspended = run.filter(|run| run.status.is_suspended());
        Self {
            status: named(&found.state.status),
            output: found.state.output.clone(),
            error: found.state.error.clone(),
            suspended: suspended
                .and_then(|run| run.suspended.as_ref())
                .map(SuspendedView::of),
        }
    }
}

/// Returns the wire name of an enum variant.
pub(crate) fn named(variant: &impl Serialize) -> Value {
    serde_json::to_value(variant).unwrap_or_default()
}
