//! Options of all kinds of tools, and which of them exclude each other.

use std::time::Duration;

use helix_agents_core::tool::{OnUnknown, ToolBuilder};

use super::suggest::remedy;
use super::{At, ConfigError, Section};
use crate::tools::Above;

/// Where a tool runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Http,
    Client,
    Builtin,
}

/// Options of all kinds of tools.
#[derive(Debug)]
pub(super) struct ToolOptions {
    pub(super) require_approval: bool,
    pub(super) approval_when: Option<Above>,
    pub(super) deadline: Option<Duration>,
    pub(super) timeout: Option<Duration>,
    pub(super) idempotent: bool,
    pub(super) read_only: bool,
    pub(super) on_unknown: Option<OnUnknown>,
    pub(super) finish_with: bool,
}

impl ToolOptions {
    pub(super) fn read(section: &Section<'_>, kind: Kind) -> Result<Self, ConfigError> {
        let is = |key| Ok(section.flag(key)?.is_some_and(|flag| flag.value));
        let wait = |key| {
            let millis = section.count(key, 1)?;
            Ok(millis.map(|millis| Duration::from_millis(millis.value)))
        };
        let options = Self {
            require_approval: is("require_approval")?,
            approval_when: above(section)?,
            deadline: wait("deadline_ms")?,
            timeout: wait("timeout_ms")?,
            idempotent: is("idempotent")?,
            read_only: is("read_only")?,
            on_unknown: on_unknown(section)?,
            finish_with: is("finish_with")?,
        };
        options.refuse_clashes(section, kind)?;
        Ok(options)
    }

    fn asks(&self) -> bool {
        self.require_approval || self.approval_when.is_some()
    }

    fn refuse_clashes(&self, section: &Section<'_>, kind: Kind) -> Result<(), ConfigError> {
        let client = kind == Kind::Client;
        let approval = if self.require_approval {
            "require_approval"
        } else {
            "approval_when"
        };
        let client_is = "kind = \"client\"";
        let pauses = self.on_unknown == Some(OnUnknown::Pause);
        let clashes = [
            (
                self.require_approval && self.approval_when.is_some(),
                "require_approval",
                "approval_when",
                "keep `require_approval` to ask about every call, or `approval_when` to ask about some",
            ),
            (
                client && self.asks(),
                client_is,
                approval,
                "let the client ask its user before it answers",
            ),
            (
                client && self.finish_with,
                client_is,
                "finish_with",
                "a client's answer cannot end the turn; let the model end it",
            ),
            (
                client && pauses,
                client_is,
                "on_unknown",
                "a client's call stays open until it is answered; write `deadline_ms` to limit that",
            ),
            (
                self.asks() && self.finish_with,
                approval,
                "finish_with",
                "ask about the tool that has the effect, and finish with another one",
            ),
        ];
        for (clash, first, second, remedy) in clashes {
            if clash {
                let at = section.place(second).unwrap_or_else(|| section.at.clone());
                let first = if first == client_is {
                    first.to_owned()
                } else {
                    format!("`{first}`")
                };
                let message = format!(
                    "{first} and `{second}` in [{}] exclude each other; {remedy}",
                    section.name
                );
                return Err(section.error(&at, message));
            }
        }
        Ok(())
    }

    /// Applies the options to a tool builder. Timeouts are set where the tool is run; options
    /// without meaning for this kind of tool are left out.
    pub(super) fn apply(self, mut tool: ToolBuilder, kind: Kind) -> ToolBuilder {
        let client = kind == Kind::Client;
        let pauses = self.on_unknown == Some(OnUnknown::Pause);
        let may_ask = client || self.asks() || pauses;
        if self.require_approval {
            tool = tool.approval();
        }
        if let Some(above) = self.approval_when {
            tool = tool.approval_if(above);
        }
        if let Some(deadline) = self.deadline.filter(|_| may_ask) {
            tool = tool.deadline(deadline);
        }
        if self.idempotent && !client {
            tool = tool.idempotent();
        }
        if self.read_only {
            tool = tool.read_only();
        }
        if self.finish_with {
            tool = tool.finish_with();
        }
        match self.on_unknown {
            Some(choice) if !client => tool.on_unknown(choice),
            _ => tool,
        }
    }
}

/// Reads `approval_when = { pointer = "/cents", above = 10000 }`.
fn above(section: &Section<'_>) -> Result<Option<Above>, ConfigError> {
    let Some(rule) = section.section("approval_when")? else {
        return Ok(None);
    };
    let pointer = rule.required("pointer", "\"/cents\"")?;
    if !pointer.value.is_empty() && !pointer.value.starts_with('/') {
        let At { value, at } = pointer;
        let message = format!("`{value}` is not a JSON pointer; write it like \"/cents\"");
        return Err(rule.error(&at, message));
    }
    let Some(above) = rule.number("above")? else {
        return Err(rule.wrong("has no `above`; write `above = 10000`"));
    };
    rule.finish()?;
    Ok(Some(Above::new(pointer.value, above.value)))
}

fn on_unknown(section: &Section<'_>) -> Result<Option<OnUnknown>, ConfigError> {
    let Some(At { value, at }) = section.text("on_unknown")? else {
        return Ok(None);
    };
    match value.as_str() {
        "tell_model" => Ok(Some(OnUnknown::TellModel)),
        "pause" => Ok(Some(OnUnknown::Pause)),
        _ => {
            let remedy = remedy(&value, ["tell_model", "pause"]);
            Err(section.error(&at, format!("`on_unknown` cannot be `{value}`; {remedy}")))
        }
    }
}
