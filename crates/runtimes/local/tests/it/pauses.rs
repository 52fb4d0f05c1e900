//! Tests of paused runs, answers and their continuation.

use std::sync::Arc;

use helix_agents_core::agent::{Agent, AgentContext, AgentRegistry};
use helix_agents_core::entries::Continuation;
use helix_agents_core::runtime::{
    Outcome, Pause, RunOptions, Runtime, RuntimeExt, StartedRun, Turn,
};
use helix_agents_core::session::{RunStatus, SessionStatus, SubmissionOutcome};
use helix_agents_core::stream::{ChunkPayload, Sequence};
use helix_agents_runtime_local::LocalRuntime;

use crate::kit::{Gate, Place, desk, runs, session};

/// Starts a turn in session `s` and returns its pause.
async fn paused(runtime: &LocalRuntime, agent: &Agent, message: &str) -> Pause {
    let request = Turn::new(message).session(session("s"));
    let handle = runtime.execute(agent, request).await.unwrap();
    handle.outcome().await.unwrap().suspended().unwrap()
}

/// A run ends when it has to wait: the pending call is in the store and in the stream, and the
/// process keeps nothing of the run.
///
/// proves: SUS-01
#[tokio::test]
async fn a_run_that_waits_has_ended() {
    for place in Place::all() {
        let agent = desk(&Gate::new());
        let runtime = place.runtime().await;
        let pause = paused(&runtime, &agent, "pay").await;
        let report = runtime.shutdown(std::time::Duration::ZERO).await;
        assert_eq!((report.ended, report.handed_over, report.busy), (0, 0, 0));
        drop(runtime);

        let backend = place.open().await;
        let run = runs(&backend, &session("s")).await.remove(0);
        assert_eq!(run.status, RunStatus::SuspendedClientTool);
        assert!(run.ended_at.is_some());
        let found = backend
            .store
            .load(session("s").as_root())
            .await
            .unwrap()
            .unwrap();
        assert_eq!(
            (found.state.status, found.lease),
            (SessionStatus::Active, None)
        );
        let pending: Vec<_> = found
            .state
            .pending_client_tool_calls
            .into_values()
            .collect();
        assert_eq!(pending, pause.pending());
        assert_eq!(
            run.suspended.unwrap().tool_call_ids,
            [pending[0].tool_call_id.clone()]
        );

        let chunks = backend
            .streams
            .read(&session("s"), Sequence::START, 1_000)
            .await;
        let last = chunks.unwrap().pop().unwrap().chunk;
        let told = ChunkPayload::RunPaused {
            status: RunStatus::SuspendedClientTool,
            tool_call_ids: vec![pending[0].tool_call_id.clone()],
        };
        assert_eq!(last.payload, told);
    }
}

/// Three runtimes, each gone before the next starts: one asks, one answers, one resumes. An answer
/// is accepted once, however often and wherever it is repeated.
///
/// proves: SUS-03, SUS-06
/// proves in part: RUN-01, SUS-02, APR-02, APR-03
#[tokio::test]
async fn another_process_answers_and_resumes() {
    for place in Place::all() {
        let gate = Gate::new();
        let agent = desk(&gate);
        let asking = place.runtime().await;
        let pause = paused(&asking, &agent, "pay").await;
        assert_eq!(pause.status(), RunStatus::SuspendedClientTool);
        assert_eq!(
            gate.entered(),
            0,
            "the call is not run before it is approved"
        );
        drop(asking);

        let answering = place.runtime().await;
        let pending = answering.pending(&session("s")).await.unwrap();
        assert_eq!(pending, pause.pending());
        let submitted = answering.submit(pending[0].approve()).await;
        let submitted = submitted.unwrap();
        assert_eq!(submitted.outcome, SubmissionOutcome::Accepted);
        assert_eq!(submitted.continuation, Continuation::CallerResumes);
        assert_eq!(gate.entered(), 0, "an answer starts no run");
        assert_eq!(runs(answering.backend(), &session("s")).await.len(), 1);
        drop(answering);

        let resuming = place.runtime().await;
        let again = resuming.submit(pending[0].approve()).await;
        let repeated = (SubmissionOutcome::AlreadyCompleted, Continuation::None);
        let again = again.unwrap();
        assert_eq!((again.outcome, again.continuation), repeated);
        let handle = resuming.resume(&agent, pause.session()).await.unwrap();
        let outcome = handle.outcome().await.unwrap();
        assert_eq!(outcome, Outcome::Done("paid: 5".to_owned()));
        assert_eq!(gate.passed(), 1);

        let usage = handle.usage().await.unwrap();
        assert_eq!((usage.tokens.input, usage.tokens.output), (30, 5));
        assert_eq!((usage.tools.calls, usage.tools.failures), (1, 0));
        let runs = runs(resuming.backend(), &session("s")).await;
        let statuses: Vec<_> = runs.iter().map(|run| (run.turn, run.status)).collect();
        let expected = [
            (1, RunStatus::SuspendedClientTool),
            (1, RunStatus::Completed),
        ];
        assert_eq!(statuses, expected);
        drop(resuming);

        let later = place.runtime().await;
        let again = later.submit(pending[0].approve()).await.unwrap();
        assert_eq!((again.outcome, again.continuation), repeated);
        assert_eq!(gate.passed(), 1);
    }
}

/// proves in part: APR-03
#[tokio::test]
async fn a_denied_call_is_never_run() {
    for place in Place::all() {
        let gate = Gate::new();
        let agent = desk(&gate);
        let runtime = place.runtime().await;
        let pause = paused(&runtime, &agent, "pay").await;
        let no = pause.pending()[0].deny("not today");
        runtime.submit(no).await.unwrap();
        let handle = runtime.resume(&agent, pause.session()).await.unwrap();
        let Outcome::Done(text) = handle.outcome().await.unwrap() else {
            panic!("the turn must not end");
        };
        let text = text.as_str();
        assert!(
            text.contains("was not approved") && text.contains("not today"),
            "{text}"
        );
        assert_eq!(gate.entered(), 0);
    }
}

/// With `auto_continue` the last answer resumes the session, and only the last.
#[tokio::test]
async fn the_last_answer_resumes_the_session() {
    for place in Place::all() {
        let agent = desk(&Gate::new());
        let runtime = place.builder().await.auto_continue(true).build();
        let pause = paused(&runtime, &agent, "ask").await;
        let [first, last] = pause.pending() else {
            panic!("two calls are pending");
        };
        let one = runtime.submit(first.result("one")).await.unwrap();
        assert_eq!(one.continuation, Continuation::None);
        let two = runtime.submit(last.result("two")).await.unwrap();
        assert_eq!(two.continuation, Continuation::NewRun);

        let handle = runtime.handle(&agent, session("s")).await.unwrap().unwrap();
        assert_ne!(handle.run_id(), pause.run());
        let outcome = handle.outcome().await.unwrap();
        assert_eq!(outcome, Outcome::Done("answers: one two".to_owned()));
        assert_eq!(runs(runtime.backend(), &session("s")).await.len(), 2);
    }
}

/// A runtime without the agent leaves resuming to the caller that answered.
#[tokio::test]
async fn a_runtime_without_the_agent_does_not_continue() {
    let place = Place::memory();
    let agent = desk(&Gate::new());
    let pause = paused(&place.runtime().await, &agent, "pay").await;
    let other = place.builder().await.auto_continue(true).build();
    let yes = pause.pending()[0].approve();
    let submitted = other.submit(yes).await.unwrap();
    assert_eq!(submitted.outcome, SubmissionOutcome::Accepted);
    assert_eq!(submitted.continuation, Continuation::CallerResumes);
    assert_eq!(runs(other.backend(), &session("s")).await.len(), 1);
}

/// Another process may resume between an answer and its continuation. That is not an error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn losing_the_race_to_continue_is_not_an_error() {
    let place = Place::memory();
    let gate = Gate::new();
    let agent = desk(&gate);
    let faster = place.builder().await.agent(&agent).build();
    let pause = paused(&faster, &agent, "pay").await;

    // The agent is looked up after the answer is stored and before the session is resumed.
    let registry = Arc::new(AgentRegistry::new());
    let host = tokio::runtime::Handle::current();
    let (resuming, session) = (faster.clone(), pause.session().clone());
    let factory = move |_: &AgentContext| {
        let (host, runtime, session) = (host.clone(), resuming.clone(), session.clone());
        let resumes =
            move || host.block_on(runtime.resume_session((&session).into(), RunOptions::default()));
        std::thread::spawn(resumes).join().unwrap().unwrap();
        Ok(agent.clone())
    };
    registry.register_factory("desk", factory).unwrap();
    let answering = place.builder().await.agents(registry).auto_continue(true);
    let yes = pause.pending()[0].approve();
    let submitted = answering.build().submit(yes).await.unwrap();
    assert_eq!(submitted.outcome, SubmissionOutcome::Accepted);
    assert_eq!(submitted.continuation, Continuation::NewRun);

    let runs = runs(faster.backend(), pause.session()).await;
    assert_eq!(runs.len(), 2);
    let last = StartedRun::new(pause.session().as_root(), runs[1].id.clone());
    assert!(faster.ended(&last).await.unwrap().status.is_ended());
    assert_eq!(gate.passed(), 1);
}
