//! Measures the overhead of the framework per step: in memory, beside a hand-written loop with the
//! same model and tool; on SQLite, beside the same commits written by hand.

use std::future::{Future, ready};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use helix_agents_core::agent::AgentRegistry;
use helix_agents_core::entries::{Entries, ExecuteRequest, Performer};
use helix_agents_core::id::IdSource;
use helix_agents_core::machine::AgentLimits;
use helix_agents_core::memory::MemoryStore;
use helix_agents_core::message::{AssistantMessage, ToolMessage, UserMessage};
use helix_agents_core::model::{EventStream, Model, ModelExt, ModelRequest, ToolChoice};
use helix_agents_core::perform::Ports;
use helix_agents_core::runtime::Backend;
use helix_agents_core::session::RunStatus;
use helix_agents_core::step::{
    PlanOptions, StepResult, ToolResultInput, build_messages_for_llm, create_tool_result_message,
    plan_step_processing,
};
use helix_agents_core::time::{Clock, Timestamp};
use helix_agents_core::tool::{Tool, ToolCx};
use helix_agents_core::transcript::{PairedStep, Transcript};
use helix_agents_core::{Agent, RunId, SessionId, ToolResult};
use helix_agents_models::{Script, ScriptedModel};
use helix_agents_store_sqlite::SqliteStore;
use helix_agents_testkit::{SequentialIds, VirtualClock, block_on, drive};
use serde_json::{Value, json};

use crate::bare::Bare;
use crate::measure::{Bound, Report, Target, median, print_figure};
use crate::sqlite::{Folder, Outcome};

const STEPS: usize = 2_000;
const ROUNDS: usize = 5;
const DURABLE_STEPS: usize = 400;
const DURABLE_ROUNDS: usize = 7;
const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

/// A model that remembers when it was asked.
#[derive(Debug)]
pub(crate) struct Stamped {
    model: ScriptedModel,
    stamps: Mutex<Vec<Instant>>,
}

impl Stamped {
    /// Calls the same tool this many times, and then ends the turn.
    pub(crate) fn new(steps: usize) -> Outcome<Arc<Self>> {
        let call = json!({
            "text": "Let me add.",
            "tool_calls": [{ "name": "add", "arguments": { "a": 1, "b": 2 } }],
        });
        let mut script = vec![call; steps];
        script.push(json!({ "text": "Done." }));
        let script = Script::parse(&json!({ "default": script }).to_string())?;
        Ok(Arc::new(Self {
            model: ScriptedModel::new(script),
            stamps: Mutex::default(),
        }))
    }

    /// The length of every step in microseconds.
    pub(crate) fn take(&self) -> Vec<f64> {
        let mut stamps = self.stamps.lock().unwrap_or_else(PoisonError::into_inner);
        let stamps = std::mem::take(&mut *stamps);
        let pairs = stamps.windows(2).filter_map(|pair| match pair {
            [one, other] => Some(other.duration_since(*one).as_secs_f64() * 1e6),
            _ => None,
        });
        pairs.collect()
    }
}

impl Model for Stamped {
    fn name(&self) -> &str {
        self.model.name()
    }

    fn stream<'a>(&'a self, request: ModelRequest<'a>) -> EventStream<'a> {
        let mut stamps = self.stamps.lock().unwrap_or_else(PoisonError::into_inner);
        stamps.push(Instant::now());
        drop(stamps);
        self.model.stream(request)
    }

    fn supports_native_output(&self) -> bool {
        false
    }
}

/// An agent with one tool, over a model.
pub(crate) fn adder(model: Arc<dyn Model>) -> Outcome<Agent> {
    let add = Tool::raw(
        "add",
        "Adds two numbers.",
        json!({
            "type": "object",
            "required": ["a", "b"],
            "properties": { "a": { "type": "integer" }, "b": { "type": "integer" } },
        }),
        |_: Value, _: ToolCx| async move {
            let sum: ToolResult<Value> = Ok(json!({ "sum": 3 }));
            sum
        },
    );
    let agent = Agent::builder("adder")
        .model(model)
        .system_prompt("You add numbers.")
        .tools(add)
        .max_steps(None)
        .build()?;
    Ok(agent)
}

/// One turn of the agent on a backend.
fn turn(backend: &Backend, agent: &Agent, session: &str) -> Outcome<()> {
    let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new(NOW));
    let ids: Arc<dyn IdSource> = Arc::new(SequentialIds::new());
    let agents = Arc::new(AgentRegistry::new());
    agents.replace(agent);
    let (store, streams) = (Arc::clone(&backend.store), Arc::clone(&backend.streams));
    let entries = Entries::new(
        Arc::clone(&store),
        Arc::clone(&streams),
        Arc::clone(&clock),
        Arc::clone(&ids),
    );
    let ports = Ports::new(store, streams, clock, ids, agents).remembering();
    block_on(async {
        let execute = ExecuteRequest::new(agent, "Add.").in_session(SessionId::new(session)?);
        let state = entries.execute(execute, &Performer::new("bench")).await?;
        let state = drive(&AgentLimits::of(agent), state, &ports).await?;
        if state.ended == Some(RunStatus::Completed) {
            Ok(())
        } else {
            Err(format!("the run ended as {:?}", state.ended).into())
        }
    })
}

/// The same turn by hand; `keep` makes a step durable.
fn bare_turn(
    agent: &Agent,
    model: &Stamped,
    steps: usize,
    mut keep: impl FnMut(&AssistantMessage, &[ToolMessage]) -> Outcome<()>,
) -> Outcome<()> {
    let clock = VirtualClock::new(NOW);
    let keep = |message: &_, results: &[_]| ready(keep(message, results));
    block_on(bare_loop(agent, model, &clock, steps, keep))
}

/// A turn by hand; what `keep` returns makes a step durable.
pub(crate) async fn bare_loop<F: Future<Output = Outcome<()>>>(
    agent: &Agent,
    model: &dyn Model,
    clock: &dyn Clock,
    steps: usize,
    mut keep: impl FnMut(&AssistantMessage, &[ToolMessage]) -> F,
) -> Outcome<()> {
    let ids = SequentialIds::new();
    let session = SessionId::new("bare")?;
    let mut history = Transcript::new();
    history.push_user(UserMessage::new("Add."));
    let state = json!({});
    for _ in 0..=steps {
        let prompt = build_messages_for_llm(&history, agent.system_prompt(), &state);
        let request = ModelRequest {
            prompt,
            config: agent.model_config(),
            state: &state,
            agent_type: agent.name(),
            session_id: &session,
            clock,
            tools: agent.effective_tools(),
            tool_choice: ToolChoice::Auto,
            native_output: None,
            attempt: 1,
        };
        let reply = model.reply(request, &ids).await?;
        let plan = plan_step_processing(
            &StepResult::from_reply(reply),
            PlanOptions::new(agent.output_schema()),
        );
        let mut results = Vec::new();
        for call in &plan.pending_tool_calls {
            let tool = agent.tool(&call.name).ok_or("no such tool")?;
            let run = RunId::new("bare")?;
            let cx = ToolCx::builder(session.clone(), run, call.id.clone()).build();
            let value = tool.call(call.arguments.clone().into_value(), cx).await;
            results.push(create_tool_result_message(ToolResultInput {
                tool_call_id: call.id.clone(),
                tool_name: call.name.clone(),
                result: value.map_err(|error| error.to_string()),
            }));
        }
        let message = plan.assistant_message.ok_or("no message")?;
        keep(&message, &results).await?;
        history.push_step(PairedStep::new(message, results)?)?;
    }
    Ok(())
}

/// The median of the steps around one of them.
fn around(steps: &[f64], place: usize) -> f64 {
    let from = place.saturating_sub(8);
    median(steps.iter().skip(from).take(16).copied().collect())
}

fn in_memory(report: &mut Report) -> Outcome<()> {
    let model = Stamped::new(STEPS)?;
    let agent = adder(Arc::clone(&model) as Arc<dyn Model>)?;
    let (mut share, mut early, mut late, mut bare_all) = (vec![], vec![], vec![], vec![]);
    for _ in 0..ROUNDS {
        bare_turn(&agent, &model, STEPS, |_, _| Ok(()))?;
        let bare = model.take();
        let backend = Backend::from(MemoryStore::new());
        turn(&backend, &agent, "s1")?;
        let framework = model.take();
        bare_all.push(median(bare.clone()));
        share.push(median(framework.clone()) - median(bare.clone()));
        early.push(around(&framework, 10));
        late.push(around(&framework, STEPS - 10));
    }
    print_figure(&format!("a bare step takes {:.1} µs", median(bare_all)));
    report.at_most(
        ("what a step may cost, µs", 50.0),
        ("framework's share of a step, µs", median(share)),
        1.0,
    );
    report.at_most(
        ("step 10, µs", median(early)),
        ("step 2,000, µs", median(late)),
        1.5,
    );
    Ok(())
}

fn on_sqlite(report: &mut Report) -> Outcome<()> {
    let folder = Folder::new("steps")?;
    let model = Stamped::new(DURABLE_STEPS)?;
    let agent = adder(Arc::clone(&model) as Arc<dyn Model>)?;
    let mut bare = Bare::open(&folder.file("bare.db"))?;
    let store = block_on(SqliteStore::open(folder.file("helix.db")))?;
    let backend = Backend::from(store);
    let (mut by_hand, mut durable) = (vec![], vec![]);
    for round in 0..DURABLE_ROUNDS {
        bare_turn(&agent, &model, DURABLE_STEPS, |message, results| {
            bare.streamed_step(message, results)
        })?;
        by_hand.push(median(model.take()));
        turn(&backend, &agent, &format!("s{round}"))?;
        durable.push(median(model.take()));
    }
    let [by_hand, durable] = [by_hand, durable].map(median);
    report.target(Target {
        what: "durable step on SQLite, times by hand",
        ours: durable / by_hand,
        bound: Bound::AtMost(1.1),
        tolerated: Some(1.3),
        beside: format!("ours {durable:.0} µs, two commits by hand {by_hand:.0} µs"),
    });
    Ok(())
}

pub(crate) fn run(report: &mut Report) {
    if let Err(error) = in_memory(report) {
        report.broken("steps in memory", &error.to_string());
    }
}

/// A step on SQLite.
pub(crate) fn durable(report: &mut Report) {
    if let Err(error) = on_sqlite(report) {
        report.broken("steps on SQLite", &error.to_string());
    }
}
