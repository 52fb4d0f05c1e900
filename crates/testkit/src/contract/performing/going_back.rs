//! Retries and rewinds that race with others, lose their acknowledgement, or die.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use helix_agents_core::agent::Agent;
use helix_agents_core::entries::{
    BranchSource, Entries, EntryError, ExecuteRequest, ResumeMode, ResumeRequest,
};
use helix_agents_core::machine::{AgentLimits, RunState};
use helix_agents_core::message::UserMessage;
use helix_agents_core::model::ModelErrorKind;
use helix_agents_core::session::{RunStatus, RunTrigger, StopKind, SubmissionOutcome};
use helix_agents_core::store::{BranchPoint, Change, Commit, Lookup, Page, Snapshot};

use super::super::Subject;
use super::super::builders::{accepted, commit, sets};
use super::super::everything::everything;
use super::super::runtime::agents::{Log, browser, calling, fatal, noted, of_model};
use super::cut_short::{cut_off, half_a_reply};
use super::faulty_store::{CommitFate, FaultyStore, Meanwhile};
use super::run_driver::{RunDriver, answer, performer, session_id};
use crate::{MockModel, MockReply, drive};

fn failing() -> MockReply {
    MockReply::error(ModelErrorKind::Auth)
}

pub(super) fn starts_a_run(commit: &Commit) -> bool {
    let mut changes = commit.changes.iter();
    changes.any(|(_, change)| matches!(change, Change::StartRun(_)))
}

fn retry(session: impl Into<helix_agents_core::entries::KnownSession>) -> ResumeRequest {
    ResumeRequest::new(session, ResumeMode::Retry)
}

/// An agent that makes one step, fails, and then gives these replies.
fn failing_agent(then: impl IntoIterator<Item = MockReply>) -> Agent {
    let replies = [calling([("c1", "noted")]), failing()].into_iter();
    let model = Arc::new(MockModel::replies(replies.chain(then)));
    let tools = [noted("noted", &Log::default()), fatal("fatal")];
    of_model(&model).tools(tools).build().unwrap()
}

impl RunDriver {
    /// Drives a run that an entry has started to its end.
    async fn finish(&self, agent: &Agent, state: RunState) -> RunState {
        let facts = AgentLimits::of(agent);
        drive(&facts, state, &self.ports).await.unwrap()
    }

    /// The entries over a store with faults.
    pub(super) fn entries_over(&self, store: FaultyStore) -> Entries {
        let shared = Arc::new(store);
        let (clock, ids) = (&self.ports.clock, &self.ports.ids);
        Entries::new(shared.clone(), shared, Arc::clone(clock), Arc::clone(ids))
    }

    pub(super) async fn runs(&self) -> usize {
        let page = Lookup::Page(Page::ALL);
        let key = session_id();
        let runs = self.on.store.runs(key.as_root(), page).await;
        runs.unwrap().items.len()
    }
}

/// A store in which somebody acts once, before the first commit that starts a run.
fn before_a_start(
    on: &Subject,
    act: impl Fn() -> Meanwhile + Send + 'static,
) -> (FaultyStore, Arc<AtomicBool>) {
    let acted = Arc::new(AtomicBool::new(false));
    let once = Arc::clone(&acted);
    let store = FaultyStore::new(on, move |commit| {
        if !starts_a_run(commit) || once.swap(true, Ordering::SeqCst) {
            return CommitFate::Made;
        }
        CommitFate::After(act())
    });
    (store, acted)
}

/// Of two retries of one failure, one runs. The other is refused while the winner runs and after its end, however
/// it ended, and takes nothing of it back.
///
/// proves: CKP-02
pub async fn one_of_two_retries_runs(on: &Subject) {
    let agent = failing_agent([failing(), MockReply::text("done")]);
    let mut driver = RunDriver::new(on, agent.clone()).await;
    driver.drive().await;
    let read: Snapshot = driver.found().await;
    let first = driver
        .entries
        .resume(retry(read.clone()), &performer())
        .await;
    let first = first.unwrap();
    let late = async |read: &Snapshot| {
        let before = everything(on, &[&session_id()]).await;
        let refused = driver
            .entries
            .resume(retry(read.clone()), &performer())
            .await;
        assert_eq!(everything(on, &[&session_id()]).await, before);
        refused.unwrap_err()
    };
    let error = late(&read).await;
    assert!(
        matches!(error, EntryError::AlreadyRunning { .. }),
        "{error:?}"
    );
    // The winner fails, too: the other one does not run it once more.
    driver.finish(&agent, first).await;
    assert_eq!(driver.run().await.status, RunStatus::Failed);
    let error = late(&read).await;
    assert!(matches!(error, EntryError::Stale { .. }), "{error:?}");
    // Whoever has seen that failure may retry it.
    let read = driver.found().await;
    let second = driver
        .entries
        .resume(retry(read.clone()), &performer())
        .await;
    driver.finish(&agent, second.unwrap()).await;
    assert_eq!(driver.run().await.status, RunStatus::Completed);
    let error = late(&read).await;
    assert!(
        matches!(error, EntryError::AlreadyCompleted { .. }),
        "{error:?}"
    );
    assert_eq!(driver.messages().await.len(), 4);
    assert_eq!(driver.runs().await, 3);
}

/// Another retry runs and fails between the read and the commit of a retry: the slower one is refused, and the
/// step that the faster one committed stays.
///
/// proves: CKP-02
pub async fn a_retry_does_not_rewind_a_faster_one(on: &Subject) {
    for back in [None, Some(0)] {
        let agent = failing_agent([calling([("c2", "noted")]), failing()]);
        let mut driver = RunDriver::new(on, agent.clone()).await;
        driver.drive().await;
        let page = Lookup::Page(Page::ALL);
        let checkpoints = on.store.checkpoints(session_id().as_root(), page).await;
        let mode = match back {
            Some(at) => ResumeMode::FromCheckpoint(checkpoints.unwrap().items[at].id.clone()),
            None => ResumeMode::Retry,
        };
        let faster = (driver.entries.clone(), driver.ports.clone(), agent.clone());
        let (store, acted) = before_a_start(on, move || {
            let (entries, ports, agent) = faster.clone();
            Box::pin(async move {
                let request = retry(&session_id());
                let state = entries.resume(request, &performer()).await.unwrap();
                drive(&AgentLimits::of(&agent), state, &ports)
                    .await
                    .unwrap();
            })
        });
        let slower = driver.entries_over(store);
        let request = ResumeRequest::new(&session_id(), mode);
        let refused = slower.resume(request, &performer()).await.unwrap_err();
        assert!(acted.load(Ordering::SeqCst), "the other one was faster");
        assert!(matches!(refused, EntryError::Stale { .. }), "{refused:?}");
        assert_eq!(driver.messages().await.len(), 5, "both steps are there");
        assert_eq!(driver.runs().await, 2);
        on.sessions().delete_session(&session_id()).await.unwrap();
    }
}

/// The acknowledgement of a rewind is lost: it is made once, and its caller performs the run.
///
/// proves: CKP-02
pub async fn a_rewind_whose_acknowledgement_is_lost_is_made_once(on: &Subject) {
    let agent = failing_agent([calling([("c2", "fatal")]), MockReply::text("done")]);
    let mut driver = RunDriver::new(on, agent.clone()).await;
    driver.drive().await;
    let once = AtomicBool::new(false);
    let store = FaultyStore::new(on, move |commit| {
        match starts_a_run(commit) && !once.swap(true, Ordering::SeqCst) {
            true => CommitFate::Unacknowledged,
            false => CommitFate::Made,
        }
    });
    let entries = driver.entries_over(store);
    let state = entries
        .resume(retry(&session_id()), &performer())
        .await
        .unwrap();
    let found = driver.found().await;
    let run = found.run.unwrap();
    assert_eq!((&run.id, run.trigger), (&state.run_id, RunTrigger::Retry));
    assert_eq!(state.fence, found.fence);
    driver.finish(&agent, state).await;
    assert_eq!(driver.run().await.status, RunStatus::Failed);
    let again = driver
        .entries
        .resume(retry(&session_id()), &performer())
        .await;
    driver.finish(&agent, again.unwrap()).await;
    assert_eq!(driver.run().await.status, RunStatus::Completed);
    assert_eq!((driver.messages().await.len(), driver.runs().await), (4, 3));
}

/// The process that made a rewind dies before it does anything else: another one takes the run over.
///
/// proves: CKP-02
pub async fn a_rewind_outlives_its_process(on: &Subject) {
    let agent = failing_agent([MockReply::text("done")]);
    let mut driver = RunDriver::new(on, agent.clone()).await;
    driver.drive().await;
    let retried = driver
        .entries
        .resume(retry(&session_id()), &performer())
        .await;
    let lost = retried.unwrap();
    driver.taken_over(&agent).await;
    assert_eq!(driver.state.run_id, lost.run_id);
    assert_eq!(driver.state.budget_from, lost.budget_from);
    assert_eq!(driver.state.first, lost.first);
    driver.drive().await;
    let run = driver.run().await;
    assert_eq!((run.status, run.budget_from), (RunStatus::Completed, 1));
    assert_eq!(driver.messages().await.len(), 4);
    assert_eq!(driver.text().await, "done");
}

/// An answer is accepted between the read and the commit of a rewind over its pause: the rewind is planned anew, and
/// nothing of the answer is left.
///
/// proves: CKP-02
pub async fn an_answer_beside_a_rewind_leaves_nothing(on: &Subject) {
    let replies = [calling([("q1", "ask")]), MockReply::text("done")];
    let model = Arc::new(MockModel::replies(replies));
    let agent = of_model(&model).tools(browser("ask")).build().unwrap();
    let mut driver = RunDriver::new(on, agent.clone()).await;
    driver.drive().await;
    let pause = driver.found().await.state.checkpoint_id.unwrap();
    let entries = Arc::new(OnceLock::<Entries>::new());
    entries.set(driver.entries.clone()).unwrap();
    let (store, acted) = before_a_start(on, move || {
        let entries = Arc::clone(&entries);
        Box::pin(async move {
            let entries = entries.get().unwrap();
            let taken = entries.submit(&answer("q1", "blue")).await.unwrap();
            assert_eq!(taken.outcome, SubmissionOutcome::Accepted);
        })
    });
    let request = ResumeRequest::new(&session_id(), ResumeMode::FromCheckpoint(pause));
    let state = driver
        .entries_over(store)
        .resume(request, &performer())
        .await;
    assert!(acted.load(Ordering::SeqCst), "the answer came beside it");
    driver.finish(&agent, state.unwrap()).await;
    let found = driver.found().await;
    assert_eq!(found.run.unwrap().status, RunStatus::Completed);
    assert!(found.state.pending_client_tool_calls.is_empty());
    assert!(found.state.client_tool_call_ownership.is_empty());
    let again = driver.entries.submit(&answer("q1", "blue")).await.unwrap();
    assert_eq!(again.outcome, SubmissionOutcome::UnknownToolCall);
    assert_eq!(driver.messages().await.len(), 2);
}

/// A reply that was interrupted halfway is dropped by a retry and kept by a resume, in the history and in the
/// stream.
///
/// proves: CKP-02
pub async fn a_retry_drops_half_a_reply(on: &Subject) {
    for (mode, messages, text) in [
        (ResumeMode::Continue, 4, "I will be brief."),
        (ResumeMode::Retry, 2, "be brief."),
    ] {
        let driver = cut_off(on, half_a_reply(), StopKind::Interrupt).await;
        let model = Arc::new(MockModel::replies([MockReply::text("be brief.")]));
        let agent = of_model(&model).build().unwrap();
        driver.ports.agents.replace(&agent);
        let request = ResumeRequest::new(&session_id(), mode);
        let state = driver.entries.resume(request, &performer()).await.unwrap();
        driver.finish(&agent, state).await;
        assert_eq!(driver.run().await.status, RunStatus::Completed);
        assert_eq!(driver.messages().await.len(), messages);
        assert_eq!(driver.text().await, text);
        on.sessions().delete_session(&session_id()).await.unwrap();
    }
}

/// The acknowledgement of a branch with its turn is lost: both are there once, and the caller performs the run.
///
/// proves: SES-10
pub async fn a_branch_whose_acknowledgement_is_lost_is_made_once(on: &Subject) {
    let agent = failing_agent([MockReply::text("done")]);
    let mut driver = RunDriver::new(on, agent.clone()).await;
    driver.drive().await;
    let once = AtomicBool::new(false);
    let store = FaultyStore::new(on, move |commit| {
        match starts_a_run(commit) && !once.swap(true, Ordering::SeqCst) {
            true => CommitFate::Unacknowledged,
            false => CommitFate::Made,
        }
    });
    let to = super::super::builders::session("branch");
    let request = ExecuteRequest::new(&agent, "again")
        .in_session(to.clone())
        .branch_of(BranchSource::new(session_id(), BranchPoint::Now));
    let entries = driver.entries_over(store);
    let state = entries.execute(request, &performer()).await.unwrap();
    driver.finish(&agent, state).await;
    let found = on.store.load(to.as_root()).await.unwrap().unwrap();
    assert_eq!(found.run.unwrap().status, RunStatus::Completed);
    assert_eq!(found.message_count, 5);
    let runs = on.store.runs(to.as_root(), Lookup::Page(Page::ALL)).await;
    assert_eq!(runs.unwrap().items.len(), 1);
}

/// A message and a write to the state are committed together between the read and the commit of a retry: the retry
/// is planned anew, and rewinds both or none.
///
/// proves: CKP-02
pub async fn a_write_beside_a_rewind_is_not_split(on: &Subject) {
    let replies = [
        calling([("c1", "noted")]),
        calling([("c2", "fatal")]),
        MockReply::text("done"),
    ];
    let model = Arc::new(MockModel::replies(replies));
    let tools = [noted("noted", &Log::default()), fatal("fatal")];
    let agent = of_model(&model).tools(tools).build().unwrap();
    let mut driver = RunDriver::new(on, agent.clone()).await;
    driver.drive().await;
    let theirs = on.clone();
    let (store, acted) = before_a_start(on, move || {
        let on = theirs.clone();
        Box::pin(async move {
            let both = commit(&on, &session_id())
                .then(Change::AppendUser(UserMessage::new("theirs")))
                .then(Change::WriteState(sets("theirs", 1)));
            accepted(&on, both).await;
        })
    });
    let entries = driver.entries_over(store);
    let state = entries.resume(retry(&session_id()), &performer()).await;
    assert!(acted.load(Ordering::SeqCst), "they wrote beside it");
    driver.finish(&agent, state.unwrap()).await;
    let found = driver.found().await;
    assert_eq!(found.message_count, 4, "their message is rewound");
    assert_eq!(found.state.custom_state.get("theirs"), None);
}
