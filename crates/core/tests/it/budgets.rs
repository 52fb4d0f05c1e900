//! Budgets in detail: time, prices, reservations that other processes find, and trees.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use helix_agents_core::agent::{Agent, AgentBuilder, AgentRegistry};
use helix_agents_core::budget::{
    Budget, BudgetAction, BudgetAmount, BudgetChange, BudgetLedger, BudgetScope, BudgetUnit,
    Budgets,
};
use helix_agents_core::entries::{
    Entries, EntryError, ExecuteRequest, Performer, ResumeMode, ResumeRequest,
};
use helix_agents_core::error::ErrorCode;
use helix_agents_core::id::IdSource;
use helix_agents_core::machine::{AgentLimits, Event, RunState, decide};
use helix_agents_core::memory::MemoryStore;
use helix_agents_core::message::Message;
use helix_agents_core::model::{
    EventStream, Model, ModelEvent, ModelLimits, ModelRequest, TokenUsage,
};
use helix_agents_core::perform::{Attempt, Ports, perform};
use helix_agents_core::runtime::Backend;
use helix_agents_core::session::{RunStatus, SessionState, SessionStatus};
use helix_agents_core::store::{Change, Commit, Page, Snapshot, StoreError};
use helix_agents_core::time::{Clock, Timestamp};
use helix_agents_core::tool::{Tool, ToolCx};
use helix_agents_core::usage::UsageRollup;
use helix_agents_core::{SessionId, ToolResult};
use helix_agents_testkit::{MockModel, MockReply, SequentialIds, VirtualClock, block_on, drive};
use serde_json::{Value, json};

/// One process that performs runs of one agent.
struct Rig {
    backend: Backend,
    clock: Arc<VirtualClock>,
    ports: Ports,
    entries: Entries,
    agent: Agent,
}

fn id() -> SessionId {
    SessionId::new("s").unwrap()
}

fn performer() -> Performer {
    Performer::new("test")
}

impl Rig {
    fn new(agent: impl FnOnce(&Arc<VirtualClock>) -> AgentBuilder) -> Self {
        let clock = Arc::new(VirtualClock::new(Timestamp::from_millis(1_000)).auto_advance());
        let agent = agent(&clock).build().unwrap();
        Self::over(MemoryStore::new().into(), clock, agent)
    }

    fn over(backend: Backend, clock: Arc<VirtualClock>, agent: Agent) -> Self {
        let agents = Arc::new(AgentRegistry::new());
        agents.replace(&agent);
        let ids = Arc::new(SequentialIds::new()) as Arc<dyn IdSource>;
        let time = Arc::clone(&clock) as Arc<dyn Clock>;
        let (store, streams) = (Arc::clone(&backend.store), Arc::clone(&backend.streams));
        Self {
            ports: Ports::new(
                Arc::clone(&store),
                Arc::clone(&streams),
                Arc::clone(&time),
                Arc::clone(&ids),
                agents,
            ),
            entries: Entries::new(store, streams, time, ids),
            backend,
            clock,
            agent,
        }
    }

    async fn start(&self) -> RunState {
        let request = ExecuteRequest::new(&self.agent, "go").in_session(id());
        let (_, request) = request.complete(&self.ports).unwrap();
        self.entries.execute(request, &performer()).await.unwrap()
    }

    async fn drive(&self, state: RunState) {
        let facts = AgentLimits::of(&self.agent);
        drive(&facts, state, &self.ports).await.unwrap();
    }

    async fn resume(&self, budgets: impl Into<Budgets>) -> Result<RunState, EntryError> {
        let request = ResumeRequest::new(&id(), ResumeMode::Continue).budget(budgets);
        self.entries.resume(request, &performer()).await
    }

    async fn found(&self) -> Snapshot {
        let found = self.backend.store.load(id().as_root()).await;
        found.unwrap().unwrap()
    }

    async fn used(&self, unit: BudgetUnit) -> u64 {
        let ledger = self.found().await.budget.unwrap();
        ledger.used(&id(), BudgetScope::Run).get(unit)
    }

    async fn reserved(&self) -> Option<BudgetAmount> {
        let ledger = self.found().await.budget.unwrap();
        let reserved = ledger.sessions[&id()].reserved.clone();
        reserved.map(|reserved| reserved.amount)
    }

    async fn status(&self) -> (RunStatus, SessionStatus) {
        let found = self.found().await;
        (found.run.unwrap().status, found.state.status)
    }
}

const PAUSED: (RunStatus, SessionStatus) = (RunStatus::Interrupted, SessionStatus::Paused);
const DONE: (RunStatus, SessionStatus) = (RunStatus::Completed, SessionStatus::Completed);

fn of(model: impl Model + 'static) -> AgentBuilder {
    Agent::builder("agent").model(model).system_prompt("Work.")
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn time(limit: u64) -> Budget {
    Budget::new().wall_clock(seconds(limit))
}

/// A tool that takes this long on the clock.
fn slow(clock: &Arc<VirtualClock>, takes: Duration) -> Tool {
    let clock = Arc::clone(clock);
    let schema = json!({ "type": "object" });
    let tool = Tool::raw(
        "slow",
        "Takes its time.",
        schema,
        move |_: Value, _: ToolCx| {
            let clock = Arc::clone(&clock);
            async move {
                clock.sleep_until(clock.now().saturating_add(takes)).await;
                let done: ToolResult<Value> = Ok(json!("done"));
                done
            }
        },
    );
    tool.build().unwrap()
}

fn slow_call(id: &str) -> MockReply {
    MockReply::calls([(id, "slow", json!({}))])
}

/// The time of tools counts, that of the pause does not. A tool that has begun is not cut off.
///
/// proves in part: BUD-01
#[test]
fn the_time_of_runs_counts_without_pauses() {
    let rig = Rig::new(|clock| {
        let model = MockModel::replies([slow_call("c1"), slow_call("c2"), MockReply::text("ok")]);
        of(model).tools([slow(clock, seconds(40))]).budget(time(60))
    });
    block_on(async {
        rig.drive(rig.start().await).await;
        assert_eq!(rig.status().await, PAUSED);
        assert_eq!(rig.used(BudgetUnit::WallClockMs).await, 80_000);
        rig.clock.advance(seconds(86_400));
        assert!(matches!(
            rig.resume(time(80)).await,
            Err(EntryError::BudgetExhausted { .. })
        ));
        rig.drive(rig.resume(time(81)).await.unwrap()).await;
        assert_eq!(rig.status().await, DONE);
        assert_eq!(rig.used(BudgetUnit::WallClockMs).await, 80_000);
    });
}

/// A tool is not begun when the time is over.
#[test]
fn no_tool_begins_after_the_time_is_over() {
    let rig = Rig::new(|clock| {
        let calls = [("c1", "slow", json!({})), ("c2", "last", json!({}))];
        let schema = json!({ "type": "object" });
        let last = Tool::raw(
            "last",
            "Ends the turn.",
            schema,
            async |_: Value, _: ToolCx| {
                let done: ToolResult<Value> = Ok(json!("done"));
                done
            },
        );
        let last = last.finish_with().build().unwrap();
        of(MockModel::replies([MockReply::calls(calls)]))
            .tools([slow(clock, seconds(70)), last])
            .budget(time(60))
    });
    block_on(async {
        rig.drive(rig.start().await).await;
        assert_eq!(rig.status().await, PAUSED);
        let messages = rig.backend.store.messages(id().as_root(), Page::ALL).await;
        let messages = messages.unwrap().items;
        let Some(Message::Tool(last)) = messages.last() else {
            panic!("{messages:?}");
        };
        assert_eq!(last.tool_name, "last");
        assert!(last.content.contains("time"), "{}", last.content);
    });
}

/// A model that says what it used and then nothing more.
#[derive(Debug)]
struct Hanging;

impl Model for Hanging {
    fn stream<'a>(&'a self, _: ModelRequest<'a>) -> EventStream<'a> {
        let used = ModelEvent::Usage(TokenUsage::new(40, 2));
        stream::iter([Ok(used)]).chain(stream::pending()).boxed()
    }
}

/// A model call ends when the time is over; what it used is counted, and it is not a failure of the turn.
#[test]
fn a_model_call_ends_when_the_time_is_over() {
    let rig = Rig::new(|_| of(Hanging).budget(time(30).tokens(90_000).steps(5)));
    block_on(async {
        rig.drive(rig.start().await).await;
        assert_eq!(rig.status().await, PAUSED);
        assert_eq!(rig.used(BudgetUnit::WallClockMs).await, 30_000);
        assert_eq!(rig.used(BudgetUnit::Tokens).await, 42);
        assert_eq!(rig.used(BudgetUnit::Steps).await, 0);
        assert_eq!(rig.reserved().await, None);
    });
}

/// A model with a price.
#[derive(Debug)]
struct Priced(MockModel);

impl Model for Priced {
    fn stream<'a>(&'a self, request: ModelRequest<'a>) -> EventStream<'a> {
        self.0.stream(request)
    }

    fn limits(&self) -> ModelLimits {
        ModelLimits::new(10_000, 100)
    }

    fn cost(&self, tokens: &TokenUsage) -> Option<u64> {
        Some(tokens.input + 10 * tokens.output)
    }
}

/// The start of a run reserves its first call with the estimate of its prompt and the longest reply that the model
/// gives. The reservation outlives the process, and the reply settles it with what the call did cost.
///
/// proves in part: BUD-01
#[test]
fn a_reservation_is_made_before_the_call_and_settled_after_it() {
    let reply = slow_call("c1").with_usage(TokenUsage::new(30, 6));
    let rig = Rig::new(|clock| {
        of(Priced(MockModel::replies([reply])))
            .tools([slow(clock, seconds(1))])
            .budget(Budget::new().steps(9).tokens(9_000).micro_dollars(9_000))
    });
    block_on(async {
        rig.start().await;
        // "Work." and "go" are two tokens.
        let first = rig.reserved().await.unwrap();
        assert_eq!(
            (first.steps, first.tokens, first.micro_dollars),
            (1, 102, 1_002)
        );
        let state = rig.entries.recover(&id(), &performer()).await.unwrap();
        assert_eq!(rig.reserved().await, Some(first));

        let facts = AgentLimits::of(&rig.agent);
        let (state, effects) = decide(&facts, state, Event::started());
        let event = perform(&effects[0], Attempt::Repeat, &rig.ports)
            .await
            .unwrap();
        assert_eq!(rig.reserved().await, None);
        assert_eq!(rig.used(BudgetUnit::Tokens).await, 36);
        assert_eq!(rig.used(BudgetUnit::MicroDollars).await, 90);
        assert_eq!(rig.used(BudgetUnit::Steps).await, 1);

        // Performed again, it counts nothing.
        let again = perform(&effects[0], Attempt::Repeat, &rig.ports)
            .await
            .unwrap();
        assert_eq!(again, event);
        assert_eq!(rig.used(BudgetUnit::Tokens).await, 36);
        let (_, effects) = decide(&facts, state, event);
        perform(&effects[0], Attempt::First, &rig.ports)
            .await
            .unwrap();
        let next = rig.reserved().await.unwrap();
        assert_eq!((next.tokens, next.micro_dollars), (136, 1_036));
        let usage = rig.backend.store.usage(id().as_root(), Page::ALL).await;
        let recorded: UsageRollup = usage.unwrap().items.iter().collect();
        assert_eq!(recorded.micro_dollars, Some(90));
    });
}

/// Reservations and settlements ride in the commits that a run makes anyway.
///
/// proves in part: BUD-01
#[test]
fn a_budget_takes_no_commits_of_its_own() {
    let versions = [
        Budget::new(),
        Budget::new().steps(9).tokens(90_000).tool_calls(9),
    ]
    .map(|limit| {
        let rig = Rig::new(|clock| {
            let model =
                MockModel::replies([slow_call("c1"), slow_call("c2"), MockReply::text("ok")]);
            of(model).tools([slow(clock, seconds(1))]).budget(limit)
        });
        block_on(async {
            rig.drive(rig.start().await).await;
            assert_eq!(rig.status().await, DONE);
            rig.found().await.state.version
        })
    });
    // The start, two commits for each step with a tool, and one for the last.
    assert_eq!(versions, [6, 6]);
}

/// A prompt that is made from the state is not known when the run starts: the call reserves it by itself.
#[test]
fn a_call_that_could_not_be_estimated_reserves_itself() {
    let model = MockModel::replies([MockReply::text("hi").with_usage(TokenUsage::new(9, 1))]);
    let rig = Rig::new(|_| {
        let agent = of(model).system_prompt_from_state(|_: &Value| "Work.".to_owned());
        agent.budget(Budget::new().tokens(4_097))
    });
    block_on(async {
        let state = rig.start().await;
        assert_eq!(rig.reserved().await, None);
        rig.drive(state).await;
        assert_eq!(rig.status().await, DONE);
        assert_eq!(rig.used(BudgetUnit::Tokens).await, 10);
    });
}

/// A model that does not say what it used is charged with what was reserved: nothing is silently unlimited.
#[test]
fn a_model_without_usage_is_charged_with_its_reservation() {
    let rig = Rig::new(|_| {
        of(MockModel::replies([MockReply::text("hi")])).budget(Budget::new().tokens(9_000))
    });
    block_on(async {
        rig.drive(rig.start().await).await;
        assert_eq!(rig.status().await, DONE);
        assert_eq!(rig.used(BudgetUnit::Tokens).await, 4_096 + 2);
    });
}

/// A limit in micro-dollars that a resume sets on a model without prices fails the run.
#[test]
fn a_limit_that_cannot_be_counted_fails_the_run() {
    let rig = Rig::new(|_| of(MockModel::new().says("hi")).budget(Budget::new().tokens(10)));
    block_on(async {
        rig.drive(rig.start().await).await;
        assert_eq!(rig.status().await, PAUSED);
        let raised = Budget::new().tokens(90_000).micro_dollars(5);
        rig.drive(rig.resume(raised).await.unwrap()).await;
        let error = rig.found().await.run.unwrap().error.unwrap();
        assert_eq!(error.code, ErrorCode::DefinitionInvalid);
    });
}

/// A session without limits has no counters, whatever it does.
#[test]
fn a_session_without_limits_counts_nothing() {
    let rig = Rig::new(|_| of(MockModel::new().says("hi")));
    block_on(async {
        rig.drive(rig.start().await).await;
        assert_eq!(rig.found().await.budget, None);
    });
}

fn change(session: &str, run: &str, action: BudgetAction) -> Change {
    let session = SessionId::new(session).unwrap();
    let run = helix_agents_core::RunId::new(run).unwrap();
    Change::Budget(Box::new(BudgetChange::new(session, run, action)))
}

async fn committed(backend: &Backend, changes: Vec<Change>) -> Arc<BudgetLedger> {
    let commit = Commit::new(id(), Timestamp::from_millis(5));
    let commit = changes.into_iter().fold(commit, Commit::then);
    let receipt = backend.store.commit(commit).await.unwrap();
    receipt.sessions[&id()].budget.clone().unwrap()
}

/// The sessions under a root share the limits of its tree: what one of them has reserved, another cannot.
#[test]
fn sessions_of_a_tree_share_its_limits() {
    let backend: Backend = MemoryStore::new().into();
    let amount = |tokens| {
        serde_json::from_value::<BudgetAmount>(json!({ "steps": 1, "tokens": tokens })).unwrap()
    };
    let start = |budgets| BudgetAction::Start {
        agent: Some(budgets),
        requested: Budgets::new(),
        new_turn: true,
        next: Some(amount(60)),
        step: Some(1),
    };
    let reserve = || BudgetAction::Reserve {
        step: 1,
        next: Some(amount(60)),
    };
    block_on(async {
        let session = SessionState::new(id(), "agent", Timestamp::from_millis(1));
        let tree = Budgets::new().tree(Budget::new().tokens(100));
        let ledger = committed(
            &backend,
            vec![
                Change::Create(Box::new(session)),
                change("s", "run-1", start(tree)),
                change("child", "run-2", reserve()),
            ],
        )
        .await;
        let child = SessionId::new("child").unwrap();
        let refused = ledger.sessions[&child].refused.clone().unwrap();
        assert_eq!((refused.scope, refused.needed), (BudgetScope::Tree, 120));

        // What the parent did not use is free for the child.
        let settle = BudgetAction::Settle {
            step: 1,
            used: amount(40),
            denied: None,
            next: None,
        };
        let ledger = committed(
            &backend,
            vec![
                change("s", "run-1", settle),
                change("child", "run-3", reserve()),
            ],
        )
        .await;
        assert_eq!(ledger.sessions[&child].refused, None);
        let report = ledger.report(&id(), &child).unwrap();
        let tree = report.tree.unwrap();
        assert_eq!((tree.used.tokens, tree.reserved.tokens), (40, 60));
        assert_eq!(report.session, None);

        // A session that only shared the tree leaves no account behind.
        let ledger = committed(&backend, vec![change("child", "run-3", BudgetAction::End)]).await;
        assert_eq!(ledger.sessions.keys().collect::<Vec<_>>(), [&id()]);
        let known: BTreeMap<_, _> = ledger.sessions.clone();
        assert_eq!(known[&id()].reserved, None);
    });
}

/// Only the header of a root holds counters.
#[test]
fn a_child_holds_no_counters() {
    let backend: Backend = MemoryStore::new().into();
    let child = SessionId::new("child").unwrap();
    let mut under = SessionState::new(child.clone(), "agent", Timestamp::from_millis(1));
    under.parent_session_id = Some(id());
    under.root_session_id = Some(id());
    let root = SessionState::new(id(), "agent", Timestamp::from_millis(1));
    let commit = Commit::new(id(), Timestamp::from_millis(5))
        .then(Change::Create(Box::new(root)))
        .then_in(child.clone(), Change::Create(Box::new(under)))
        .then_in(child, change("child", "run-1", BudgetAction::End));
    let refused = block_on(backend.store.commit(commit)).unwrap_err();
    assert!(matches!(refused, StoreError::Invalid { .. }), "{refused:?}");
}
