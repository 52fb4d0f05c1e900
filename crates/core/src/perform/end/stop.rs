//! Stops a run that was asked to.

use super::{EndOptions, close_run};
use crate::entries::BegunCalls;
use crate::machine::Event;
use crate::perform::PerformError;
use crate::perform::closing::Closing;
use crate::perform::ending::Ending;
use crate::perform::scope::EffectContext;
use crate::session::{StopKind, StopRequest};

/// Ends the run because it was asked to stop. What the open step has is kept: an answer that was
/// accepted, too. A call that was agreed to is not begun any more.
pub(super) async fn stop(
    cx: EffectContext<'_>,
    begun: BegunCalls,
    plain: bool,
) -> Result<Event, PerformError> {
    let at = cx.at();
    let request = cx.scope.snapshot().await?.stop;
    let request =
        request.unwrap_or_else(|| StopRequest::new(at.run_id.clone(), StopKind::Interrupt, cx.now));
    let ending = match request.kind {
        StopKind::Interrupt => Ending::Interrupted {
            reason: request.reason,
        },
        StopKind::Abort => {
            log_aborted(cx);
            Ending::Failed {
                error: request.abort_error(),
            }
        }
    };
    let options = EndOptions {
        closing: Closing {
            begun,
            why: "the run was stopped.",
        },
        heeds_stop: false,
        plain,
    };
    close_run(cx, ending, options).await
}

/// Logs the calls that wait for an answer and get none any more.
fn log_aborted(cx: EffectContext<'_>) {
    let at = cx.at();
    let open = cx.view.open.iter().flat_map(|open| open.calls());
    for (call, _) in open.filter(|(_, open)| open.is_awaiting_answer()) {
        let call = &call.id;
        tracing::info!(event = "client_tool.aborted", session = %at.session_id, run = %at.run_id, %call);
    }
}
