//! The parts of a plan that no reader of a store can see: which rows, in which order, and
//! which callbacks are called.

use std::sync::Arc;
use std::time::Duration;

use helix_agents_core::message::UserMessage;
use helix_agents_core::session::{PendingCall, RunRecord, RunStatus, RunTrigger, SessionState};
use helix_agents_core::store::{
    AnsweredCall, Change, Commit, DueKind, DueQuery, DueReason, Fence, Field, Headers, InboxRow,
    LeaseRequest, Plan, Precondition, Row, StoreError, plan,
};
use helix_agents_core::stream::{Sequence, StreamLimits, StreamStatus};
use helix_agents_core::time::Timestamp;
use helix_agents_core::transcript::PairedStep;
use helix_agents_core::{RunId, SessionId};
use serde_json::json;

use crate::make::{call_id, calling, result};

const NOW: Timestamp = Timestamp::from_millis(1_000);

/// The limits of the streams in these tests.
fn limits() -> StreamLimits {
    StreamLimits::new(1024)
}

fn session(name: &str) -> SessionId {
    SessionId::new(name).unwrap()
}

fn commit() -> Commit {
    Commit::new(session("s"), NOW)
}

fn waiting(call: &str) -> PendingCall {
    let run = RunId::new("run").unwrap();
    PendingCall::client(session("s"), run, call_id(call), "t", json!({}), NOW)
}

/// Plans a commit in which nothing is truncated.
fn planned(commit: Commit, headers: &Headers) -> Result<Plan, StoreError> {
    plan(
        commit,
        headers,
        NOW,
        limits(),
        || Ok(Fence(7)),
        |_, _| panic!("nothing is cut"),
    )
}

/// Returns the headers after a commit that creates a session and makes these changes.
fn after(changes: impl IntoIterator<Item = Change>) -> Headers {
    let created = SessionState::new(session("s"), "agent", NOW);
    let first = commit().then(Change::Create(Box::new(created)));
    let commit = changes.into_iter().fold(first, Commit::then);
    let plan = planned(commit, &Headers::new()).unwrap();
    let headers = plan.headers.into_iter();
    headers
        .filter_map(|(id, header)| Some((id, header?)))
        .collect()
}

#[test]
fn answered_calls_of_an_old_header_become_rows() {
    let mut headers = after([]);
    let header = Arc::make_mut(headers.get_mut(&session("s")).unwrap());
    let before = [("c1", 5), ("c2", 6)].map(|(call, at)| (call_id(call), at));
    let before = before.map(|(call, at)| (call, Timestamp::from_millis(at)));
    header.session.completed_client_tool_calls = before.clone().into();
    let answered = Field::CompletedCall(AnsweredCall::new(call_id("c3"), NOW));
    let plan = planned(commit().set(answered).then(Change::RaiseFence), &headers).unwrap();
    let rows: Vec<Row> = plan.rows.into_iter().map(|(_, row)| row).collect();
    let [one, two] = before.map(|(call, at)| Row::Answered(AnsweredCall::new(call, at)));
    assert_eq!(
        rows,
        [
            one,
            two,
            Row::Answered(AnsweredCall::new(call_id("c3"), NOW))
        ]
    );
    let header = plan.headers[&session("s")].as_ref().unwrap();
    assert!(header.session.completed_client_tool_calls.is_empty());
}

#[test]
fn rows_follow_the_order_of_the_changes() {
    let headers = after([Change::AppendUser(UserMessage::new("0"))]);
    let step = PairedStep::new(calling(&["c"]), [result("c")]).unwrap();
    let value = Arc::new(json!({ "a": 1 }));
    let changes = commit()
        .then(Change::AppendStep(step))
        .then(Change::SetState(Arc::clone(&value)))
        .then(Change::AppendUser(UserMessage::new("3")))
        .then(Change::RewindState(1));
    let plan = planned(changes, &headers).unwrap();
    let places: Vec<_> = plan.rows.iter().map(|(_, row)| row).collect();
    let [
        Row::Messages { at: 1, messages },
        Row::StateSet {
            version: 2,
            value: set,
        },
        Row::Messages { at: 3, .. },
        Row::StateRewind { version: 3, to: 1 },
    ] = places[..]
    else {
        panic!("{places:?}");
    };
    assert_eq!((messages.len(), set), (2, &value), "a step is one row");
}

#[test]
fn a_truncation_is_rounded_once_and_only_if_it_removes_messages() {
    let headers = after(["0", "1", "2"].map(|text| Change::AppendUser(UserMessage::new(text))));
    let mut asked = Vec::new();
    let cuts = [9, 3, 2].map(Change::Truncate);
    let commit = cuts.into_iter().fold(commit(), Commit::then);
    let cut = |id: &SessionId, count| {
        asked.push((id.clone(), count));
        Ok(1)
    };
    let plan = plan(
        commit,
        &headers,
        NOW,
        limits(),
        || panic!("nothing is created"),
        cut,
    )
    .unwrap();
    assert_eq!(asked, [(session("s"), 2)]);
    let rows: Vec<_> = plan.rows.iter().map(|(_, row)| row).collect();
    assert_eq!(rows, [&Row::TruncateMessages { keep: 1 }]);
    assert_eq!(plan.headers[&session("s")].as_ref().unwrap().messages, 1);
}

#[test]
fn a_new_session_begins_above_the_fences_of_deleted_ones() {
    let headers = after([Change::RaiseFence]);
    assert_eq!(headers[&session("s")].fence, Fence(8));
    let again = SessionState::new(session("s"), "agent", NOW);
    let changes = commit()
        .then(Change::RaiseFence)
        .then(Change::Delete)
        .then(Change::Create(Box::new(again)));
    let plan = planned(changes, &headers).unwrap();
    assert_eq!(plan.floor, Some(Fence(10)));
    let made = plan.headers[&session("s")].as_ref().unwrap();
    assert_eq!(made.fence, Fence(10));
}

#[test]
fn a_save_replaces_the_rows_of_pending_calls() {
    let headers = after(["c-1", "c-2"].map(|call| Change::Pending(Box::new(waiting(call)))));
    let mut saved = SessionState::new(session("s"), "agent", NOW);
    saved.pending_client_tool_calls = [(call_id("c-2"), waiting("c-2"))].into();
    let plan = planned(commit().then(Change::Overwrite(Box::new(saved))), &headers).unwrap();
    let rows: Vec<_> = plan.rows.into_iter().map(|(_, row)| row).collect();
    let wanted = [
        Row::RemovePending(call_id("c-1")),
        Row::RemovePending(call_id("c-2")),
        Row::Pending(Box::new(waiting("c-2"))),
    ];
    assert_eq!(rows[..3], wanted);
    let calls = &plan.headers[&session("s")].as_ref().unwrap().calls;
    assert_eq!(calls.keys().collect::<Vec<_>>(), [&call_id("c-2")]);
}

#[test]
fn changes_of_header_fields_write_no_row() {
    let changes = [
        Change::RaiseFence,
        Change::Lease(Some(LeaseRequest::new("a", Duration::ZERO))),
        Change::Set(Field::OneStepMore),
        Change::Inbox(InboxRow::new("in", Vec::new(), NOW)),
        Change::ClearStop,
        Change::RemovePending(call_id("nobody")),
    ];
    let headers = after([]);
    let commit = changes.into_iter().fold(commit(), Commit::then);
    assert_eq!(planned(commit, &headers).unwrap().rows, []);
}

#[test]
fn a_header_has_no_content() {
    let mut full = SessionState::new(session("s"), "agent", NOW);
    full.custom_state = Arc::new(json!({ "large": "x".repeat(1_000) }));
    full.pending_client_tool_calls = [(call_id("c"), waiting("c"))].into();
    let created = commit().then(Change::Create(Box::new(full)));
    let plan = planned(created, &Headers::new()).unwrap();
    let header = plan.headers[&session("s")].as_ref().unwrap();
    assert_eq!(*header.session.custom_state, json!(null));
    assert!(header.session.pending_client_tool_calls.is_empty());
    assert_eq!(header.calls.len(), 1, "but it knows that a call waits");
}

#[test]
fn a_commit_without_changes_writes_nothing_and_returns_a_receipt() {
    let headers = after([]);
    let looking = commit()
        .when(Precondition::Exists)
        .stream(StreamStatus::Paused);
    let plan = planned(looking, &headers).unwrap();
    assert!(plan.headers.is_empty() && plan.rows.is_empty());
    assert_eq!(plan.stream, Some(StreamStatus::Paused));
    let receipt = plan.receipt(&headers, Sequence(7));
    assert_eq!(
        (receipt.sessions[&session("s")].version, receipt.sequence),
        (1, Sequence(7))
    );
}

#[test]
fn the_first_failed_precondition_is_reported() {
    let commit = commit()
        .when(Precondition::Exists)
        .when(Precondition::MessageCount(1))
        .when(Precondition::Version(9));
    let refusal = planned(commit, &after([])).unwrap_err();
    let StoreError::Refused { expected, .. } = refusal else {
        panic!("{refusal:?}");
    };
    assert_eq!(expected, Precondition::MessageCount(1));
}

/// A caller with a version or a fence of a deleted session has lost it to another writer; for every
/// other caller the session does not exist.
#[test]
fn a_deleted_session_is_a_conflict_for_a_caller_that_read_it() {
    for precondition in [
        Precondition::Version(1),
        Precondition::Fence(Default::default()),
    ] {
        let refusal = planned(commit().when(precondition), &Headers::new()).unwrap_err();
        assert!(refusal.is_conflict(), "{refusal:?}");
    }
    for precondition in [Precondition::Exists, Precondition::MessageCount(0)] {
        let refusal = planned(commit().when(precondition), &Headers::new()).unwrap_err();
        assert!(
            matches!(refusal, StoreError::NotFound { .. }),
            "{refusal:?}"
        );
    }
}

/// A store indexes the earliest instant of each kind of work.
#[test]
fn a_session_is_indexed_under_the_earliest_instant_of_each_kind() {
    let at = Timestamp::from_millis;
    let run = RunId::new("run").unwrap();
    let started = RunRecord::started(run.clone(), session("s"), RunTrigger::Execute, "local", NOW);
    let mut pending = [waiting("c"), waiting("d"), waiting("e")];
    (pending[0].deadline, pending[1].deadline) = (Some(at(2_500)), Some(at(2_000)));
    let [one, two, three] = pending.map(|call| Change::Pending(Box::new(call)));
    let lease = LeaseRequest::new("a", Duration::from_secs(2));
    let mut changes = vec![
        Change::StartRun(Box::new(started.clone())),
        Change::Lease(Some(lease)),
        one,
        two,
        three,
        Change::Set(Field::ExpiresAt(Some(at(4_000)))),
    ];
    let headers = after(changes.clone());
    let header = &headers[&session("s")];
    let wanted = [
        (DueKind::LapsedLease, at(3_000)),
        (DueKind::Deadline, at(2_000)),
    ];
    assert_eq!(header.due_from(), wanted.into());
    let due = |instant| DueQuery::at(NOW).judge(header, at(instant));
    assert_eq!(due(1_999), None);
    let deadline = |call| DueReason::Deadline {
        call: call_id(call),
    };
    assert_eq!(due(2_000), Some((at(2_000), vec![deadline("d")])));
    let host = "local".to_owned();
    let all = vec![
        DueReason::LapsedLease { run, host },
        deadline("c"),
        deadline("d"),
    ];
    assert_eq!(due(9_000), Some((at(2_000), all)), "no end while it runs");

    let mut ended = started;
    ended.status = RunStatus::Completed;
    changes.push(Change::Run(Box::new(ended)));
    let headers = after(changes);
    let from = headers[&session("s")].due_from();
    let wanted = [
        (DueKind::Deadline, at(2_000)),
        (DueKind::Expired, at(4_000)),
    ];
    assert_eq!(from, wanted.into());
    assert!(after([])[&session("s")].due_from().is_empty());
}

/// A backend need not know which versions of a state exist.
#[test]
fn a_rewind_to_an_unknown_state_version_is_refused() {
    let headers = after([]);
    for (version, exists) in [(0, false), (1, true), (2, false)] {
        let rewound = planned(commit().then(Change::RewindState(version)), &headers);
        let is_refused = matches!(rewound, Err(StoreError::Invalid { .. }));
        assert_eq!(is_refused, !exists, "version {version}: {rewound:?}");
    }
}

/// Every session that a commit names is listed once, in the order of first mention,
/// however many there are.
#[test]
fn a_commit_names_each_of_its_sessions_once() {
    let names: Vec<_> = (0..2_000).map(|n| session(&format!("child-{n}"))).collect();
    let twice = names.iter().chain(names.iter().rev());
    let all = twice.fold(commit(), |commit, child| {
        commit.then_in(child.clone(), Change::Delete)
    });
    assert_eq!(all.sessions(), names);
}
