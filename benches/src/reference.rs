//! The reference step: a call of a tool that adds two numbers, as the two commits that the framework makes of it.

use std::sync::Arc;

use helix_agents_core::id::{CallId, CheckpointId, RunId, SessionId, StepId, UsageId};
use helix_agents_core::message::{
    AssistantMessage, AssistantPart, ToolCall, ToolMessage, UserMessage,
};
use helix_agents_core::model::TokenUsage;
use helix_agents_core::session::{
    CallPhase, CallState, Checkpoint, CheckpointSource, OpenCall, OpenStep, RunRecord, RunTrigger,
    SessionStatus,
};
use helix_agents_core::step::{ToolResultInput, create_tool_result_message};
use helix_agents_core::store::{
    Change, Commit, Fence, Field, NewSession, Precondition, SessionStore, Sessions,
};
use helix_agents_core::transcript::PairedStep;
use helix_agents_core::usage::{UsageEntry, UsageKind};
use helix_agents_testkit::VirtualClock;
use serde_json::json;

use crate::sqlite::{NOW, Outcome};

/// One session with a run, ready for steps.
#[derive(Debug)]
pub(crate) struct Reference {
    pub(crate) session: SessionId,
    pub(crate) run: RunId,
    /// How many steps were made.
    pub(crate) steps: usize,
}

impl Reference {
    pub(crate) async fn create(store: &dyn SessionStore, name: &str) -> Outcome<Self> {
        let (session, run) = (SessionId::new(name)?, RunId::new(format!("run-{name}"))?);
        let clock = VirtualClock::new(NOW);
        let sessions = Sessions::new(store, &clock);
        sessions
            .create_session(&session, NewSession::of("bench"))
            .await?;
        let record = RunRecord::started(
            run.clone(),
            session.clone(),
            RunTrigger::Execute,
            "local",
            NOW,
        );
        let start = Commit::new(session.clone(), NOW)
            .then(Change::RaiseFence)
            .then(Change::StartRun(Box::new(record)))
            .then(Change::AppendUser(UserMessage::new("add the numbers")));
        store.commit(start).await?;
        Ok(Self {
            session,
            run,
            steps: 0,
        })
    }

    /// Makes the two commits of a durable tool step.
    pub(crate) async fn step(&mut self, store: &dyn SessionStore) -> Outcome<()> {
        for commit in self.commits()? {
            store.commit(commit).await?;
        }
        Ok(())
    }

    /// The two commits of the next step: the reply with its intent, and the settled step.
    fn commits(&mut self) -> Outcome<[Commit; 2]> {
        self.steps += 1;
        let n = self.steps;
        let (message, result) = reference_step(n)?;
        let step = StepId::new(format!("step-{n}"))?;
        let open = OpenStep::new(step, self.run.clone(), 1, message.clone(), |_| {
            OpenCall::new(CallPhase::Regular, CallState::Ready)
        });
        let fenced = || Commit::new(self.session.clone(), NOW).when(Precondition::Fence(Fence(1)));
        let reply = fenced().then(Change::OpenStep(Some(Arc::new(open))));
        let id = CheckpointId::new(format!("cp-{n:08x}-0000-7000-8000-000000000000"))?;
        let checkpoint = Checkpoint {
            id,
            session_id: self.session.clone(),
            run_id: self.run.clone(),
            status: SessionStatus::Active,
            timestamp: NOW,
            step_count: 1,
            message_count: 1 + 2 * n,
            state_version: 0,
            open_step: None,
        };
        let usage = |what: &str, kind| -> Outcome<Change> {
            let id = UsageId::new(format!("usage-{what}-{n}"))?;
            Ok(Change::Usage(UsageEntry {
                id,
                run_id: self.run.clone(),
                step: 1,
                timestamp: NOW,
                kind,
            }))
        };
        let tokens = UsageKind::Tokens {
            model: "scripted/bench".into(),
            tokens: TokenUsage::new(12, 3),
            micro_dollars: None,
        };
        let tool = UsageKind::Tool {
            name: "add".to_owned().into(),
            success: true,
            duration_ms: 1,
        };
        let settle = fenced()
            .then(Change::AppendStep(PairedStep::new(message, [result])?))
            .then(Change::OpenStep(None))
            .then(Change::Checkpoint(checkpoint, CheckpointSource::Staging))
            .then(usage("model", tokens)?)
            .then(usage("tool", tool)?)
            .then(Change::Set(Field::OneStepMore));
        Ok([reply, settle])
    }
}

/// A call of `add` and its result.
pub(crate) fn reference_step(n: usize) -> Outcome<(AssistantMessage, ToolMessage)> {
    let call = CallId::new(format!("call_{n}"))?;
    let message = AssistantMessage::new(vec![AssistantPart::ToolCall(ToolCall::new(
        call.clone(),
        "add",
        json!({ "a": n, "b": 1 }),
    ))]);
    let result = create_tool_result_message(ToolResultInput {
        tool_call_id: call,
        tool_name: "add".into(),
        result: Ok(json!({ "sum": n + 1 })),
    });
    Ok((message, result))
}
