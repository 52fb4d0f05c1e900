//! The description of a tool as data, without its code.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::schema::Schema;

/// Everything about a tool but its code.
///
/// ```
/// use helix_agents::prelude::*;
///
/// let tool = Tool::raw("now", "Tells the time.", json!({ "type": "object" }), async |_arguments, _cx| Ok(json!("noon")))
///     .read_only()
///     .build()?;
/// assert!(tool.spec().options.read_only);
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ToolSpec {
    /// Unique in its agent.
    pub name: String,
    /// The description that the model reads.
    pub description: String,
    /// The schema of its arguments.
    pub input: Schema,
    /// The schema of its result, where that is known.
    pub output: Option<Schema>,
    /// Who runs it.
    pub executed_by: ExecutedBy,
    /// Whether there is code that finds out whether a call took effect.
    pub has_reconcile: bool,
    /// The options of the tool.
    pub options: ToolOptions,
}

/// The options of a tool that are plain data.
///
/// Each is a method of [`ToolBuilder`](super::ToolBuilder), an option of `#[tool(..)]`, and a key of
/// `[tools.NAME]` in `helix.toml`, except where it has no meaning there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolOptions {
    /// Whether a person must agree before a call is run.
    pub approval: ApprovalMode,
    /// Whether the result ends the turn and is its output.
    pub finish_with: bool,
    /// Whether running a call twice under one idempotency key takes effect once.
    pub idempotent: bool,
    /// Whether the tool changes nothing.
    pub read_only: bool,
    /// How long a person or a client may take to answer. Without it there is no limit.
    pub deadline: Option<Duration>,
    /// How long a call itself may take. Without it there is no limit.
    pub timeout: Option<Duration>,
    /// How a call is handled that may have taken effect. Without it the model is told.
    pub on_unknown: Option<OnUnknown>,
    /// Whether the provider is asked to hold the model to the schema while it writes.
    pub strict: bool,
}

impl ToolOptions {
    /// Adds the options that are set in another set.
    pub(super) fn add(&mut self, more: &Self) {
        let Self {
            approval,
            finish_with,
            idempotent,
            read_only,
            deadline,
            timeout,
            on_unknown,
            strict,
        } = *more;
        if approval != ApprovalMode::Never {
            self.approval = approval;
        }
        self.finish_with |= finish_with;
        self.idempotent |= idempotent;
        self.read_only |= read_only;
        self.deadline = deadline.or(self.deadline);
        self.timeout = timeout.or(self.timeout);
        self.on_unknown = on_unknown.or(self.on_unknown);
        self.strict |= strict;
    }

    /// Whether a call may be run again when nobody knows whether it took effect.
    #[must_use]
    pub fn is_repeatable(&self) -> bool {
        self.idempotent || self.read_only
    }
}

/// Who runs a tool.
///
/// ```
/// use helix_agents::prelude::*;
/// use helix_agents::ExecutedBy;
///
/// let pick = Tool::client_raw("pick_file", "Lets the user choose a file.", json!({ "type": "object" })).build()?;
/// assert_eq!(pick.spec().executed_by, ExecutedBy::Client);
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExecutedBy {
    /// We do.
    #[default]
    Server,
    /// A browser or another program outside; the run waits for its answer.
    Client,
    /// Another agent, in a session of its own; the run waits for its end.
    SubAgent,
}

/// Whether a person must agree before a tool runs.
///
/// ```
/// use helix_agents::{ApprovalMode, ToolSpec};
///
/// fn may_wait(spec: &ToolSpec) -> bool {
///     spec.options.approval != ApprovalMode::Never
/// }
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalMode {
    /// No.
    #[default]
    Never,
    /// Yes.
    Always,
    /// A rule decides for each call.
    When,
}

/// How a call is handled that started, has no result, and may not be run again.
///
/// ```
/// use helix_agents::prelude::*;
/// use helix_agents::OnUnknown;
///
/// let send = Tool::raw("send", "Sends a letter.", json!({ "type": "object" }), async |_arguments, _cx| Ok(json!("sent")))
///     .on_unknown(OnUnknown::Pause)
///     .build()?;
/// assert_eq!(send.spec().options.on_unknown, Some(OnUnknown::Pause));
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnUnknown {
    /// The model reads that nobody knows.
    #[default]
    TellModel,
    /// The run waits for a person who looks, and whose answer becomes the result.
    Pause,
}
