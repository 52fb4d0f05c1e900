//! A turn in this process: shown while it goes on, continued as long as somebody answers.

use std::pin::pin;
use std::time::Duration;

use anyhow::Context;
use helix_agents_core::Agent;
use helix_agents_core::runtime::{Handle, Outcome, Runtime, RuntimeExt};
use helix_agents_core::session::PendingCall;
use helix_agents_core::stream::StreamItem;
use helix_agents_runtime_local::LocalRuntime;
use serde_json::Value;

use crate::exit::Exit;
use crate::live::Live;
use crate::screen::Look;
use crate::{ask, signals};

/// How long steps have to come to their end when the process is asked to.
const GRACE: Duration = Duration::from_secs(10);

/// Shows a run to its end. On a terminal, whoever sits there is asked what it waits for, and it goes
/// on.
pub(crate) async fn follow(
    runtime: &LocalRuntime,
    agent: &Agent,
    mut handle: Handle<Value>,
    live: &mut Live,
) -> anyhow::Result<Exit> {
    let session = handle.session_id().clone();
    loop {
        let shown = tokio::select! {
            shown = show(&handle, live) => Some(shown),
            () = signals::asked_to_end() => None,
        };
        let Some(shown) = shown else {
            runtime.shutdown(GRACE).await;
            live.end_line()?;
            let text = format!("stopped; `helix resume {session}` goes on");
            live.screen.note(Look::Yellow, text)?;
            return Ok(Exit::Failed);
        };
        if let Err(error) = shown {
            // Nobody watches any more, or the run stands still: it is left in good order.
            runtime.shutdown(GRACE).await;
            return Err(error);
        }
        live.end_line()?;
        let outcome = handle.result().await?;
        let pause = match outcome {
            Outcome::Suspended(pause) => pause,
            other => {
                runtime.shutdown(GRACE).await;
                return ended(&session, other, live);
            }
        };
        if !answered(runtime, pause.pending(), live).await? {
            runtime.shutdown(GRACE).await;
            return Ok(Exit::Suspended);
        }
        handle = runtime.resume_with(agent, &session).await?;
    }
}

/// Shows a run until it has ended.
async fn show(handle: &Handle<Value>, live: &mut Live) -> anyhow::Result<()> {
    let mut reader = handle.stream().await?;
    let mut ended = pin!(handle.ended());
    let mut over = false;
    loop {
        tokio::select! {
            biased;
            item = reader.next() => match item? {
                Some(StreamItem::Chunk(stored)) => live.chunk(&stored.chunk)?,
                Some(StreamItem::Trimmed { .. }) => {}
                Some(_) | None => return Ok(()),
            },
            // What it said last is still to be shown; a run that stands still says nothing more.
            record = &mut ended, if !over => {
                record.context("the run did not come to its end here")?;
                over = true;
            }
        }
    }
}

/// Asks about every call that waits, where somebody can be asked. False when one is left for later,
/// and then it is said how to answer it.
pub(crate) async fn answered(
    runtime: &LocalRuntime,
    pending: &[PendingCall],
    live: &Live,
) -> anyhow::Result<bool> {
    let mut left = Vec::new();
    for call in pending.iter().filter(|call| call.answer.is_none()) {
        let answer = match live.screen.can_ask && !live.json {
            true => ask::about(&live.screen, call).await?,
            false => None,
        };
        match answer {
            Some(answer) => {
                runtime.submit_tool_result(answer).await?;
            }
            None => left.push(call),
        }
    }
    waits(&left, live)?;
    Ok(left.is_empty())
}

/// Says what a run waits for, and how to answer.
fn waits(left: &[&PendingCall], live: &Live) -> anyhow::Result<()> {
    let screen = &live.screen;
    let Some(session) = left.first().map(|call| &call.root_session_id) else {
        return Ok(());
    };
    screen.note(Look::Bold, format!("session {session} waits for somebody:"))?;
    for call in left {
        let (id, tool, input) = (&call.tool_call_id, &call.tool_name, &call.input);
        screen.note(Look::Yellow, format!("  {id}: {tool} {input}"))?;
        let how = match call.approval_id {
            Some(_) => "--approve | --deny REASON",
            None => "--result JSON | --error TEXT",
        };
        screen.note(Look::Dim, format!("    helix submit {session} {id} {how}"))?;
    }
    Ok(screen.note(Look::Dim, format!("then: helix resume {session}"))?)
}

fn ended(
    session: &helix_agents_core::SessionId,
    outcome: Outcome<Value>,
    live: &Live,
) -> anyhow::Result<Exit> {
    let screen = &live.screen;
    let exit = match outcome {
        Outcome::Done(_) => Exit::Done,
        Outcome::Failed(error) => {
            screen.note(
                Look::Red,
                format!("failed ({}): {}", error.code, error.detail),
            )?;
            Exit::Failed
        }
        _ => {
            let text = format!("interrupted; `helix resume {session}` goes on");
            screen.note(Look::Yellow, text)?;
            Exit::Failed
        }
    };
    screen.note(Look::Dim, format!("session {session}"))?;
    Ok(exit)
}
