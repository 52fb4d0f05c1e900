//! Tests of the same request twice at the same time, in two runtimes over one store.

use std::sync::Arc;

use helix_agents_core::entries::{AsRead, EntryError, ExpectedSession, KnownSession};
use helix_agents_core::runtime::{
    Outcome, Pause, RunOptions, Runtime, RuntimeError, RuntimeExt, Turn,
};
use helix_agents_core::session::{RunStatus, SubmissionOutcome};
use helix_agents_core::store::Snapshot;
use helix_agents_runtime_local::LocalRuntime;
use tokio::sync::Barrier;

use crate::kit::{Gate, Place, desk, runs, session};

/// The number of repetitions in memory; on disk, a twentieth of it.
const TIMES: usize = 1_000;

async fn paused(runtime: &LocalRuntime, agent: &helix_agents_core::Agent, name: &str) -> Pause {
    let request = Turn::new("pay").session(session(name));
    let handle = runtime.execute(agent, request).await.unwrap();
    handle.outcome().await.unwrap().suspended().unwrap()
}

/// Of two concurrent resumes exactly one runs; the other is told why it was refused.
///
/// proves: SUS-05
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_resumes_at_once() {
    for (place, times) in Place::all().into_iter().zip([TIMES, TIMES / 20]) {
        resume_at_once(&place, times).await;
    }
}

#[expect(clippy::print_stdout, reason = "how the race went")]
async fn resume_at_once(place: &Place, times: usize) {
    let backend = place.open().await;
    let two = [place.runtime().await, place.runtime().await];
    let gate = Gate::new();
    let agent = desk(&gate);
    two.iter()
        .for_each(|runtime| runtime.agents().keep(&agent).unwrap());
    let [one, _] = &two;
    let (mut while_running, mut after_the_end) = (0, 0);
    for time in 0..times {
        let pause = paused(one, &agent, &format!("s{time}")).await;
        let yes = pause.pending().first().unwrap().approve();
        one.submit(yes).await.unwrap();

        let barrier = Arc::new(Barrier::new(2));
        let resumes = two.clone().map(|runtime| {
            let (barrier, session) = (Arc::clone(&barrier), pause.session().clone());
            tokio::spawn(async move {
                barrier.wait().await;
                let resumed = runtime
                    .resume_session((&session).into(), RunOptions::default())
                    .await;
                (runtime, resumed)
            })
        });
        let mut winners = 0;
        for resume in resumes {
            let (runtime, resumed) = resume.await.unwrap();
            match resumed {
                Ok(run) => {
                    winners += 1;
                    let record = runtime.ended(&run).await.unwrap();
                    assert_eq!(record.status, RunStatus::Completed);
                }
                Err(RuntimeError::Entry(EntryError::AlreadyRunning { .. })) => while_running += 1,
                Err(RuntimeError::Entry(EntryError::AlreadyCompleted { .. })) => after_the_end += 1,
                Err(error) => panic!("not a refusal of a late resume: {error:?}"),
            }
        }
        assert_eq!(winners, 1, "time {time}");
        let runs = runs(&backend, pause.session()).await;
        assert_eq!(runs.len(), 2, "a resume that is refused writes no run");
        assert_eq!(gate.passed(), time + 1, "the call is run once");
    }
    println!("refused while it ran: {while_running}, after its end: {after_the_end}");
    assert_eq!(while_running + after_the_end, times);
}

/// An entry plans on what its caller has read. If that has changed since, it reads again, and
/// neither a call nor a turn is run twice.
#[tokio::test]
async fn an_entry_on_an_outdated_read_is_refused_or_repeated() {
    for place in Place::all() {
        let gate = Gate::new();
        let agent = desk(&gate);
        let runtime = place.builder().await.agent(&agent).build();
        let store = Arc::clone(&runtime.backend().store);
        let start = async |read: AsRead| {
            let turn = Turn::new("pay")
                .session("s")
                .expecting(ExpectedSession::New);
            let run = runtime.execute(&agent, turn.as_read(read)).await.unwrap();
            let pause = run.outcome().await.unwrap().suspended().unwrap();
            (run.run_id().clone(), pause)
        };
        let (first, pause) = start(AsRead::Absent).await;
        let (repeated, _) = start(AsRead::Absent).await;
        assert_eq!(repeated, first);

        let waiting = store.find(&session("s")).await.unwrap().unwrap();
        let yes = pause.pending().first().unwrap().approve();
        runtime.submit(yes).await.unwrap();
        let answered = store.find(&session("s")).await.unwrap().unwrap();
        let resume = |read: &Snapshot| {
            let read = KnownSession::from(read.clone());
            runtime.resume_session(read.into(), RunOptions::default())
        };
        let refused = resume(&waiting).await.unwrap_err();
        let RuntimeError::Entry(EntryError::AwaitingAnswers { .. }) = refused else {
            panic!("unexpected: {refused:?}");
        };
        let run = resume(&answered).await.unwrap();
        runtime.ended(&run).await.unwrap();
        let refused = resume(&answered).await.unwrap_err();
        let RuntimeError::Entry(EntryError::AlreadyCompleted { .. }) = refused else {
            panic!("unexpected: {refused:?}");
        };
        assert_eq!(gate.passed(), 1);
        assert_eq!(runs(runtime.backend(), &session("s")).await.len(), 2);
    }
}

/// Of two equal answers at the same time one is accepted, and the session continues once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_concurrent_answers_one_is_accepted() {
    for (place, times) in Place::all().into_iter().zip([TIMES, TIMES / 20]) {
        answer_at_once(&place, times).await;
    }
}

async fn answer_at_once(place: &Place, times: usize) {
    let backend = place.open().await;
    let gate = Gate::new();
    let agent = desk(&gate);
    let two = [
        place
            .builder()
            .await
            .agent(&agent)
            .auto_continue(true)
            .build(),
        place
            .builder()
            .await
            .agent(&agent)
            .auto_continue(true)
            .build(),
    ];
    let [one, _] = &two;
    for time in 0..times {
        let pause = paused(one, &agent, &format!("s{time}")).await;
        let barrier = Arc::new(Barrier::new(2));
        let answers = two.clone().map(|runtime| {
            let (barrier, yes) = (
                Arc::clone(&barrier),
                pause.pending().first().unwrap().approve(),
            );
            tokio::spawn(async move {
                barrier.wait().await;
                runtime.submit(yes).await.unwrap().outcome
            })
        });
        let mut outcomes = Vec::new();
        for answer in answers {
            outcomes.push(answer.await.unwrap());
        }
        outcomes.sort_by_key(|outcome| *outcome != SubmissionOutcome::Accepted);
        let expected = [
            SubmissionOutcome::Accepted,
            SubmissionOutcome::AlreadyCompleted,
        ];
        assert_eq!(outcomes, expected, "time {time}");

        let handle = one.handle(&agent, pause.session()).await.unwrap().unwrap();
        let outcome = handle.outcome().await.unwrap();
        assert_eq!(outcome, Outcome::Done("paid: 5".to_owned()));
        assert_eq!(runs(&backend, pause.session()).await.len(), 2);
        assert_eq!(gate.passed(), time + 1, "the call is run once");
    }
}
