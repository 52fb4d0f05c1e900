//! Messages that people send while a run is in progress.

use std::sync::{Arc, Mutex, PoisonError};

use helix_agents_core::RunId;
use helix_agents_core::entries::{
    DoubleTexting, Entered, EntryError, ExecuteRequest, ExpectedSession, Performer,
};
use helix_agents_core::message::{Message, UserMessage};
use helix_agents_core::store::{Page, StoreError};

use super::Moment;
use crate::crash::World;
use crate::crash::compare::Stored;

/// A message that a scenario plans.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::crash) struct PlannedText {
    /// The number of the turn, from 1.
    pub(in crate::crash) turn: u32,
    pub(in crate::crash) moment: Moment,
    pub(in crate::crash) rule: DoubleTexting,
    pub(in crate::crash) text: String,
}

impl PlannedText {
    /// Whether the run is asked to stop for it.
    fn stops(&self) -> bool {
        matches!(
            self.rule,
            DoubleTexting::Interrupt | DoubleTexting::Rollback
        )
    }
}

/// The planned messages, and the answers to those who sent them. Clones are the same people.
#[derive(Debug, Clone, Default)]
pub(in crate::crash) struct Texts {
    plan: Arc<[PlannedText]>,
    sent: Arc<Mutex<Sent>>,
}

#[derive(Debug, Default)]
struct Sent {
    /// The messages that wait, with the run that each sender was told.
    told: Vec<(String, RunId)>,
    flaws: Vec<String>,
}

impl Texts {
    pub(in crate::crash) fn new(plan: &[PlannedText]) -> Self {
        Self {
            plan: plan.into(),
            ..Self::default()
        }
    }

    /// The turns that are interrupted for a message.
    pub(super) fn interrupted_turns(&self) -> impl Iterator<Item = u32> + Clone {
        let stopping = self.plan.iter().filter(|one| one.stops());
        stopping.map(|one| one.turn)
    }

    /// Checks that each message is in the history once, or not at all if its rule refuses it, and that the run
    /// that its sender was told took it.
    pub(in crate::crash) fn unmet(&self, stored: &Stored) -> Vec<String> {
        let sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        let mut flaws = sent.flaws.clone();
        for PlannedText { text, rule, .. } in self.plan.iter() {
            let wanted = usize::from(*rule != DoubleTexting::Reject);
            let count = stored.times_heard(text);
            if count != wanted {
                flaws.push(format!("{text:?} was heard {count} times, not {wanted}"));
            }
        }
        flaws.extend(stored.flaws_of_the_senders(&sent.told));
        flaws
    }
}

impl World {
    /// Lets the person send a message who waits for this moment. Returns true if the run was asked to stop for
    /// it.
    pub(in crate::crash) async fn texts(&self, moment: Moment) -> bool {
        let planned = self.due_text(moment).await;
        let Ok(Some(planned)) = planned else {
            return false;
        };
        let message = UserMessage::new(planned.text.as_str());
        let request = ExecuteRequest::by_name("worker", vec![message])
            .in_session(self.session.clone())
            .expecting(ExpectedSession::Existing)
            .double_texting(planned.rule);
        let sent = self
            .entries()
            .send(request, &Performer::new("a person"))
            .await;
        let text = &planned.text;
        let mut told = self.people.texts.sent.lock();
        let told = told.as_mut().unwrap_or_else(|poisoned| poisoned.get_mut());
        match sent {
            Ok(Entered::Waits(waiting)) => {
                told.told.push((text.clone(), waiting.run));
                return planned.stops();
            }
            Err(EntryError::AlreadyRunning { .. }) if planned.rule == DoubleTexting::Reject => {}
            Ok(Entered::Run(state)) => {
                let run = state.run_id;
                let flaw = format!("{text:?} started run {run} beside another");
                told.flaws.push(flaw);
            }
            Err(error) => told.flaws.push(format!("{text:?} was refused: {error}")),
        }
        false
    }

    /// The planned message of the current turn that is neither in the inbox nor in the history.
    async fn due_text(&self, moment: Moment) -> Result<Option<PlannedText>, StoreError> {
        let plan = self.people.texts.plan.iter();
        let plan: Vec<_> = plan.filter(|one| one.moment == moment).collect();
        if plan.is_empty() {
            return Ok(None);
        }
        let root = self.session.as_root();
        let store = &self.backend.store;
        let Some(found) = store.load(root).await? else {
            return Ok(None);
        };
        let history = store.messages(root, Page::ALL).await?.items;
        let turn = found.run.as_ref().map(|run| run.turn);
        let waiting = found.inbox.iter().flat_map(|row| &row.messages);
        let heard = history.iter().filter_map(|message| match message {
            Message::User(user) => Some(user),
            _ => None,
        });
        let known: Vec<_> = waiting.chain(heard).map(|user| &user.content).collect();
        let is_due = |one: &&&PlannedText| {
            Some(one.turn) == turn && known.iter().all(|text| *text.as_str() != one.text)
        };
        Ok(plan.iter().find(is_due).map(|one| (*one).clone()))
    }
}
