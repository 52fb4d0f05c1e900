use std::sync::Mutex;

use futures_util::stream::poll_fn;
use helix_agents_core::agent::Agent;
use helix_agents_core::model::{EventStream, Model, ModelEvent, ModelRequest, TokenUsage};
use helix_agents_core::step::StopReason;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// A model that says what a test lets it say, in one reply.
#[derive(Debug)]
struct Spoken(Mutex<Option<UnboundedReceiver<ModelEvent>>>);

impl Model for Spoken {
    fn stream<'a>(&'a self, _: ModelRequest<'a>) -> EventStream<'a> {
        let mut said = self.0.lock().unwrap().take().unwrap();
        Box::pin(poll_fn(move |context| {
            said.poll_recv(context).map(|event| event.map(Ok))
        }))
    }

    fn name(&self) -> &str {
        "custom/spoken"
    }
}

/// Makes a model speak.
#[derive(Debug)]
pub(crate) struct Voice(UnboundedSender<ModelEvent>);

impl Voice {
    pub(crate) fn say(&self, text: &str) {
        self.0.send(ModelEvent::Text(text.to_owned())).unwrap();
    }

    /// Ends the reply.
    pub(crate) fn finish(self) {
        let finished = ModelEvent::Finished {
            stop_reason: StopReason::EndTurn,
            usage: TokenUsage::default(),
        };
        self.0.send(finished).unwrap();
    }
}

/// An agent, and the voice of its model.
pub(crate) fn speaker() -> (Agent<String>, Voice) {
    let (voice, said) = unbounded_channel();
    let model = Spoken(Mutex::new(Some(said)));
    let agent = Agent::builder("speaker").model(model).build().unwrap();
    (agent, Voice(voice))
}
