//! Shows a run while it goes on.

use std::io::{self, Write};

use helix_agents_core::stream::{Chunk, ChunkPayload};
use serde_json::Value;

use crate::screen::{Look, Screen, harmless, shortened};

/// Shows a run while it goes on: what the agent says on standard output, what it does on standard
/// error. Or everything as JSON, one chunk per line.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) screen: Screen,
    pub(crate) json: bool,
    /// Standard output stands in the middle of a line.
    mid_line: bool,
    /// Standard error stands in the middle of a line of reasoning.
    thinking: bool,
}

impl Live {
    pub(crate) fn new(screen: Screen, json: bool) -> Self {
        Self {
            screen,
            json,
            mid_line: false,
            thinking: false,
        }
    }

    /// Shows a chunk.
    pub(crate) fn chunk(&mut self, chunk: &Chunk) -> anyhow::Result<()> {
        if self.json {
            return Ok(self.screen.say(serde_json::to_string(chunk)?)?);
        }
        Ok(self.show(&chunk.payload)?)
    }

    fn show(&mut self, payload: &ChunkPayload) -> io::Result<()> {
        match payload {
            ChunkPayload::TextDelta { delta } => self.text(delta),
            ChunkPayload::Thinking { content, .. } if self.screen.err_is_terminal => {
                if std::mem::take(&mut self.mid_line) {
                    writeln!(io::stdout())?;
                }
                self.thinking = true;
                let text = self.screen.on_err(Look::Dim, content);
                write!(io::stderr(), "{text}")
            }
            ChunkPayload::ToolStart {
                tool_name,
                arguments,
                ..
            } => self.line(Look::Cyan, &format!("→ {tool_name} {arguments}")),
            ChunkPayload::ToolEnd {
                tool_name, result, ..
            } => self.line(Look::Green, &format!("← {tool_name} {}", plain(result))),
            ChunkPayload::ToolError {
                tool_name, error, ..
            }
            | ChunkPayload::ToolInputError {
                tool_name, error, ..
            }
            | ChunkPayload::ToolOutputError {
                tool_name, error, ..
            } => self.line(Look::Red, &format!("← {tool_name} failed: {error}")),
            ChunkPayload::ToolApprovalRequest {
                tool_name, input, ..
            } => self.line(
                Look::Yellow,
                &format!("? {tool_name} {input} needs an approval"),
            ),
            ChunkPayload::ToolApprovalResponse {
                approved, reason, ..
            } => {
                let verdict = if *approved { "approved" } else { "denied" };
                let reason = reason.as_deref().map(|why| format!(": {why}"));
                self.line(
                    Look::Yellow,
                    &format!("! {verdict}{}", reason.unwrap_or_default()),
                )
            }
            ChunkPayload::Output { output } => {
                self.end_line()?;
                let text = match self.screen.out_is_terminal {
                    true => serde_json::to_string_pretty(output)?,
                    false => output.to_string(),
                };
                self.screen.say(self.screen.on_out(Look::Plain, &text))
            }
            ChunkPayload::Error {
                error,
                recoverable: true,
                ..
            } => self.line(Look::Yellow, &format!("! {error} Trying again.")),
            ChunkPayload::StepDiscarded { reason } | ChunkPayload::StreamResync { reason } => self
                .line(
                    Look::Dim,
                    &format!("! what came last is thrown away: {reason}"),
                ),
            _ => Ok(()),
        }
    }

    fn text(&mut self, text: &str) -> io::Result<()> {
        if std::mem::take(&mut self.thinking) {
            writeln!(io::stderr())?;
        }
        if text.is_empty() {
            return Ok(());
        }
        self.mid_line = !text.ends_with('\n');
        let mut out = io::stdout();
        match self.screen.out_is_terminal {
            true => write!(out, "{}", harmless(text))?,
            false => write!(out, "{text}")?,
        }
        out.flush()
    }

    /// A line about what happens, cut to the width of a terminal.
    fn line(&mut self, look: Look, text: &str) -> io::Result<()> {
        // What the two show is one screen to a person; to a program they are apart.
        if self.screen.out_is_terminal || self.thinking {
            self.end_line()?;
        }
        let text = match self.screen.err_is_terminal {
            true => shortened(text, self.screen.width),
            false => text.to_owned(),
        };
        self.screen.note(look, text)
    }

    /// Ends the line that is begun.
    pub(crate) fn end_line(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.thinking) {
            writeln!(io::stderr())?;
        }
        if std::mem::take(&mut self.mid_line) {
            writeln!(io::stdout())?;
        }
        Ok(())
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
