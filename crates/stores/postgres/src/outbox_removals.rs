//! Removes entries that were relayed, a little later and those of several roots at once: nobody waits for it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use helix_agents_core::SessionId;
use tokio::sync::Notify;
use tokio_postgres::types::Type;

use crate::convert;
use crate::database::Database;
use crate::operation_error::OperationError;

/// How long removals are gathered.
const GATHERING: Duration = Duration::from_millis(5);
/// The pause after a removal that failed.
const PAUSE: Duration = Duration::from_millis(500);

/// The entries that were relayed and are not removed yet: up to which number, for each root.
///
/// What a process has not removed when it ends is relayed once more by another, and left out there.
#[derive(Debug, Default)]
pub(crate) struct Removals {
    relayed: Mutex<HashMap<SessionId, u64>>,
    added: Notify,
}

impl Removals {
    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, u64>> {
        self.relayed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number up to which entries of a root are to be removed.
    pub(crate) fn relayed(&self, root: &SessionId) -> u64 {
        self.lock().get(root).copied().unwrap_or_default()
    }

    pub(crate) fn add(&self, root: SessionId, up_to: u64) {
        {
            let mut all = self.lock();
            let known = all.entry(root).or_default();
            *known = up_to.max(*known);
        }
        self.added.notify_one();
    }

    /// Removes until the store is gone.
    pub(crate) async fn work(self: Arc<Self>, database: Arc<Database>) {
        loop {
            self.added.notified().await;
            tokio::time::sleep(GATHERING).await;
            while let Err(error) = self.remove(&database).await {
                let error = helix_agents_core::store::StoreError::from(error);
                tracing::debug!(event = "outbox.not_removed", %error);
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    /// Removes what was relayed by now.
    pub(crate) async fn remove(&self, database: &Database) -> Result<(), OperationError> {
        let taken = self.lock().clone();
        if taken.is_empty() {
            return Ok(());
        }
        let roots: Vec<&[u8]> = taken.keys().map(|root| root.as_str().as_bytes()).collect();
        let numbers: Vec<i64> = taken
            .values()
            .map(|up_to| convert::signed(*up_to))
            .collect();
        // It may be done again: what is gone stays gone.
        database
            .read(
                "DELETE FROM @outbox o USING unnest($1, $2) AS r(root, up_to) \
                 WHERE o.root = r.root AND o.n <= r.up_to",
                &[(&roots, Type::BYTEA_ARRAY), (&numbers, Type::INT8_ARRAY)],
            )
            .await?;
        let mut all = self.lock();
        for (root, up_to) in taken {
            if all.get(&root) == Some(&up_to) {
                all.remove(&root);
            }
        }
        Ok(())
    }
}
