//! A model that replies from a script.

use std::iter::once;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use helix_agents_core::model::{EventStream, Model, ModelError, ModelEvent, ModelRequest};
use helix_agents_core::time::Clock;

use crate::events;
use crate::script::Script;
use crate::turn::Turn;

/// A model that replies from a [`Script`].
///
/// A reply is a function of the transcript, the state and the attempt number. The model keeps no
/// state, so any number of sessions can share one, and another process gives the same replies. Tool
/// choice and model settings are ignored.
///
/// ```
/// use helix_agents_core::Agent;
/// use helix_agents_models::{Script, ScriptedModel};
///
/// let script = Script::parse(r#"{ "default": [ { "text": "Hello, {{last_user}}." } ] }"#)?;
/// let greeter = Agent::builder("greeter").model(ScriptedModel::new(script)).build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct ScriptedModel {
    name: String,
    script: Script,
}

impl ScriptedModel {
    /// Creates a model named `scripted` that replies from this script.
    #[must_use]
    pub fn new(script: Script) -> Self {
        Self {
            name: "scripted".to_owned(),
            script,
        }
    }

    /// Sets the model's name to `scripted/NAME`, to distinguish several scripts.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.name = format!("scripted/{name}");
        self
    }
}

impl Model for ScriptedModel {
    fn name(&self) -> &str {
        &self.name
    }

    fn stream<'a>(&'a self, request: ModelRequest<'a>) -> EventStream<'a> {
        let turn = Turn::new(&self.script, &request);
        let step = turn.step();
        let events = events::all_events(step, turn);
        match step.failure(request.attempt) {
            None => paced(events.map(Ok), step.delay(), request.clock),
            Some((after_chars, error)) => {
                let beginning = events::events_before_failure(events, after_chars);
                let failing = beginning.map(Ok).chain(once(Err(error)));
                paced(failing, step.delay(), request.clock)
            }
        }
    }

    fn supports_native_output(&self) -> bool {
        false
    }
}

/// Turns the events into a stream that waits `delay` between two deltas.
fn paced<'a>(
    events: impl Iterator<Item = Result<ModelEvent, ModelError>> + Send + 'a,
    delay: Duration,
    clock: &'a dyn Clock,
) -> EventStream<'a> {
    if delay.is_zero() {
        return Box::pin(stream::iter(events));
    }
    let mut begun = false;
    let events = events.map(move |event| {
        let delta = event.as_ref().is_ok_and(is_delta);
        let wait = delta && begun;
        begun |= delta;
        (wait, event)
    });
    Box::pin(stream::iter(events).then(move |(wait, event)| async move {
        if wait {
            clock.sleep_until(clock.now().saturating_add(delay)).await;
        }
        event
    }))
}

fn is_delta(event: &ModelEvent) -> bool {
    matches!(
        event,
        ModelEvent::Text(_) | ModelEvent::Thinking(_) | ModelEvent::CallArguments { .. }
    )
}
