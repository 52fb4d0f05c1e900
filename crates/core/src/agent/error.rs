//! Errors of building an agent or a tool.

use crate::error::{Coded, ErrorCode};
use crate::id::IdError;
use crate::schema::SchemaError;
use crate::state::StateError;
use crate::step::{FINISH_TOOL, SUBAGENT_TOOL_PREFIX};
use crate::tool::COMPANION_TOOL_PREFIX;

/// Why an agent or a tool cannot be built. Each says what to do about it.
///
/// ```
/// use helix_agents::prelude::*;
///
/// let refused = Agent::builder("").model("anthropic/claude-sonnet-4-5").build().unwrap_err();
/// println!("{refused}");
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DefinitionError {
    /// Two tools of an agent have one name.
    #[error("agent {agent} has two tools named {tool}; rename one of them")]
    DuplicateTool {
        /// The agent.
        agent: String,
        /// The name.
        tool: String,
    },
    /// Two options of a tool exclude each other.
    #[error("tool {tool}: `{first}` and `{second}` exclude each other; {remedy}")]
    ExclusiveOptions {
        /// The tool.
        tool: String,
        /// One option.
        first: &'static str,
        /// The other.
        second: &'static str,
        /// How to repair it.
        remedy: &'static str,
    },
    /// An option without effect on this tool.
    #[error("tool {tool}: `{option}` has no effect on {what}; {remedy}")]
    UselessOption {
        /// The tool.
        tool: String,
        /// The option.
        option: &'static str,
        /// The kind of tool or call on which the option has no effect.
        what: &'static str,
        /// How to repair it.
        remedy: &'static str,
    },
    /// A name that models and stores cannot take.
    #[error(
        "{what} cannot be named {name:?}; use 1 to 64 letters, digits, `_` or `-`, beginning with a letter"
    )]
    BadName {
        /// The kind of thing that was named: an agent or a tool.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A name that the framework uses itself.
    #[error(
        "a tool cannot be named {name:?}: names like `{reserved}` are the framework's own; choose another"
    )]
    ReservedName {
        /// The name.
        name: String,
        /// The framework's own name that it collides with.
        reserved: &'static str,
    },
    /// A schema cannot be used.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// The initial state cannot be a state.
    #[error("the initial state of agent {agent} cannot be used")]
    InitialState {
        /// The agent.
        agent: String,
        /// Why.
        #[source]
        source: StateError,
    },
    /// An agent needs a model.
    #[error("agent {agent} has no model; name one with `.model(\"provider/model\")`")]
    NoModel {
        /// The agent.
        agent: String,
    },
    /// A limit of zero.
    #[error("agent {agent}: `{limit}` is 0, so it could never answer; use at least 1")]
    ZeroLimit {
        /// The agent.
        agent: String,
        /// Which limit.
        limit: &'static str,
    },
    /// Two persistent agents have one name.
    #[error("agent {agent} has two persistent agents named {twice}; give each a name of its own")]
    DuplicateAgent {
        /// The agent that has them.
        agent: String,
        /// The name of both.
        twice: String,
    },
    /// An id is out of limits.
    #[error(transparent)]
    Id(#[from] IdError),
}

impl Coded for DefinitionError {
    fn code(&self) -> ErrorCode {
        ErrorCode::DefinitionInvalid
    }
}

const RESERVED: [&str; 4] = [
    FINISH_TOOL,
    SUBAGENT_TOOL_PREFIX,
    COMPANION_TOOL_PREFIX,
    "workspace_",
];

/// Providers agree on names of this form; so do we.
pub(super) fn check_name(what: &'static str, name: &str) -> Result<(), DefinitionError> {
    let letters = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if !begins || name.len() > 64 || !name.chars().all(letters) {
        return Err(DefinitionError::BadName {
            what,
            name: name.to_owned(),
        });
    }
    Ok(())
}

pub(crate) fn check_tool_name(name: &str) -> Result<(), DefinitionError> {
    if let Some(reserved) = RESERVED.into_iter().find(|prefix| name.starts_with(prefix)) {
        return Err(DefinitionError::ReservedName {
            name: name.to_owned(),
            reserved,
        });
    }
    check_name("a tool", name)
}

/// The name of the tool of a sub-agent, which has the prefix that other tools may not have.
pub(crate) fn check_sub_agent_name(name: &str) -> Result<(), DefinitionError> {
    check_name("the tool of a sub-agent", name)
}
