//! Stops a run that was asked to.

use super::{Ending, How, close_run};
use crate::entries::Begun;
use crate::error::{ErrorCode, ErrorRecord};
use crate::machine::{Effect, Event};
use crate::perform::work::{Work, read};
use crate::perform::{PerformError, Ports};
use crate::session::{StopKind, StopRequest};

/// Ends the run because it was asked to stop. What the open step has is kept: an answer that was
/// accepted, too. A call that was agreed to is not begun any more.
pub(super) async fn stop(
    effect: &Effect,
    ports: &Ports,
    work: &Work,
    begun: Begun,
    plain: bool,
) -> Result<Event, PerformError> {
    let at = &effect.at;
    let request = read(at, ports).await?.stop;
    let request = request.unwrap_or_else(|| {
        StopRequest::new(at.run_id.clone(), StopKind::Interrupt, ports.clock.now())
    });
    let ending = match request.kind {
        StopKind::Interrupt => Ending::Interrupted {
            reason: request.reason,
        },
        StopKind::Abort => {
            let reason = request.reason;
            let reason = reason.unwrap_or_else(|| "the run was aborted".to_owned());
            tracing::info!(event = "client_tool.aborted", session = %at.session_id, run = %at.run_id);
            Ending::Failed {
                error: ErrorRecord::new(ErrorCode::FrameworkCancelled, reason),
            }
        }
    };
    let how = How {
        begun,
        why: "the run was stopped.",
        heeds_stop: false,
        plain,
    };
    close_run(effect, ports, work, ending, how).await
}
