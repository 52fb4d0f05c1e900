//! Ends a model call during which the run was asked to stop.

use serde_json::json;

use crate::budget::BudgetChange;
use crate::entries::tool_end_chunk;
use crate::id::IdSourceExt;
use crate::machine::{Event, EventKind};
use crate::message::AssistantMessage;
use crate::perform::PerformError;
use crate::perform::budget::CallUse;
use crate::perform::commit::CommitOutcome;
use crate::perform::deltas::Deltas;
use crate::perform::ending::Ending;
use crate::perform::hooks::Hooks;
use crate::perform::patches::Streamed;
use crate::perform::scope::EffectContext;
use crate::perform::settle::{Settling, settle, usage_change};
use crate::session::{CallPhase, CallState, OpenCall, OpenStep, ReplyUsage, StopKind};
use crate::step::synthesize_not_executed_result;
use crate::stream::Chunk;

/// The metadata of a reply that an interruption cut off.
const INTERRUPTED: &str = "helixInterrupted";
/// The reason that the model is told for the calls of such a reply.
const WHY: &str = "the run was stopped.";

/// A model call that was cut short.
pub(super) struct Cut<'a> {
    /// The reply so far, if there is any.
    pub(super) partial: Option<AssistantMessage>,
    /// The tokens that the call is known to have used.
    pub(super) usage: Option<ReplyUsage>,
    pub(super) deltas: Deltas<'a>,
}

/// Ends a model call that was cut short. An interrupted run keeps what the model has said, with its calls
/// as not executed, and ends in the same commit. Of an aborted run, and where nothing was said, nothing is
/// kept: the loop ends the run.
pub(super) async fn cut_short(
    cx: EffectContext<'_>,
    hooks: &Hooks<'_>,
    cut: Cut<'_>,
) -> Result<Event, PerformError> {
    let cx = cx.renewed();
    let (scope, at) = (cx.scope, cx.at());
    let Cut {
        partial,
        usage,
        mut deltas,
    } = cut;
    let request = scope.snapshot().await?.stop;
    let kind = request
        .as_ref()
        .map_or(StopKind::Interrupt, |stop| stop.kind);
    let Some(mut message) = partial.filter(|_| kind == StopKind::Interrupt) else {
        deltas.discard("the run was stopped").await?;
        return note_cut(cx, usage).await;
    };
    let stop = json!({ "stop": "interrupt" });
    message.metadata.insert(INTERRUPTED.to_owned(), stop);

    let mut chunks = deltas.take().await?;
    let results: Vec<_> = message
        .tool_calls()
        .map(|call| synthesize_not_executed_result(&call.id, &call.name, WHY))
        .collect();
    let told = results.iter().map(tool_end_chunk);
    chunks.extend(told.map(|payload| Chunk::new(scope.base.clone(), cx.now, payload)));
    let mut results = results.into_iter();
    let mut open = OpenStep::new(
        cx.ports().ids.step_id()?,
        at.run_id.clone(),
        at.step,
        message,
        |_| OpenCall::new(CallPhase::Regular, CallState::Ready),
    );
    open.usage.clone_from(&usage);
    for call in &mut open.calls {
        if let Some(result) = results.next() {
            call.settle(result);
        }
    }
    let settlement = cx.settlement(CallUse::kept(usage.as_ref()));
    let begun = || {
        cx.begin()
            .unless_moved(None)
            .budget(settlement.clone())
            .chunks(&chunks)
    };
    let reason = request.and_then(|request| request.reason);
    let settling = Settling {
        writes: hooks.writes()?,
        streamed: Streamed {
            after: None,
            unsent: &chunks,
        },
        ending: Some(Ending::Interrupted { reason }),
        heeds_stop: false,
        ..Settling::new(open, begun)
    };
    match settle(cx, settling).await {
        // Somebody asked it to fail meanwhile, for example: the loop ends it.
        Err(error) if error.is_moved() => note_cut(cx, usage).await,
        settled => settled,
    }
}

/// Notes that the call gave nothing, and leaves the end of the run to the loop. It is noted so that another
/// attempt that still goes on is not heard any more: its reply would come beside the end.
pub(super) async fn note_cut(
    cx: EffectContext<'_>,
    usage: Option<ReplyUsage>,
) -> Result<Event, PerformError> {
    note_lost(cx, usage, None)
        .await
        .map(|event| event.with_stop(true))
}

/// Notes that the call was ended because the time of a budget is over. The loop asks again, and is refused
/// then: the reservation that is made here does not fit.
pub(super) async fn note_out_of_time(
    cx: EffectContext<'_>,
    usage: Option<ReplyUsage>,
) -> Result<Event, PerformError> {
    let cx = cx.renewed();
    note_lost(cx, usage, cx.reservation(cx.at().step)).await
}

/// Notes that the call gave nothing, what it used, and what is reserved for the next one.
async fn note_lost(
    cx: EffectContext<'_>,
    usage: Option<ReplyUsage>,
    next: Option<Box<BudgetChange>>,
) -> Result<Event, PerformError> {
    let scope = cx.scope;
    let settlement = cx.settlement(CallUse::lost(usage.as_ref()));
    let usage = usage_change(cx, &cx.at().run_id, usage)?;
    let commit = || {
        cx.begin()
            .changes(usage.clone())
            .budget(settlement.clone())
            .budget(next.clone())
    };
    let committed = match scope.write(commit).await? {
        CommitOutcome::Made(committed) => committed,
        CommitOutcome::Before(event) => return Ok(event),
    };
    scope.ports.memory.update(&committed, |_| {});
    let cut = scope.event(EventKind::Cut {});
    Ok(cut.with_stop(committed.stop.is_some()))
}
