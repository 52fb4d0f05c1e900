//! A store that fails under a live run.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use helix_agents_core::entries::Entries;
use helix_agents_core::hooks::{AgentHooks, BeforeModelCall, HookCx, HookResult};
use helix_agents_core::model::ModelErrorKind;
use helix_agents_core::session::{RunStatus, SubmissionOutcome};
use helix_agents_core::store::{Change, Commit};
use helix_agents_core::stream::ChunkPayload;
use serde_json::{Value, json};

use super::super::Subject;
use super::super::make::call;
use super::super::runtime::stage::{Log, browser, calling, of_model, tool};
use super::desk::{Desk, answer};
use super::faulty::{Fate, Faulty};
use crate::{MockModel, MockReply};

fn opens_a_step(commit: &Commit) -> bool {
    let opens = |change: &Change| matches!(change, Change::OpenStep(Some(_)));
    commit.changes.iter().any(|(_, change)| opens(change))
}

/// The acknowledgement of a reply is lost, and so is the look after it: the reply is not committed
/// twice, and an answer that came in between is not overwritten.
pub async fn a_commit_whose_acknowledgement_is_lost_is_made_once(on: &Subject) {
    let model = Arc::new(MockModel::replies([
        calling([("q1", "ask"), ("q2", "ask")]),
        MockReply::text("done"),
    ]));
    let agent = of_model(&model).tools(browser("ask")).build().unwrap();
    let lost = AtomicBool::new(false);
    let entries = Arc::new(OnceLock::<(Entries, Faulty)>::new());
    let store = Faulty::new(on, {
        let entries = Arc::clone(&entries);
        move |commit| {
            if !opens_a_step(commit) || lost.swap(true, Ordering::SeqCst) {
                return Fate::Made;
            }
            let entries = Arc::clone(&entries);
            Fate::UnacknowledgedAfter(Box::pin(async move {
                let (entries, store) = entries.get().unwrap();
                let early = entries.submit(&answer("q1", "blue")).await.unwrap();
                assert_eq!(early.outcome, SubmissionOutcome::Accepted);
                // The first looks afterwards fail, too.
                store.fail_reads(2);
            }))
        }
    });
    let mut desk = Desk::on(store.clone(), on, agent, Vec::new()).await;
    entries.set((desk.entries.clone(), store)).unwrap();
    let effects = desk.begin();
    let effects = desk.next(&effects).await;
    let found = desk.found().await;
    let pending = &found.state.pending_client_tool_calls[&call("q1")];
    assert!(pending.answer.is_some(), "the answer is not overwritten");
    let starts = desk.said().await.into_iter();
    let starts = starts.filter(|said| matches!(said, ChunkPayload::ToolStart { .. }));
    assert_eq!(starts.count(), 2, "the reply is told once");

    desk.entries.submit(&answer("q2", "red")).await.unwrap();
    desk.through(effects).await;
    assert_eq!(desk.run().await.status, RunStatus::Completed);
    let contents: Vec<_> = desk
        .results()
        .await
        .into_iter()
        .map(|one| one.content)
        .collect();
    assert_eq!(contents, ["blue", "red"]);
}

/// Writes to the state before every model call.
struct Counts;

#[async_trait]
impl AgentHooks for Counts {
    async fn before_llm_call(&self, _: &BeforeModelCall<'_>, cx: &HookCx) -> HookResult {
        cx.update_state(|state: &mut Value| state["asked"] = json!(count(state) + 1))?;
        Ok(())
    }
}

fn count(state: &Value) -> u64 {
    state["asked"].as_u64().unwrap_or_default()
}

/// A model call fails, and the acknowledgement of what its hooks wrote is lost: it is written once,
/// and the failure is told as it was.
pub async fn what_hooks_wrote_before_a_failed_call_is_written_once(on: &Subject) {
    let model = Arc::new(MockModel::replies([
        MockReply::error(ModelErrorKind::Overloaded),
        MockReply::text("done"),
    ]));
    let agent = of_model(&model).build().unwrap();
    let lost = AtomicBool::new(false);
    let store = Faulty::new(on, move |commit| {
        let writes = |change: &Change| matches!(change, Change::WriteState(_));
        let writes = commit.changes.iter().any(|(_, change)| writes(change));
        match writes && !lost.swap(true, Ordering::SeqCst) {
            true => Fate::Unacknowledged,
            false => Fate::Made,
        }
    });
    let hooks: Vec<Arc<dyn AgentHooks>> = vec![Arc::new(Counts)];
    let mut desk = Desk::on(store, on, agent, hooks).await;
    desk.drive().await;
    assert_eq!(desk.run().await.status, RunStatus::Completed);
    let state = desk.found().await.state.custom_state;
    assert_eq!(*state, json!({ "asked": 2 }), "once for each attempt");
    assert_eq!(model.seen().len(), 2);
}

/// Reads, deltas and commits fail for a while: the run goes on, a tool is not cut short, nothing is
/// said twice.
pub async fn a_store_that_fails_for_a_while_ends_no_run(on: &Subject) {
    let log = Log::default();
    let model = Arc::new(MockModel::replies([
        MockReply::text("thinking. ").with_calls([("c1", "work", json!({}))]),
        MockReply::text("done"),
    ]));
    let mut commits = 0;
    let store = Faulty::new(on, move |_| {
        commits += 1;
        // Of three commits one is not made, and one is not acknowledged.
        match commits % 3 {
            1 => Fate::Failed,
            2 => Fate::Unacknowledged,
            _ => Fate::Made,
        }
    });
    let tool = {
        let (log, store) = (log.clone(), store.clone());
        tool("work", move |_, cx| {
            let (log, store) = (log.clone(), store.clone());
            async move {
                log.note("begins");
                store.fail_deltas(1);
                cx.emit("progress", json!(1)).unwrap();
                pause().await;
                store.lose_deltas(1);
                cx.emit("progress", json!(2)).unwrap();
                pause().await;
                store.fail_reads(2);
                log.note("ends");
                Ok(json!("worked"))
            }
        })
    };
    let agent = of_model(&model).tools(tool).build().unwrap();
    let mut desk = Desk::on(store, on, agent, Vec::new()).await;
    desk.drive().await;
    assert_eq!(desk.run().await.status, RunStatus::Completed);
    assert_eq!(log.take(), ["begins", "ends"]);
    assert_eq!(desk.text().await, "thinking. done");
    let progress: Vec<_> = desk
        .said()
        .await
        .into_iter()
        .filter_map(|said| match said {
            ChunkPayload::Custom { data, .. } => Some(data),
            _ => None,
        })
        .collect();
    assert_eq!(
        progress,
        [json!(1), json!(2)],
        "each is told once, in order"
    );
    assert_eq!(model.seen().len(), 2, "no reply is bought twice");
}

/// Lets others have their turn a number of times, so that what was said is written.
async fn pause() {
    for _ in 0..64 {
        let mut first = true;
        std::future::poll_fn(|cx| {
            if std::mem::take(&mut first) {
                cx.waker().wake_by_ref();
                return std::task::Poll::Pending;
            }
            std::task::Poll::Ready(())
        })
        .await;
    }
}
