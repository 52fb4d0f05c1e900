//! The sessions of sub-agents under a session.

use std::future::Future;
use std::pin::Pin;

use helix_agents_core::session::{PendingCall, RunStatus, SessionState};
use helix_agents_core::store::{SessionKey, SessionStore, StoreError};
use helix_agents_core::{CallId, SessionId};
use serde::Serialize;

use super::status;

/// A sub-agent's session, and those below it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Branch {
    session_id: SessionId,
    agent_type: String,
    tool_call_id: CallId,
    /// The name of a persistent one.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_status: Option<RunStatus>,
    pending: Vec<PendingCall>,
    children: Vec<Branch>,
}

type Reading<'a> = Pin<Box<dyn Future<Output = Result<Vec<Branch>, StoreError>> + Send + 'a>>;

/// Reads the sessions under a session, in the order in which they were created.
pub(super) fn below<'a>(store: &'a dyn SessionStore, session: SessionKey<'a>) -> Reading<'a> {
    Box::pin(async move {
        let mut all = Vec::new();
        for child in store.extras(session).await?.children {
            let key = SessionKey::new(session.root, &child.session_id);
            // It may have been deleted meanwhile.
            let Some(found) = store.load(key).await? else {
                continue;
            };
            all.push(Branch {
                agent_type: child.agent_type,
                tool_call_id: child.tool_call_id,
                name: child.name,
                status: status(found.state.status),
                run_status: found.run.map(|run| run.status),
                pending: unanswered(&found.state),
                children: below(store, key).await?,
                session_id: child.session_id.clone(),
            });
        }
        Ok(all)
    })
}

fn unanswered(session: &SessionState) -> Vec<PendingCall> {
    let pending = session.pending_client_tool_calls.values();
    pending
        .filter(|call| call.answer.is_none())
        .cloned()
        .collect()
}

/// The tree as lines of text.
pub(super) fn lines(branches: &[Branch]) -> Vec<String> {
    let mut all = Vec::new();
    draw(branches, "", &mut all);
    all
}

fn draw(branches: &[Branch], indent: &str, all: &mut Vec<String>) {
    for (place, branch) in branches.iter().enumerate() {
        let is_last = place + 1 == branches.len();
        let (corner, below) = match is_last {
            true => ("└─", "   "),
            false => ("├─", "│  "),
        };
        let waits = branch.run_status.is_some_and(RunStatus::is_suspended);
        let is = if waits { "suspended" } else { branch.status };
        let (agent, session, call) = (&branch.agent_type, &branch.session_id, &branch.tool_call_id);
        all.push(match &branch.name {
            Some(name) => {
                format!("{indent}{corner} {agent} {session} {is}, named {name} by call {call}")
            }
            None => format!("{indent}{corner} {agent} {session} {is}, for call {call}"),
        });
        let indent = format!("{indent}{below}");
        for call in &branch.pending {
            let (id, tool, input) = (&call.tool_call_id, &call.tool_name, &call.input);
            all.push(format!("{indent}pending: {id} {tool} {input}"));
        }
        draw(&branch.children, &indent, all);
    }
}
