//! Shutting the runtime down.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::select;

use crate::LocalRuntime;

/// The number of runs by how the shutdown affected them.
///
/// ```
/// use std::time::Duration;
///
/// use helix_agents_runtime_local::LocalRuntime;
///
/// async fn stop(runtime: LocalRuntime) {
///     let report = runtime.shutdown(Duration::from_secs(10)).await;
///     println!("{} ended, {} handed over, {} still busy", report.ended, report.handed_over, report.busy);
/// }
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// The number of runs that ended, or were left for another reason.
    pub ended: usize,
    /// The number of runs that were left between two steps; another process continues them at once.
    pub handed_over: usize,
    /// The number of runs that were still busy when the grace period ended. Another process
    /// continues them when their leases lapse, or at once if the store detects that this process
    /// has ended.
    pub busy: usize,
}

impl LocalRuntime {
    /// Shuts the runtime down: no new run is started, and running ones are handed over at the end
    /// of their current step.
    ///
    /// A step whose calls were started is finished, because no other process could know their
    /// results. No further model reply is requested. Detached runs are awaited like all others, for
    /// `grace` at most. Runs that are still busy then continue for as long as the process lives.
    /// Waiting on a run that was handed over gives
    /// [`RuntimeError::HandedOver`](helix_agents_core::runtime::RuntimeError::HandedOver).
    pub async fn shutdown(&self, grace: Duration) -> ShutdownReport {
        let inner = &self.inner;
        inner.table.close();
        let patience = inner.clock.now().saturating_add(grace);
        let patience = inner.clock.sleep_until(patience);
        select(pin!(inner.table.idle()), patience).await;
        let counts = inner.table.counts();
        tracing::info!(
            event = "runtime.shut_down",
            ended = counts.ended,
            handed_over = counts.handed_over,
            busy = counts.busy,
        );
        ShutdownReport {
            ended: counts.ended,
            handed_over: counts.handed_over,
            busy: counts.busy,
        }
    }
}
