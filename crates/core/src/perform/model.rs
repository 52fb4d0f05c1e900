//! Asks the model.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use super::applied::write_state;
use super::clocked::{First, first};
use super::deltas::{Deltas, discard_orphans};
use super::guard::{Panicked, caught_now};
use super::hooks::{Hooks, fire};
use super::patience::patiently;
use super::reply::{self, Asked};
use super::shown::Shown;
use super::work::{self, Look, Work, look, read};
use super::writing::{self, Written, base, begin, make, say, then, write};
use super::{Attempt, PerformError, Ports};
use crate::agent::{AnyAgent, ModelRef};
use crate::error::{Coded, ErrorCode, ErrorRecord};
use crate::hooks::{AfterModelCall, AgentResumed, AgentStart, BeforeModelCall, SuspendReason};
use crate::machine::{Effect, EffectKind, Event, Happened};
use crate::message::{Message, UserMessage};
use crate::meter::ModelCall;
use crate::model::{
    EventStream, Model, ModelError, ModelErrorKind, ModelEvent, ModelReply, ModelRequest,
    ReplyBuilder, ToolChoice,
};
use crate::session::RunTrigger;
use crate::state::to_rfc6902;
use crate::step::{FINISH_TOOL, PromptMessages, StepResult, build_messages_for_llm};
use crate::store::{Begun, Change, EffectPlace, Precondition, Snapshot};
use crate::stream::Sequence;
use crate::time::Timestamp;
use crate::transcript::Transcript;

pub(super) async fn perform(
    effect: &Effect,
    attempt: Attempt,
    ports: &Ports,
) -> Result<Event, PerformError> {
    let mut work = match look(effect, ports).await? {
        Look::Work(work) => *work,
        Look::Done(event) => return Ok(event),
    };
    let at = &effect.at;
    if attempt != Attempt::First {
        begin_again(effect, ports, &mut work, attempt).await?;
    } else if work.attempt > 0 {
        return Err(PerformError::Overtaken {
            session: at.session_id.clone(),
        });
    }
    let (attempt, forced, resync) = match &effect.kind {
        EffectKind::Model {
            attempt,
            forced,
            resync,
            ..
        } => (*attempt, *forced, *resync),
        _ => (1, false, false),
    };
    if work.transcript.is_none() {
        let history = work.history(at, ports).await?;
        work::keep_history(ports, &history);
    }
    let history = work.history(at, ports).await?;
    if resync {
        let run_start = Sequence(work.run.start_sequence);
        discard_orphans(at, ports, work.attempt, run_start).await?;
    }

    let hooks = Hooks::over(at, &work, ports, &work.state());
    if effect.first {
        greet(&hooks, &work, &history).await?;
    }
    let agent = work.agent().clone();
    let model = match resolve(&agent, ports) {
        Ok(model) => model,
        Err(error) => return failed(effect, ports, &work, &hooks, error, None).await,
    };

    let state = hooks.state()?;
    let prompt = match prompt(&history, &agent, &state) {
        Ok(prompt) => prompt,
        Err(error) => return failed(effect, ports, &work, &hooks, error, None).await,
    };
    fire!(
        hooks,
        before_llm_call,
        &format!("before_llm_call:{attempt}"),
        BeforeModelCall::new(&prompt, attempt)
    );
    // The hook may have changed the state that the prompt is made of.
    let state = hooks.state()?;
    let prompt = if hooks.is_empty() {
        prompt
    } else {
        match self::prompt(&history, &agent, &state) {
            Ok(prompt) => prompt,
            Err(error) => return failed(effect, ports, &work, &hooks, error, None).await,
        }
    };

    let native = agent
        .output_schema()
        .filter(|_| forced && model.supports_native_output());
    let mut request = ModelRequest::new(
        prompt,
        agent.model_config(),
        &state,
        agent.name(),
        &at.session_id,
        ports.clock.as_ref(),
    )
    .with_tools(agent.effective_tools())
    .with_attempt(attempt);
    request.native_output = native;
    if native.is_some() {
        request.tool_choice = ToolChoice::None;
    } else if forced {
        request.tool_choice = ToolChoice::Tool(FINISH_TOOL.to_owned());
    }

    let began = ports.clock.now();
    let mut deltas = Deltas::of_model(at, ports, &work);
    let timeout = agent.model_config().timeout;
    let events = match caught_now(|| model.stream(request)) {
        Ok(events) => events,
        Err(panicked) => {
            let error = adapter_panicked(&panicked).to_record();
            return failed(effect, ports, &work, &hooks, error, None).await;
        }
    };
    let streamed = stream(
        events,
        &history,
        &mut deltas,
        ports,
        deadline(began, timeout),
    )
    .await?;
    let duration = ports.clock.now().since(began);
    if let Some(meter) = &ports.meter {
        meter.model_called(&ModelCall {
            agent: agent.name(),
            model: model_name(&agent),
            duration,
            failure: streamed.as_ref().err().map(Coded::code),
        });
    }
    let reply = match streamed {
        Ok(reply) => reply,
        Err(error) => {
            deltas.discard("the model call failed").await?;
            let retry_after = error.retry_after;
            let error = error.to_record();
            return failed(effect, ports, &work, &hooks, error, retry_after).await;
        }
    };
    fire!(
        hooks,
        after_llm_call,
        "after_llm_call",
        AfterModelCall::new(&reply, duration)
    );
    tracing::debug!(
        event = "model.replied",
        session = %at.session_id,
        run = %at.run_id,
        step = at.step,
        stop_reason = ?reply.stop_reason,
    );
    let asked = Asked {
        model: model_name(&agent).to_owned(),
        native: native.is_some(),
    };
    reply::take(effect, ports, &work, &hooks, reply, &asked, deltas).await
}

/// Says that the call failed. What hooks wrote before it is kept: they are not called again for the
/// next attempt.
async fn failed(
    effect: &Effect,
    ports: &Ports,
    work: &Work,
    hooks: &Hooks<'_>,
    error: ErrorRecord,
    retry_after: Option<Duration>,
) -> Result<Event, PerformError> {
    let at = &effect.at;
    tracing::warn!(
        event = "model.failed",
        session = %at.session_id,
        run = %at.run_id,
        step = at.step,
        code = %error.code,
        detail = error.detail,
    );
    let now = ports.clock.now();
    let failure = Happened::failure(error, now, retry_after);
    let (writes, said) = (hooks.writes()?, hooks.take_said());
    let base = base(at);
    let mut told = Vec::new();
    if !writes.is_empty() {
        let patches = to_rfc6902(&writes, &hooks.committed())?;
        told.extend(ports.bounds().state_patches(patches));
    }
    told.extend(said);
    let commit = || {
        // It is noted in any case: another attempt that still goes on is not heard any more.
        let noted = Change::Effect(at.n, Some(Box::new(failure.clone())));
        let commit = then(begin(effect, work, now), at, [noted]);
        let commit = write_state(commit, at, &writes);
        say(commit, &base, now, told.iter().cloned())
    };
    let committed = match write(effect, ports, commit).await? {
        Written::Now(committed) => committed,
        Written::Before(event) => return Ok(event),
    };
    work::update(ports, &committed, |work| work.write(&writes));
    let what = Happened::model_failed(failure);
    Ok(Event::of(at, what).with_stop(committed.stop.is_some()))
}

/// Begins a model call that may have been begun before: nothing more is taken from earlier attempts,
/// and what they streamed is thrown away.
async fn begin_again(
    effect: &Effect,
    ports: &Ports,
    work: &mut Work,
    attempt: Attempt,
) -> Result<(), PerformError> {
    const MAX_TRIES: usize = 5;
    let at = &effect.at;
    let by = ports.ids.next("attempt");
    for _ in 0..MAX_TRIES {
        let root = &at.root_session_id;
        let info = patiently(ports, || ports.streams.info(root)).await?;
        let end = info.map_or(Sequence::START, |info| info.last);
        let mark = read(at, ports).await?.mark;
        let before = mark.begun_at(at.n);
        let last = mark.attempt_at(at.n);
        // The first of several attempts notes nothing: what it streamed lies after the run's
        // beginning. Where nobody tells, everybody notes.
        let unnoted = match attempt {
            Attempt::Untold => end,
            Attempt::First | Attempt::Repeat => Sequence(work.run.start_sequence),
        };
        let after = before.map_or(unnoted, |begun| begun.after);
        let begun = Begun::new(at.n, last + 1, after, &by);
        let now = ports.clock.now();
        let commit = || {
            let place = EffectPlace::new(at.run_id.clone(), at.step, at.n, last);
            let commit = writing::fenced(at, now)
                .when_in(at.session_id.clone(), Precondition::Effect(place));
            then(commit, at, [Change::Begin(begun.clone())])
        };
        let is_begun = |found: &Snapshot| {
            let noted = found.mark.begun.as_ref();
            noted.is_some_and(|noted| *noted == begun).then_some(())
        };
        match make(effect, ports, commit, is_begun).await {
            Ok(_) => {}
            // Somebody else began it at the same time; or it is committed.
            Err(PerformError::Overtaken { .. }) if mark.effect < at.n => continue,
            Err(error) => return Err(error),
        }
        work.attempt = begun.attempt;
        return discard_orphans(at, ports, work.attempt, after).await;
    }
    Err(PerformError::Overtaken {
        session: at.session_id.clone(),
    })
}

/// The name of the model an agent uses.
fn model_name(agent: &AnyAgent) -> &str {
    match agent.model() {
        ModelRef::Named(name) => name,
        ModelRef::Given(model) => model.name(),
    }
}

/// The model an agent uses.
fn resolve(agent: &AnyAgent, ports: &Ports) -> Result<Arc<dyn Model>, ErrorRecord> {
    match agent.model() {
        ModelRef::Given(model) => Ok(Arc::clone(model)),
        ModelRef::Named(name) => ports.models.model(name).ok_or_else(|| {
            let detail = format!(
                "agent {} uses model {name:?}, which this runtime does not know; give it one of that name",
                agent.name()
            );
            ErrorRecord::new(ErrorCode::DefinitionInvalid, detail)
        }),
    }
}

fn prompt<'a>(
    history: &'a Transcript,
    agent: &'a AnyAgent,
    state: &serde_json::Value,
) -> Result<PromptMessages<'a>, ErrorRecord> {
    let made = caught_now(|| build_messages_for_llm(history, agent.system_prompt(), state));
    made.map_err(|panicked| {
        let detail = format!("the system prompt could not be made: {panicked}");
        ErrorRecord::new(ErrorCode::DefinitionInvalid, detail)
    })
}

fn deadline(began: Timestamp, timeout: Option<Duration>) -> Option<Timestamp> {
    Some(began.saturating_add(timeout?))
}

fn adapter_panicked(panicked: &Panicked) -> ModelError {
    ModelError::new(
        ModelErrorKind::Invalid,
        format!("the model's adapter failed: {panicked}"),
    )
}

/// Tells the hooks that the run begins, or goes on.
async fn greet(hooks: &Hooks<'_>, work: &Work, history: &Transcript) -> Result<(), PerformError> {
    if work.run.trigger == RunTrigger::Continue {
        return greet_again(hooks, work).await;
    }
    let mut input: Vec<UserMessage> = Vec::new();
    for message in history.iter().rev() {
        match message {
            Message::User(user) => input.push(user.clone()),
            _ => break,
        }
    }
    input.reverse();
    let state = hooks.state()?;
    fire!(
        hooks,
        on_agent_start,
        "on_agent_start",
        AgentStart::new(&input, &state)
    );
    Ok(())
}

/// Tells the hooks that the run goes on after a pause.
pub(super) async fn greet_again(hooks: &Hooks<'_>, work: &Work) -> Result<(), PerformError> {
    let reason = SuspendReason::ClientTool;
    fire!(
        hooks,
        on_agent_resumed,
        "on_agent_resumed",
        AgentResumed::new(reason, &work.answered)
    );
    Ok(())
}

/// Reads a reply to its end and streams what it says.
async fn stream(
    mut events: EventStream<'_>,
    history: &Transcript,
    deltas: &mut Deltas<'_>,
    ports: &Ports,
    deadline: Option<Timestamp>,
) -> Result<Result<ModelReply, ModelError>, PerformError> {
    let mut builder = ReplyBuilder::new(history).bounded(ports.bounds());
    let mut shown = Shown::default();
    loop {
        let wake = || match (deltas.due(), deadline) {
            (Some(due), Some(deadline)) => Some(due.min(deadline)),
            (one, other) => one.or(other),
        };
        let event = match at_once(&mut events).await {
            Some(event) => event,
            None => match wake() {
                None => next(&mut events).await,
                // The timer is set before the stream is asked again: what comes meanwhile waits.
                Some(wake) => match first(ports.clock.sleep_until(wake), next(&mut events)).await {
                    First::Other(event) => event,
                    First::One(()) if deadline.is_some_and(|at| at <= ports.clock.now()) => {
                        return Ok(Err(ModelError::new(
                            ModelErrorKind::Transport,
                            "the model did not finish in the time that its settings allow",
                        )));
                    }
                    First::One(()) => {
                        deltas.flush().await?;
                        continue;
                    }
                },
            },
        };
        let pushed = match event {
            None => return Ok(builder.finish()),
            Some(event) => event.and_then(|event| builder.push(event, ports.ids.as_ref())),
        };
        match pushed {
            Ok(delta) => {
                if let Some(payload) = delta.and_then(|delta| shown.of(delta)) {
                    deltas.push(payload);
                }
            }
            Err(error) => return Ok(Err(error)),
        }
    }
}

/// What a stream of events gives; `None`: it is over.
type Streamed = Option<Result<ModelEvent, ModelError>>;

/// The next event.
async fn next(events: &mut EventStream<'_>) -> Streamed {
    std::future::poll_fn(|cx| poll(events, cx)).await
}

/// The next event, if it is there already: then no timer is needed.
async fn at_once(events: &mut EventStream<'_>) -> Option<Streamed> {
    std::future::poll_fn(|cx| {
        Poll::Ready(match poll(events, cx) {
            Poll::Ready(event) => Some(event),
            Poll::Pending => None,
        })
    })
    .await
}

/// A panic of the adapter is its error.
fn poll(events: &mut EventStream<'_>, cx: &mut Context<'_>) -> Poll<Streamed> {
    let events: Pin<&mut _> = events.as_mut();
    match caught_now(|| events.poll_next(cx)) {
        Ok(poll) => poll,
        Err(panicked) => Poll::Ready(Some(Err(adapter_panicked(&panicked)))),
    }
}

/// What a reply amounts to.
pub(super) fn step_result(reply: ModelReply, native: bool) -> StepResult {
    let parsed = native
        .then(|| reply.message.content())
        .flatten()
        .and_then(|text| serde_json::from_str(&text).ok());
    match parsed {
        Some(output) => StepResult::structured_output(output),
        None => StepResult::from_reply(reply),
    }
}
