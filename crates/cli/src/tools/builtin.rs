//! The tools that are built into the program.

use std::time::Duration;

use helix_agents_core::Tool;
use helix_agents_core::time::Clock as _;
use helix_agents_core::tool::{ToolBuilder, ToolError};
use helix_agents_runtime_local::SystemClock;
use serde_json::{Value, json};

use super::allowed::Allowed;
use super::fetch::Fetch;
use super::{calculator, notes};
use crate::date;

/// A tool that `helix` brings along, named in `helix.toml` by `builtin`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Builtin {
    /// Returns the current time.
    Clock,
    /// Evaluates an arithmetic expression.
    Calculator,
    /// Keeps notes in the session's state.
    Notes,
    /// Reads a web page.
    Fetch,
}

impl Builtin {
    /// The names of all builtin tools.
    pub const NAMES: [&'static str; 4] = ["clock", "calculator", "notes", "fetch"];

    /// Returns the builtin tool of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "clock" => Self::Clock,
            "calculator" => Self::Calculator,
            "notes" => Self::Notes,
            "fetch" | "http_fetch" => Self::Fetch,
            _ => return None,
        })
    }

    /// The default description for the model.
    #[must_use]
    pub fn description(self) -> &'static str {
        match self {
            Self::Clock => "Returns the current date and time, in UTC.",
            Self::Calculator => {
                "Evaluates an arithmetic expression: + - * / % ^, parentheses, sqrt, abs, round, \
                 floor, ceil, min, max, pi, e."
            }
            Self::Notes => {
                "Keeps notes for this conversation: `add` one with a text, `list` them, `remove` \
                 one by its number, from 1."
            }
            Self::Fetch => "Reads a web page or another document by its http or https address.",
        }
    }

    /// Builds the tool under a given name. `allow` and `timeout` are for [`Builtin::Fetch`].
    pub fn tool(
        self,
        name: &str,
        description: impl Into<String>,
        allow: Allowed,
        timeout: Option<Duration>,
    ) -> ToolBuilder {
        match self {
            Self::Clock => Tool::raw(name, description, no_arguments(), async |_: Value, _| {
                let now = SystemClock::new().now();
                Ok(json!({ "utc": date::utc(now), "unixMs": now.as_millis() }))
            })
            .read_only(),
            Self::Calculator => {
                let schema = one_text("expression", "The expression, like `(2 + 3) * 4`.");
                Tool::raw(name, description, schema, async |input: Value, _| {
                    let expression = text_of(&input, "expression");
                    let value = calculator::evaluate(&expression);
                    value
                        .map(calculator::to_json)
                        .map_err(|error| ToolError::tell_model(error.to_string()))
                })
                .read_only()
            }
            Self::Notes => Tool::raw(name, description, notes::schema(), notes::run),
            Self::Fetch => {
                let schema = one_text("url", "The address, with http:// or https://.");
                Tool::raw(name, description, schema, Fetch::new(allow, timeout)).read_only()
            }
        }
    }
}

pub(super) fn text_of(input: &Value, key: &str) -> String {
    let text = input.get(key).and_then(Value::as_str);
    text.unwrap_or_default().to_owned()
}

fn no_arguments() -> Value {
    json!({ "type": "object", "properties": {}, "additionalProperties": false })
}

fn one_text(key: &str, description: &str) -> Value {
    json!({
        "type": "object",
        "required": [key],
        "properties": { key: { "type": "string", "description": description } },
        "additionalProperties": false,
    })
}
