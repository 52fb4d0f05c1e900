//! The context limit in detail: how much is left out, and how summaries count for budgets.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use helix_agents_core::agent::{Agent, AgentBuilder, AgentRegistry};
use helix_agents_core::budget::{Budget, BudgetScope, BudgetUnit, Budgets};
use helix_agents_core::context::{ContextPolicy, StandIn};
use helix_agents_core::entries::{Entries, ExecuteRequest, Performer};
use helix_agents_core::id::IdSource;
use helix_agents_core::machine::{AgentLimits, Event, RunState, decide};
use helix_agents_core::memory::MemoryStore;
use helix_agents_core::message::{AssistantMessage, AssistantPart, Message, Thinking, UserMessage};
use helix_agents_core::model::{
    EventStream, Model, ModelConfig, ModelErrorKind, ModelRequest, TokenUsage,
};
use helix_agents_core::perform::{Attempt, Ports, perform};
use helix_agents_core::runtime::{Backend, RuntimeError};
use helix_agents_core::session::{RunRecord, RunStatus};
use helix_agents_core::store::{Sessions, Snapshot};
use helix_agents_core::time::{Clock, Timestamp};
use helix_agents_core::tool::{Tool, ToolCx};
use helix_agents_core::{SessionId, ToolResult};
use helix_agents_testkit::{MockModel, MockReply, SequentialIds, VirtualClock, block_on, drive};
use serde_json::{Value, json};

/// One process that performs the turns of one session.
struct Rig {
    backend: Backend,
    ports: Ports,
    entries: Entries,
    agent: Agent,
}

fn id() -> SessionId {
    SessionId::new("s").unwrap()
}

impl Rig {
    fn new(agent: AgentBuilder) -> Self {
        let agent = agent.build().unwrap();
        let agents = Arc::new(AgentRegistry::new());
        agents.replace(&agent);
        let backend: Backend = MemoryStore::new().into();
        let clock = VirtualClock::new(Timestamp::from_millis(1_000)).in_order();
        let time = Arc::new(clock) as Arc<dyn Clock>;
        let ids = Arc::new(SequentialIds::new()) as Arc<dyn IdSource>;
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
            agent,
        }
    }

    async fn start(&self, text: &str) -> RunState {
        let request = ExecuteRequest::new(&self.agent, text).in_session(id());
        let (_, request) = request.complete(&self.ports).unwrap();
        let performer = Performer::new("test");
        self.entries.execute(request, &performer).await.unwrap()
    }

    async fn turn(&self, text: &str) -> RunRecord {
        let state = self.start(text).await;
        let facts = AgentLimits::of(&self.agent);
        drive(&facts, state, &self.ports).await.unwrap();
        self.found().await.run.unwrap()
    }

    /// Executes turns, which must complete.
    async fn turns(&self, texts: &[&str]) {
        for text in texts {
            let run = self.turn(text).await;
            assert_eq!(run.status, RunStatus::Completed, "{text}: {:?}", run.error);
        }
    }

    async fn found(&self) -> Snapshot {
        let found = self.backend.store.load(id().as_root()).await;
        found.unwrap().unwrap()
    }

    async fn used(&self, scope: BudgetScope, unit: BudgetUnit) -> u64 {
        let ledger = self.found().await.budget.unwrap();
        ledger.used(&id(), scope).get(unit)
    }

    async fn append(&self, messages: &[Message]) {
        let clock = self.ports.clock.as_ref();
        let sessions = Sessions::new(self.backend.store.as_ref(), clock);
        sessions
            .append_messages(&id(), messages, None)
            .await
            .unwrap();
    }
}

fn reply(text: &str, prompt: u64) -> MockReply {
    MockReply::text(text).with_usage(TokenUsage::new(prompt, 10))
}

/// A model whose fourth prompt would be too long.
fn growing() -> Arc<MockModel> {
    let sizes = [400, 800, 1_200, 500];
    Arc::new(MockModel::replies(sizes.map(|size| reply("reply", size))))
}

fn of(model: impl Model + 'static) -> AgentBuilder {
    Agent::builder("agent").model(model).system_prompt("Work.")
}

fn at_most(output: u32) -> ModelConfig {
    let mut config = ModelConfig::default();
    config.max_output_tokens = Some(output);
    config
}

/// An agent under a budget of tokens, whose earlier turns another model summarizes in at most 1,000 tokens.
fn budgeted(writer: impl Model + 'static, tokens: u64) -> AgentBuilder {
    let policy = ContextPolicy::keep_turns(2).at_tokens(1_000);
    let policy = policy.summarized_with(Arc::new(writer) as Arc<dyn Model>, at_most(1_000));
    of(growing())
        .model_config(at_most(100))
        .context(policy)
        .budget(Budgets::new().session(Budget::new().tokens(tokens)))
}

/// The prompts that a model has seen, by the number of their messages.
fn lengths(model: &MockModel) -> Vec<usize> {
    model.seen().iter().map(|one| one.messages.len()).collect()
}

/// Attempts at a summary share one reservation: those that fail take nothing of the budget.
#[test]
fn a_summary_that_is_tried_again_is_reserved_once() {
    let overloaded = || MockReply::error(ModelErrorKind::Overloaded);
    let summary = MockReply::text("All.").with_usage(TokenUsage::new(50, 7));
    let replies = [overloaded(), overloaded(), overloaded(), summary];
    // 2,430 are used before the call and its summary, which take less than 2,570.
    let rig = Rig::new(budgeted(MockModel::replies(replies), 5_000));
    block_on(async {
        rig.turns(&["one", "two", "three", "four"]).await;
        let used = rig.used(BudgetScope::Session, BudgetUnit::Tokens).await;
        assert_eq!(used, 2_430 + 57 + 510);
    });
}

/// A summary whose model does not say what it used is charged with its reservation, as a reply is.
#[test]
fn a_summary_without_usage_is_charged_with_its_reservation() {
    let writer = MockModel::replies([MockReply::text("All.")]);
    let rig = Rig::new(budgeted(writer, 50_000));
    block_on(async {
        rig.turns(&["one", "two", "three", "four"]).await;
        let used = rig.used(BudgetScope::Session, BudgetUnit::Tokens).await;
        let summary = used - 2_430 - 510;
        assert!((1_001..1_250).contains(&summary), "{summary}");
    });
}

/// A model whose replies after the first few take some time.
#[derive(Debug)]
struct Slow {
    model: MockModel,
    takes: Duration,
    quick: usize,
}

impl Model for Slow {
    fn stream<'a>(&'a self, request: ModelRequest<'a>) -> EventStream<'a> {
        let clock = request.clock;
        let is_quick = self.model.seen().len() < self.quick;
        let events = self.model.stream(request);
        if is_quick {
            return events;
        }
        let until = clock.now().saturating_add(self.takes);
        let waits = async move { clock.sleep_until(until).await };
        waits.map(|()| events).flatten_stream().boxed()
    }
}

/// The time that a summary takes is not there for the call after it.
#[test]
fn the_time_of_a_summary_counts_for_the_budget() {
    let takes = Duration::from_secs(6);
    let writer = Slow {
        model: MockModel::replies([MockReply::text("All.")]),
        takes,
        quick: 0,
    };
    let sizes = [400, 800, 1_200, 500];
    let model = Slow {
        model: MockModel::replies(sizes.map(|size| reply("reply", size))),
        takes,
        quick: 3,
    };
    let policy = ContextPolicy::keep_turns(2).at_tokens(1_000);
    let policy = policy.summarized_by(Arc::new(writer) as Arc<dyn Model>);
    let budget = Budget::new().wall_clock(Duration::from_secs(10));
    let rig = Rig::new(of(model).context(policy).budget(budget));
    block_on(async {
        rig.turns(&["one", "two", "three"]).await;
        let run = rig.turn("four").await;
        assert_eq!(run.status, RunStatus::Interrupted);
        let used = rig.used(BudgetScope::Run, BudgetUnit::WallClockMs).await;
        assert_eq!(used, 10_000);
    });
}

/// A refusal shows that the estimate was too small: half of the conversation is left out then, not one turn of many.
#[test]
fn a_refusal_leaves_out_half_of_a_conversation() {
    let mut replies: Vec<_> = (0..8).map(|_| MockReply::text("reply")).collect();
    replies.push(MockReply::error(ModelErrorKind::ContextLength));
    replies.push(MockReply::text("reply"));
    let model = Arc::new(MockModel::replies(replies));
    let policy = ContextPolicy::keep_turns(50).at_tokens(1_000);
    let rig = Rig::new(of(Arc::clone(&model)).context(policy));
    block_on(async {
        rig.turns(&["a", "b", "c", "d", "e", "f", "g", "h", "i"])
            .await;
        let lengths = lengths(&model);
        assert_eq!(lengths[8], 17);
        assert!((4..=9).contains(&lengths[9]), "{lengths:?}");
    });
}

/// A long system prompt leaves less room: the turns that are kept fill half of what is left beside it.
#[test]
fn a_long_system_prompt_leaves_less_room_for_turns() {
    let sizes = [750, 800, 850, 900, 950, 990, 870];
    let said = "many words ".repeat(9);
    let model = MockModel::replies(sizes.map(|size| reply(&said, size)));
    let model = Arc::new(model);
    let policy = ContextPolicy::keep_turns(9).at_tokens(1_000);
    let agent = of(Arc::clone(&model)).system_prompt("Be good. ".repeat(311));
    let rig = Rig::new(agent.context(policy));
    block_on(async {
        rig.turns(&[said.as_str(); 7]).await;
        let lengths = lengths(&model);
        assert_eq!(lengths[5], 11);
        assert!((2..=7).contains(&lengths[6]), "{lengths:?}");
    });
}

/// Reasoning that is not part of the reply is not sent again, and does not make the next prompt longer.
#[test]
fn reasoning_that_is_not_sent_again_does_not_count() {
    let mut usage = TokenUsage::new(200, 910);
    usage.reasoning = Some(900);
    let replies = ["one", "two"].map(|text| MockReply::text(text).with_usage(usage));
    let model = Arc::new(MockModel::replies(replies));
    let policy = ContextPolicy::keep_turns(1).at_tokens(1_000);
    let rig = Rig::new(of(Arc::clone(&model)).context(policy));
    block_on(async {
        rig.turns(&["a", "b"]).await;
        assert_eq!(lengths(&model), [1, 3]);
        let messages = rig.found().await.message_count;
        assert_eq!(messages, 4, "nothing was left out");
    });
}

/// Most providers take no thinking of earlier turns: a conversation is not refused for its length because of it.
#[test]
fn thinking_does_not_make_a_conversation_certainly_too_long() {
    let replies = ["one", "two"].map(MockReply::text);
    let model = Arc::new(MockModel::replies(replies));
    let policy = ContextPolicy::fail().at_tokens(500);
    let rig = Rig::new(of(Arc::clone(&model)).context(policy));
    block_on(async {
        rig.turns(&["a"]).await;
        let thinking = Thinking::new("hm ".repeat(3_000));
        let parts = vec![AssistantPart::Thinking(thinking), AssistantPart::text("ok")];
        rig.append(&[
            Message::User(UserMessage::new("think")),
            Message::Assistant(AssistantMessage::new(parts)),
        ])
        .await;
        rig.turns(&["b"]).await;
        assert_eq!(lengths(&model), [1, 5]);
        let history = &model.seen()[1].messages;
        assert!(history.iter().all(|one| StandIn::of(one).is_none()));
    });
}

/// A message that arrives between two steps of a run begins no turn: the question that the run works on stays.
#[test]
fn a_message_in_the_middle_of_a_run_does_not_end_its_turn() {
    let call = MockReply::calls([("c1", "note", json!({}))]);
    let model = Arc::new(MockModel::replies([
        reply("one", 300),
        call.with_usage(TokenUsage::new(1_100, 10)),
        reply("done", 500),
    ]));
    let schema = json!({ "type": "object" });
    let note = Tool::raw("note", "Notes.", schema, async |_: Value, _: ToolCx| {
        let done: ToolResult<Value> = Ok(json!("noted"));
        done
    });
    let policy = ContextPolicy::keep_turns(1).at_tokens(1_000);
    let agent = of(Arc::clone(&model)).context(policy);
    let rig = Rig::new(agent.tools([note.build().unwrap()]));
    block_on(async {
        rig.turns(&["first"]).await;
        let mut state = rig.start("go").await;
        let facts = AgentLimits::of(&rig.agent);
        let mut event = Event::started();
        for step in 0.. {
            let (next, effects) = decide(&facts, state, event);
            state = next;
            let [effect] = &effects[..] else { break };
            if step == 2 {
                let aside = UserMessage::new("by the way");
                rig.append(&[Message::User(aside)]).await;
            }
            event = perform(effect, Attempt::First, &rig.ports).await.unwrap();
        }
        assert_eq!(lengths(&model), [1, 3, 5]);
        let said = |message: &Message| match message {
            Message::User(user) => user.content.clone(),
            _ => String::new(),
        };
        let last = &model.seen()[2].messages;
        assert_eq!(
            (said(&last[1]), said(&last[4])),
            ("go".into(), "by the way".into())
        );
    });
}

/// A budget in micro-dollars on a model of summaries without prices is refused at the start, not after some turns.
#[test]
fn a_summary_that_cannot_be_priced_is_refused_at_the_start() {
    #[derive(Debug)]
    struct Priced(MockModel);

    impl Model for Priced {
        fn stream<'a>(&'a self, request: ModelRequest<'a>) -> EventStream<'a> {
            self.0.stream(request)
        }

        fn cost(&self, tokens: &TokenUsage) -> Option<u64> {
            Some(tokens.total())
        }
    }

    let policy = ContextPolicy::keep_turns(1).at_tokens(1_000);
    let writer = Arc::new(MockModel::new()) as Arc<dyn Model>;
    let agent = of(Priced(MockModel::new().says("hi"))).context(policy.summarized_by(writer));
    let rig = Rig::new(agent.budget(Budget::new().micro_dollars(900_000)));
    let request = ExecuteRequest::new(&rig.agent, "go").in_session(id());
    let refused = request.complete(&rig.ports).unwrap_err();
    assert!(matches!(refused, RuntimeError::Budget(_)), "{refused}");
}
