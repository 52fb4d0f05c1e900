//! Metrics of runs, counted from their commits.

use std::sync::Arc;
use std::time::Duration;

use helix_agents_core::ErrorCode;
use helix_agents_core::meter::{Meter, ModelCall};
use helix_agents_core::model::TokenUsage;
use helix_agents_core::runtime::Backend;
use helix_agents_core::session::{RunRecord, RunStatus, RunTrigger};
use helix_agents_core::store::{Change, Commit};
use helix_agents_core::usage::UsageKind;

use super::family::{Counters, Durations};
use super::store::MeteredStore;

/// Counts runs, steps, tokens, model and tool calls, and times the store.
///
/// Everything but the duration of model calls is counted from successful commits, so nothing is
/// counted before it is durable. A commit whose acknowledgement was lost is not counted. Clones
/// share their counters.
///
/// ```
/// # use std::sync::Arc;
/// # use helix_agents_core::memory::MemoryStore;
/// # use helix_agents_runtime_local::LocalRuntime;
/// use helix_agents_server::{RunMetrics, Server};
///
/// let metrics = RunMetrics::new();
/// let runtime = LocalRuntime::new(metrics.watch(MemoryStore::new()));
/// let server = Server::builder(Arc::new(runtime)).run_metrics(metrics);
/// # let _ = server;
/// ```
#[derive(Debug, Clone, Default)]
pub struct RunMetrics(Arc<Counted>);

#[derive(Debug)]
pub(super) struct Counted {
    started: Counters<1>,
    ended: Counters<1>,
    takeovers: Counters<0>,
    steps: Counters<0>,
    tokens: Counters<2>,
    model_calls: Counters<2>,
    model_durations: Durations<1>,
    tool_calls: Counters<2>,
    tool_durations: Durations<1>,
    store_durations: Durations<1>,
    store_errors: Counters<2>,
}

impl Default for Counted {
    fn default() -> Self {
        Self {
            started: Counters::new("helix_runs_started_total", ["trigger"], "Runs started."),
            ended: Counters::new(
                "helix_runs_ended_total",
                ["status"],
                "Runs ended, by status.",
            ),
            takeovers: Counters::new(
                "helix_run_takeovers_total",
                [],
                "Runs taken over from a process that was gone.",
            ),
            steps: Counters::new("helix_steps_total", [], "Steps committed."),
            tokens: Counters::new(
                "helix_tokens_total",
                ["model", "kind"],
                "Tokens used; `cached` is a part of `input`, `reasoning` of `output`.",
            ),
            model_calls: Counters::new(
                "helix_model_calls_total",
                ["model", "outcome"],
                "Model calls, by `ok` or the code of the error.",
            ),
            model_durations: Durations::new(
                "helix_model_call_duration_seconds",
                ["model"],
                "Time from the request to the end of the reply.",
            ),
            tool_calls: Counters::new(
                "helix_tool_calls_total",
                ["tool", "outcome"],
                "Tool calls that ran, by `ok` or `failed`.",
            ),
            tool_durations: Durations::new(
                "helix_tool_call_duration_seconds",
                ["tool"],
                "Duration of tool calls.",
            ),
            store_durations: Durations::new(
                "helix_store_duration_seconds",
                ["operation"],
                "Duration of store operations.",
            ),
            store_errors: Counters::new(
                "helix_store_errors_total",
                ["operation", "code"],
                "Errors of the store, including conflicts that are retried.",
            ),
        }
    }
}

impl RunMetrics {
    /// Creates metrics with all counters at zero.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Wraps a backend so that it is measured; give the result to the runtime.
    #[must_use]
    pub fn watch(&self, backend: impl Into<Backend>) -> Backend {
        let mut backend = backend.into().measured_by(Arc::new(self.clone()));
        backend.store = Arc::new(MeteredStore::new(backend.store, Arc::clone(&self.0)));
        backend
    }

    pub(crate) fn write(&self, out: &mut String) {
        let Counted {
            started,
            ended,
            takeovers,
            steps,
            tokens,
            model_calls,
            model_durations,
            tool_calls,
            tool_durations,
            store_durations,
            store_errors,
        } = &*self.0;
        started.write(out);
        ended.write(out);
        takeovers.write(out);
        steps.write(out);
        tokens.write(out);
        model_calls.write(out);
        model_durations.write(out);
        tool_calls.write(out);
        tool_durations.write(out);
        store_durations.write(out);
        store_errors.write(out);
    }
}

impl Meter for RunMetrics {
    fn model_called(&self, call: &ModelCall<'_>) {
        let code = call.failure.map(|code| code.to_string());
        let outcome = code.as_deref().unwrap_or("ok");
        self.0.model_calls.add([call.model, outcome], 1);
        self.0.model_durations.took([call.model], call.duration);
    }
}

/// The counts that a commit adds, computed before the commit is consumed.
#[derive(Debug, Default)]
pub(super) struct Tally {
    started: Vec<RunTrigger>,
    ended: Vec<RunStatus>,
    takeovers: u64,
    steps: u64,
    used: Vec<UsageKind>,
}

impl Tally {
    pub(super) fn of(commit: &Commit) -> Self {
        let mut tally = Self::default();
        for (_, change) in &commit.changes {
            match change {
                Change::StartRun(run) => tally.started.push(run.trigger),
                Change::Run(run) => tally.ended.extend(end(run)),
                Change::TakeOver => tally.takeovers += 1,
                Change::AppendStep(_) => tally.steps += 1,
                // A tool's own entries are not counted, and may be large.
                Change::Usage(entry) if !matches!(entry.kind, UsageKind::Custom(_)) => {
                    tally.used.push(entry.kind.clone());
                }
                _ => {}
            }
        }
        tally
    }
}

fn end(run: &RunRecord) -> Option<RunStatus> {
    run.status.is_ended().then_some(run.status)
}

impl Counted {
    pub(super) fn committed(&self, tally: &Tally) {
        for trigger in &tally.started {
            self.started.add([&name(trigger)], 1);
        }
        for status in &tally.ended {
            self.ended.add([&name(status)], 1);
        }
        if tally.takeovers > 0 {
            self.takeovers.add([], tally.takeovers);
        }
        if tally.steps > 0 {
            self.steps.add([], tally.steps);
        }
        for kind in &tally.used {
            match kind {
                UsageKind::Tokens { model, tokens, .. } => self.spent(model, tokens),
                UsageKind::Tool {
                    name,
                    success,
                    duration_ms,
                } => {
                    let outcome = if *success { "ok" } else { "failed" };
                    self.tool_calls.add([name, outcome], 1);
                    let duration = Duration::from_millis(*duration_ms);
                    self.tool_durations.took([name], duration);
                }
                _ => {}
            }
        }
    }

    fn spent(&self, model: &str, tokens: &TokenUsage) {
        self.tokens.add([model, "input"], tokens.input);
        self.tokens.add([model, "output"], tokens.output);
        let parts = [("cached", tokens.cached), ("reasoning", tokens.reasoning)];
        for (kind, count) in parts {
            if let Some(count) = count {
                self.tokens.add([model, kind], count);
            }
        }
    }

    pub(super) fn store_called(
        &self,
        operation: &'static str,
        duration: Duration,
        failure: Option<ErrorCode>,
    ) {
        self.store_durations.took([operation], duration);
        if let Some(code) = failure {
            self.store_errors.add([operation, &code.to_string()], 1);
        }
    }
}

/// Returns the stored name of a value.
fn name(value: &impl serde::Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or("other").to_owned()
}
