//! Appends of deltas whose answer did not come. They may have been made; the server may also come to them later, when it
//! has their locks, or when the network has brought them.
//!
//! Whoever wrote them looks before it appends the same again. So the next read of the stream by this process forbids
//! them first, under the lock of the stream. After that each of them was made, and is read, or is never made.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use helix_agents_core::SessionId;
use tokio_postgres::types::Type;

use crate::operation_error::OperationError;
use crate::store::Inner;

/// How many forbidden appends a stream keeps. Each of them was given up by its process after a wait or with a lost
/// connection, so the oldest are long gone.
const KEPT: usize = 100;

/// The appends that this process gave up since it looked at their streams.
#[derive(Debug)]
pub(crate) struct GivenUp {
    next: AtomicI64,
    by_root: Mutex<HashMap<SessionId, Vec<i64>>>,
}

impl Default for GivenUp {
    /// Numbers begin anywhere, since those of other processes are others.
    fn default() -> Self {
        let random = RandomState::new().build_hasher().finish();
        Self {
            next: AtomicI64::new(random.cast_signed()),
            by_root: Mutex::default(),
        }
    }
}

impl GivenUp {
    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Vec<i64>>> {
        self.by_root.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number for an append, which no other has.
    pub(crate) fn number(&self) -> i64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Notes an append that may be made later.
    pub(crate) fn add(&self, root: &SessionId, append: i64) {
        self.lock().entry(root.clone()).or_default().push(append);
    }

    fn of(&self, root: &SessionId) -> Vec<i64> {
        self.lock().get(root).cloned().unwrap_or_default()
    }

    fn forget(&self, root: &SessionId, appends: &[i64]) {
        let mut by_root = self.lock();
        if let Some(left) = by_root.get_mut(root) {
            left.retain(|append| !appends.contains(append));
            if left.is_empty() {
                by_root.remove(root);
            }
        }
    }
}

/// Forbids the appends to a stream that this process gave up. What is read afterwards has those that were made, and it
/// stays so.
///
/// It waits for appends that have the lock of the stream. Those that come to it later find their number there.
pub(crate) async fn look(on: &Inner, root: &SessionId) -> Result<(), OperationError> {
    let appends = on.given_up.of(root);
    if appends.is_empty() {
        return Ok(());
    }
    // One of them may be about to begin the stream.
    let sql = format!(
        "INSERT INTO @stream AS t (key, status, last, trimmed, condensed, edits, forbidden) \
         SELECT key, 'active', 0, 0, 0, 0, $2 FROM @session WHERE name = $1 AND root IS NULL \
         ON CONFLICT (key) DO UPDATE SET forbidden = (excluded.forbidden || t.forbidden)[1:{KEPT}]"
    );
    let name = root.as_str().as_bytes();
    let params = [(&name as _, Type::BYTEA), (&appends as _, Type::INT8_ARRAY)];
    // It may be sent twice.
    on.database.read(&sql, &params).await?;
    on.given_up.forget(root, &appends);
    Ok(())
}
