//! `helix pending`: lists pending calls.

use clap::Args;
use helix_agents_core::UserId;
use helix_agents_core::session::{PendingCall, PendingKind};
use helix_agents_core::store::{Page, PendingQuery};
use serde_json::json;

use super::{id, since};
use crate::exit::Exit;
use crate::screen::{Look, Screen, shortened};
use crate::setup::Place;
use crate::table::{self, Column};

/// The maximum length of a call if the width of the output is unknown.
const LINE: usize = 120;

/// Lists the pending calls of all sessions.
#[derive(Debug, Args)]
pub(crate) struct Pending {
    /// Only sessions of this user
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

/// Formats the tool and the arguments of a call on one line. Without a terminal it is cut to
/// [`LINE`] characters; `--json` has all of it.
fn summary(screen: &Screen, call: &PendingCall) -> String {
    let what = format!("{} {}", call.tool_name, call.input);
    match screen.out_is_terminal {
        true => what,
        false => shortened(&what, LINE),
    }
}

impl Pending {
    pub(crate) async fn run(self) -> anyhow::Result<Exit> {
        let user: Option<UserId> = self.user.as_deref().map(id).transpose()?;
        let setup = self.place.open_or_empty().await?;
        let mut all: Vec<PendingCall> = Vec::new();
        loop {
            let query = PendingQuery {
                user_id: user.clone(),
                page: Page::new(all.len(), Page::MAX),
                ..PendingQuery::default()
            };
            let page = setup.backend.store.pending(&query).await?;
            let got = page.items.len();
            all.extend(page.items);
            if !page.has_more || got == 0 {
                break;
            }
        }
        let screen = Screen::of_process();
        if self.json {
            screen.json(&json!({ "pending": all, "total": all.len() }))?;
            return Ok(Exit::Done);
        }
        if all.is_empty() {
            screen.note(Look::Dim, "no pending calls")?;
            return Ok(Exit::Done);
        }
        let rows: Vec<Vec<String>> = all
            .iter()
            .map(|call| {
                let kind = match call.kind {
                    PendingKind::Approval => "approval",
                    _ => "client",
                };
                vec![
                    call.root_session_id.to_string(),
                    call.tool_call_id.to_string(),
                    kind.to_owned(),
                    since(&screen, call.created_at, setup.clock.now()),
                    summary(&screen, call),
                ]
            })
            .collect();
        let columns = [
            Column::Whole("SESSION"),
            Column::Whole("CALL"),
            Column::Whole("KIND"),
            Column::Whole("SINCE"),
            Column::Cut("WHAT"),
        ];
        table::print(&screen, &columns, &rows)?;
        Ok(Exit::Done)
    }
}
