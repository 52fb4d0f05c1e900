//! A session with content in every part, and a commit that changes every part.

use std::sync::Arc;
use std::time::Duration;

use helix_agents_core::SessionId;
use helix_agents_core::message::UserMessage;
use helix_agents_core::session::{CheckpointSource, SessionStatus};
use helix_agents_core::store::{
    AnsweredCall, Change, Commit, Fence, Field, InboxRow, LeaseRequest, Unstage,
};
use helix_agents_core::stream::StreamStatus;

use super::Subject;
use super::builders::{
    accepted, answer, call, checkpoint_of, commit, created, event, open_step, paired, run, running,
    sets, started, step, stop, waiting,
};

/// Creates a session with content in every part. Returns it with the fence of its run.
pub(super) async fn full_session(on: &Subject, name: &str) -> (SessionId, Fence) {
    let id = created(on, name).await;
    let (run, fence) = running(on, &id, "run").await;
    let commit = commit(on, &id)
        .then(Change::AppendUser(UserMessage::new("hello")))
        .then(Change::AppendStep(paired(&["c-0"])))
        .then(Change::WriteState(sets("mood", "calm")))
        .then(Change::OpenStep(Some(Arc::new(open_step(
            &run,
            "step",
            &["c-1"],
        )))))
        .then(Change::Pending(Box::new(waiting(on, &id, &run, "c-1"))))
        .then(Change::Checkpoint(
            checkpoint_of(on, &id, "cp-1"),
            CheckpointSource::Staging,
        ))
        .then(Change::Stage(step("step"), call("c-1"), sets("kept", 1)))
        .set(Field::CompletedCall(AnsweredCall::new(
            call("c-0"),
            on.now(),
        )))
        .then(Change::Inbox(InboxRow::new("in-1", Vec::new(), on.now())))
        .say(event(on, &id, "furnished"));
    accepted(on, commit).await;
    (id, fence)
}

/// A commit that changes every part of a session.
pub(super) fn changes_everything(on: &Subject, id: &SessionId) -> Commit {
    let stopped = stop(on, &run("run"));
    commit(on, id)
        .then(Change::Truncate(1))
        .then(Change::AppendUser(UserMessage::new("must not be seen")))
        .then(Change::WriteState(sets("mood", "must not be seen")))
        .set(Field::Status(SessionStatus::Failed))
        .set(Field::OneStepMore)
        .then(Change::RaiseFence)
        .then(Change::Lease(Some(LeaseRequest::new(
            "intruder",
            Duration::ZERO,
        ))))
        .then(Change::OpenStep(None))
        .then(Change::StartRun(Box::new(started(on, id, "intruder"))))
        .then(Change::Checkpoint(
            checkpoint_of(on, id, "cp-2"),
            CheckpointSource::Save,
        ))
        .then(Change::Answer(call("c-1"), Box::new(answer(on, "c-1"))))
        .set(Field::CompletedCall(AnsweredCall::new(
            call("c-1"),
            on.now(),
        )))
        .then(Change::Stop(stopped))
        .then(Change::Inbox(InboxRow::new("in-2", Vec::new(), on.now())))
        .then(Change::Unstage(Unstage::Step(step("step"))))
        .then(Change::RetireCallIds(vec![call("c-9")]))
        .say(event(on, id, "must not be seen"))
        .stream(StreamStatus::Failed)
}
