//! `helix doctor`: checks the configuration, its dependencies, and stored sessions.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use clap::Args;
use helix_agents_core::session::SessionStatus;
use helix_agents_core::store::{
    DueKind, DueQuery, DueReason, Page, PendingQuery, SessionKey, SessionQuery, StoreError,
};
use serde::Serialize;
use serde_json::json;

use crate::config::{Config, TokenSecret};
use crate::exit::Exit;
use crate::screen::{Look, Screen};
use crate::setup::{Place, STORE, Setup};

/// The maximum time for a service to accept a connection.
const PATIENCE: Duration = Duration::from_secs(2);
/// The maximum number of due sessions that are checked.
const DUE: usize = 1_000;

/// Checks the configuration, its dependencies, and stored sessions against the agents.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

/// The result of one check.
#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    ok: bool,
    message: String,
}

#[derive(Debug, Default)]
struct Report {
    checks: Vec<Check>,
}

impl Report {
    fn good(&mut self, name: &'static str, message: String) {
        self.checks.push(Check {
            name,
            ok: true,
            message,
        });
    }

    fn bad(&mut self, name: &'static str, message: String) {
        self.checks.push(Check {
            name,
            ok: false,
            message,
        });
    }
}

impl Doctor {
    pub(crate) async fn run(self) -> anyhow::Result<Exit> {
        let plan = self.place.read()?;
        let mut report = Report::default();
        let count = plan.config.agents.len();
        let what = plan.file.as_ref().map_or_else(
            || "the built-in demo".to_owned(),
            |file| file.display().to_string(),
        );
        match count {
            0 => report.bad(
                "configuration",
                format!("{what} has no agents; write [agents.NAME]"),
            ),
            _ => report.good("configuration", format!("{what} is valid, {count} agents")),
        }
        outputs(&plan.config, &mut report);
        environment(&plan.config, &mut report);
        services(&plan.config, &mut report).await;
        let store = plan.store.to_string();
        if let Some(file) = plan.missing() {
            not_made_yet(file, &store, &mut report);
            return self.print(&report);
        }
        match plan.open().await {
            Ok(setup) => {
                report.good(
                    "store",
                    format!("{store} can be used, its schema is up to date"),
                );
                stored(&setup, &mut report).await?;
                orphaned(&setup, &self.place, &mut report).await?;
            }
            Err(error) => report.bad("store", error.to_string()),
        }
        self.print(&report)
    }

    fn print(&self, report: &Report) -> anyhow::Result<Exit> {
        let screen = Screen::of_process();
        let findings = report.checks.iter().filter(|check| !check.ok).count();
        if self.json {
            screen.json(&json!({ "checks": report.checks, "findings": findings }))?;
        } else {
            for Check { name, ok, message } in &report.checks {
                let (sign, look) = if *ok {
                    ("ok", Look::Green)
                } else {
                    ("!!", Look::Red)
                };
                let sign = screen.on_out(look, sign);
                screen.print_line(format!(
                    "{sign} {name}: {}",
                    screen.on_out(Look::Plain, message)
                ))?;
            }
            screen.print_line(format!("{findings} findings"))?;
        }
        Ok(if findings == 0 {
            Exit::Done
        } else {
            Exit::Failed
        })
    }
}

/// Checks that a store that does not exist yet can be created.
fn not_made_yet(file: &Path, store: &str, report: &mut Report) {
    let folder = file
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    match folder {
        Some(folder) if !folder.is_dir() && file != Path::new(STORE) => report.bad(
            "store",
            format!(
                "{store} cannot be created: folder {} not found; create it, or correct `url`",
                folder.display()
            ),
        ),
        _ => report.good(
            "store",
            format!("{store} does not exist yet; the first run creates it"),
        ),
    }
}

/// Checks that an agent with an output schema can give an output.
fn outputs(config: &Config, report: &mut Report) {
    for agent in &config.unfinished {
        report.bad(
            "agent",
            format!("{agent} has an `output_schema`, and no step of its script gives an output; end a rule with a step like {{ \"finish\": {{ ... }} }} that fits the schema, or call a tool with `finish_with = true`"),
        );
    }
}

/// Checks that the named environment variables are set.
fn environment(config: &Config, report: &mut Report) {
    let tokens = config
        .server
        .tokens
        .iter()
        .filter_map(|token| match &token.secret {
            TokenSecret::Env(name) => Some((format!("the token of {}", token.user), name)),
            _ => None,
        });
    let tools = config.variables.iter();
    let tools = tools.map(|variable| (variable.holds.clone(), &variable.name));
    for (what, name) in tokens.chain(tools) {
        match std::env::var_os(name).is_some_and(|value| !value.is_empty()) {
            true => report.good("environment", format!("{name} holds {what}")),
            false => report.bad(
                "environment",
                format!("{name} is not set; put {what} into it"),
            ),
        }
    }
}

/// Checks that services accept connections.
async fn services(config: &Config, report: &mut Report) {
    for (tool, url) in &config.services {
        let parsed = reqwest::Url::parse(url).ok();
        let place = parsed.as_ref().and_then(|url| {
            let host = url.host_str()?.trim_matches(['[', ']']).to_owned();
            Some((host, url.port_or_known_default()?))
        });
        let Some((host, port)) = place else {
            report.bad("tool", format!("{tool} has no usable address"));
            continue;
        };
        let connecting = tokio::net::TcpStream::connect((host.as_str(), port));
        match tokio::time::timeout(PATIENCE, connecting).await {
            Ok(Ok(_)) => report.good("tool", format!("{tool} can be reached at {host}:{port}")),
            Ok(Err(error)) => report.bad(
                "tool",
                format!("{tool} cannot be reached at {host}:{port}: {error}; start the service, or correct `url`"),
            ),
            Err(_) => report.bad(
                "tool",
                format!("{tool} does not respond at {host}:{port}; start the service, or correct `url`"),
            ),
        }
    }
}

/// Checks that the agents of stored sessions are configured.
async fn stored(setup: &Setup, report: &mut Report) -> Result<(), StoreError> {
    let store = setup.backend.store.as_ref();
    let agents = setup.agents();
    let mut strangers: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    let mut query = SessionQuery {
        page: Page::first(Page::MAX),
        ..SessionQuery::default()
    };
    let total = loop {
        let page = store.list(&query).await?;
        for session in page.items.iter().filter(|one| !agents.has(&one.agent_type)) {
            let (all, open) = strangers.entry(session.agent_type.to_string()).or_default();
            *all += 1;
            *open += usize::from(session.status == SessionStatus::Active);
        }
        if !page.has_more || page.items.is_empty() {
            break page.total;
        }
        query.page.offset += page.items.len();
    };
    if strangers.is_empty() {
        report.good(
            "sessions",
            format!("{total} sessions, all of agents that are configured"),
        );
    }
    for (agent, (all, open)) in strangers {
        report.bad(
            "sessions",
            format!("{all} sessions ({open} unfinished) belong to the agent {agent}, which is not configured; configure it, or delete them"),
        );
    }
    questions(setup, report).await
}

/// Checks that the tools of pending calls still exist.
async fn questions(setup: &Setup, report: &mut Report) -> Result<(), StoreError> {
    let store = setup.backend.store.as_ref();
    let agents = setup.agents();
    let mut query = PendingQuery {
        page: Page::first(Page::MAX),
        ..PendingQuery::default()
    };
    loop {
        let page = store.pending(&query).await?;
        for call in &page.items {
            let key = SessionKey::new(&call.root_session_id, &call.session_id);
            let session = store.load(key).await?;
            let agent = session.and_then(|found| agents.get(&found.state.agent_type));
            if agent.is_some_and(|agent| agent.tool(&call.tool_name).is_none()) {
                let (id, tool, session) = (&call.tool_call_id, &call.tool_name, &call.session_id);
                report.bad(
                    "pending",
                    format!("call {id} of session {session} is pending, but its agent no longer has the tool {tool}; configure it, or answer with --error"),
                );
            }
        }
        if !page.has_more || page.items.is_empty() {
            return Ok(());
        }
        query.page.offset += page.items.len();
    }
}

/// Finds runs whose process is gone, and answered sessions that were not resumed.
async fn orphaned(setup: &Setup, place: &Place, report: &mut Report) -> Result<(), StoreError> {
    let query = DueQuery::at(setup.clock.now())
        .of_kinds([DueKind::LapsedLease, DueKind::Answered])
        .limit(DUE);
    for due in setup.backend.store.due(&query).await?.items {
        let (session, reasons) = (due.session, due.reasons);
        for reason in reasons {
            let what = match reason {
                DueReason::LapsedLease { run, .. } => format!("the process of run {run} is gone"),
                DueReason::Answered { .. } => "all its calls are answered".to_owned(),
                _ => continue,
            };
            let resume = place.command(&format!("resume {session}"));
            let text = format!("session {session}: {what}; `{resume}` continues it");
            report.bad("due", text);
        }
    }
    Ok(())
}
