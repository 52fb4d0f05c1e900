//! The writers of one process take turns, root by root.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use helix_agents_core::SessionId;
use tokio::sync::OwnedMutexGuard;

/// How long a writer waits for the one before it. After that it goes ahead: the order only saves work, and a writer
/// may be waiting for something else.
const PATIENCE: Duration = Duration::from_millis(100);

type Line = Arc<tokio::sync::Mutex<()>>;

/// Lets writers of the same root come one after another, so that they do not refuse each other.
#[derive(Debug, Default, Clone)]
pub(crate) struct Turns {
    lines: Arc<Mutex<HashMap<SessionId, Line>>>,
}

/// The turn of a writer, until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    turns: Turns,
    root: SessionId,
    held: Option<OwnedMutexGuard<()>>,
}

impl Turns {
    /// Waits for the turn of a writer.
    pub(crate) async fn take(&self, root: &SessionId) -> Turn {
        let line = {
            let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(lines.entry(root.clone()).or_default())
        };
        let mut turn = Turn {
            turns: self.clone(),
            root: root.clone(),
            held: None,
        };
        turn.held = match Arc::clone(&line).try_lock_owned() {
            Ok(held) => Some(held),
            Err(_) => tokio::time::timeout(PATIENCE, line.lock_owned()).await.ok(),
        };
        turn
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.held = None;
        let mut lines = self
            .turns
            .lines
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Entry::Occupied(line) = lines.entry(self.root.clone())
            && Arc::strong_count(line.get()) == 1
        {
            line.remove();
        }
    }
}
