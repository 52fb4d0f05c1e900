//! Shows a run while it is running.

use std::io::{self, ErrorKind, Write};
use std::sync::Arc;

use helix_agents_core::SessionId;
use helix_agents_core::stream::{Chunk, ChunkOrigin, ChunkPayload};
use serde_json::Value;

use crate::decision::decision;
use crate::screen::{Look, Screen, harmless, shortened};

/// Shows a run while it is running: the agent's text on standard output, its actions on standard
/// error. Or everything as JSON, one chunk per line. If an output is closed, nothing is written to
/// it, and that is not an error.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) screen: Screen,
    pub(crate) json: bool,
    /// Whether standard output is in the middle of a line.
    mid_line: bool,
    /// Whether standard error is in the middle of a line of reasoning.
    thinking: bool,
    /// Whether the text so far ends with a possible half of a line break, which is not shown yet.
    half_break: bool,
    /// The step whose text was shown last, until it is committed or discarded.
    step: Option<Arc<ChunkOrigin>>,
    /// The session that is shown; others are those of its sub-agents.
    pub(crate) session: Option<SessionId>,
    out: Reader,
    err: Reader,
}

/// Whether an output is open.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Reader {
    #[default]
    There,
    Gone,
}

impl Reader {
    /// Writes to an output unless it is closed. That it was closed is not an error.
    fn write(&mut self, write: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        if *self == Self::Gone {
            return Ok(());
        }
        match write() {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                *self = Self::Gone;
                Ok(())
            }
            written => written,
        }
    }
}

impl Live {
    pub(crate) fn new(screen: Screen, json: bool) -> Self {
        Self {
            screen,
            json,
            mid_line: false,
            thinking: false,
            half_break: false,
            step: None,
            session: None,
            out: Reader::There,
            err: Reader::There,
        }
    }

    /// Shows a chunk: as a line of JSON with `--json`, as text otherwise.
    pub(crate) fn chunk(&mut self, chunk: &Chunk) -> anyhow::Result<()> {
        if self.json {
            let text = serde_json::to_string(chunk)?;
            return Ok(self.print_line(&text)?);
        }
        let is_own = |session: &SessionId| *session == chunk.base.session_id;
        if self.session.as_ref().is_none_or(is_own) {
            return Ok(self.show(chunk, "")?);
        }
        // What a sub-agent says is a result, and not what was asked for.
        if !is_of_a_call(&chunk.payload) {
            return Ok(());
        }
        let agent = format!("{}: ", chunk.base.agent_type);
        Ok(self.show(chunk, &agent)?)
    }

    /// Ends the current line.
    pub(crate) fn end_line(&mut self) -> io::Result<()> {
        self.half_break = false;
        if std::mem::take(&mut self.thinking) {
            self.hint("\n")?;
        }
        if std::mem::take(&mut self.mid_line) {
            self.print("\n")?;
        }
        Ok(())
    }

    /// Writes a line about the run as a whole.
    pub(crate) fn note(&mut self, look: Look, text: impl AsRef<str>) -> io::Result<()> {
        let screen = self.screen;
        self.err.write(|| screen.note(look, text))
    }

    /// Writes a line to standard output.
    fn print_line(&mut self, text: &str) -> io::Result<()> {
        let screen = self.screen;
        self.out.write(|| screen.print_line(text))
    }

    /// Writes a part of a line to standard output.
    fn print(&mut self, text: &str) -> io::Result<()> {
        self.out.write(|| {
            let mut out = io::stdout();
            write!(out, "{text}")?;
            out.flush()
        })
    }

    /// Writes a part of a line to standard error.
    fn hint(&mut self, text: &str) -> io::Result<()> {
        self.err.write(|| write!(io::stderr(), "{text}"))
    }

    fn show(&mut self, chunk: &Chunk, by: &str) -> io::Result<()> {
        match &chunk.payload {
            ChunkPayload::TextDelta { delta } => self.text(&chunk.base, delta),
            ChunkPayload::Thinking { content, .. } if self.screen.err_is_terminal => {
                if std::mem::take(&mut self.mid_line) {
                    self.print("\n")?;
                }
                self.thinking = true;
                self.step = Some(Arc::clone(&chunk.base));
                let text = self.screen.spoken_on_err(Look::Dim, content);
                self.hint(&text)
            }
            ChunkPayload::ToolStart {
                tool_name,
                arguments,
                ..
            } => self.line(Look::Cyan, &format!("{by}→ {tool_name} {arguments}")),
            ChunkPayload::ToolEnd {
                tool_name, result, ..
            } => self.line(Look::Green, &format!("{by}← {tool_name} {}", plain(result))),
            ChunkPayload::ToolError {
                tool_name, error, ..
            }
            | ChunkPayload::ToolInputError {
                tool_name, error, ..
            }
            | ChunkPayload::ToolOutputError {
                tool_name, error, ..
            } => self.line(Look::Red, &format!("{by}← {tool_name} failed: {error}")),
            ChunkPayload::ToolApprovalRequest {
                tool_name, input, ..
            } => self.line(
                Look::Yellow,
                &format!("{by}? {tool_name} {input} needs an approval"),
            ),
            ChunkPayload::ToolApprovalResponse {
                approved,
                reason,
                decided_by,
                ..
            } => {
                let verdict = decision(*approved, reason.as_deref(), decided_by.as_ref());
                self.line(Look::Yellow, &format!("{by}! {verdict}"))
            }
            ChunkPayload::Output { output } => {
                self.end_line()?;
                let text = match self.screen.out_is_terminal {
                    true => serde_json::to_string_pretty(output)?,
                    false => output.to_string(),
                };
                self.print_line(&self.screen.on_out(Look::Plain, &text))
            }
            ChunkPayload::Error {
                error,
                recoverable: true,
                ..
            } => self.line(Look::Yellow, &format!("! {error} Trying again.")),
            ChunkPayload::StepCommitted { .. } => {
                self.step = None;
                Ok(())
            }
            ChunkPayload::StepDiscarded { reason } | ChunkPayload::StreamResync { reason } => {
                self.discarded(reason)
            }
            _ => Ok(()),
        }
    }

    fn text(&mut self, step: &Arc<ChunkOrigin>, text: &str) -> io::Result<()> {
        let is_same = |shown: &Arc<ChunkOrigin>| shown.is_same_step(step);
        if !self.step.as_ref().is_some_and(is_same) {
            // The texts of two steps are separated by a line break.
            self.end_line()?;
            self.step = Some(Arc::clone(step));
        }
        if std::mem::take(&mut self.thinking) {
            self.hint("\n")?;
        }
        if text.is_empty() {
            return Ok(());
        }
        if !self.screen.out_is_terminal {
            self.mid_line = !text.ends_with('\n');
            return self.print(text);
        }
        let mut whole = String::new();
        if std::mem::take(&mut self.half_break) {
            whole.push('\r');
        }
        whole.push_str(text);
        if whole.ends_with('\r') {
            whole.pop();
            self.half_break = true;
        }
        if !whole.is_empty() {
            self.mid_line = !whole.ends_with('\n');
        }
        self.print(&harmless(&whole))
    }

    /// Reports that the text of a step was discarded, if any of it was shown.
    fn discarded(&mut self, reason: &str) -> io::Result<()> {
        if self.step.take().is_none() {
            return Ok(());
        }
        self.end_line()?;
        let text = format!("! the last output was discarded: {reason}");
        self.line(Look::Dim, &text)
    }

    /// Writes a line about an action, cut to the width of a terminal.
    fn line(&mut self, look: Look, text: &str) -> io::Result<()> {
        // On a terminal both outputs share one screen; for a program they are separate.
        if self.screen.out_is_terminal || self.thinking {
            self.end_line()?;
        }
        let text = match self.screen.err_is_terminal {
            true => shortened(text, self.screen.width),
            false => text.to_owned(),
        };
        self.note(look, text)
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Whether a chunk tells of a call.
fn is_of_a_call(payload: &ChunkPayload) -> bool {
    matches!(
        payload,
        ChunkPayload::ToolStart { .. }
            | ChunkPayload::ToolEnd { .. }
            | ChunkPayload::ToolError { .. }
            | ChunkPayload::ToolInputError { .. }
            | ChunkPayload::ToolOutputError { .. }
            | ChunkPayload::ToolApprovalRequest { .. }
            | ChunkPayload::ToolApprovalResponse { .. }
    )
}
