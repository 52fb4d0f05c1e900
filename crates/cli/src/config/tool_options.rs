//! Options of all kinds of tools, and which of them exclude each other.

use std::time::Duration;

use helix_agents_core::tool::{OnUnknown, ToolBuilder, exclusive_options};

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

    /// Refuses options that exclude each other, by the rules of [`ToolBuilder::build`], at their place
    /// and by their names in the file.
    fn refuse_clashes(&self, section: &Section<'_>, kind: Kind) -> Result<(), ConfigError> {
        let is_given = |option: &str| match option {
            "client" => kind == Kind::Client,
            "approval" => self.require_approval,
            "approval_if" => self.approval_when.is_some(),
            "finish_with" => self.finish_with,
            "on_unknown" => self.on_unknown == Some(OnUnknown::Pause),
            _ => false,
        };
        let Some(pair) = exclusive_options(is_given) else {
            return Ok(());
        };
        let key = |option| match option {
            "approval" if !self.require_approval => "approval_when",
            option => key_of(option),
        };
        let first = match key(pair.first) {
            "client" => "kind = \"client\"".to_owned(),
            key => format!("`{key}`"),
        };
        let second = key(pair.second);
        let remedy = in_words_of_the_file(pair.remedy);
        let at = section.place(second).unwrap_or_else(|| section.at.clone());
        let name = &section.name;
        let message = format!("{first} and `{second}` in [{name}] exclude each other; {remedy}");
        Err(section.error(&at, message))
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

/// The options whose keys in the file have other names.
const RENAMED: [(&str, &str); 3] = [
    ("approval", "require_approval"),
    ("approval_if", "approval_when"),
    ("deadline", "deadline_ms"),
];

fn key_of(option: &'static str) -> &'static str {
    let mut renamed = RENAMED.iter();
    let renamed = renamed.find_map(|(name, key)| (*name == option).then_some(*key));
    renamed.unwrap_or(option)
}

/// Replaces the names of options by those of their keys.
fn in_words_of_the_file(text: &str) -> String {
    let replace =
        |text: String, (option, key)| text.replace(&format!("`{option}`"), &format!("`{key}`"));
    RENAMED.into_iter().fold(text.to_owned(), replace)
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
