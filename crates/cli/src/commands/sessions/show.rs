//! `helix sessions show`: shows a session.

use clap::Args;
use helix_agents_core::budget::BudgetReport;
use helix_agents_core::context::StandIn;
use helix_agents_core::session::OpenStep;
use helix_agents_core::store::{Lookup, Page, SessionStore, Snapshot, StoreError};
use helix_agents_core::{Message, SessionId};
use helix_agents_server::MessageView;
use serde_json::{Value, json};

use super::super::{id, load};
use super::list::summary;
use super::{status, tree};
use crate::exit::Exit;
use crate::screen::{Look, Screen};
use crate::setup::Place;

/// The maximum number of checkpoints that are shown.
const CHECKPOINTS: usize = 20;

/// Shows a session with its messages.
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The id of the session
    session: String,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

impl Show {
    pub(crate) async fn run(self) -> anyhow::Result<Exit> {
        let session: SessionId = id(&self.session)?;
        let setup = self.place.open_existing().await?;
        let store = setup.backend.store.as_ref();
        let (found, messages) = read(store, &session).await?;
        let which = Lookup::Page(Page::first(CHECKPOINTS));
        let checkpoints = store.checkpoints(found.state.key(), which).await?;
        let screen = Screen::of_process();
        let children = tree::below(store, found.state.key()).await?;
        if !self.json {
            let budget = budget(store, &found).await?;
            print(&screen, &found, budget.as_ref(), &messages)?;
            let lines = tree::lines(&children);
            if !lines.is_empty() {
                screen.print_line(screen.on_out(Look::Bold, "\nsub-agents"))?;
            }
            for line in lines {
                screen.print_line(screen.on_out(Look::Plain, &line))?;
            }
            return Ok(Exit::Done);
        }
        let mut shown = summary(&found.state);
        if let Value::Object(shown) = &mut shown {
            let mut put = |key: &str, value| shown.insert(key.to_owned(), value);
            let pending: Vec<_> = found.state.pending_client_tool_calls.values().collect();
            put("state", Value::clone(&found.state.custom_state));
            put("pending", json!(pending));
            let open = found.open_step.as_ref().map(MessageView::of_open_step);
            let views = messages.into_iter().map(MessageView::from);
            let views: Vec<_> = views.chain(open.into_iter().flatten()).collect();
            put("messages", json!(views));
            put("checkpoints", json!(checkpoints.items));
            if !children.is_empty() {
                put("children", json!(children));
            }
            if let Some(run) = &found.run {
                put("runId", json!(run.id));
                put("runStatus", json!(run.status));
            }
            if let Some(step) = &found.open_step {
                put("openStep", json!(step));
            }
            if let Some(budget) = budget(store, &found).await? {
                put("budget", json!(budget));
            }
        }
        screen.json(&shown)?;
        Ok(Exit::Done)
    }
}

/// Reads a session and its messages at one moment: the open step moves into the history when it is
/// settled, and would otherwise be shown twice or not at all.
async fn read(
    store: &dyn SessionStore,
    session: &SessionId,
) -> Result<(Snapshot, Vec<Message>), StoreError> {
    let mut found = load(store, session).await?;
    loop {
        let messages = store.messages(found.state.key(), Page::ALL).await?.items;
        let now = load(store, session).await?;
        if messages.len() == found.message_count && now.message_count == found.message_count {
            return Ok((found, messages));
        }
        found = now;
    }
}

/// Reads the budgets of a session. The counters are those of its root.
async fn budget(
    store: &dyn SessionStore,
    found: &Snapshot,
) -> Result<Option<BudgetReport>, StoreError> {
    let (root, session) = (found.state.root(), &found.state.session_id);
    let ledger = if found.state.key().is_root() {
        found.budget.clone()
    } else {
        store
            .load(root.as_root())
            .await?
            .and_then(|root| root.budget)
    };
    Ok(ledger.and_then(|ledger| ledger.report(root, session)))
}

/// A line for each limit: what is used and reserved of it.
fn budget_lines(budget: &BudgetReport) -> Vec<String> {
    let scopes = [
        ("run", &budget.run),
        ("session", &budget.session),
        ("tree", &budget.tree),
    ];
    let uses = scopes
        .into_iter()
        .filter_map(|(scope, found)| Some((scope, found.as_ref()?)));
    let lines = uses.flat_map(|(scope, found)| {
        found.limit.limits().map(move |(unit, limit)| {
            let (used, reserved) = (found.used.get(unit), found.reserved.get(unit));
            let reserved = match reserved {
                0 => String::new(),
                reserved => format!(", {reserved} reserved"),
            };
            format!("budget  {scope}: {used} of {limit} {unit} used{reserved}")
        })
    });
    lines.collect()
}

fn print(
    screen: &Screen,
    found: &Snapshot,
    budget: Option<&BudgetReport>,
    messages: &[Message],
) -> std::io::Result<()> {
    let state = &found.state;
    let line = |look, text: &str| screen.print_line(screen.on_out(look, text));
    let speech = |look, text: &str| screen.print_line(screen.spoken_on_out(look, text));
    line(Look::Bold, &format!("session {}", state.session_id))?;
    line(Look::Plain, &format!("agent   {}", state.agent_type))?;
    line(Look::Plain, &format!("status  {}", status(state.status)))?;
    if let Some(user) = &state.user_id {
        line(Look::Plain, &format!("user    {user}"))?;
    }
    if let Some(error) = &state.error {
        line(
            Look::Red,
            &format!("error   {} ({})", error.detail, error.code),
        )?;
    }
    for text in budget.map(budget_lines).unwrap_or_default() {
        line(Look::Plain, &text)?;
    }
    line(Look::Plain, &format!("state   {}", state.custom_state))?;
    let open = found.open_step.as_ref().map(OpenStep::messages);
    let open = open.unwrap_or_default();
    let stored = messages.iter().map(|message| (message, "assistant"));
    for (message, assistant_is) in stored.chain(open.iter().map(|open| (open, "assistant (open)")))
    {
        match message {
            Message::User(user) => {
                let by = match StandIn::of(message) {
                    Some(StandIn { from, summary, .. }) => {
                        let kind = if summary { "summary" } else { "context" };
                        format!("{kind}, for the messages before number {}", from + 1)
                    }
                    None => "user".to_owned(),
                };
                speech(Look::Cyan, &format!("\n{by}: {}", user.content))?;
            }
            Message::Assistant(assistant) => {
                let text = assistant.content().unwrap_or_default();
                speech(Look::Plain, &format!("\n{assistant_is}: {text}"))?;
                for call in assistant.tool_calls() {
                    let text = format!("  → {} {} {}", call.id, call.name, call.arguments);
                    line(Look::Dim, &text)?;
                }
            }
            Message::Tool(result) => {
                let text = format!("  ← {} {}", result.tool_call_id, result.content);
                line(Look::Dim, &text)?;
            }
            _ => {}
        }
    }
    for call in state.pending_client_tool_calls.values() {
        let label = if call.answer.is_some() {
            "answered"
        } else {
            "pending"
        };
        let (id, tool, input) = (&call.tool_call_id, &call.tool_name, &call.input);
        line(Look::Yellow, &format!("\n{label}: {id} {tool} {input}"))?;
    }
    Ok(())
}
