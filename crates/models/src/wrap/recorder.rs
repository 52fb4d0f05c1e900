//! Cassettes for users' tests: replies of a real model, recorded once and played again.

use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::{StreamExt, stream};
use helix_agents_core::message::{AssistantPart, Message};
use helix_agents_core::model::{
    EventStream, Model, ModelError, ModelErrorKind, ModelEvent, ModelLimits, ModelRequest,
    TokenUsage, ToolChoice,
};
use helix_agents_core::step::StopReason;
use helix_agents_core::{Coded, Error, ErrorCode};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Why a cassette cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecorderError {
    /// The file cannot be read or written.
    #[error("the cassette {} cannot be used; check its folder and its permissions", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// A line of the file is not a recorded call.
    #[error("line {line} of the cassette {} cannot be read; record it again", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// The error of the JSON parser.
        source: serde_json::Error,
    },
}

impl Coded for RecorderError {
    fn code(&self) -> ErrorCode {
        ErrorCode::DefinitionInvalid
    }
}

impl From<RecorderError> for Error {
    fn from(error: RecorderError) -> Self {
        Self::new(error)
    }
}

/// A model that plays the replies of a cassette. Requests that the cassette does not have go to the recorded
/// model, if there is one, and their replies are added to the file.
///
/// A request is known by its conversation, its system prompt, its tools and its tool choice; neither ids nor
/// settings count. So a test without a key or a network gets the replies that a real model once gave. A
/// cassette holds what was said: do not record what must not be in a repository.
///
/// ```no_run
/// use helix_agents_models::{Recorder, Script, ScriptedModel};
///
/// # fn real_model() -> ScriptedModel { ScriptedModel::new(Script::parse("{}").unwrap()) }
/// let model = Recorder::new("tests/refund.jsonl", real_model())?;   // records what is missing
/// let model = Recorder::replay("tests/refund.jsonl")?;              // never calls a model
/// # Ok::<(), helix_agents_models::RecorderError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Recorder {
    path: PathBuf,
    facts: Facts,
    model: Option<Arc<dyn Model>>,
    calls: Arc<Mutex<Calls>>,
}

/// The first line of a cassette: what requests depend on.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Facts {
    model: String,
    native_output: bool,
    #[serde(default)]
    limits: ModelLimits,
}

/// Any other line of a cassette.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    request: String,
    /// The last thing that was said before, so that a person finds the call.
    after: String,
    events: Vec<Recorded>,
}

/// An event as it is recorded.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Recorded {
    Text(String),
    TextEnd(Option<Value>),
    Thinking(String),
    ThinkingEnd(Option<String>, Option<String>, Option<Value>),
    CallStart(Option<String>, String),
    CallArguments(usize, String),
    CallEnd(usize, Option<Value>),
    Usage(TokenUsage),
    Finished(StopReason, TokenUsage),
}

impl Recorded {
    fn of(event: &ModelEvent) -> Option<Self> {
        Some(match event.clone() {
            ModelEvent::Text(text) => Self::Text(text),
            ModelEvent::TextEnd { provider_metadata } => Self::TextEnd(provider_metadata),
            ModelEvent::Thinking(text) => Self::Thinking(text),
            ModelEvent::ThinkingEnd {
                signature,
                redacted,
                provider_metadata,
            } => Self::ThinkingEnd(signature, redacted, provider_metadata),
            ModelEvent::CallStart { id, name } => Self::CallStart(id, name),
            ModelEvent::CallArguments { call, delta } => Self::CallArguments(call, delta),
            ModelEvent::CallEnd {
                call,
                provider_metadata,
            } => Self::CallEnd(call, provider_metadata),
            ModelEvent::Usage(usage) => Self::Usage(usage),
            ModelEvent::Finished { stop_reason, usage } => Self::Finished(stop_reason, usage),
            _ => return None,
        })
    }

    fn played(self) -> ModelEvent {
        match self {
            Self::Text(text) => ModelEvent::Text(text),
            Self::TextEnd(provider_metadata) => ModelEvent::TextEnd { provider_metadata },
            Self::Thinking(text) => ModelEvent::Thinking(text),
            Self::ThinkingEnd(signature, redacted, provider_metadata) => ModelEvent::ThinkingEnd {
                signature,
                redacted,
                provider_metadata,
            },
            Self::CallStart(id, name) => ModelEvent::CallStart { id, name },
            Self::CallArguments(call, delta) => ModelEvent::CallArguments { call, delta },
            Self::CallEnd(call, provider_metadata) => ModelEvent::CallEnd {
                call,
                provider_metadata,
            },
            Self::Usage(usage) => ModelEvent::Usage(usage),
            Self::Finished(stop_reason, usage) => ModelEvent::Finished { stop_reason, usage },
        }
    }
}

impl Recorder {
    /// Plays a cassette, and records the calls of this model that it does not have.
    ///
    /// # Errors
    /// [`RecorderError`] if the file is there and cannot be read.
    pub fn new(
        path: impl Into<PathBuf>,
        model: impl Model + 'static,
    ) -> Result<Self, RecorderError> {
        let path = path.into();
        let (_, calls) = read(&path, true)?;
        Ok(Self {
            path,
            facts: Facts {
                model: model.name().to_owned(),
                native_output: model.supports_native_output(),
                limits: model.limits(),
            },
            model: Some(Arc::new(model)),
            calls: Arc::new(Mutex::new(calls)),
        })
    }

    /// Plays a cassette. A request that it does not have fails.
    ///
    /// # Errors
    /// [`RecorderError`] if the file cannot be read.
    pub fn replay(path: impl Into<PathBuf>) -> Result<Self, RecorderError> {
        let path = path.into();
        let (facts, calls) = read(&path, false)?;
        Ok(Self {
            path,
            facts,
            model: None,
            calls: Arc::new(Mutex::new(calls)),
        })
    }

    fn known(&self, request: &str) -> Option<Vec<Recorded>> {
        let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.get(request).cloned()
    }

    /// Adds a call to the file. A reply that failed is not recorded.
    fn keep(&self, line: Line) -> Result<(), ModelError> {
        let failed = |error: &dyn std::fmt::Display| {
            let detail = format!(
                "the cassette {} cannot be written: {error}",
                self.path.display()
            );
            ModelError::new(ModelErrorKind::Invalid, detail)
        };
        let json = |value: serde_json::Result<String>| value.map_err(|error| failed(&error));
        let mut text = json(serde_json::to_string(&line))?;
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(folder) = self.path.parent() {
            std::fs::create_dir_all(folder).map_err(|error| failed(&error))?;
        }
        if !self.path.exists() {
            text = format!("{}\n{text}", json(serde_json::to_string(&self.facts))?);
        }
        let file = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.path);
        let written = file.and_then(|mut file| file.write_all(format!("{text}\n").as_bytes()));
        written.map_err(|error| failed(&error))?;
        calls.insert(line.request, line.events);
        Ok(())
    }
}

type Calls = HashMap<String, Vec<Recorded>>;

fn read(path: &Path, may_lack: bool) -> Result<(Facts, Calls), RecorderError> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if may_lack && error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(source) => {
            return Err(RecorderError::Io {
                path: path.to_owned(),
                source,
            });
        }
    };
    let broken = |line: usize| {
        move |source| RecorderError::Line {
            path: path.to_owned(),
            line,
            source,
        }
    };
    let mut lines = text.lines();
    let facts = match lines.next() {
        Some(first) => serde_json::from_str(first).map_err(broken(1))?,
        None => Facts::default(),
    };
    let mut calls = Calls::new();
    for (at, line) in lines.enumerate() {
        let line: Line = serde_json::from_str(line).map_err(broken(at + 2))?;
        calls.insert(line.request, line.events);
    }
    Ok((facts, calls))
}

/// Returns what a request is known by, and the last thing that was said before it.
fn known_by(request: &ModelRequest<'_>) -> (String, String) {
    let mut sum = Sum::default();
    sum.add(request.prompt.system());
    let mut last = String::new();
    for message in request.prompt.history().iter() {
        match message {
            Message::User(user) => {
                sum.add("user").add(&user.content);
                for file in &user.files {
                    sum.add(&file.media_type).add(&file.data);
                }
                last.clone_from(&user.content);
            }
            Message::Assistant(reply) => {
                sum.add("assistant");
                for part in reply.parts.iter() {
                    match part {
                        AssistantPart::Text { text, .. } => sum.add(text),
                        AssistantPart::ToolCall(call) => {
                            sum.add(&call.name).add(call.arguments.text())
                        }
                        _ => &mut sum,
                    };
                }
            }
            Message::Tool(result) => {
                sum.add("tool").add(&result.tool_name).add(&result.content);
                last = result.content.to_string();
            }
            _ => {}
        }
    }
    for tool in request.tools {
        sum.add("schema")
            .add(&tool.name)
            .add(&tool.description)
            .add(tool.input.text());
    }
    match &request.tool_choice {
        ToolChoice::Tool(name) => sum.add("call").add(name),
        ToolChoice::Required => sum.add("required"),
        ToolChoice::None => sum.add("none"),
        _ => &mut sum,
    };
    if let Some(schema) = request.native_output {
        sum.add("output").add(schema.text());
    }
    (sum.hex(), last.chars().take(60).collect())
}

/// A checksum of texts (FNV-1a, twice with different beginnings). Cassettes are files of one's own tests,
/// so nobody forges them.
struct Sum([u64; 2]);

impl Default for Sum {
    fn default() -> Self {
        Self([0xcbf2_9ce4_8422_2325, 0x6c62_272e_07bb_0142])
    }
}

impl Sum {
    fn add(&mut self, text: &str) -> &mut Self {
        for byte in text.bytes().chain([0xff]) {
            for sum in &mut self.0 {
                *sum = (*sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
            }
        }
        self
    }

    fn hex(&self) -> String {
        self.0.iter().map(|sum| format!("{sum:016x}")).collect()
    }
}

impl Model for Recorder {
    fn stream<'a>(&'a self, request: ModelRequest<'a>) -> EventStream<'a> {
        let (digest, after) = known_by(&request);
        if let Some(events) = self.known(&digest) {
            let events = events.into_iter().map(Recorded::played);
            return Box::pin(stream::iter(events.map(Ok)));
        }
        let Some(model) = &self.model else {
            let detail = format!(
                "the cassette {} has no reply to this request, which follows {after:?}; record it with \
                 `Recorder::new`",
                self.path.display()
            );
            let error = ModelError::new(ModelErrorKind::Invalid, detail);
            return Box::pin(stream::iter([Err(error)]));
        };
        let mut line = Some(Line {
            request: digest,
            after,
            events: Vec::new(),
        });
        let events = model.stream(request).map(move |event| {
            let event = event?;
            if let (Some(recorded), Some(line)) = (Recorded::of(&event), &mut line) {
                line.events.push(recorded);
            }
            if let ModelEvent::Finished { .. } = event
                && let Some(line) = line.take()
            {
                self.keep(line)?;
            }
            Ok(event)
        });
        Box::pin(events)
    }

    fn name(&self) -> &str {
        &self.facts.model
    }

    fn supports_native_output(&self) -> bool {
        self.facts.native_output
    }

    fn limits(&self) -> ModelLimits {
        self.facts.limits
    }

    fn cost(&self, tokens: &TokenUsage) -> Option<u64> {
        self.model.as_ref()?.cost(tokens)
    }
}
