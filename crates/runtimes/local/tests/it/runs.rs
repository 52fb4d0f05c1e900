//! Tests of complete runs.

use std::sync::Arc;

use helix_agents_core::entries::ExecuteRequest;
use helix_agents_core::message::UserMessage;
use helix_agents_core::runtime::{
    Handle, Outcome, RunOptions, RunReader, Runtime, RuntimeExt, Turn,
};
use helix_agents_core::session::RunStatus;
use helix_agents_core::store::{Change, Commit, Sessions};
use helix_agents_core::stream::{ChunkPayload, Sequence, StreamItem, StreamStatus};
use helix_agents_core::{Agent, ErrorCode};
use helix_agents_runtime_local::{LocalRuntime, SystemClock, blocking};
use helix_agents_testkit::MockModel;

use crate::kit::{Gate, Place, Slow, Sum, counter, desk, desk_with, model, runs, session, waiting};

/// proves in part: RUN-01
#[tokio::test]
async fn a_turn_ends_with_the_last_text() {
    for place in Place::all() {
        let runtime = place.runtime().await;
        let agent = desk(&Gate::new());
        let handle = runtime.execute(&agent, "hello").await.unwrap();
        let outcome = handle.outcome().await.unwrap();
        assert_eq!(outcome, Outcome::Done("Hello, how are you?".to_owned()));

        let record = handle.ended().await.unwrap();
        assert_eq!(record.status, RunStatus::Completed);
        assert_eq!(
            (record.id, record.host.as_str()),
            (handle.run_id().clone(), "local")
        );
        let snapshot = runtime
            .backend()
            .store
            .load(handle.session_id().as_root())
            .await;
        assert_eq!(snapshot.unwrap().unwrap().lease, None, "released");
    }
}

/// A handle gives the text of its own turn, whatever was written to the session since.
#[tokio::test]
async fn a_handle_gives_the_text_of_its_own_turn() {
    for place in Place::all() {
        let runtime = place.runtime().await;
        let model = MockModel::new().says("One.").says("Two.").says("Three.");
        let agent = Agent::builder("talker").model(model).build().unwrap();
        let first = runtime.execute(&agent, "1").await.unwrap();
        assert_eq!(first.output().await.unwrap(), "One.");
        let id = first.session_id().clone();
        let second = runtime.send(&agent, &id, "2").await.unwrap();
        assert_eq!(second.output().await.unwrap(), "Two.");
        let third = runtime.send(&agent, &id, "3").await.unwrap();
        assert_eq!(third.output().await.unwrap(), "Three.");
        // What the model is told after its turn is no reply.
        let notice = UserMessage::hidden("An agent has completed.");
        let commit = Commit::new(id.clone(), runtime.clock().now()).then(Change::Notice(notice));
        runtime.backend().store.commit(commit).await.unwrap();
        for (handle, text) in [(first, "One."), (second, "Two."), (third, "Three.")] {
            assert_eq!(handle.output().await.unwrap(), text);
        }
    }
}

/// proves in part: RUN-01
#[tokio::test]
async fn an_output_has_its_type() {
    for place in Place::all() {
        let runtime = place.runtime().await;
        let handle = runtime.execute(&counter(), "count").await.unwrap();
        let outcome = handle.outcome().await.unwrap();
        assert_eq!(outcome, Outcome::Done(Sum { total: 42 }));
    }
}

/// The stream of a handle begins and ends with its run and shows every chunk of it.
///
/// proves in part: RUN-01
#[tokio::test]
async fn a_handle_streams_its_run() {
    for place in Place::all() {
        let runtime = place.runtime().await;
        let agent = desk(&Gate::new());
        let first = runtime.execute(&agent, "hello").await.unwrap();
        first.outcome().await.unwrap();
        let again = Turn::new("hello").session(first.session_id().clone());
        let handle = runtime.execute(&agent, again).await.unwrap();

        let mut stream = handle.reader(None);
        let (mut text, mut ends, mut of_run) = (String::new(), Vec::new(), true);
        while let Some(item) = stream.next().await.unwrap() {
            match item {
                StreamItem::Chunk(stored) => {
                    of_run &= stored.chunk.base.run_id == *handle.run_id();
                    if let ChunkPayload::TextDelta { delta } = &stored.chunk.payload {
                        text.push_str(delta);
                    }
                }
                StreamItem::End(status) => ends.push(status),
                other => panic!("unexpected: {other:?}"),
            }
        }
        assert_eq!(text, "Hello, how are you?");
        assert_eq!(ends, [StreamStatus::Ended]);
        assert!(of_run, "only chunks of the second run");
    }
}

/// The stream of a handle ends with its own run although later runs of the session follow: for a
/// slow reader, for a late reader, and while the next run is running.
#[tokio::test]
async fn a_handles_stream_ends_with_its_run_although_others_follow() {
    for place in Place::all() {
        let runtime = place.runtime().await;
        let gate = Gate::new();
        let agent = desk(&gate);
        let first = runtime.execute(&agent, "hello").await.unwrap();
        let mut slow = first.reader(None);
        let begins = slow.next().await.unwrap();
        assert!(matches!(begins, Some(StreamItem::Chunk(_))), "{begins:?}");
        first.outcome().await.unwrap();
        let again = Turn::new("wait").session(first.session_id().clone());
        let second = runtime.execute(&agent, again).await.unwrap();
        gate.reached().await;

        let mut late = first.reader(None);
        let whole = said_by(&first, &mut late).await;
        assert_eq!(said_by(&first, &mut slow).await, whole[1..]);
        let mut live = second.reader(None);
        gate.open();
        let of_second = said_by(&second, &mut live).await;
        assert_ne!(of_second[0], whole[0]);
        // After the run has ended, the result is the same.
        let mut late = first.reader(None);
        assert_eq!(said_by(&first, &mut late).await, whole);
        let after = slow.cursor();
        let mut rest = first.reader(after);
        assert!(said_by(&first, &mut rest).await.is_empty());
    }
}

/// A reader that asks for a run's chunks from a sequence before its start gets all of them: an
/// earlier run of the session is not mistaken for a later one.
#[tokio::test]
async fn a_handles_stream_may_begin_before_its_run() {
    for place in Place::all() {
        let runtime = place.runtime().await;
        let gate = Gate::new();
        let agent = desk(&gate);
        let first = runtime.execute(&agent, "hello").await.unwrap();
        first.outcome().await.unwrap();
        let again = Turn::new("wait").session(first.session_id().clone());
        let second = runtime.execute(&agent, again).await.unwrap();
        gate.reached().await;
        let mut early = second.reader(Sequence::START);
        let begins = early.next().await.unwrap();
        gate.open();
        assert!(matches!(begins, Some(StreamItem::Chunk(_))), "{begins:?}");
        let rest = said_by(&second, &mut early).await;
        let mut whole = second.reader(None);
        assert_eq!(said_by(&second, &mut whole).await[1..], rest);
    }
}

/// Callers that wait for a run, or read its stream, are told when it is ended from outside.
#[tokio::test]
async fn a_run_that_is_ended_from_outside_ends_for_waiters_and_readers() {
    for place in Place::all() {
        let (runtime, elsewhere) = (place.runtime().await, place.runtime().await);
        let gate = Gate::new();
        let agent = desk_with(Arc::new(Slow(Arc::clone(&gate))), &gate);
        let run = waiting(&runtime, &agent, &gate).await.run_id().clone();
        let handle = elsewhere.handle(&agent, session("s")).await;
        let handle = handle.unwrap().unwrap();
        let mut reader = handle.reader(None);
        let begins = reader.next().await.unwrap();
        assert!(matches!(begins, Some(StreamItem::Chunk(_))), "{begins:?}");

        let ends = async {
            let sessions = Sessions::new(&*runtime.backend().store, &**runtime.clock());
            sessions
                .update_run_status(&session("s"), &run, RunStatus::Failed)
                .await
                .unwrap();
        };
        let (ended, read, ()) = tokio::join!(handle.ended(), reader.next(), ends);
        assert_eq!(ended.unwrap().status, RunStatus::Failed);
        assert_eq!(read.unwrap(), Some(StreamItem::End(StreamStatus::Failed)));
    }
}

/// The sequences of what a run said, to its end, once that is told.
async fn said_by(run: &Handle<String>, reader: &mut RunReader) -> Vec<u64> {
    let mut said = Vec::new();
    loop {
        match reader.next().await.unwrap() {
            Some(StreamItem::Chunk(stored)) => {
                assert_eq!(stored.chunk.base.run_id, *run.run_id());
                said.push(stored.sequence.0);
            }
            Some(StreamItem::End(status)) => {
                assert_eq!(status, StreamStatus::Ended);
                assert_eq!(reader.next().await.unwrap(), None);
                return said;
            }
            other => panic!("unexpected: {other:?}"),
        }
    }
}

/// The stream of a run that pauses or fails ends with that outcome, also when the next run ends
/// differently. A reader of a deleted session is told.
#[tokio::test]
async fn a_handles_stream_ends_with_the_outcome_of_its_run() {
    for place in Place::all() {
        let runtime = place.runtime().await;
        let agent = desk(&Gate::new());
        let first = runtime.execute(&agent, "fail").await.unwrap();
        first.outcome().await.unwrap();
        let again = Turn::new("hello").session(first.session_id().clone());
        let second = runtime.execute(&agent, again).await.unwrap();
        second.outcome().await.unwrap();
        let mut reader = first.reader(None);
        let mut last = None;
        while let Some(item) = reader.next().await.unwrap() {
            last = Some(item);
        }
        assert_eq!(last, Some(StreamItem::End(StreamStatus::Failed)));

        let mut reader = second.reader(None);
        reader.next().await.unwrap();
        let sessions = Sessions::new(&*runtime.backend().store, &**runtime.clock());
        sessions.delete_session(first.session_id()).await.unwrap();
        while let Some(item) = reader.next().await.unwrap() {
            last = Some(item);
        }
        assert_eq!(last, Some(StreamItem::Gone { now: None }));
    }
}

#[tokio::test]
async fn a_handle_reports_the_usage_of_its_run() {
    for place in Place::all() {
        let runtime = place.runtime().await;
        let agent = desk(&Gate::new());
        let handle = runtime.execute(&agent, "hello").await.unwrap();
        handle.ended().await.unwrap();
        let usage = handle.usage().await.unwrap();
        assert_eq!((usage.tokens.input, usage.tokens.output), (7, 5));
        assert_eq!(usage.tools.calls, 0);
    }
}

#[tokio::test]
async fn a_dropped_handle_stops_nothing() {
    for place in Place::all() {
        let gate = Gate::new();
        let agent = desk(&gate);
        let backend = place.open().await;
        let runtime = LocalRuntime::builder(backend.clone())
            .recovery(false)
            .build();
        let request = Turn::new("wait").session(session("s"));
        drop(runtime.execute(&agent, request).await.unwrap());
        gate.reached().await;
        // Dropping the runtime does not stop it either.
        drop(runtime);
        gate.open();
        let run = runs(&backend, &session("s")).await.remove(0);
        let ended = backend
            .run_ended(session("s").as_root(), &run.id, &SystemClock::new())
            .await
            .unwrap();
        assert_eq!(ended.status, RunStatus::Completed);
        assert_eq!(gate.passed(), 1);
    }
}

/// A caller that stops waiting for the entry does not leave a run that no task performs.
#[tokio::test]
async fn a_run_is_performed_although_its_caller_stopped_waiting() {
    let place = Place::memory();
    let (runtime, backend) = (place.runtime().await, place.open().await);
    let agent = desk(&Gate::new());
    runtime.agents().register(&agent).unwrap();
    let request = ExecuteRequest::new(&agent, "hello").in_session(session("s"));
    {
        let mut start = runtime.start(request, RunOptions::default());
        // Polled once, which starts it, and then dropped.
        let asked = futures_util::poll!(&mut start);
        assert!(asked.is_pending());
    }
    runtime.shutdown(std::time::Duration::MAX).await;
    let runs = runs(&backend, &session("s")).await;
    assert_eq!(runs.len(), 1);
}

#[tokio::test]
async fn models_are_found_by_name_or_the_agent_is_refused() {
    let place = Place::memory();
    let agent = Agent::builder("named")
        .model("house/model")
        .system_prompt("Serve.")
        .build()
        .unwrap();
    let with = place.builder().await.model("house/model", model()).build();
    let handle = with.execute(&agent, "hello").await.unwrap();
    let outcome = handle.outcome().await.unwrap();
    assert_eq!(outcome, Outcome::Done("Hello, how are you?".to_owned()));

    let without = place.runtime().await;
    let refused = without.execute(&agent, "hello").await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::DefinitionInvalid);
    let text = refused.to_string();
    assert!(text.contains("house/model"), "{text}");
    assert!(text.contains(".model("), "it tells what to do: {text}");
}

#[tokio::test]
async fn blocking_work_fails_like_any_tool() {
    assert_eq!(blocking(|| Ok(7)).await.unwrap(), 7);
    let said = blocking(|| -> helix_agents_core::ToolResult<()> { panic!("too deep") });
    let error = said.await.unwrap_err();
    assert_eq!(error.model_text(), "The tool failed.");
    assert!(error.to_string().contains("too deep"), "{error}");
    let read = blocking(|| Ok(std::fs::read_to_string("/does/not/exist")?)).await;
    assert!(read.is_err());
}

/// Many concurrent runs do not affect each other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_runs_at_once_all_end() {
    let runtime = Place::memory().runtime().await;
    let agent = Arc::new(desk(&Gate::new()));
    let mut handles = Vec::new();
    for _ in 0..500 {
        handles.push(runtime.execute(&agent, "hello").await.unwrap());
    }
    for handle in handles {
        let outcome = handle.outcome().await.unwrap();
        assert_eq!(outcome, Outcome::Done("Hello, how are you?".to_owned()));
    }
}
