//! `helix submit`: answers a pending call.

use clap::Args;
use helix_agents_core::entries::{Continuation, EntryError, ToolAnswer};
use helix_agents_core::runtime::{Backend, RuntimeError, RuntimeExt};
use helix_agents_core::session::{
    AnswerKind, PendingCall, PendingKind, Submission, SubmissionError, SubmissionOutcome,
};
use helix_agents_core::store::Lookup;
use helix_agents_core::{ApprovalId, CallId, Error, SessionId, UserId};
use serde_json::{Value, json};

use super::{id, load};
use crate::decision::{AnsweredCall, PASSED};
use crate::exit::{Exit, UsageError};
use crate::screen::{Look, Screen};
use crate::setup::Place;

/// Answers a pending call. The answer is durable when the command ends; it starts no run.
#[derive(Debug, Args)]
pub(crate) struct Submit {
    /// The id of the session
    session: String,
    /// The id of the call
    call: String,
    #[command(flatten)]
    answer: Answer,
    /// The user who decides
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

/// The answer: exactly one of them.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Answer {
    /// Approve the call
    #[arg(long)]
    approve: bool,
    /// Deny the call, with a reason that the model reads
    #[arg(long, value_name = "REASON", allow_hyphen_values = true)]
    deny: Option<String>,
    /// The result of a call that you ran
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    result: Option<String>,
    /// The error of a call that failed or will not be answered
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    error: Option<String>,
}

enum GivenAnswer {
    Approve,
    Deny(String),
    Result(Value),
    Error(String),
}

impl Answer {
    fn read(self) -> Result<GivenAnswer, UsageError> {
        if let Some(text) = self.result {
            let value = serde_json::from_str(&text).map_err(|error| {
                UsageError(format!(
                    "--result is not JSON: {error}; put a text in quotes of its own: '\"text\"'"
                ))
            })?;
            return Ok(GivenAnswer::Result(value));
        }
        Ok(match (self.deny, self.error) {
            (Some(reason), _) => GivenAnswer::Deny(reason),
            (None, Some(text)) => GivenAnswer::Error(text),
            (None, None) => GivenAnswer::Approve,
        })
    }
}

impl GivenAnswer {
    /// Returns the answer to a pending call, bound to its digest.
    fn to(self, call: &PendingCall) -> ToolAnswer {
        match self {
            Self::Approve => call.approve(),
            Self::Deny(reason) => call.deny(reason),
            Self::Result(value) => call.result(value),
            Self::Error(text) => call.error(text),
        }
    }

    /// Returns the answer to a call that is not pending, whose result says what happened to the
    /// call. A call that has timed out is known by its approval.
    fn unbound(
        self,
        root: SessionId,
        call: CallId,
        approval: Option<&ApprovalId>,
    ) -> anyhow::Result<ToolAnswer> {
        let decision = |approved, reason| {
            let approval = match approval.cloned() {
                Some(approval) => approval,
                None => ApprovalId::new("none")?,
            };
            Ok::<_, anyhow::Error>(Submission::decision(
                call.clone(),
                approval,
                approved,
                reason,
            ))
        };
        let submission = match self {
            Self::Approve => decision(true, None)?,
            Self::Deny(reason) => decision(false, Some(reason))?,
            Self::Result(value) => Submission::result(call, value),
            Self::Error(text) => Submission::error(call, text),
        };
        Ok(ToolAnswer::new(root, submission))
    }
}

impl Submit {
    pub(crate) async fn run(self) -> anyhow::Result<Exit> {
        let session: SessionId = id(&self.session)?;
        let call: CallId = id(&self.call)?;
        let user: Option<UserId> = self.user.as_deref().map(id).transpose()?;
        let given = self.answer.read()?;
        let setup = self.place.open_existing().await?;
        let found = load(setup.backend.store.as_ref(), &session).await?;
        let root = found.state.root().clone();
        let mut answer = match waiting(&setup.backend, &root, &call).await? {
            Some(pending) => given.to(&pending),
            None => {
                let approval = timed_out(&setup.backend, &root, &call).await?;
                given.unbound(root.clone(), call.clone(), approval.as_ref())?
            }
        };
        answer.decided_by = user;
        let submitted = setup.runtime().submit(answer.clone()).await;
        let submitted = submitted.map_err(hinted)?;
        let before = match submitted.outcome {
            SubmissionOutcome::Accepted => None,
            _ => {
                AnsweredCall::by(&answer, None)
                    .decision(&setup.backend)
                    .await?
            }
        };

        let screen = Screen::of_process();
        if self.json {
            screen.json(&json!({
                "status": submitted.outcome,
                "continuation": submitted.continuation,
            }))?;
        }
        if submitted.outcome == SubmissionOutcome::UnknownToolCall {
            let pending = self.place.command("pending");
            let before = before.map(|what| format!("it was {what}; "));
            anyhow::bail!(
                "unknown_tool_call: call {call} is not pending in session {session}; {}`{pending}` lists \
                 what waits",
                before.unwrap_or_default()
            );
        }
        if !self.json {
            let before = before.unwrap_or_else(|| "answered before".to_owned());
            let text = match submitted.outcome {
                SubmissionOutcome::Accepted => "accepted".to_owned(),
                SubmissionOutcome::AlreadyCompleted => {
                    format!("already_completed: it was {before}; this answer changes nothing")
                }
                _ => format!("late_answer_after_timeout: it {PASSED}"),
            };
            screen.print_line(screen.on_out(Look::Plain, &text))?;
            if submitted.continuation == Continuation::CallerResumes {
                let resume = self.place.command(&format!("resume {root}"));
                screen.note(
                    Look::Dim,
                    format!("no other call is pending; a server continues automatically, or `{resume}` does"),
                )?;
            }
        }
        Ok(Exit::Done)
    }
}

/// A refusal with the flags to use instead.
fn hinted(error: Error) -> anyhow::Error {
    let Some(RuntimeError::Entry(EntryError::Answer(SubmissionError::WrongKind {
        call,
        waits_for,
    }))) = error.downcast_ref()
    else {
        return error.into();
    };
    let (what, flags) = match waits_for {
        PendingKind::Approval => ("a decision", "--approve or --deny REASON"),
        _ => ("a result", "--result JSON or --error TEXT"),
    };
    UsageError(format!("call {call} waits for {what}; answer with {flags}")).into()
}

/// Returns the approval that a call waited for when it timed out.
async fn timed_out(
    backend: &Backend,
    root: &SessionId,
    call: &CallId,
) -> anyhow::Result<Option<ApprovalId>> {
    let which = Lookup::One(call.clone());
    let found = backend.store.answered(root.as_root(), which).await?;
    Ok(found.items.into_iter().find_map(|found| match found.kind {
        AnswerKind::TimedOut(asked) => asked.approval_id,
        _ => None,
    }))
}

/// Returns the pending call, in the session of the tree that made it.
async fn waiting(
    backend: &Backend,
    root: &SessionId,
    call: &CallId,
) -> anyhow::Result<Option<PendingCall>> {
    let found = load(backend.store.as_ref(), root).await?;
    let owner = found.state.client_tool_call_ownership.get(call);
    let owner = owner.unwrap_or(root);
    let mut found = load(backend.store.as_ref(), owner).await?;
    Ok(found.state.pending_client_tool_calls.remove(call))
}
