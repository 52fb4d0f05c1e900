//! Removes expired sessions and the deltas of past turns.

use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use helix_agents_core::runtime::RuntimeError;
use helix_agents_core::store::{DueKind, DueQuery, Sessions};
use helix_agents_core::time::Timestamp;

use crate::sweep::PAGE;
use crate::{LocalRuntime, SweepReport};

/// The maximum number of sessions that one sweep removes.
const REMOVALS: usize = 256;
/// The maximum number of outboxes that one sweep relays.
const ROOTS: usize = 64;
/// The interval between two removals of deltas.
const DELTAS_EVERY: Duration = Duration::from_secs(60);
/// The maximum number of turns whose deltas are removed at once.
const TURNS: usize = 64;

impl LocalRuntime {
    /// Removes expired sessions of any agent and, once per interval, deltas of past turns.
    pub(crate) async fn remove_expired(
        &self,
        report: &mut SweepReport,
    ) -> Result<(), RuntimeError> {
        let inner = &self.inner;
        let sessions = Sessions::new(&*inner.backend.store, &*inner.clock);
        let mut query = DueQuery::at(inner.clock.now())
            .of_kinds([DueKind::Expired])
            .limit(PAGE);
        'pages: loop {
            let page = inner.backend.store.due(&query).await?;
            for due in page.items {
                if report.removed >= REMOVALS || inner.table.is_closed() {
                    break 'pages;
                }
                match sessions.delete_expired(due.key(), page.at).await {
                    Ok(removed) => report.removed += usize::from(removed),
                    Err(error) => {
                        tracing::error!(event = "sweep.not_removed", session = %due.session, %error);
                        report.failed += 1;
                    }
                }
            }
            match page.next {
                Some(next) => query = query.after(Some(next)),
                None => break,
            }
        }
        self.relay_leftovers().await;
        self.condense_old_turns().await;
        Ok(())
    }

    /// Relays what processes that ended left in the outbox of the store.
    async fn relay_leftovers(&self) {
        let Some(leftovers) = &self.inner.backend.leftovers else {
            return;
        };
        if let Err(error) = leftovers.relay_leftovers(ROOTS).await {
            tracing::error!(event = "sweep.not_relayed", %error);
        }
    }

    /// Removes the deltas of past turns if the interval has passed.
    async fn condense_old_turns(&self) {
        let Some(retention) = &self.inner.backend.retention else {
            return;
        };
        let now = self.inner.clock.now();
        if self
            .tidied()
            .is_some_and(|last| now.since(last) < DELTAS_EVERY)
        {
            return;
        }
        *self.tidied() = Some(now);
        match retention.condense_old_turns(now, TURNS).await {
            Ok(count) if count < TURNS => {}
            // There may be more: the next sweep continues.
            Ok(_) => *self.tidied() = None,
            Err(error) => tracing::error!(event = "sweep.not_condensed", %error),
        }
    }

    fn tidied(&self) -> MutexGuard<'_, Option<Timestamp>> {
        let tidied = self.inner.tidied.lock();
        tidied.unwrap_or_else(PoisonError::into_inner)
    }
}
