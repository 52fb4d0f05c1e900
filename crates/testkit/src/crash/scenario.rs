//! Scenarios of crash tests.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use helix_agents_core::agent::{Agent, AnyAgent};
use helix_agents_core::budget::Budgets;
use helix_agents_core::entries::{DoubleTexting, ToolAnswer};
use helix_agents_core::session::{PendingCall, PendingKind, StopKind};
use serde_json::Value;

use super::people::{PlannedStop, PlannedText};
use super::{Moment, World};

/// The answer to a call that has timed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LateAnswer {
    /// Nobody answers.
    Never,
    /// It comes before a run has taken the timeout.
    BeforeItIsTaken,
    /// It comes when the turn has ended.
    AfterTheTurn,
}

/// The way in which a turn is begun again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Return {
    /// A retry, when the turn has failed or was interrupted.
    Retry,
    /// A rewind to the first checkpoint of the session, when the turn has completed.
    Rewind,
}

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
    pub(super) texts: Vec<PlannedText>,
    /// Whether calls with a deadline time out, and when they are answered then.
    pub(super) late: Option<LateAnswer>,
    /// The number of hidden messages at the end, with which the framework tells the model something.
    pub(super) tells: Option<usize>,
    /// The turns that are begun again, once each.
    returns: BTreeMap<u32, Return>,
    /// The limits with which a session is resumed that a budget has paused.
    pub(super) raises: Option<Budgets>,
    /// The tools whose calls nobody answers.
    pub(super) unanswered: BTreeSet<String>,
    /// Whether the session is deleted while a tool runs.
    pub(super) deletes: bool,
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
            texts: Vec::new(),
            late: None,
            tells: None,
            returns: BTreeMap::new(),
            raises: None,
            unanswered: BTreeSet::new(),
            deletes: false,
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

    /// Sends another message at this moment of the turn of the last one, under a rule for the run that is in
    /// progress.
    #[must_use]
    pub fn texts_when(
        mut self,
        moment: Moment,
        rule: DoubleTexting,
        text: impl Into<String>,
    ) -> Self {
        let (turn, text) = (self.last_turn(), text.into());
        self.texts.push(PlannedText {
            turn,
            moment,
            rule,
            text,
        });
        self
    }

    /// Lets every call with a deadline time out. Then it is answered once, too late, or never.
    #[must_use]
    pub fn times_out(mut self, late: LateAnswer) -> Self {
        self.late = Some(late);
        self
    }

    /// Retries the turn of the last message once, when it has failed or was interrupted.
    #[must_use]
    pub fn retries(mut self) -> Self {
        self.returns.insert(self.last_turn(), Return::Retry);
        self
    }

    /// Goes back to the first checkpoint of the session once, when the turn of the last message has completed.
    /// The answers to the calls that are removed are refused then.
    #[must_use]
    pub fn goes_back(mut self) -> Self {
        self.returns.insert(self.last_turn(), Return::Rewind);
        self
    }

    /// Resumes the session with these limits whenever a budget has paused it. Without them it is refused.
    #[must_use]
    pub fn raises(mut self, budgets: impl Into<Budgets>) -> Self {
        self.raises = Some(budgets.into());
        self
    }

    /// Leaves the pending calls of a tool without an answer. Something else must end them.
    #[must_use]
    pub fn never_answers(mut self, tool: impl Into<String>) -> Self {
        self.unanswered.insert(tool.into());
        self
    }

    /// Deletes the session when a tool [arrives](World::arrives) at its middle. Nothing of the session, and of those
    /// under it, may be there at the end.
    #[must_use]
    pub fn deletes(mut self) -> Self {
        self.deletes = true;
        self
    }

    /// The way in which a turn is begun again.
    pub(super) fn return_of(&self, turn: u32) -> Option<Return> {
        self.returns.get(&turn).copied()
    }

    /// Whether parts of the history are removed: then the model is asked again at the same place.
    pub(super) fn rewinds(&self) -> bool {
        let mut texts = self.texts.iter();
        !self.returns.is_empty() || texts.any(|one| one.rule == DoubleTexting::Rollback)
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

    /// Sets how many hidden messages the history must have at the end, with which the framework tells the model
    /// of late answers and of calls that were taken back.
    #[must_use]
    pub fn tells(mut self, messages: usize) -> Self {
        self.tells = Some(messages);
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
