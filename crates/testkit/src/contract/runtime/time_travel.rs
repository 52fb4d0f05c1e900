//! Sessions that are rewound to a checkpoint and continue from there.

use helix_agents_core::agent::AgentBuilder;
use helix_agents_core::entries::ResumeMode;
use helix_agents_core::error::ErrorCode;
use helix_agents_core::runtime::Backend;
use helix_agents_core::session::{
    Checkpoint, RunStatus, RunTrigger, SessionStatus, SubmissionOutcome,
};
use helix_agents_core::stream::{ChunkPayload, Sequence, StreamItem, StreamReader};
use serde_json::json;

use super::super::builders::checkpoint;
use super::super::runner::in_time;
use super::agents::{Gate, agent, browser, calling, counting, gated};
use super::lines::names;
use super::subject::session;
use super::{MockReply, RuntimeSubject};

fn to(checkpoint: &Checkpoint) -> ResumeMode {
    ResumeMode::FromCheckpoint(checkpoint.id.clone())
}

/// An agent that counts its calls in the state, and may ask a client.
fn counter(replies: impl IntoIterator<Item = MockReply>) -> AgentBuilder {
    let state = json!({ "count": 0 });
    agent(replies)
        .tools([counting("count"), browser("browser")])
        .initial_state(state)
}

/// A session is rewound to a checkpoint of an earlier turn: messages, state, stream and later checkpoints. The run
/// from there continues that turn, with new ids for its calls.
///
/// proves: CKP-02
pub async fn a_session_goes_back_to_an_earlier_turn(on: &RuntimeSubject) {
    let replies = [
        calling([("c1", "count")]),
        calling([("c2", "count")]),
        MockReply::text("one"),
        calling([("c3", "count")]),
        MockReply::text("two"),
        // Again, from the first step of the first turn on.
        calling([("c2", "count"), ("c3", "count")]),
        MockReply::text("other"),
        MockReply::text("next"),
    ];
    let agent = counter(replies).build().unwrap();
    on.turn(&agent, "first").await;
    on.turn(&agent, "second").await;
    let all = on.checkpoints().await;
    assert_eq!(all.len(), 5);
    let chunks = on.chunks().await;
    let last = chunks.last().unwrap().sequence;

    let run = on.restarted().await.resumed_as(to(&all[0])).await;
    assert_eq!(
        (run.trigger, run.status, run.turn),
        (RunTrigger::FromCheckpoint, RunStatus::Completed, 1)
    );
    assert_eq!(
        (run.step_count, run.steps_before, run.budget_from),
        (3, 1, 1)
    );
    assert_eq!(
        on.transcript_lines().await,
        [
            "user: first",
            "assistant: c1=count{}",
            "c1=success: done",
            "assistant: c2_2=count{} c3_2=count{}",
            "c2_2=success: done",
            "c3_2=success: done",
            "assistant: other",
        ]
    );
    assert_eq!(on.state().await, json!({ "count": 3 }));
    let found = on.snapshot().await.state;
    let left = on.checkpoints().await;
    assert_eq!(left.len(), 3);
    assert_eq!(left[0].id, all[0].id);
    assert_eq!(found.checkpoint_id, Some(left[2].id.clone()));
    // A reader from the start sees the kept part, and then the new one, which has new sequences.
    let now = on.chunks().await;
    let kept = now.iter().take_while(|it| it.sequence <= last).count();
    assert_eq!(now[..kept], chunks[..kept]);
    let told = names(&on.payloads().await);
    assert_eq!(
        told[..8],
        [
            "run_started",
            "tool_start c1",
            "state_patch",
            "tool_end c1",
            "step_committed",
            "checkpoint_created",
            "stream_resync",
            "run_started",
        ]
    );
    let times = |name: &str| told.iter().filter(|it| it.starts_with(name)).count();
    assert_eq!((times("tool_start"), times("step_committed")), (3, 3));
    // What was rewound cannot be gone back to.
    for gone in &all[1..] {
        let asked = async || on.try_resume_as(to(gone)).await;
        let error = on.refuses(ErrorCode::ValidationError, asked).await;
        assert!(error.to_string().contains(gone.id.as_str()), "{error}");
    }
    let next = on.turn(&agent, "third").await;
    assert_eq!((next.turn, next.status), (2, RunStatus::Completed));
}

/// A session is rewound within its turn, and several times to the same checkpoint.
///
/// proves: CKP-02
pub async fn a_session_goes_back_within_a_turn_again_and_again(on: &RuntimeSubject) {
    let mut replies = vec![calling([("c1", "count")]), calling([("c2", "count")])];
    replies.push(MockReply::text("one"));
    replies.extend([MockReply::text("two"), MockReply::text("three")]);
    let agent = counter(replies).max_steps(3).build().unwrap();
    on.turn(&agent, "go").await;
    let all = on.checkpoints().await;
    for said in ["two", "three"] {
        let run = on.resumed_as(to(&all[1])).await;
        assert_eq!((run.status, run.step_count), (RunStatus::Completed, 3));
        let lines = on.transcript_lines().await;
        assert_eq!(lines[5..], [format!("assistant: {said}")]);
        assert_eq!(on.state().await, json!({ "count": 2 }));
        assert_eq!(on.checkpoints().await.len(), 3);
    }
    let told = names(&on.payloads().await);
    let times = |name: &str| told.iter().filter(|it| it.starts_with(name)).count();
    assert_eq!((times("tool_start"), times("step_committed")), (2, 3));
    assert_eq!(
        times("stream_resync"),
        1,
        "earlier notices are rewound, too"
    );
}

/// At the end of a completed turn, the model is asked again.
///
/// proves: CKP-02
pub async fn a_completed_turn_goes_on_from_its_end(on: &RuntimeSubject) {
    let replies = [MockReply::text("one"), MockReply::text("more")];
    let agent = counter(replies).build().unwrap();
    on.turn(&agent, "go").await;
    let all = on.checkpoints().await;
    assert_eq!(all[0].status, SessionStatus::Completed);
    let run = on.resumed_as(to(&all[0])).await;
    assert_eq!((run.turn, run.step_count), (1, 2));
    assert_eq!(
        on.transcript_lines().await,
        ["user: go", "assistant: one", "assistant: more"]
    );
}

/// A checkpoint of a pause is the session before the step that paused: its reply and the writes of its finished
/// calls are gone, nothing waits any more, and an answer comes to nothing.
///
/// proves: CKP-02
pub async fn a_session_goes_back_over_a_pause(on: &RuntimeSubject) {
    let paused = || calling([("c2", "count"), ("c3", "browser")]);
    let replies = [
        calling([("c1", "count")]),
        paused(),
        paused(),
        MockReply::text("done"),
    ];
    let agent = counter(replies).build().unwrap();
    on.turn(&agent, "go").await;
    assert_eq!(
        on.state().await,
        json!({ "count": 2 }),
        "a pause applies it"
    );
    let asked = on.waiting("c3").await;
    let pause = on.checkpoints().await.pop().unwrap();
    assert!(pause.open_step.is_some());

    // The model asks the same again, under other ids.
    let run = on.restarted().await.resumed_as(to(&pause)).await;
    assert_eq!(run.status, RunStatus::SuspendedStepPartial);
    assert_eq!(on.state().await, json!({ "count": 2 }), "and not twice");
    let waiting: Vec<_> = { on.pending().await.into_iter() }
        .map(|it| it.tool_call_id.to_string())
        .collect();
    assert_eq!(waiting, ["c3_2"]);
    let late = on.submit(asked.result("late")).await.unwrap();
    assert_eq!(late.outcome, SubmissionOutcome::UnknownToolCall);
    on.answered(on.waiting("c3_2").await.result("now")).await;
    assert_eq!(on.resumed().await.status, RunStatus::Completed);
    assert_eq!(
        on.transcript_lines().await,
        [
            "user: go",
            "assistant: c1=count{}",
            "c1=success: done",
            "assistant: c2_2=count{} c3_2=browser{}",
            "c2_2=success: done",
            "c3_2=success: now",
            "assistant: done",
        ]
    );
    let told = names(&on.payloads().await);
    assert!(!told.contains(&"tool_start c3".to_owned()), "{told:?}");
}

/// A pause that was answered is gone back over like one that was not, before and after a run has used the answer.
///
/// proves: CKP-02
pub async fn a_session_goes_back_over_an_answered_pause(on: &RuntimeSubject) {
    let replies = [
        calling([("c1", "count"), ("c2", "browser")]),
        calling([("c3", "browser")]),
        MockReply::text("one"),
        MockReply::text("two"),
    ];
    let agent = counter(replies).build().unwrap();
    on.turn(&agent, "go").await;
    let (asked, first) = (on.waiting("c2").await, on.checkpoints().await);
    on.answered(asked.result("yes")).await;
    // No run has used the answer.
    let run = on.resumed_as(to(&first[0])).await;
    assert_eq!(run.status, RunStatus::SuspendedClientTool);
    assert_eq!(on.state().await, json!({ "count": 0 }));
    let again = on.submit(asked.result("yes")).await.unwrap();
    assert_eq!(again.outcome, SubmissionOutcome::UnknownToolCall);

    // A run has used the answer, and the turn is completed.
    let (asked, pause) = (on.waiting("c3").await, on.checkpoints().await);
    on.answered(asked.result("yes")).await;
    assert_eq!(on.resumed().await.status, RunStatus::Completed);
    let repeated = on.submit(asked.result("yes")).await.unwrap();
    assert_eq!(repeated.outcome, SubmissionOutcome::AlreadyCompleted);
    let run = on.resumed_as(to(pause.last().unwrap())).await;
    assert_eq!(run.status, RunStatus::Completed);
    let again = on.submit(asked.result("yes")).await.unwrap();
    assert_eq!(again.outcome, SubmissionOutcome::UnknownToolCall);
    assert_eq!(on.transcript_lines().await, ["user: go", "assistant: two"]);
}

/// A checkpoint of another session, one that never was, and a running session are refused.
///
/// proves: CKP-02
pub async fn a_session_goes_back_to_its_own_checkpoints_only(on: &RuntimeSubject) {
    let gate = Gate::default();
    let replies = [
        MockReply::text("theirs"),
        MockReply::text("ours"),
        calling([("c1", "gated")]),
        MockReply::text("done"),
    ];
    let agent = agent(replies).tools(gated("gated", &gate)).build().unwrap();
    on.turn(&agent, "go").await;
    let theirs = on.checkpoints().await;
    let store = &on.backend().store;
    let sessions = helix_agents_core::store::Sessions::new(&**store, &*on.clock);
    sessions.delete_session(&session()).await.unwrap();
    on.turn(&agent, "go").await;
    let own = on.checkpoints().await;
    for wrong in [theirs[0].id.clone(), checkpoint("never")] {
        let asked = async || {
            on.try_resume_as(ResumeMode::FromCheckpoint(wrong.clone()))
                .await
        };
        let error = on.refuses(ErrorCode::ValidationError, asked).await;
        assert!(error.to_string().contains(wrong.as_str()), "{error}");
    }
    let run = on.start(&agent, "again").await;
    gate.reached(1).await;
    let asked = async || on.try_resume_as(to(&own[0])).await;
    on.refuses(ErrorCode::SessionRunning, asked).await;
    gate.open();
    assert_eq!(on.ended(&run).await.status, RunStatus::Completed);
}

/// A run from a checkpoint that fails is retried from that checkpoint.
///
/// proves: CKP-02
pub async fn a_failed_return_is_retried_from_where_it_went(on: &RuntimeSubject) {
    let replies = [
        calling([("c1", "browser")]),
        MockReply::error(helix_agents_core::model::ModelErrorKind::Auth),
        MockReply::text("done"),
        MockReply::error(helix_agents_core::model::ModelErrorKind::Auth),
        MockReply::text("more"),
    ];
    let agent = counter(replies).build().unwrap();
    on.turn(&agent, "go").await;
    let pause = on.checkpoints().await.pop().unwrap();
    assert_eq!(on.resumed_as(to(&pause)).await.status, RunStatus::Failed);
    let run = on.resumed_as(ResumeMode::Retry).await;
    assert_eq!((run.status, run.turn), (RunStatus::Completed, 1));
    assert_eq!(on.transcript_lines().await, ["user: go", "assistant: done"]);
    // The same at the end of a completed turn.
    let end = on.checkpoints().await.pop().unwrap();
    assert_eq!(on.resumed_as(to(&end)).await.status, RunStatus::Failed);
    let run = on.resumed_as(ResumeMode::Retry).await;
    assert_eq!((run.status, run.step_count), (RunStatus::Completed, 2));
    assert_eq!(
        on.transcript_lines().await,
        ["user: go", "assistant: done", "assistant: more"]
    );
}

/// A rewound stream that is condensed is read right from every sequence there ever was: each reader is told of the
/// rewind before it gets the reply that came after it, as a whole.
///
/// proves: CKP-02, STR-03
pub async fn a_rewound_stream_is_condensed(on: &RuntimeSubject) {
    let replies = [
        MockReply::text("I count.").with_calls([("c1", "count", json!({}))]),
        MockReply::text("I ask.").with_calls([("c2", "browser", json!({}))]),
        MockReply::text("I count again.").with_calls([("c3", "count", json!({}))]),
        MockReply::text("Done."),
    ];
    let agent = counter(replies).build().unwrap();
    on.turn(&agent, "go").await;
    let Backend { store, streams, .. } = on.backend().clone();
    let before = on.chunks().await;
    // They have read up to here, and wait.
    let mut live = Vec::new();
    for seen in &before {
        let mut one = StreamReader::new(streams.clone(), store.clone(), session(), Sequence::START);
        while one.cursor() < seen.sequence {
            in_time("a reader reads", one.next()).await.unwrap();
        }
        live.push(one);
    }
    let pause = on.checkpoints().await.pop().unwrap();
    assert_eq!(on.resumed_as(to(&pause)).await.status, RunStatus::Completed);
    let end = on.chunks().await.last().unwrap().sequence;
    for is_condensed in [false, true] {
        if is_condensed {
            streams.condense(&session(), end).await.unwrap();
        }
        for from in (0..=before.last().unwrap().sequence.0).map(Sequence) {
            let mut one = StreamReader::new(streams.clone(), store.clone(), session(), from);
            let (old, new) = texts(&mut one).await;
            assert_eq!(new, "I count again.Done.", "from {from}");
            assert!("I count.".ends_with(&old), "from {from}: {old}");
        }
    }
    for mut one in live {
        let (_, new) = texts(&mut one).await;
        assert_eq!(new, "I count again.Done.", "at {}", one.cursor());
    }
}

/// Reads to the end: the texts before the notice of the rewind and after it.
async fn texts(reader: &mut StreamReader) -> (String, String) {
    let (mut old, mut new, mut is_rewound) = (String::new(), String::new(), false);
    while let Some(item) = in_time("a reader reads", reader.next()).await.unwrap() {
        let StreamItem::Chunk(stored) = item else {
            break;
        };
        match stored.chunk.payload {
            ChunkPayload::TextDelta { delta } if is_rewound => new.push_str(&delta),
            ChunkPayload::TextDelta { delta } => old.push_str(&delta),
            ChunkPayload::StreamResync { reason } if reason.contains("rewound") => {
                is_rewound = true;
            }
            ChunkPayload::StreamResync { .. } => old.clear(),
            _ => {}
        }
    }
    (old, new)
}
