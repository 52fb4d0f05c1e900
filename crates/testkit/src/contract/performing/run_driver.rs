//! Performs a run effect by effect.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};

use futures_util::{StreamExt, stream};
use helix_agents_core::agent::{Agent, AgentRegistry};
use helix_agents_core::entries::{Entries, ExecuteRequest, Performer, ToolAnswer};
use helix_agents_core::hooks::AgentHooks;
use helix_agents_core::id::IdSource;
use helix_agents_core::machine::{AgentLimits, Effect, Event, RunState, decide};
use helix_agents_core::message::{Message, ToolMessage};
use helix_agents_core::model::{EventStream, Model, ModelRequest};
use helix_agents_core::perform::{Attempt, Ports, perform};
use helix_agents_core::session::{RunRecord, StopKind, Submission};
use helix_agents_core::store::{Page, Sessions, Snapshot};
use helix_agents_core::stream::{ChunkPayload, Sequence};
use helix_agents_core::time::Clock;
use helix_agents_core::{CallId, SessionId};
use serde_json::Value;

use super::super::Subject;
use super::super::builders::session;
use super::super::runtime::agents::Gate;
use super::faulty_store::{CommitFate, FaultyStore};
use crate::{MockModel, MockReply, SequentialIds, VirtualClock, drive};

/// The run of a case, and everything that is needed to perform it.
pub(super) struct RunDriver {
    pub(super) on: Subject,
    pub(super) ports: Ports,
    pub(super) entries: Entries,
    facts: AgentLimits,
    pub(super) state: RunState,
}

impl RunDriver {
    /// Starts a run of this agent with the message "go", on a store without faults.
    pub(super) async fn new(on: &Subject, agent: Agent) -> Self {
        Self::on(
            FaultyStore::new(on, |_| CommitFate::Made),
            on,
            agent,
            Vec::new(),
        )
        .await
    }

    /// As `new`, on a store with faults and with hooks.
    pub(super) async fn on(
        store: FaultyStore,
        on: &Subject,
        agent: Agent,
        hooks: Vec<Arc<dyn AgentHooks>>,
    ) -> Self {
        let clock = VirtualClock::new(on.now()).in_order();
        let ids = Arc::new(SequentialIds::new()) as Arc<dyn IdSource>;
        let time = Arc::new(clock) as Arc<dyn Clock>;
        let entries = Entries::new(
            Arc::clone(&on.store),
            Arc::clone(&on.streams),
            Arc::clone(&time),
            Arc::clone(&ids),
        );
        let agents = Arc::new(AgentRegistry::new());
        agents.replace(&agent);
        let shared = Arc::new(store);
        let mut ports =
            Ports::new(shared.clone(), shared.clone(), time, ids, agents).with_stops(shared);
        ports.execution_hooks = hooks;
        let facts = AgentLimits::of(&agent);
        let request = ExecuteRequest::new(&agent, "go").in_session(session("s"));
        let state = entries.execute(request, &performer()).await.unwrap();
        Self {
            on: on.clone(),
            ports,
            entries,
            facts,
            state,
        }
    }

    /// The limits of the agent.
    pub(super) fn limits(&self) -> AgentLimits {
        self.facts.clone()
    }

    /// The effects with which the run begins.
    pub(super) fn begin(&mut self) -> Vec<Effect> {
        self.feed(Event::started())
    }

    /// Feeds an event to the run, and returns the effects that follow.
    pub(super) fn feed(&mut self, event: Event) -> Vec<Effect> {
        let (state, effects) = decide(&self.facts, self.state.clone(), event);
        self.state = state;
        effects
    }

    /// Performs the only effect that comes next, and returns the effects that follow.
    pub(super) async fn next(&mut self, effects: &[Effect]) -> Vec<Effect> {
        let [effect] = effects else {
            panic!("one effect comes next, not {effects:?}");
        };
        let event = perform(effect, Attempt::First, &self.ports).await.unwrap();
        self.feed(event)
    }

    /// Performs these effects and all that follow from them.
    pub(super) async fn through(&mut self, effects: Vec<Effect>) {
        let mut todo = effects;
        let mut performed = 0;
        while let Some(effect) = todo.pop() {
            performed += 1;
            assert!(performed < 1_000, "the run comes to no end: {effect:?}");
            let event = perform(&effect, Attempt::First, &self.ports).await.unwrap();
            todo.extend(self.feed(event));
        }
    }

    /// Performs the run from its beginning to its end.
    pub(super) async fn drive(&mut self) {
        let driven = drive(&self.facts, self.state.clone(), &self.ports).await;
        self.state = driven.unwrap();
    }

    /// Lets another process take the run over, perhaps with another version of the agent.
    pub(super) async fn taken_over(&mut self, agent: &Agent) {
        self.ports.agents.replace(agent);
        let recovered = self.entries.recover(&session("s"), &performer()).await;
        self.state = recovered.unwrap();
    }

    pub(super) async fn found(&self) -> Snapshot {
        self.on
            .store
            .load(session("s").as_root())
            .await
            .unwrap()
            .unwrap()
    }

    pub(super) async fn run(&self) -> RunRecord {
        self.found().await.run.unwrap()
    }

    pub(super) async fn messages(&self) -> Vec<Message> {
        let store = &self.on.elsewhere().store;
        store
            .messages(session("s").as_root(), Page::ALL)
            .await
            .unwrap()
            .items
    }

    /// The results in the history, with their calls.
    pub(super) async fn results(&self) -> Vec<ToolMessage> {
        let messages = self.messages().await.into_iter();
        let results = messages.filter_map(|message| match message {
            Message::Tool(result) => Some(result),
            _ => None,
        });
        results.collect()
    }

    /// The payloads of all chunks in the stream.
    pub(super) async fn streamed(&self) -> Vec<ChunkPayload> {
        let streams = &self.on.elsewhere().streams;
        let chunks = streams
            .read(&session("s"), Sequence::START, usize::MAX)
            .await;
        let chunks = chunks.unwrap().into_iter();
        chunks.map(|stored| stored.chunk.payload).collect()
    }

    /// The text of all text deltas in the stream.
    pub(super) async fn text(&self) -> String {
        let said = self.streamed().await.into_iter();
        said.filter_map(|payload| match payload {
            ChunkPayload::TextDelta { delta } => Some(delta),
            _ => None,
        })
        .collect()
    }
}

pub(super) fn performer() -> Performer {
    Performer::new("contract")
}

/// Asks the run to stop.
pub(super) async fn stop(on: &Subject, kind: StopKind) {
    let sessions = Sessions::new(on.store.as_ref(), on.clock.as_ref());
    let asked = sessions.request_stop(&session("s"), kind, None).await;
    assert!(asked.unwrap().is_some(), "the stop is accepted");
}

/// An answer of a client, with this result, to a call of session `s`.
pub(super) fn answer(call: &str, result: impl Into<Value>) -> ToolAnswer {
    let call = CallId::new(call).unwrap();
    ToolAnswer::new(session("s"), Submission::result(call, result.into()))
}

/// Polls a future until it waits for another task.
///
/// # Panics
/// When it does not wait.
pub(super) fn under_way<F: Future>(future: &mut Pin<Box<F>>) {
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..64 {
        let polled = future.as_mut().poll(&mut context);
        assert!(polled.is_pending(), "it must still be under way");
    }
}

/// Yields to other tasks a number of times, so that deltas are written.
pub(super) async fn pause() {
    for _ in 0..64 {
        let mut first = true;
        std::future::poll_fn(|cx| {
            if std::mem::take(&mut first) {
                cx.waker().wake_by_ref();
                return std::task::Poll::Pending;
            }
            std::task::Poll::Ready(())
        })
        .await;
    }
}

/// The id of the session of every case.
pub(super) fn session_id() -> SessionId {
    session("s")
}

/// A model that waits at a gate before its first replies.
#[derive(Debug)]
pub(super) struct GatedModel {
    model: MockModel,
    gate: Gate,
    waits: usize,
    asked: AtomicUsize,
}

impl GatedModel {
    /// Makes a model whose first so many requests wait.
    pub(super) fn new(
        gate: &Gate,
        waits: usize,
        replies: impl IntoIterator<Item = MockReply>,
    ) -> Self {
        Self {
            model: MockModel::replies(replies),
            gate: gate.clone(),
            waits,
            asked: AtomicUsize::new(0),
        }
    }

    /// The number of requests so far.
    pub(super) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Model for GatedModel {
    fn name(&self) -> &str {
        "test/gated"
    }

    fn stream<'a>(&'a self, request: ModelRequest<'a>) -> EventStream<'a> {
        let number = self.asked.fetch_add(1, Ordering::SeqCst);
        // The reply is chosen when it is asked for, and comes when the gate is open.
        let events = self.model.stream(request);
        let gate = async move {
            if number < self.waits {
                self.gate.pass().await;
            }
        };
        Box::pin(stream::once(gate).flat_map({
            let mut events = Some(events);
            move |()| events.take().unwrap_or_else(|| Box::pin(stream::empty()))
        }))
    }

    fn supports_native_output(&self) -> bool {
        false
    }
}
