//! `helix sessions list`: lists sessions.

use clap::{Args, ValueEnum};
use helix_agents_core::UserId;
use helix_agents_core::session::{SessionState, SessionStatus};
use helix_agents_core::store::{Page, SessionQuery};
use helix_agents_core::time::Timestamp;
use serde_json::{Value, json};

use super::super::{id, since};
use super::status;
use crate::exit::Exit;
use crate::screen::{Look, Screen};
use crate::setup::Place;
use crate::table::{self, Column};

/// Lists sessions, newest first.
#[derive(Debug, Args)]
pub(crate) struct List {
    /// Only sessions of this user
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// Only sessions of this agent
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Only sessions with this status
    #[arg(long)]
    status: Option<Status>,
    /// The number of sessions to skip
    #[arg(long, default_value_t = 0)]
    offset: usize,
    /// The maximum number of sessions to list
    #[arg(long, default_value_t = 50)]
    limit: usize,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Status {
    Active,
    Completed,
    Failed,
    Interrupted,
    Paused,
}

impl From<Status> for SessionStatus {
    fn from(status: Status) -> Self {
        match status {
            Status::Active => Self::Active,
            Status::Completed => Self::Completed,
            Status::Failed => Self::Failed,
            Status::Interrupted => Self::Interrupted,
            Status::Paused => Self::Paused,
        }
    }
}

impl List {
    pub(crate) async fn run(self) -> anyhow::Result<Exit> {
        let user: Option<UserId> = self.user.as_deref().map(id).transpose()?;
        let setup = self.place.open_or_empty().await?;
        let query = SessionQuery {
            user_id: user,
            agent_type: self.agent,
            status: self.status.map(SessionStatus::from).into_iter().collect(),
            page: Page::new(self.offset, self.limit).capped(),
            ..SessionQuery::default()
        };
        let found = setup.backend.store.list(&query).await?;
        let screen = Screen::of_process();
        if self.json {
            let total = found.total;
            let has_more = found.has_more;
            let items: Vec<Value> = found.items.iter().map(summary).collect();
            screen.json(&json!({ "items": items, "total": total, "hasMore": has_more }))?;
            return Ok(Exit::Done);
        }
        if found.items.is_empty() {
            screen.note(Look::Dim, "no sessions found")?;
            return Ok(Exit::Done);
        }
        let rows = found
            .items
            .iter()
            .map(|session| row(&screen, session, setup.clock.now()));
        let columns = [
            Column::Whole("SESSION"),
            Column::Cut("AGENT"),
            Column::Cut("STATUS"),
            Column::Whole("STEPS"),
            Column::Whole("CHANGED"),
            Column::Cut("USER"),
        ];
        table::print(&screen, &columns, &rows.collect::<Vec<_>>())?;
        if found.has_more {
            let rest = found.total.saturating_sub(self.offset + found.items.len());
            screen.note(Look::Dim, format!("{rest} more; use --offset and --limit"))?;
        }
        Ok(Exit::Done)
    }
}

fn row(screen: &Screen, session: &SessionState, now: Timestamp) -> Vec<String> {
    vec![
        session.session_id.to_string(),
        session.agent_type.to_string(),
        status(session.status).to_owned(),
        session.step_count.to_string(),
        since(screen, session.updated_at, now),
        session
            .user_id
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default(),
    ]
}

/// Returns a session without its content, as JSON.
pub(super) fn summary(session: &SessionState) -> Value {
    let mut summary = json!({
        "sessionId": session.session_id,
        "agentType": session.agent_type,
        "status": session.status,
        "stepCount": session.step_count,
        "tags": session.tags,
        "metadata": session.metadata,
        "createdAt": session.created_at,
        "updatedAt": session.updated_at,
    });
    if let Value::Object(summary) = &mut summary {
        let optional = [
            ("userId", session.user_id.as_ref().map(|user| json!(user))),
            ("output", session.output.clone()),
            ("error", session.error.as_ref().map(|error| json!(error))),
            (
                "parentSessionId",
                session.parent_session_id.as_ref().map(|id| json!(id)),
            ),
            (
                "checkpointId",
                session.checkpoint_id.as_ref().map(|id| json!(id)),
            ),
        ];
        let there = optional
            .into_iter()
            .filter_map(|(key, value)| Some((key.to_owned(), value?)));
        summary.extend(there);
    }
    summary
}
