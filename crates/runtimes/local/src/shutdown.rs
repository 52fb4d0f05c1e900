//! The runtime comes to an end.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::select;

use crate::LocalRuntime;

/// What became of the runs when the runtime was shut down.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// How many came to their end, or were left for another reason.
    pub ended: usize,
    /// How many were given up between two steps; another process goes on at once.
    pub handed_over: usize,
    /// How many were still busy when the time was over. Another process goes on when their leases
    /// have lapsed, or at once where the store sees that this process has ended.
    pub busy: usize,
}

impl LocalRuntime {
    /// Ends the runtime: no run is started any more, and those that go on are left at the end of
    /// their present step, in good order.
    ///
    /// A step whose calls were begun is finished, for nobody else could know what they came to. No
    /// further reply is asked for. Detached runs are waited for like all others, `grace` at most.
    /// What is still busy then goes on for as long as the process lives. Whoever waits for a run
    /// that was handed over gets
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
