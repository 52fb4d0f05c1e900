//! Commits of effects: each is made once, however often and by whichever process it is attempted.

use std::sync::Arc;

use helix_agents_core::machine::CallStatus;
use helix_agents_core::session::{
    CallPhase, CallState, EffectRecord, EffectState, OpenCall, OpenStep, RunStatus, RunTrigger,
};
use helix_agents_core::store::{
    Change, Commit, EffectPosition, Fence, OpenStepMark, PendingStatus, Precondition,
    RepeatedAttempt, StoreError,
};
use helix_agents_core::stream::{ChunkPayload, DeltaSource, Sequence, StreamError, StreamWriter};
use helix_agents_core::{RunId, SessionId};

use super::Subject;
use super::builders::{
    accepted, call, changed, chunk, commit, created, open_step, paired, result, running, started,
    stop, user_message, waiting,
};

/// A commit of an effect, as an executor makes it.
fn effect(on: &Subject, id: &SessionId, fence: Fence, place: EffectPosition) -> Commit {
    let n = place.n;
    commit(on, id)
        .when(Precondition::Fence(fence))
        .when(Precondition::Effect(place))
        .then(Change::Effect(n, None))
}

fn place(run: &RunId, step: u32, n: u32, attempt: u32) -> EffectPosition {
    EffectPosition::new(run.clone(), step, n, attempt)
}

async fn refused(on: &Subject, commit: Commit) -> Precondition {
    match on.store.commit(commit).await {
        Err(StoreError::Refused { expected, .. }) => expected,
        other => panic!("this commit must be refused: {other:?}"),
    }
}

/// An exclusive effect is committed once, and no earlier effect is committed after it; a new fence
/// starts over.
pub async fn an_effect_is_committed_once(on: &Subject) {
    let id = created(on, "s").await;
    let (run, fence) = running(on, &id, "run").await;
    accepted(on, effect(on, &id, fence, place(&run, 1, 2, 0))).await;
    for late in [2, 1] {
        let again = effect(on.elsewhere(), &id, fence, place(&run, 1, late, 0));
        let expected = refused(on.elsewhere(), again).await;
        assert_eq!(expected, Precondition::Effect(place(&run, 1, late, 0)));
    }
    let found = on.store.load(id.as_root()).await.unwrap().unwrap();
    assert_eq!(found.mark.effect, 2);
    accepted(on, effect(on, &id, fence, place(&run, 1, 3, 0))).await;

    let taken_over = commit(on, &id)
        .then(Change::RaiseFence)
        .then(Change::Adopt(0, None));
    let fence = accepted(on, taken_over).await.sessions[&id].fence;
    accepted(on, effect(on, &id, fence, place(&run, 1, 1, 0))).await;
}

/// An effect of another step, of another run, or of a run that has ended is not committed.
pub async fn an_effect_belongs_to_the_current_step_of_a_running_run(on: &Subject) {
    let id = created(on, "s").await;
    let (run, fence) = running(on, &id, "run").await;
    refused(on, effect(on, &id, fence, place(&run, 2, 1, 0))).await;
    let other = RunId::new("other").unwrap();
    refused(on, effect(on, &id, fence, place(&other, 1, 1, 0))).await;

    let mut record = started(on, &id, "run");
    record.step_count = 1;
    changed(on, &id, Change::Run(Box::new(record.clone()))).await;
    refused(on, effect(on, &id, fence, place(&run, 1, 1, 0))).await;
    accepted(on, effect(on, &id, fence, place(&run, 2, 1, 0))).await;
    record.status = RunStatus::Completed;
    changed(on, &id, Change::Run(Box::new(record))).await;
    refused(on, effect(on, &id, fence, place(&run, 2, 2, 0))).await;
}

/// An attempt that begins an effect again takes it over: earlier attempts can neither commit nor
/// stream.
pub async fn a_later_attempt_takes_an_effect_over(on: &Subject) {
    let id = created(on, "s").await;
    let (run, fence) = running(on, &id, "run").await;
    let writer = |attempt| {
        let by = DeltaSource::Effect { n: 1, attempt };
        StreamWriter::new(id.clone(), id.clone(), fence).of(by)
    };
    let text = |text: &str| {
        let delta = text.to_owned();
        vec![chunk(on, &id, ChunkPayload::TextDelta { delta })]
    };
    on.streams
        .append_deltas(&writer(0), text("one"))
        .await
        .unwrap();
    changed(
        on,
        &id,
        Change::Begin(RepeatedAttempt::new(1, 1, Sequence::START, "b")),
    )
    .await;
    refused(on, effect(on, &id, fence, place(&run, 1, 1, 0))).await;
    let late = on
        .elsewhere()
        .streams
        .append_deltas(&writer(0), text("two"))
        .await;
    assert!(
        matches!(late, Err(StreamError::Overtaken { .. })),
        "{late:?}"
    );
    let discarded = ChunkPayload::StepDiscarded {
        reason: "late".to_owned(),
    };
    let discarded = chunk(on, &id, discarded);
    let late = on
        .streams
        .discard_deltas(&writer(0), Sequence::START, discarded)
        .await;
    assert!(
        matches!(late, Err(StreamError::Overtaken { .. })),
        "{late:?}"
    );
    on.streams
        .append_deltas(&writer(1), text("three"))
        .await
        .unwrap();

    accepted(on, effect(on, &id, fence, place(&run, 1, 1, 1))).await;
    let after = on.streams.append_deltas(&writer(1), text("four")).await;
    assert!(
        matches!(after, Err(StreamError::Overtaken { .. })),
        "{after:?}"
    );
    let stream = on.streams.read(&id, Sequence::START, 10).await.unwrap();
    let texts: Vec<_> = stream
        .iter()
        .filter_map(|stored| match &stored.chunk.payload {
            ChunkPayload::TextDelta { delta } => Some(delta.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(texts, ["one", "three"]);
}

/// Each call of an open step is committed once, whatever the other calls do; a call that was begun
/// again belongs to the later attempt.
pub async fn a_call_is_committed_once(on: &Subject) {
    let id = created(on, "s").await;
    let (run, fence) = running(on, &id, "run").await;
    let mut step = open_step(&run, "step", &["c-1", "c-2"]);
    for call in &mut step.calls {
        *call = OpenCall::new(CallPhase::Regular, CallState::Ready);
        call.effect = Some(EffectRecord::intended("key", on.now()));
    }
    changed(on, &id, Change::OpenStep(Some(Arc::new(step.clone())))).await;
    let ends = |index: u32, name: &str, attempt: u32| {
        let mut done = step.calls[index as usize].clone();
        done.settle(result(name));
        let open = Precondition::OpenCall {
            step: step.id.clone(),
            index,
            attempt,
        };
        commit(on, &id)
            .when(Precondition::Fence(fence))
            .when(open)
            .then(Change::OpenCall(index, call(name), Box::new(done)))
    };
    let writer = |index, attempt| {
        let by = DeltaSource::Call {
            step: step.id.clone(),
            index,
            attempt,
        };
        StreamWriter::new(id.clone(), id.clone(), fence).of(by)
    };
    let event = || {
        let event_name = "progress".to_owned();
        let data = serde_json::json!(1);
        vec![chunk(on, &id, ChunkPayload::Custom { event_name, data })]
    };
    accepted(on, ends(1, "c-2", 0)).await;
    refused(on.elsewhere(), ends(1, "c-2", 0)).await;
    let late = on.streams.append_deltas(&writer(1, 0), event()).await;
    assert!(
        matches!(late, Err(StreamError::Overtaken { .. })),
        "{late:?}"
    );

    on.streams
        .append_deltas(&writer(0, 0), event())
        .await
        .unwrap();
    let mut claimed = step.calls[0].clone();
    if let Some(effect) = &mut claimed.effect {
        (effect.state, effect.attempts) = (EffectState::Started, 1);
    }
    changed(on, &id, Change::OpenCall(0, call("c-1"), Box::new(claimed))).await;
    let found = on
        .elsewhere()
        .store
        .load(id.as_root())
        .await
        .unwrap()
        .unwrap();
    let open = found.mark.open.unwrap();
    assert_eq!(
        open,
        OpenStepMark::of(&found.open_step.unwrap()),
        "letters and step agree"
    );
    assert_eq!(open.calls.get(0).unwrap().standing, CallStatus::Running);
    refused(on, ends(0, "c-1", 0)).await;
    let late = on.streams.append_deltas(&writer(0, 0), event()).await;
    assert!(
        matches!(late, Err(StreamError::Overtaken { .. })),
        "{late:?}"
    );
    on.streams
        .append_deltas(&writer(0, 1), event())
        .await
        .unwrap();
    accepted(on, ends(0, "c-1", 1)).await;
}

/// A precondition can require that the open step is exactly as it was read, or that there is none.
pub async fn an_open_step_is_compared_with_what_was_read(on: &Subject) {
    let id = created(on, "s").await;
    let (run, _) = running(on, &id, "run").await;
    let nothing_open = || commit(on, &id).when(Precondition::Open(None));
    accepted(on, nothing_open()).await;
    let step = open_step(&run, "step", &["c-1", "c-2"]);
    changed(on, &id, Change::OpenStep(Some(Arc::new(step.clone())))).await;
    refused(on, nothing_open()).await;
    let as_read = |step: &OpenStep| {
        let open = Precondition::Open(Some(OpenStepMark::of(step)));
        commit(on, &id).when(open)
    };
    accepted(on, as_read(&step)).await;
    let mut done = step.calls[0].clone();
    done.settle(result("c-1"));
    changed(
        on,
        &id,
        Change::OpenCall(0, call("c-1"), Box::new(done.clone())),
    )
    .await;
    refused(on, as_read(&step)).await;
    let mut now = step;
    now.calls[0] = done;
    accepted(on.elsewhere(), as_read(&now)).await;
}

/// A run does not end, and no other turn begins, while a step of it is open. Ending the run by its
/// status closes the step and its pending calls.
pub async fn a_run_leaves_no_step_open(on: &Subject) {
    let id = created(on, "s").await;
    let (run, _) = running(on, &id, "run").await;
    let step = open_step(&run, "step", &["c-1"]);
    let asks = commit(on, &id)
        .then(Change::OpenStep(Some(Arc::new(step))))
        .then(Change::Pending(Box::new(waiting(on, &id, &run, "c-1"))));
    accepted(on, asks).await;
    let mut record = started(on, &id, "run");
    record.status = RunStatus::Failed;
    let ends = commit(on, &id).then(Change::Run(Box::new(record.clone())));
    let left = on.store.commit(ends).await;
    assert!(matches!(left, Err(StoreError::Invalid { .. })), "{left:?}");
    let next = commit(on, &id).then(Change::StartRun(Box::new(started(on, &id, "next"))));
    let begun = on.store.commit(next).await;
    assert!(
        matches!(begun, Err(StoreError::Invalid { .. })),
        "{begun:?}"
    );

    let sessions = on.sessions();
    let status = RunStatus::Failed;
    sessions.update_run_status(&id, &run, status).await.unwrap();
    let found = on
        .elsewhere()
        .store
        .load(id.as_root())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(found.open_step, None);
    assert_eq!(found.mark.open, None);
    assert!(found.state.pending_client_tool_calls.is_empty());
    let history = sessions.transcript(&id).await.unwrap();
    assert_eq!(history.len(), 2, "the step is in the history, paired");
    let next = commit(on, &id).then(Change::StartRun(Box::new(started(on, &id, "next"))));
    accepted(on, next).await;
}

/// Saving an older reading of a session does not remove the pending calls of its run.
pub async fn a_save_keeps_the_pending_calls_of_a_run(on: &Subject) {
    let id = created(on, "s").await;
    let mut old = on.sessions().load_state(&id).await.unwrap().unwrap();
    let (run, _) = running(on, &id, "run").await;
    let step = open_step(&run, "step", &["c-1"]);
    let asks = commit(on, &id)
        .then(Change::OpenStep(Some(Arc::new(step))))
        .then(Change::Pending(Box::new(waiting(on, &id, &run, "c-1"))));
    accepted(on, asks).await;
    old.metadata.insert("title".to_owned(), "chat".to_owned());
    on.sessions().save_state(&old, None).await.unwrap();
    let found = on.sessions().load_state(&id).await.unwrap().unwrap();
    assert_eq!(found.metadata["title"], "chat");
    assert!(found.pending_client_tool_calls.contains_key(&call("c-1")));
    let still = Precondition::Call(call("c-1"), PendingStatus::Open);
    accepted(on, commit(on, &id).when(still)).await;
}

/// A stop that was requested of a paused run applies to the run that continues it, and to no other.
pub async fn a_paused_runs_stop_is_not_forgotten(on: &Subject) {
    let id = created(on, "s").await;
    let (run, _) = running(on, &id, "run").await;
    let mut record = started(on, &id, "run");
    record.status = RunStatus::SuspendedClientTool;
    let pauses = commit(on, &id)
        .then(Change::Run(Box::new(record)))
        .then(Change::Stop(stop(on, &run)));
    accepted(on, pauses).await;
    let mut next = started(on, &id, "next");
    next.trigger = RunTrigger::Continue;
    changed(on, &id, Change::StartRun(Box::new(next.clone()))).await;
    let found = on
        .elsewhere()
        .store
        .load(id.as_root())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(found.stop.map(|stop| stop.run_id), Some(next.id.clone()));

    next.status = RunStatus::Interrupted;
    changed(on, &id, Change::Run(Box::new(next))).await;
    let mut last = started(on, &id, "last");
    last.trigger = RunTrigger::Continue;
    changed(on, &id, Change::StartRun(Box::new(last))).await;
    let found = on.store.load(id.as_root()).await.unwrap().unwrap();
    assert_eq!(found.stop, None, "it has stopped: no stop is owed");
}

/// A step is announced with the actual number of messages, also when another process appended one
/// during the run.
pub async fn a_step_is_announced_with_the_messages_that_there_are(on: &Subject) {
    let id = created(on, "s").await;
    running(on, &id, "run").await;
    on.sessions()
        .append_messages(&id, &[user_message("by the way")], None)
        .await
        .unwrap();
    let announced = ChunkPayload::StepCommitted { message_count: 0 };
    let settles = commit(on, &id)
        .then(Change::AppendStep(paired(&["c-1"])))
        .say(chunk(on, &id, announced));
    accepted(on, settles).await;
    let stream = on.streams.read(&id, Sequence::START, 10).await.unwrap();
    let counts: Vec<_> = stream
        .iter()
        .filter_map(|stored| match stored.chunk.payload {
            ChunkPayload::StepCommitted { message_count } => Some(message_count),
            _ => None,
        })
        .collect();
    assert_eq!(counts, [3]);
}
