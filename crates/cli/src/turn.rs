//! A turn in this process: shown while it runs, and continued while the user answers.

use std::pin::pin;
use std::time::Duration;

use helix_agents_core::agent::AnyAgent;
use helix_agents_core::entries::ToolAnswer;
use helix_agents_core::runtime::{Handle, Outcome, Resume, Runtime, RuntimeError, RuntimeExt};
use helix_agents_core::session::{PendingCall, SubmissionOutcome};
use helix_agents_core::store::SessionKey;
use helix_agents_core::{Error, ErrorCode, SessionId};
use helix_agents_runtime_local::LocalRuntime;
use serde_json::Value;

use crate::ask::{self, Reply};
use crate::decision::{AnsweredCall, PASSED};
use crate::exit::Exit;
use crate::input::Input;
use crate::live::Live;
use crate::screen::Look;
use crate::setup::Place;
use crate::show::{TakenOver, show};
use crate::signals::Signals;

/// The maximum time for the current step to end after a signal. It stays under the ten seconds that
/// a process manager waits.
const GRACE: Duration = Duration::from_secs(8);

/// A turn in this process, and the user at the terminal.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    runtime: &'a LocalRuntime,
    agent: &'a AnyAgent,
    place: &'a Place,
    live: Live,
    signals: Signals,
    input: Input,
    /// Whether an answer given here came too late.
    is_late: bool,
}

/// How far a run was watched.
enum Watched {
    /// The run has ended.
    Ended,
    /// The run ended, and the process should end too.
    EndedLast,
    /// The process ends before the run does.
    Left,
    /// The process was told twice to end.
    Dropped,
}

impl<'a> Turn<'a> {
    /// Creates a turn. From here on a signal ends the process gracefully.
    pub(crate) fn new(
        runtime: &'a LocalRuntime,
        agent: &'a AnyAgent,
        place: &'a Place,
        live: Live,
    ) -> std::io::Result<Self> {
        Ok(Self {
            runtime,
            agent,
            place,
            live,
            signals: Signals::listen()?,
            input: Input::default(),
            is_late: false,
        })
    }

    /// Shows a run to its end, or from where it was taken over. On a terminal, the user is asked
    /// about pending calls, and the run is resumed.
    pub(crate) async fn follow(
        &mut self,
        mut handle: Handle<Value>,
        mut taken_over: Option<TakenOver>,
    ) -> anyhow::Result<Exit> {
        let session = handle.session_id().clone();
        loop {
            let watched = self.watch(&handle, taken_over.take()).await;
            let watched = watched.and_then(|watched| {
                self.live.end_line()?;
                Ok(watched)
            });
            let is_last = match watched {
                Ok(Watched::Ended) => false,
                Ok(Watched::EndedLast) => true,
                Ok(Watched::Left) => return self.report_early_end(&session),
                Ok(Watched::Dropped) => {
                    self.print_resume_hint(&session, "stopped at once")?;
                    return Ok(Exit::Failed);
                }
                Err(error) => {
                    // The run stalled, or cannot be shown: it is handed over.
                    self.runtime.shutdown(GRACE).await;
                    let resume = self.place.command(&format!("resume {session}"));
                    return Err(
                        error.context(format!("if it has not ended, `{resume}` continues it"))
                    );
                }
            };
            let outcome = handle.outcome().await?;
            let pause = match outcome {
                Outcome::Suspended(pause) => pause,
                other => {
                    self.runtime.shutdown(GRACE).await;
                    return self.ended(&session, other);
                }
            };
            let is_answered = if is_last {
                self.print_pending(pause.pending())?
            } else {
                self.answered(pause.pending()).await?
            };
            if !is_answered {
                self.runtime.shutdown(GRACE).await;
                return Ok(Exit::Suspended);
            }
            if is_last {
                return self.report_early_end(&session);
            }
            handle = match self.resumed(&session, Resume::of(&session)).await? {
                Some(handle) => handle,
                None => return Ok(Exit::Done),
            };
        }
    }

    /// Shows a run until it has ended. After a signal, the run may finish its step, whose output is
    /// still shown.
    async fn watch(
        &mut self,
        handle: &Handle<Value>,
        taken_over: Option<TakenOver>,
    ) -> anyhow::Result<Watched> {
        let screen = self.live.screen;
        let mut showing = pin!(show(handle, taken_over, &mut self.live));
        tokio::select! {
            shown = &mut showing => return shown.map(|()| Watched::Ended),
            () = self.signals.next() => {}
        }
        // The output may be closed.
        let _ = screen.note(
            Look::Dim,
            "stopping after this step; once more stops at once",
        );
        let mut leaving = pin!(self.runtime.shutdown(GRACE));
        let mut is_over = false;
        let shown = loop {
            tokio::select! {
                biased;
                () = self.signals.next() => return Ok(Watched::Dropped),
                shown = &mut showing => break shown,
                report = &mut leaving, if !is_over => {
                    if report.busy > 0 {
                        return Ok(Watched::Left);
                    }
                    is_over = true;
                }
            }
        };
        let is_handed_over = |error: &anyhow::Error| {
            let cause = error.downcast_ref::<Error>();
            let cause = cause.and_then(Error::downcast_ref);
            matches!(cause, Some(RuntimeError::HandedOver { .. }))
        };
        match shown {
            Ok(()) => Ok(Watched::EndedLast),
            Err(error) if is_handed_over(&error) => Ok(Watched::Left),
            Err(error) => Err(error),
        }
    }

    /// Asks about every pending call, if there is a user to ask. Returns false if one is left,
    /// after printing how to answer it.
    pub(crate) async fn answered(&mut self, pending: &[PendingCall]) -> anyhow::Result<bool> {
        let can_ask = self.live.screen.can_ask && !self.live.json;
        let mut left = Vec::new();
        // A call whose deadline has passed times out when the session is resumed.
        let now = self.runtime.clock().now();
        let mut open = pending.iter().filter(|call| call.waits_at(now));
        for call in open.by_ref() {
            let reply = match can_ask {
                true => self.ask(call).await?,
                false => Reply::Later,
            };
            match reply {
                Reply::Answer(answer) => self.submit(call, *answer).await?,
                Reply::Later => left.push(call),
                Reply::Ended => {
                    left.push(call);
                    break;
                }
            }
        }
        left.extend(open);
        self.print_answers(&left)?;
        Ok(left.is_empty())
    }

    async fn ask(&mut self, call: &PendingCall) -> anyhow::Result<Reply> {
        let description = self.description(call).await?;
        let (input, signals) = (&mut self.input, &mut self.signals);
        let description = description.as_deref();
        ask::about(&self.live.screen, call, description, input, signals).await
    }

    /// Returns the configured description of the call's tool, which may belong to a sub-agent.
    async fn description(&self, call: &PendingCall) -> anyhow::Result<Option<String>> {
        let key = SessionKey::new(&call.root_session_id, &call.session_id);
        let Some(asking) = self.runtime.backend().store.load(key).await? else {
            return Ok(None);
        };
        let agent = self.runtime.agents().get(&asking.state.agent_type);
        let tool = agent.and_then(|agent| Some(agent.tool(&call.tool_name)?.schema()));
        let description = tool.map(|tool| tool.description);
        Ok(description.filter(|description| !description.is_empty()))
    }

    /// Submits an answer. One that came too late is reported as such.
    async fn submit(&mut self, call: &PendingCall, answer: ToolAnswer) -> anyhow::Result<()> {
        let submitted = self.runtime.submit(answer.clone()).await?;
        if submitted.outcome == SubmissionOutcome::Accepted {
            return Ok(());
        }
        self.is_late = true;
        if submitted.outcome == SubmissionOutcome::LateAnswerAfterTimeout {
            let text = format!("too late: {} {PASSED}", call.tool_name);
            return Ok(self.live.note(Look::Red, text)?);
        }
        let asked = AnsweredCall::by(&answer, call.approval_id.as_ref());
        let before = asked.decision(self.runtime.backend()).await?;
        let before = before.unwrap_or_else(|| "answered or abandoned before".to_owned());
        let text = format!(
            "too late: {} was {before}; your answer changes nothing",
            call.tool_name
        );
        Ok(self.live.note(Look::Red, text)?)
    }

    /// Resumes a session whose calls are answered. Returns `None` if another process already
    /// resumed it.
    pub(crate) async fn resumed(
        &mut self,
        session: &SessionId,
        resume: Resume,
    ) -> anyhow::Result<Option<Handle<Value>>> {
        let gone_on = match self.runtime.resume(self.agent, resume).await {
            Err(error) if self.is_late && went_on(&error) => error,
            resumed => return Ok(Some(resumed?)),
        };
        let show = self.place.command(&format!("sessions show {session}"));
        let text = format!("it was continued elsewhere: {gone_on}; `{show}` shows it");
        self.live.note(Look::Yellow, text)?;
        self.runtime.shutdown(GRACE).await;
        Ok(None)
    }

    /// Prints the pending calls, without asking. Returns true if there are none.
    fn print_pending(&mut self, pending: &[PendingCall]) -> std::io::Result<bool> {
        let now = self.runtime.clock().now();
        let open = pending.iter().filter(|call| call.waits_at(now));
        let open: Vec<_> = open.collect();
        self.print_answers(&open)?;
        Ok(open.is_empty())
    }

    /// Prints the pending calls and how to answer them.
    fn print_answers(&mut self, left: &[&PendingCall]) -> std::io::Result<()> {
        let (live, place) = (&mut self.live, self.place);
        let Some(session) = left.first().map(|call| &call.root_session_id) else {
            return Ok(());
        };
        live.note(Look::Bold, format!("session {session} has pending calls:"))?;
        for call in left {
            let (id, tool, input) = (&call.tool_call_id, &call.tool_name, &call.input);
            live.note(Look::Yellow, format!("  {id}: {tool} {input}"))?;
            let how = match call.approval_id {
                Some(_) => "--approve | --deny REASON",
                None => "--result JSON | --error TEXT",
            };
            let submit = place.command(&format!("submit {session} {id}"));
            live.note(Look::Dim, format!("    {submit} {how}"))?;
        }
        let resume = place.command(&format!("resume {session}"));
        live.note(Look::Dim, format!("then: {resume}"))
    }

    /// Reports that the process ends before the run does.
    fn report_early_end(&mut self, session: &SessionId) -> anyhow::Result<Exit> {
        self.print_resume_hint(session, "stopped")?;
        Ok(Exit::Done)
    }

    /// Prints how to continue a turn that did not end.
    fn print_resume_hint(&mut self, session: &SessionId, what: &str) -> std::io::Result<()> {
        let resume = self.place.command(&format!("resume {session}"));
        let text = format!("{what}; `{resume}` continues it");
        self.live.note(Look::Yellow, text)
    }

    fn ended(&mut self, session: &SessionId, outcome: Outcome<Value>) -> anyhow::Result<Exit> {
        let exit = match outcome {
            Outcome::Done(_) => Exit::Done,
            Outcome::Failed(error) => {
                let text = format!("failed ({}): {error}", error.code());
                self.live.note(Look::Red, text)?;
                Exit::Failed
            }
            _ => {
                self.print_resume_hint(session, "interrupted")?;
                Exit::Failed
            }
        };
        self.live.note(Look::Dim, format!("session {session}"))?;
        Ok(exit)
    }
}

/// Whether a session was not resumed because somebody else had resumed it.
fn went_on(error: &Error) -> bool {
    matches!(
        error.code(),
        ErrorCode::SessionRunning | ErrorCode::SessionCompleted
    )
}
