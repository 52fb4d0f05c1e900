//! What is played.

use std::fmt;
use std::sync::Arc;

use helix_agents_core::Agent;
use helix_agents_core::entries::ToolAnswer;
use helix_agents_core::session::PendingCall;
use serde_json::Value;

use super::World;

type MakeAgent = Arc<dyn Fn(&World) -> Agent + Send + Sync>;
type Reply = Arc<dyn Fn(&PendingCall) -> ToolAnswer + Send + Sync>;

/// An agent, what a user says to it, and how its questions are answered.
///
/// The agent's model must say the same when it is asked the same again, as a scripted one does: the
/// outcome is compared with that of an undisturbed run.
#[derive(Clone)]
pub struct Scenario {
    pub(super) name: String,
    pub(super) agent: MakeAgent,
    pub(super) turns: Vec<String>,
    pub(super) answers: Vec<(String, Reply)>,
    pub(super) leaves: Option<Value>,
}

impl Scenario {
    /// A scenario with an agent. Every process makes the agent anew; what its tools do outside is
    /// for them to keep elsewhere.
    pub fn new(
        name: impl Into<String>,
        agent: impl Fn(&World) -> Agent + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            agent: Arc::new(agent),
            turns: Vec::new(),
            answers: Vec::new(),
            leaves: None,
        }
    }

    /// The user says something, after everything before is answered.
    #[must_use]
    pub fn says(mut self, message: impl Into<String>) -> Self {
        self.turns.push(message.into());
        self
    }

    /// How a question about a tool is answered. A question that nothing is said about is given up.
    #[must_use]
    pub fn answers(
        mut self,
        tool: impl Into<String>,
        reply: impl Fn(&PendingCall) -> ToolAnswer + Send + Sync + 'static,
    ) -> Self {
        self.answers.push((tool.into(), Arc::new(reply)));
        self
    }

    /// The state that is left at the end.
    #[must_use]
    pub fn leaves(mut self, state: Value) -> Self {
        self.leaves = Some(state);
        self
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn answer(&self, call: &PendingCall) -> ToolAnswer {
        let mut answers = self.answers.iter();
        match answers.find(|(tool, _)| *tool == call.tool_name) {
            Some((_, reply)) => reply(call),
            None => call.error("nobody answers"),
        }
    }
}

impl fmt::Debug for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scenario")
            .field("name", &self.name)
            .field("turns", &self.turns)
            .finish_non_exhaustive()
    }
}
