//! The text of a run when attempts of its model fail in the middle of a reply.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::{StreamExt, stream};
use helix_agents_core::Agent;
use helix_agents_core::memory::MemoryStore;
use helix_agents_core::model::{
    EventStream, Model, ModelError, ModelErrorKind, ModelEvent, ModelRequest, TokenUsage,
};
use helix_agents_core::notify::Notify;
use helix_agents_core::runtime::{RuntimeExt, TextEvent};
use helix_agents_core::step::StopReason;
use helix_agents_core::tool::Tool;
use helix_agents_testkit::{ThreadRuntime, block_on};
use serde_json::json;

/// Whether the reader has seen what the model said so far.
#[derive(Debug, Clone, Default)]
struct Seen {
    is_seen: Arc<AtomicBool>,
    bell: Notify,
}

impl Seen {
    fn set(&self) {
        self.is_seen.store(true, Ordering::SeqCst);
        self.bell.ring();
    }

    async fn wait(&self) {
        loop {
            let heard = self.bell.heard();
            if self.is_seen.load(Ordering::SeqCst) {
                return;
            }
            heard.await;
        }
    }
}

/// One item of an attempt.
#[derive(Debug)]
enum Item {
    Event(ModelEvent),
    WaitUntil(Seen),
    Fail,
}

/// A model with a list of items for each attempt.
#[derive(Debug)]
struct Attempts(Mutex<VecDeque<Vec<Item>>>);

impl Model for Attempts {
    fn name(&self) -> &str {
        "test/attempts"
    }

    fn stream<'a>(&'a self, _: ModelRequest<'a>) -> EventStream<'a> {
        let items = self.0.lock().unwrap().pop_front().unwrap();
        Box::pin(stream::iter(items).filter_map(|item| async {
            match item {
                Item::Event(event) => Some(Ok(event)),
                Item::WaitUntil(seen) => {
                    seen.wait().await;
                    None
                }
                Item::Fail => Some(Err(ModelError::new(ModelErrorKind::Transport, "gone"))),
            }
        }))
    }

    fn supports_native_output(&self) -> bool {
        false
    }
}

fn says(text: &str) -> Item {
    Item::Event(ModelEvent::Text(text.to_owned()))
}

fn finished(stop_reason: StopReason) -> Item {
    let usage = TokenUsage::new(1, 1);
    Item::Event(ModelEvent::Finished { stop_reason, usage })
}

/// A step with a tool, then a reply that fails after "Half", then the whole reply.
fn retelling() -> (ThreadRuntime, Agent, Seen) {
    let seen = Seen::default();
    let call = [
        ModelEvent::CallStart {
            id: Some("c1".to_owned()),
            name: "look".to_owned(),
        },
        ModelEvent::CallArguments {
            call: 0,
            delta: "{}".to_owned(),
        },
        ModelEvent::CallEnd {
            call: 0,
            provider_metadata: None,
        },
    ];
    let mut calling = vec![says("Looking. ")];
    calling.extend(call.map(Item::Event));
    calling.push(finished(StopReason::ToolUse));
    let attempts = VecDeque::from([
        calling,
        vec![says("Half"), Item::WaitUntil(seen.clone()), Item::Fail],
        vec![says("It is "), says("blue."), finished(StopReason::EndTurn)],
    ]);
    let look = Tool::raw(
        "look",
        "Looks.",
        json!({ "type": "object" }),
        |_, _| async { Ok(json!("blue")) },
    );
    let model = Attempts(Mutex::new(attempts));
    let agent = Agent::builder("teller").model(Arc::new(model)).tools(look);
    let runtime = ThreadRuntime::new(MemoryStore::new());
    (runtime, agent.build().unwrap(), seen)
}

#[test]
fn text_events_remove_the_text_of_a_failed_attempt_and_nothing_else() {
    let (runtime, agent, seen) = retelling();
    let (events, shown) = block_on(async {
        let run = runtime.execute(&agent, "Look.").await.unwrap();
        let (mut events, mut shown) = (Vec::new(), String::new());
        let mut stream = run.text_events();
        while let Some(event) = stream.next().await {
            let event = event.unwrap();
            match &event {
                TextEvent::Delta(piece) => shown.push_str(piece),
                TextEvent::Truncate(length) => shown.truncate(*length),
            }
            if shown.ends_with("Half") {
                seen.set();
            }
            events.push(event);
        }
        (events, shown)
    });
    assert_eq!(shown, "Looking. It is blue.");
    let restarts: Vec<_> = events
        .iter()
        .filter(|event| matches!(event, TextEvent::Truncate(_)))
        .collect();
    assert_eq!(restarts, [&TextEvent::Truncate("Looking. ".len())]);
}

#[test]
fn text_keeps_the_pieces_of_a_failed_attempt() {
    let (runtime, agent, seen) = retelling();
    let whole = block_on(async {
        let run = runtime.execute(&agent, "Look.").await.unwrap();
        let (mut text, mut whole) = (run.text(), String::new());
        while let Some(piece) = text.next().await {
            whole.push_str(&piece.unwrap());
            if whole.ends_with("Half") {
                seen.set();
            }
        }
        whole
    });
    assert_eq!(whole, "Looking. HalfIt is blue.");
}

/// The stream holds nothing of a discarded attempt, so a reader that comes later is not told of it.
#[test]
fn a_reader_that_comes_later_is_told_only_the_text_that_counts() {
    let (runtime, agent, seen) = retelling();
    block_on(async {
        let run = runtime.execute(&agent, "Look.").await.unwrap();
        let mut text = run.text();
        while text.next().await.unwrap().unwrap() != "Half" {}
        seen.set();
        run.output().await.unwrap();
        let mut events = run.text_events();
        let mut shown = String::new();
        while let Some(event) = events.next().await {
            match event.unwrap() {
                TextEvent::Delta(piece) => shown.push_str(&piece),
                TextEvent::Truncate(length) => panic!("nothing to remove at {length}"),
            }
        }
        assert_eq!(shown, "Looking. It is blue.");
    });
}
