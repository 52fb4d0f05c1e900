//! Kill points, at which the process of a play may die.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use helix_agents_core::notify::Notify;

use crate::{Dice, yields};

/// Counts the points at which a process can die, and kills it at one of them. Clones are the same
/// switch.
///
/// A dead process does nothing more: each of its tasks waits without end at the next point.
#[derive(Debug, Clone, Default)]
pub struct KillSwitch {
    inner: Arc<Mutex<Inner>>,
    bell: Notify,
    lingers: Option<(Dice, usize)>,
}

#[derive(Debug, Default)]
struct Inner {
    passed: usize,
    target: Option<usize>,
    killed_at: Option<String>,
    names: Vec<String>,
}

impl KillSwitch {
    /// Makes a switch that does not kill, and yields to other tasks up to so many times at every point.
    pub(super) fn lingering(dice: Dice, most: usize) -> Self {
        Self {
            lingers: Some((dice, most)),
            ..Self::default()
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A point at which the process may die. Tools of a scenario call it inside of their execution.
    pub async fn pass(&self, name: &str) {
        let dies = {
            let mut inner = self.lock();
            if inner.killed_at.is_none() {
                inner.passed += 1;
                let place = format!("{name} (point {})", inner.passed);
                inner.names.push(place.clone());
                if inner.target == Some(inner.passed) {
                    inner.killed_at = Some(place);
                }
            }
            inner.killed_at.is_some()
        };
        if dies {
            self.bell.ring();
            std::future::pending::<()>().await;
        }
        if let Some((dice, most)) = &self.lingers {
            yields(dice.below(most + 1)).await;
        }
    }

    /// Starts a new process, which dies at this point, counted from 1, or lives with `None`.
    pub(super) fn revive(&self, target: Option<usize>) {
        let mut inner = self.lock();
        *inner = Inner {
            target,
            ..Inner::default()
        };
    }

    /// The number of points that were passed since the process started.
    pub(super) fn passed(&self) -> usize {
        self.lock().passed
    }

    /// The name of the point at which the process died.
    pub(super) fn killed_at(&self) -> Option<String> {
        self.lock().killed_at.clone()
    }

    /// Runs a future in the process; `None` if the process died.
    pub(super) async fn live<T>(&self, life: impl Future<Output = T>) -> Option<T> {
        let life = std::pin::pin!(life);
        let death = std::pin::pin!(self.death());
        match futures_util::future::select(life, death).await {
            futures_util::future::Either::Left((value, _)) => Some(value),
            futures_util::future::Either::Right(((), _)) => None,
        }
    }

    async fn death(&self) {
        loop {
            let heard = self.bell.heard();
            if self.killed_at().is_some() {
                return;
            }
            heard.await;
        }
    }
}
