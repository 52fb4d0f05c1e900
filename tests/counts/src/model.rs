//! A model that allocates next to nothing itself.

use futures_util::stream;
use helix_agents_core::model::{EventStream, Model, ModelEvent, ModelRequest, TokenUsage};
use helix_agents_core::step::StopReason;

/// Calls the tool `add` so many times in each turn, and then answers with so many pieces of text.
#[derive(Debug)]
pub(crate) struct Fixed {
    steps: usize,
    pieces: usize,
}

impl Fixed {
    pub(crate) fn new(steps: usize, pieces: usize) -> Self {
        Self { steps, pieces }
    }
}

impl Model for Fixed {
    fn name(&self) -> &'static str {
        "fixed/model"
    }

    fn stream<'a>(&'a self, request: ModelRequest<'a>) -> EventStream<'a> {
        let asked = request.prompt.history().assistant_messages_since_user();
        let calls = asked < self.steps;
        let events = move |n: usize| {
            let event = match (calls, n) {
                (true, 0) => ModelEvent::CallStart {
                    id: Some(format!("call-{asked}")),
                    name: "add".to_owned(),
                },
                (true, 1) => ModelEvent::CallArguments {
                    call: 0,
                    delta: r#"{"a":1,"b":2}"#.to_owned(),
                },
                (true, 2) => ModelEvent::CallEnd {
                    call: 0,
                    provider_metadata: None,
                },
                (false, n) if n < self.pieces => ModelEvent::Text("piece ".to_owned()),
                (true, 3) | (false, _) => ModelEvent::Finished {
                    stop_reason: StopReason::EndTurn,
                    usage: TokenUsage::default(),
                },
                (true, _) => return None,
            };
            Some(Ok(event))
        };
        let count = if calls { 4 } else { self.pieces + 1 };
        Box::pin(stream::iter((0..count).filter_map(events)))
    }
}
