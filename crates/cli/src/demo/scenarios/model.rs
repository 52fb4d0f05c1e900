//! The model of the demo agent: it looks at the results of the turn and says what the table says.

use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use helix_agents_core::message::ToolMessage;
use helix_agents_core::model::{
    EventStream, Model, ModelError, ModelErrorKind, ModelEvent, ModelRequest, TokenUsage,
};
use helix_agents_core::step::StopReason;
use serde_json::{Value, json};

use super::scenario::{HELP, Scenario, Words};
use super::tools::{DELETE_FILE, EXPLODE, GET_WEATHER, PICK_COLOR, UPDATE_STATE, delete_call_id};
use super::turn::{Turn, outcome};

/// Its reply is a function of the transcript, so another process gives the same one.
#[derive(Debug, Clone, Copy)]
pub(super) struct ScenariosModel;

/// How long a failure waits. What a failed call has said is taken back; so long readers can see it.
const BEFORE_FAILURE: Duration = Duration::from_millis(200);

/// One reply.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Reply {
    Text(String),
    Reasoned(&'static str, &'static str),
    Words(Words),
    Calls(Vec<Call>),
    /// The call of the model fails after this text.
    Failure(&'static str),
}

/// One call of a reply.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Call {
    id: String,
    tool: &'static str,
    arguments: Value,
}

impl Model for ScenariosModel {
    fn name(&self) -> &str {
        "scripted/scenarios"
    }

    fn stream<'a>(&'a self, request: ModelRequest<'a>) -> EventStream<'a> {
        let reply = Reply::to(&Turn::new(&request));
        let input = u64::try_from(request.prompt.history().len()).unwrap_or(u64::MAX);
        let clock = request.clock;
        let apart = match &reply {
            Reply::Words(words) => words.apart,
            _ => Duration::ZERO,
        };
        let mut begun = false;
        let paced = reply.events(input).map(move |event| {
            let wait = match &event {
                Ok(ModelEvent::Text(_)) if begun => apart,
                Err(_) => BEFORE_FAILURE,
                _ => Duration::ZERO,
            };
            begun |= matches!(&event, Ok(ModelEvent::Text(_)));
            (wait, event)
        });
        Box::pin(stream::iter(paced).then(move |(wait, event)| async move {
            if !wait.is_zero() {
                clock.sleep_until(clock.now().saturating_add(wait)).await;
            }
            event
        }))
    }
}

impl Reply {
    /// The next reply of a turn.
    pub(super) fn to(turn: &Turn<'_>) -> Self {
        let call = |tool, arguments| Call::new(turn, 1, tool, arguments);
        let first = turn.steps == 0;
        match turn.scenario {
            Scenario::Text => Self::text("Echo: hello world"),
            Scenario::Count => Self::Text(format!("turn {}", turn.number)),
            Scenario::Reasoning => Self::Reasoned("Let me think about it.", "The answer is 42."),
            Scenario::ServerTool if first => {
                Self::Calls(vec![call(GET_WEATHER, json!({ "city": "Paris" }))])
            }
            Scenario::ServerTool => Self::weather(turn),
            Scenario::ToolError if first => Self::Calls(vec![call(EXPLODE, json!({}))]),
            Scenario::ToolError => match turn.outcome_of(EXPLODE) {
                Ok(_) => Self::text("The tool did not fail."),
                Err(_) => Self::text("The tool failed."),
            },
            Scenario::ClientTool { .. } if first => {
                Self::Calls(vec![call(PICK_COLOR, json!({ "prompt": "Pick a color" }))])
            }
            Scenario::ClientTool { then } => match (picked(turn), then) {
                (Ok(_), Some(words)) => Self::Words(words),
                (Ok(color), None) => Self::Text(format!("You picked {color}.")),
                (Err(failure), _) => Self::Text(failure),
            },
            Scenario::ClientToolTwo if first => Self::Calls(vec![
                call(PICK_COLOR, json!({ "prompt": "First" })),
                Call::new(turn, 2, PICK_COLOR, json!({ "prompt": "Second" })),
            ]),
            Scenario::ClientToolTwo => match picked(turn) {
                Ok(colors) => Self::Text(format!("You picked {colors}.")),
                Err(failure) => Self::Text(failure),
            },
            Scenario::Approval { takes } if first => {
                Self::Calls(vec![Call::delete_file(turn, 1, takes)])
            }
            Scenario::Approval { .. } => match turn.outcome_of(DELETE_FILE) {
                Ok(_) => Self::text("Deleted /tmp/x."),
                Err(reason) => Self::Text(format!("Not deleted: {reason}")),
            },
            Scenario::Mixed if first => Self::Calls(vec![
                call(PICK_COLOR, json!({ "prompt": "Pick a color" })),
                Call::delete_file(turn, 2, Duration::ZERO),
            ]),
            Scenario::Mixed => {
                let picked = match picked(turn) {
                    Ok(color) => format!("You picked {color}."),
                    Err(failure) => failure,
                };
                match turn.outcome_of(DELETE_FILE) {
                    Ok(_) => Self::Text(format!("{picked} Deleted /tmp/x.")),
                    Err(_) => Self::Text(format!("{picked} Not deleted.")),
                }
            }
            Scenario::StatePatch => match turn.steps {
                0 => Self::Calls(vec![call(
                    UPDATE_STATE,
                    json!({ "counter": 1, "item": "a" }),
                )]),
                1 => Self::Calls(vec![call(
                    UPDATE_STATE,
                    json!({ "counter": 2, "item": "b" }),
                )]),
                _ => Self::text("State updated."),
            },
            Scenario::Slow(words) => Self::Words(words),
            Scenario::Error => Self::Failure("Partial "),
            Scenario::Unknown => Self::text(HELP),
        }
    }

    fn text(text: &str) -> Self {
        Self::Text(text.to_owned())
    }

    fn weather(turn: &Turn<'_>) -> Self {
        match turn.outcome_of(GET_WEATHER) {
            Ok(weather) => {
                let degrees = weather.get("tempC").unwrap_or(&Value::Null);
                Self::Text(format!("It is {degrees} degrees in Paris."))
            }
            Err(_) => Self::text("The tool failed."),
        }
    }

    /// The events of the reply, without waits.
    pub(super) fn events(
        self,
        input: u64,
    ) -> Box<dyn Iterator<Item = Result<ModelEvent, ModelError>> + Send> {
        let finished = move |stop_reason, output| ModelEvent::Finished {
            stop_reason,
            usage: TokenUsage::new(input, output),
        };
        let ended = move |output| finished(StopReason::EndTurn, output);
        match self {
            Self::Text(text) => {
                let pieces = pieces(&text);
                let end = ended(size(&pieces));
                let events = pieces.into_iter().map(ModelEvent::Text);
                Box::new(events.chain([end]).map(Ok))
            }
            Self::Reasoned(reasoning, text) => {
                let (reasoning, text) = (pieces(reasoning), pieces(text));
                let end = ended(size(&reasoning) + size(&text));
                let thought = ModelEvent::ThinkingEnd {
                    signature: None,
                    redacted: None,
                    provider_metadata: None,
                };
                let reasoning = reasoning.into_iter().map(ModelEvent::Thinking);
                let text = text.into_iter().map(ModelEvent::Text);
                Box::new(reasoning.chain([thought]).chain(text).chain([end]).map(Ok))
            }
            Self::Words(Words { count, .. }) => {
                let words = (0..count).map(|word| match word {
                    0 => ModelEvent::Text("w0".to_owned()),
                    _ => ModelEvent::Text(format!(" w{word}")),
                });
                Box::new(words.chain([ended(count)]).map(Ok))
            }
            Self::Calls(calls) => {
                let end = finished(StopReason::ToolUse, size(&calls));
                let calls = (0..).zip(calls);
                let events = calls.flat_map(|(number, call)| call.events(number));
                Box::new(events.chain([end]).map(Ok))
            }
            Self::Failure(text) => {
                let error = ModelError::new(ModelErrorKind::Invalid, "scripted failure")
                    .with_user_message("The model failed: scripted failure.");
                Box::new([Ok(ModelEvent::Text(text.to_owned())), Err(error)].into_iter())
            }
        }
    }
}

impl Call {
    /// A call of this place in the reply. Its id is unlike those of other turns and steps.
    fn new(turn: &Turn<'_>, place: usize, tool: &'static str, arguments: Value) -> Self {
        let step = turn.steps + 1;
        Self {
            id: format!("{tool}-{}-{step}-{place}", turn.number),
            tool,
            arguments,
        }
    }

    fn delete_file(turn: &Turn<'_>, place: usize, takes: Duration) -> Self {
        let call = Self::new(turn, place, DELETE_FILE, json!({ "path": "/tmp/x" }));
        Self {
            id: delete_call_id(&call.id, takes),
            ..call
        }
    }

    /// The events of the call, its arguments in two pieces.
    fn events(self, call: usize) -> Vec<ModelEvent> {
        let arguments = self.arguments.to_string();
        let middle = arguments.find(':').map_or(1, |colon| colon + 1);
        let (beginning, rest) = arguments.split_at(middle);
        let delta = |text: &str| ModelEvent::CallArguments {
            call,
            delta: text.to_owned(),
        };
        vec![
            ModelEvent::CallStart {
                id: Some(self.id),
                name: self.tool.to_owned(),
            },
            delta(beginning),
            delta(rest),
            ModelEvent::CallEnd {
                call,
                provider_metadata: None,
            },
        ]
    }
}

/// The colors that the clients of this turn gave, joined, or a sentence about the first failure.
fn picked(turn: &Turn<'_>) -> Result<String, String> {
    let color = |result: &ToolMessage| {
        let output = outcome(result).map_err(|text| format!("The client tool failed: {text}"))?;
        Ok(match output.get("color").unwrap_or(&output) {
            Value::String(color) => color.clone(),
            other => other.to_string(),
        })
    };
    let colors: Result<Vec<String>, String> = turn.results_of(PICK_COLOR).map(color).collect();
    Ok(colors?.join(" and "))
}

/// A text in words, each with the space before it.
fn pieces(text: &str) -> Vec<String> {
    let mut words = text.split(' ');
    let first = words.next().into_iter().map(str::to_owned);
    first.chain(words.map(|word| format!(" {word}"))).collect()
}

fn size<T>(pieces: &[T]) -> u64 {
    u64::try_from(pieces.len()).unwrap_or(u64::MAX)
}
