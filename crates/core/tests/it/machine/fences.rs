//! A run that is taken over writes nothing more, at whichever point that happens.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use helix_agents_core::agent::AgentRegistry;
use helix_agents_core::entries::{Entries, ExecuteRequest, Performer};
use helix_agents_core::hooks::{
    AfterModelCall, AfterTool, AgentComplete, AgentHooks, AgentSuspended, BeforeTool, HookCx,
    HookResult, StateChange,
};
use helix_agents_core::machine::AgentLimits;
use helix_agents_core::memory::MemoryStore;
use helix_agents_core::perform::Ports;
use helix_agents_core::store::{Page, SessionStore, Snapshot};
use helix_agents_core::stream::{Sequence, StoredChunk, StreamManager};
use helix_agents_core::time::Timestamp;
use helix_agents_core::tool::{Tool, ToolCx};
use helix_agents_core::{Agent, Message, SessionId};
use helix_agents_testkit::{MockModel, MockReply, SequentialIds, VirtualClock, block_on, drive};
use serde_json::{Value, json};

type All = (Option<Snapshot>, Vec<Message>, Vec<StoredChunk>);

/// A hook in which another process takes the run over.
struct TakesOver {
    within: &'static str,
    done: AtomicBool,
    entries: Entries,
    store: MemoryStore,
    left: Mutex<Option<All>>,
}

fn session() -> SessionId {
    SessionId::new("s").unwrap()
}

async fn all(store: &MemoryStore) -> All {
    let messages = store
        .messages(session().as_root(), Page::ALL)
        .await
        .unwrap()
        .items;
    let chunks = store.read(&session(), Sequence::START, usize::MAX).await;
    (
        store.load(session().as_root()).await.unwrap(),
        messages,
        chunks.unwrap(),
    )
}

impl TakesOver {
    async fn here(&self, hook: &'static str) -> HookResult {
        if hook == self.within && !self.done.swap(true, Ordering::Relaxed) {
            let performer = Performer::new("test");
            self.entries.recover(&session(), &performer).await.unwrap();
            let left = all(&self.store).await;
            *self.left.lock().unwrap() = Some(left);
        }
        Ok(())
    }
}

#[async_trait]
impl AgentHooks for TakesOver {
    async fn after_llm_call(&self, _: &AfterModelCall<'_>, _: &HookCx) -> HookResult {
        self.here("after_llm_call").await
    }

    async fn before_tool(&self, _: &BeforeTool<'_>, _: &HookCx) -> HookResult {
        self.here("before_tool").await
    }

    async fn on_state_change(&self, _: &StateChange<'_>, _: &HookCx) -> HookResult {
        self.here("on_state_change").await
    }

    async fn after_tool(&self, _: &AfterTool<'_>, _: &HookCx) -> HookResult {
        self.here("after_tool").await
    }

    async fn on_agent_suspended(&self, _: &AgentSuspended<'_>, _: &HookCx) -> HookResult {
        self.here("on_agent_suspended").await
    }

    async fn on_agent_complete(&self, _: &AgentComplete<'_>, _: &HookCx) -> HookResult {
        self.here("on_agent_complete").await
    }
}

/// Drives a run that is taken over within a hook, and compares the result with what the new run left.
fn taken_over(within: &'static str, replies: Vec<MockReply>, remembering: bool) {
    let store = MemoryStore::new();
    let clock = Arc::new(VirtualClock::new(Timestamp::from_millis(1_000)).auto_advance());
    let ids = Arc::new(SequentialIds::new());
    let shared = Arc::new(store.clone());
    let entries = Entries::new(shared.clone(), shared.clone(), clock.clone(), ids.clone());
    let hooks = Arc::new(TakesOver {
        within,
        done: AtomicBool::new(false),
        entries: entries.clone(),
        store: store.clone(),
        left: Mutex::default(),
    });
    let writes = Tool::raw("write", "Writes.", json!({ "type": "object" }), {
        |_: Value, cx: ToolCx| async move {
            cx.edit_state(|draft| draft.increment("/n", 1))?;
            Ok(json!("done"))
        }
    });
    let browser = Tool::client_raw("browser", "Looks.", json!({ "type": "object" }));
    let agent = Agent::builder("agent")
        .model(Arc::new(MockModel::replies(replies)))
        .tools([writes, browser])
        .initial_state(json!({ "n": 0 }))
        .build()
        .unwrap();
    let agents = Arc::new(AgentRegistry::new());
    agents.register(&agent).unwrap();
    let mut ports = Ports::new(shared.clone(), shared, clock, ids, agents);
    ports.execution_hooks.push(hooks.clone());
    if remembering {
        ports = ports.remembering();
    }
    block_on(async {
        let request = ExecuteRequest::new(&agent, "go").in_session(session());
        let performer = Performer::new("test");
        let state = entries.execute(request, &performer).await.unwrap();
        let driven = drive(&AgentLimits::of(&agent), state, &ports).await;
        let Err(error) = driven else {
            panic!("{within}: it goes on as if nothing had happened");
        };
        assert!(error.is_superseded(), "{within}: {error}");
        let left = hooks.left.lock().unwrap().take();
        assert_eq!(Some(all(&store).await), left, "{within}");
    });
}

#[test]
fn a_run_that_is_taken_over_writes_nothing_more() {
    let calls = |calls: &[(&'static str, &'static str)]| {
        MockReply::calls(calls.iter().map(|(id, tool)| (*id, *tool, json!({}))))
    };
    for remembering in [false, true] {
        let two = || calls(&[("c1", "write"), ("c2", "write")]);
        for within in [
            "after_llm_call",
            "before_tool",
            "on_state_change",
            "after_tool",
        ] {
            taken_over(within, vec![calls(&[("c1", "write")])], remembering);
            taken_over(within, vec![two()], remembering);
        }
        taken_over(
            "on_agent_suspended",
            vec![calls(&[("c1", "browser")])],
            remembering,
        );
        taken_over(
            "on_agent_complete",
            vec![MockReply::text("done")],
            remembering,
        );
    }
}
