//! Scenarios of crash tests.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use helix_agents_core::agent::{Agent, AnyAgent};
use helix_agents_core::entries::ToolAnswer;
use helix_agents_core::session::{PendingCall, PendingKind, StopKind};
use serde_json::Value;

use super::people::PlannedStop;
use super::{Moment, World};

type MakeAgent = Arc<dyn Fn(&World) -> AnyAgent + Send + Sync>;
type Reply = Arc<dyn Fn(&PendingCall) -> ToolAnswer + Send + Sync>;

/// An agent, the messages of a user, the answers to the agent's pending calls, and the stops of its runs.
///
/// The agent's model must give the same reply to the same request, as a scripted one does: the
/// outcome is compared with that of an undisturbed run.
///
/// ```
/// use helix_agents_core::Agent;
/// use helix_agents_testkit::EveryTool;
/// use helix_agents_testkit::crash::Scenario;
///
/// let agent = Agent::builder("support").model(EveryTool).build()?;
/// let scenario = Scenario::new("a refund", move |_world| agent.clone()).says("Refund order 42.").approves();
/// assert_eq!(scenario.name(), "a refund");
/// # Ok::<(), helix_agents_core::DefinitionError>(())
/// ```
#[derive(Clone)]
pub struct Scenario {
    pub(super) name: String,
    pub(super) agent: MakeAgent,
    pub(super) turns: Vec<String>,
    pub(super) answers: Vec<(String, Reply)>,
    pub(super) leaves: Option<Value>,
    /// Whether calls without an answer of their own are approved.
    pub(super) approves: bool,
    pub(super) stops: Vec<PlannedStop>,
    /// The turns that are resumed after an interruption, counted from 1.
    resumed: BTreeSet<u32>,
}

impl Scenario {
    /// Creates a scenario. Every simulated process makes its own agent, so tools must keep their
    /// data outside of the agent.
    pub fn new<Out>(
        name: impl Into<String>,
        agent: impl Fn(&World) -> Agent<Out> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            agent: Arc::new(move |world| agent(world).erase()),
            turns: Vec::new(),
            answers: Vec::new(),
            leaves: None,
            approves: false,
            stops: Vec::new(),
            resumed: BTreeSet::new(),
        }
    }

    /// Adds a message of the user, sent when the turn before has ended.
    #[must_use]
    pub fn says(mut self, message: impl Into<String>) -> Self {
        self.turns.push(message.into());
        self
    }

    /// Sets how pending calls of a tool are answered. Those of other tools get an error.
    #[must_use]
    pub fn answers(
        mut self,
        tool: impl Into<String>,
        reply: impl Fn(&PendingCall) -> ToolAnswer + Send + Sync + 'static,
    ) -> Self {
        self.answers.push((tool.into(), Arc::new(reply)));
        self
    }

    /// Approves every call that needs an approval and has no answer set by [`Scenario::answers`].
    #[must_use]
    pub fn approves(mut self) -> Self {
        self.approves = true;
        self
    }

    /// Interrupts the turn of the last message at this moment. Several stops of one turn come one after
    /// the other. Answers that come too late for the interrupted calls must be refused.
    #[must_use]
    pub fn interrupts_when(self, moment: Moment) -> Self {
        self.stops(StopKind::Interrupt, moment)
    }

    /// Aborts the turn of the last message at this moment, as [`Scenario::interrupts_when`].
    #[must_use]
    pub fn aborts_when(self, moment: Moment) -> Self {
        self.stops(StopKind::Abort, moment)
    }

    fn stops(mut self, kind: StopKind, moment: Moment) -> Self {
        let turn = self.last_turn();
        self.stops.push(PlannedStop { turn, moment, kind });
        self
    }

    /// Resumes the turn of the last message after each interruption. Without it, an interrupted turn is
    /// over.
    #[must_use]
    pub fn resumes(mut self) -> Self {
        self.resumed.insert(self.last_turn());
        self
    }

    /// The number of the turn of the last message.
    fn last_turn(&self) -> u32 {
        u32::try_from(self.turns.len()).unwrap_or(u32::MAX).max(1)
    }

    /// Whether a turn is resumed after an interruption.
    pub(super) fn resumes_turn(&self, turn: u32) -> bool {
        self.resumed.contains(&turn)
    }

    /// Sets the state that the session must have at the end.
    #[must_use]
    pub fn leaves(mut self, state: Value) -> Self {
        self.leaves = Some(state);
        self
    }

    /// The name of the scenario.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn answer(&self, call: &PendingCall) -> ToolAnswer {
        let mut answers = self.answers.iter();
        match answers.find(|(tool, _)| *tool == call.tool_name) {
            Some((_, reply)) => reply(call),
            None if self.approves && call.kind == PendingKind::Approval => call.approve(),
            None => call.error("the scenario has no answer to this call"),
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
