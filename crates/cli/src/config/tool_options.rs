//! Options of all kinds of tools, and which of them exclude each other.

use std::time::Duration;

use helix_agents_core::tool::{self, ApprovalMode, OnUnknown, ToolBuilder, exclusive_options};

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
    pub(super) plain: tool::ToolOptions,
    pub(super) approval_when: Option<Above>,
}

impl ToolOptions {
    pub(super) fn read(section: &Section<'_>, kind: Kind) -> Result<Self, ConfigError> {
        let is = |key| Ok(section.flag(key)?.is_some_and(|flag| flag.value));
        let wait = |key| {
            let millis = section.count(key, 1)?;
            Ok(millis.map(|millis| Duration::from_millis(millis.value)))
        };
        let mut plain = tool::ToolOptions::default();
        if is("require_approval")? {
            plain.approval = ApprovalMode::Always;
        }
        let approval_when = above(section)?;
        plain.deadline = wait("deadline_ms")?;
        plain.timeout = wait("timeout_ms")?;
        plain.idempotent = is("idempotent")?;
        plain.read_only = is("read_only")?;
        plain.on_unknown = on_unknown(section)?;
        plain.finish_with = is("finish_with")?;
        let options = Self {
            plain,
            approval_when,
        };
        options.refuse_clashes(section, kind)?;
        Ok(options)
    }

    fn asks_always(&self) -> bool {
        self.plain.approval == ApprovalMode::Always
    }

    fn pauses(&self) -> bool {
        self.plain.on_unknown == Some(OnUnknown::Pause)
    }

    /// Refuses options that exclude each other, by the rules of [`ToolBuilder::build`], at their place
    /// and by their names in the file.
    fn refuse_clashes(&self, section: &Section<'_>, kind: Kind) -> Result<(), ConfigError> {
        let is_given = |option: &str| match option {
            "client" => kind == Kind::Client,
            "approval" => self.asks_always(),
            "approval_if" => self.approval_when.is_some(),
            "finish_with" => self.plain.finish_with,
            "on_unknown" => self.pauses(),
            _ => false,
        };
        let Some(pair) = exclusive_options(is_given) else {
            return Ok(());
        };
        let key = |option| match option {
            "approval" if !self.asks_always() => "approval_when",
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
    pub(super) fn apply(self, tool: ToolBuilder, kind: Kind) -> ToolBuilder {
        let is_client = kind == Kind::Client;
        let asks = is_client || self.asks_always() || self.approval_when.is_some() || self.pauses();
        let mut plain = self.plain;
        plain.timeout = None;
        plain.deadline = plain.deadline.filter(|_| asks);
        plain.idempotent &= !is_client;
        plain.on_unknown = plain.on_unknown.filter(|_| !is_client);
        let tool = tool.options(&plain);
        match self.approval_when {
            Some(above) => tool.approval_if(above),
            None => tool,
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
