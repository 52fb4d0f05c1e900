//! Tests of due work and the sweeper.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt;
use helix_agents_core::RunId;
use helix_agents_core::agent::{Agent, AgentContext};
use helix_agents_core::entries::{Continuation, ExecuteRequest, Performer};
use helix_agents_core::message::{Message, UserMessage};
use helix_agents_core::runtime::{Outcome, Runtime, RuntimeExt, Turn};
use helix_agents_core::session::{StopKind, StopRequest};
use helix_agents_core::store::{Change, Commit, Field, InboxRow, NewSession, Sessions};
use helix_agents_core::stream::{ChunkPayload, Retention, Sequence, StoredChunk, StreamError};
use helix_agents_core::time::{Clock, Timestamp};
use helix_agents_runtime_local::{LocalRuntime, SweepReport};

use crate::failing_store::{FalseDue, failing_store};
use crate::kit::{Gate, LEASE, Place, clock, desk, entries, runs, session, timed, waiting};

/// An answer that was submitted to a runtime without `auto_continue` is continued by one that has
/// it.
#[tokio::test]
async fn answers_that_no_run_continued_are_due_work() {
    for place in Place::all() {
        let gate = Gate::new();
        let agent = desk(&gate);
        let asking = place.runtime().await;
        let request = Turn::new("pay").session(session("s"));
        let handle = asking.execute(&agent, request).await.unwrap();
        let pause = handle.outcome().await.unwrap().suspended().unwrap();
        let yes = pause.pending()[0].approve();
        let submitted = asking.submit(yes).await.unwrap();
        assert_eq!(submitted.continuation, Continuation::CallerResumes);

        let without = place.builder().await.agent(&agent).build();
        assert_eq!(without.recover().await.unwrap(), SweepReport::default());
        let with = place
            .builder()
            .await
            .agent(&agent)
            .auto_continue(true)
            .build();
        let report = with.recover().await.unwrap();
        let [run] = report.continued.as_slice() else {
            panic!("unexpected: {report:?}");
        };
        assert!(with.ended(run).await.unwrap().status.is_ended());
        assert_eq!(gate.passed(), 1);
        assert_eq!(with.recover().await.unwrap(), SweepReport::default());
    }
}

/// Due work of other agents, however much and however old, does not hide the work of this runtime.
#[tokio::test]
async fn due_work_of_other_agents_does_not_hide_ours() {
    let place = Place::memory();
    let gate = Gate::new();
    let agent = desk(&gate);
    let time = clock();
    let asking = timed(&place, "asking", &time).await;
    for at in 0..300 {
        let request = Turn::new("pay").session(session(&format!("paused-{at}")));
        let handle = asking.execute(&agent, request).await.unwrap();
        let pause = handle.outcome().await.unwrap().suspended().unwrap();
        let yes = pause.pending()[0].approve();
        asking.submit(yes).await.unwrap();
    }
    let handle = waiting(&asking, &agent, &gate).await;
    let shutdown = asking.shutdown(LEASE);
    gate.open();
    assert_eq!(shutdown.await.handed_over, 1);

    let next = timed(&place, "next", &time).await;
    next.agents().register(&agent).unwrap();
    let report = next.recover().await.unwrap();
    assert_eq!(report.recovered.len(), 1, "{report:?}");
    assert_eq!(report.recovered[0].run_id, *handle.run_id());
    assert!(next.ended(&report.recovered[0]).await.is_ok());
}

/// The sweeper sweeps repeatedly, and ends with its runtime.
#[tokio::test]
async fn the_sweeper_finds_work_that_becomes_due_later() {
    for place in Place::all() {
        let gate = Gate::new();
        let agent = desk(&gate);
        let time = clock();
        let every = Duration::from_secs(60);
        let builder = place.builder_at(&time).await.agent(&agent);
        let builder = builder.auto_continue(true).sweep_every(every);
        let sweeping = builder.build();
        sweeping.start_recovery().unwrap();
        sweeping.start_recovery().unwrap();
        while time.sleepers() == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(time.sleepers(), 1, "one sweeper, which has swept once");

        let asking = place.runtime().await;
        let request = Turn::new("pay").session(session("s"));
        let handle = asking.execute(&agent, request).await.unwrap();
        let pause = handle.outcome().await.unwrap().suspended().unwrap();
        let yes = pause.pending()[0].approve();
        asking.submit(yes).await.unwrap();
        assert_eq!(runs(asking.backend(), &session("s")).await.len(), 1);

        time.advance(every);
        while runs(asking.backend(), &session("s")).await.len() == 1 {
            tokio::task::yield_now().await;
        }
        let handle = asking.handle(&agent, session("s")).await.unwrap().unwrap();
        let outcome = handle.outcome().await.unwrap();
        assert_eq!(outcome, Outcome::Done("paid: 5".to_owned()));

        sweeping.shutdown(every).await;
        while time.sleepers() > 0 {
            tokio::task::yield_now().await;
        }
    }
}

/// A sweep that fails or panics is followed by the next.
#[tokio::test]
async fn the_sweeper_survives_failures_and_panics() {
    let place = Place::memory();
    let gate = Gate::new();
    let agent = desk(&gate);
    let time = clock();
    let leaving = timed(&place, "leaving", &time).await;
    let handle = waiting(&leaving, &agent, &gate).await;
    gate.open();
    assert_eq!(leaving.shutdown(LEASE).await.handed_over, 1);

    let (backend, failures) = failing_store(place.open().await);
    failures
        .due
        .lock()
        .unwrap()
        .extend([FalseDue::Panic, FalseDue::Failure]);
    let every = Duration::from_secs(1);
    let builder = LocalRuntime::builder(backend)
        .recovery(false)
        .sweep_every(every);
    let next = builder.clock(time.clone()).agent(&agent).build();
    next.start_recovery().unwrap();
    for left in [1, 0] {
        while time.sleepers() == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(failures.due.lock().unwrap().len(), left);
        time.advance(every);
    }
    let run = handle.ended();
    let backend = next.backend();
    let ended = backend
        .run_ended(session("s").as_root(), handle.run_id(), &*time)
        .await;
    assert!(ended.unwrap().status.is_ended());
    assert!(run.await.unwrap().status.is_ended());
}

/// Lapsed runs of an unregistered agent, and lapsed runs that can never continue, neither hide nor
/// delay other work.
#[tokio::test]
async fn runs_that_cannot_continue_do_not_starve_others() {
    for place in Place::all() {
        let gate = Gate::new();
        let agent = desk(&gate);
        let time = clock();
        let entries = entries(&place.open_at(&time).await, &time);
        let dead = Performer::new("local").leased("dead", LEASE);
        let begin = async |agent: &str, name: &str| {
            let mut request = ExecuteRequest::new(&desk(&Gate::new()), "hello");
            request.agent_type = agent.into();
            let request = request.in_session(session(name));
            entries.execute(request, &dead).await.unwrap();
        };
        for at in 0..300 {
            begin("ghost", &format!("ghost-{at}")).await;
            begin("broken", &format!("broken-{at}")).await;
        }
        time.advance(Duration::from_secs(1));
        begin("desk", "ours").await;
        time.advance(LEASE);

        let next = timed(&place, "next", &time).await;
        next.agents().register(&agent).unwrap();
        let wrong = |_: &AgentContext| Agent::builder("broken").build();
        next.agents().register_factory("broken", wrong).unwrap();
        let report = next.recover().await.unwrap();
        assert_eq!(report.failed, 300, "the log says why");
        let [run] = report.recovered.as_slice() else {
            panic!("unexpected: {report:?}");
        };
        assert_eq!(run.session_id, session("ours"));
        assert!(next.ended(run).await.unwrap().status.is_ended());
    }
}

/// A paused run that is asked to stop is ended by the sweeper, also without `auto_continue`. (Here
/// all calls are answered too, so that it can be.)
#[tokio::test]
async fn the_sweeper_stops_a_paused_run_that_was_asked_to_stop() {
    for place in Place::all() {
        let gate = Gate::new();
        let agent = desk(&gate);
        let asking = place.runtime().await;
        let request = Turn::new("pay").session(session("s"));
        let handle = asking.execute(&agent, request).await.unwrap();
        let pause = handle.outcome().await.unwrap().suspended().unwrap();
        let yes = pause.pending()[0].approve();
        asking.submit(yes).await.unwrap();
        let without = place.builder().await.agent(&agent).build();
        assert_eq!(without.recover().await.unwrap(), SweepReport::default());

        let store = &asking.backend().store;
        let stop = StopRequest::new(
            handle.run_id().clone(),
            StopKind::Interrupt,
            asking.clock().now(),
        );
        let asked = Commit::new(session("s"), asking.clock().now()).then(Change::Stop(stop));
        store.commit(asked).await.unwrap();
        let report = without.recover().await.unwrap();
        assert_eq!((report.stopped.len(), report.continued.len()), (1, 0));
        assert!(without.ended(&report.stopped[0]).await.is_ok());
    }
}

/// Expired sessions of any agent are removed with their streams, except those with a running run,
/// and except where cleaning up is turned off.
#[tokio::test]
async fn expired_sessions_are_removed() {
    for place in Place::all() {
        let gate = Gate::new();
        let agent = desk(&gate);
        let time = clock();
        let sweeping = timed(&place, "sweeping", &time).await;
        let store = Arc::clone(&sweeping.backend().store);
        let sessions = Sessions::new(&*store, &*time);
        let soon = Some(time.now().saturating_add(Duration::from_secs(5)));
        for at in 0..3 {
            let mut new = NewSession::of("nobody");
            new.expires_at = soon;
            let name = session(&format!("old-{at}"));
            sessions.create_session(&name, new).await.unwrap();
        }
        let handle = waiting(&sweeping, &agent, &gate).await;
        let expires = Change::Set(Field::ExpiresAt(soon));
        let commit = Commit::new(session("s"), time.now()).then(expires);
        store.commit(commit).await.unwrap();
        let there = async || {
            let mut there = 0;
            for name in ["old-0", "old-1", "old-2", "s"] {
                let exists = sessions.session_exists(&session(name)).await.unwrap();
                there += usize::from(exists);
            }
            there
        };
        assert_eq!(sweeping.recover().await.unwrap(), SweepReport::default());
        time.advance(Duration::from_secs(5));
        let careful = place.builder_at(&time).await.clean_up(false).build();
        assert_eq!(careful.recover().await.unwrap(), SweepReport::default());
        assert_eq!(there().await, 4);
        assert_eq!(sweeping.recover().await.unwrap().removed, 3);
        assert_eq!(there().await, 1, "its run is running");
        gate.open();
        assert!(handle.outcome().await.is_ok());
        assert_eq!(sweeping.recover().await.unwrap().removed, 1);
        assert_eq!(there().await, 0);
        let stream = sweeping.backend().streams.info(&session("s")).await;
        assert_eq!(stream.unwrap(), None);
    }
}

/// Records requests to condense past turns, and reports the given number of turns as condensed.
#[derive(Debug, Clone, Default)]
struct RecordingRetention {
    asked: Arc<Mutex<Vec<Timestamp>>>,
    removes: Arc<AtomicUsize>,
}

#[async_trait]
impl Retention for RecordingRetention {
    async fn condense_old_turns(&self, at: Timestamp, limit: usize) -> Result<usize, StreamError> {
        self.asked.lock().unwrap().push(at);
        Ok(self.removes.load(Ordering::SeqCst).min(limit))
    }
}

/// Past turns are condensed every minute, and sooner while there are more.
#[tokio::test]
async fn past_turns_are_condensed_every_minute() {
    let (time, broom) = (clock(), RecordingRetention::default());
    let backend = Place::memory().open().await.retained_by(broom.clone());
    let runtime = LocalRuntime::builder(backend)
        .recovery(false)
        .clock(time.clone())
        .build();
    let asked = async |after: u64| {
        time.advance(Duration::from_secs(after));
        runtime.recover().await.unwrap();
        broom.asked.lock().unwrap().len()
    };
    assert_eq!(asked(0).await, 1);
    assert_eq!(asked(59).await, 1);
    broom.removes.store(usize::MAX, Ordering::SeqCst);
    assert_eq!(asked(1).await, 2);
    assert_eq!(asked(1).await, 3, "there was more than it removes at once");
    broom.removes.store(0, Ordering::SeqCst);
    assert_eq!(asked(1).await, 4);
    assert_eq!(asked(1).await, 4);
}

/// Ten minutes after a turn its deltas are gone. A reader then gets each reply as a whole, and everything
/// else as it was, with the same sequences; text events give the same text.
#[tokio::test]
async fn a_past_turn_is_read_from_its_messages() {
    for place in Place::all() {
        let (gate, time) = (Gate::new(), clock());
        let agent = desk(&gate);
        let runtime = timed(&place, "one", &time).await;
        gate.open();
        let mut handles = Vec::new();
        for message in ["hello", "pay", "boom", "close", "fail"] {
            let turn = Turn::new(message).session(session(message));
            let handle = runtime.execute(&agent, turn).await.unwrap();
            if let Some(pause) = handle.outcome().await.unwrap().suspended() {
                runtime.submit(pause.pending()[0].approve()).await.unwrap();
                let handle = runtime.resume(&agent, session(message)).await.unwrap();
                handle.outcome().await.unwrap();
            }
            handles.push(handle);
        }
        let read = async |name: &str| {
            let chunks = runtime.chunks(session(name), Sequence::START);
            chunks.map(Result::unwrap).collect::<Vec<_>>().await
        };
        let names = ["hello", "pay", "boom", "close", "fail"];
        let mut before = Vec::new();
        for name in names {
            before.push(read(name).await);
        }
        time.advance(Duration::from_secs(599));
        runtime.recover().await.unwrap();
        for (name, before) in names.iter().zip(&before) {
            assert_eq!(
                read(name).await,
                *before,
                "{name}: within the window nothing changes"
            );
        }
        time.advance(Duration::from_secs(61));
        runtime.recover().await.unwrap();
        for (name, before) in names.iter().zip(&before) {
            let after = read(name).await;
            let told = |chunks: &[StoredChunk]| {
                let mut text = String::new();
                let mut others = Vec::new();
                for stored in chunks {
                    match &stored.chunk.payload {
                        ChunkPayload::TextDelta { delta }
                        | ChunkPayload::ToolArgStreamDelta { delta, .. } => text.push_str(delta),
                        payload if payload.is_in_messages() => {}
                        _ => others.push(stored.clone()),
                    }
                    if matches!(stored.chunk.payload, ChunkPayload::StepCommitted { .. }) {
                        text.push('|');
                    }
                }
                (text, others)
            };
            assert_eq!(told(&after), told(before), "{name}");
            let deltas = |chunks: &[StoredChunk]| {
                let is_delta = |one: &&StoredChunk| one.chunk.payload.is_in_messages();
                chunks.iter().filter(is_delta).count()
            };
            let (streams, root) = (&runtime.backend().streams, session(name));
            let stored = streams.read(&root, Sequence::START, 999);
            assert_eq!(deltas(&stored.await.unwrap()), 0, "{name}");
            assert!(deltas(&after) <= deltas(before), "{name}");
        }
        let text: String = handles[0].text().map(Result::unwrap).collect().await;
        assert_eq!(text, "Hello, how are you?");
    }
}

/// Messages that wait although no run is in progress, because a process died between the end of one run
/// and the start of the next, are delivered by the sweeper of any process that has the agent.
#[tokio::test]
async fn waiting_messages_are_due_work() {
    for place in Place::all() {
        let agent = desk(&Gate::new());
        let asking = place.runtime().await;
        let request = Turn::new("hello").session(session("s"));
        let first = asking.execute(&agent, request).await.unwrap();
        first.output().await.unwrap();
        let store = &asking.backend().store;
        let mut row = InboxRow::new("row", vec![UserMessage::new("and?")], Timestamp::default());
        row.run_id = Some(RunId::new("promised").unwrap());
        let waits = Commit::new(session("s"), Timestamp::default()).then(Change::Inbox(row));
        store.commit(waits).await.unwrap();

        let stranger = place.builder().await.build();
        assert_eq!(stranger.recover().await.unwrap(), SweepReport::default());
        let sweeping = place.builder().await.agent(&agent).build();
        let report = sweeping.recover().await.unwrap();
        let [run] = report.delivered.as_slice() else {
            panic!("unexpected: {report:?}");
        };
        assert_eq!(run.run_id.as_str(), "promised");
        assert!(sweeping.ended(run).await.unwrap().status.is_ended());
        assert_eq!(sweeping.recover().await.unwrap(), SweepReport::default());
        let messages = asking.messages(&session("s")).await.unwrap();
        let said = messages
            .into_iter()
            .filter(|message| matches!(message, Message::User(_)));
        assert_eq!(said.count(), 2);
    }
}

/// A session is removed when the time that its last turn set has passed, by default without anything else.
///
/// proves in part: SES-11
#[tokio::test]
async fn a_session_expires_after_its_last_turn() {
    for place in Place::all() {
        let agent = desk(&Gate::new());
        let time = clock();
        let hour = Duration::from_secs(3600);
        let runtime = place.builder_at(&time).await.agent(&agent);
        let runtime = runtime.expire_after(hour).build();
        for (name, turn) in [
            ("short", Turn::new("hello")),
            ("long", Turn::new("hello").expires_after(3 * hour)),
        ] {
            let run = runtime.execute(&agent, turn.session(session(name))).await;
            run.unwrap().output().await.unwrap();
        }
        assert_eq!(runtime.recover().await.unwrap().removed, 0);
        time.advance(2 * hour);
        assert_eq!(runtime.recover().await.unwrap().removed, 1);
        assert!(runtime.messages(&session("short")).await.is_err());
        assert!(runtime.messages(&session("long")).await.is_ok());
    }
}
