//! A host whose engine performs each effect several times.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::{Either, select};
use helix_agents_core::error::{Coded, ErrorCode};
use helix_agents_core::machine::{Effect, Event, RunState};
use helix_agents_core::notify::Notify;
use helix_agents_core::perform::{Attempt, PerformError, Ports, perform};
use helix_agents_core::time::Clock;

use crate::amnesiac::{MAX_MESSAGE_BYTES, MAX_STATE_BYTES, on_paper};
use crate::{Dice, Host, Spawner, TaskId, VirtualClock, yields};

/// The most rounds of attempts at an effect whose attempts all fail temporarily.
const MAX_ROUNDS: usize = 6;

/// A host that performs effects as an engine may: it starts one to three attempts at each effect, a later
/// one before an earlier one has ended, as after a timeout; each in a worker without memory. The run
/// continues with the first event. The other attempts run on in the background, and end after later
/// effects, after the run, or in the next turn. An attempt that another one follows may be dropped in the
/// middle.
///
/// A seed decides everything. Attempts are tasks of a [`Scheduler`](crate::Scheduler).
#[derive(Debug, Clone)]
pub struct CrowdedHost {
    spawner: Spawner,
    clock: Arc<VirtualClock>,
    dice: Dice,
    tells: bool,
    begun: Arc<Mutex<Vec<TaskId>>>,
}

impl CrowdedHost {
    /// Makes a host that tells effects which attempt is the first.
    #[must_use]
    pub fn new(spawner: Spawner, clock: Arc<VirtualClock>, dice: Dice) -> Self {
        Self {
            spawner,
            clock,
            dice,
            tells: true,
            begun: Arc::default(),
        }
    }

    /// Makes the host not tell which attempt is the first, as an engine without attempt numbers.
    #[must_use]
    pub fn untold(mut self) -> Self {
        self.tells = false;
        self
    }

    /// The tasks of the attempts that were started so far, for a test that kills them.
    #[must_use]
    pub fn attempts(&self) -> Vec<TaskId> {
        lock(&self.begun).clone()
    }

    fn attempt(&self, is_first: bool) -> Attempt {
        match (self.tells, is_first) {
            (false, _) => Attempt::Untold,
            (true, true) => Attempt::First,
            (true, false) => Attempt::Repeat,
        }
    }

    /// Starts an attempt, and the attempts that overlap with it.
    fn begin(
        &self,
        effect: Effect,
        ports: Ports,
        results: &AttemptResults,
        is_first: bool,
        follow: usize,
    ) {
        let task = {
            let (results, host) = (results.clone(), self.clone());
            async move {
                // No attempt is called the first after another one has started.
                if follow > 0 {
                    host.follow(effect.clone(), ports.clone(), results.clone(), follow);
                }
                let attempt = host.attempt(is_first);
                let dies = follow > 0 && host.dice.chance(250);
                let result = perform(&effect, attempt, &ports);
                if !dies {
                    return results.push(Some(result.await));
                }
                let death = yields(host.dice.below(30));
                match select(Box::pin(result), Box::pin(death)).await {
                    Either::Left((result, _)) => results.push(Some(result)),
                    Either::Right(_) => results.push(None),
                }
            }
        };
        lock(&self.begun).push(self.spawner.spawn(task));
    }

    /// Starts the next attempt a little later.
    fn follow(&self, effect: Effect, ports: Ports, results: AttemptResults, follow: usize) {
        let host = self.clone();
        let task = async move {
            host.linger().await;
            host.begin(effect, ports, &results, false, follow - 1);
        };
        lock(&self.begun).push(self.spawner.spawn(task));
    }

    async fn linger(&self) {
        let dice = &self.dice;
        if dice.chance(200) {
            let millis = u64::try_from(dice.below(3000)).unwrap_or_default();
            let until = self.clock.now();
            let until = until.saturating_add(Duration::from_millis(millis));
            self.clock.sleep_until(until).await;
        }
        yields(dice.below(if dice.chance(200) { 100 } else { 10 })).await;
    }
}

#[async_trait]
impl Host for CrowdedHost {
    async fn perform(&self, effect: Effect, ports: &Ports) -> Result<Event, PerformError> {
        let effect = on_paper(effect, MAX_MESSAGE_BYTES);
        let worker = ports.clone().forgetful();
        let mut failed = None;
        for round in 0..MAX_ROUNDS {
            let follow = match self.dice.below(10) {
                _ if round > 0 => 0,
                0..4 => 0,
                4..8 => 1,
                _ => 2,
            };
            let results = AttemptResults::default();
            self.begin(effect.clone(), worker.clone(), &results, round == 0, follow);
            for _ in 0..=follow {
                match results.next().await {
                    Some(Ok(event)) => return Ok(on_paper(event, MAX_MESSAGE_BYTES)),
                    Some(Err(error)) => failed = Some(error),
                    None => {}
                }
            }
            if failed.as_ref().is_some_and(|error| !is_temporary(error)) {
                break;
            }
            self.linger().await;
        }
        Err(failed.unwrap_or(PerformError::NotBuilt {
            what: "an effect whose workers all die",
        }))
    }

    fn keep(&self, state: RunState) -> RunState {
        on_paper(state, MAX_STATE_BYTES)
    }
}

/// Whether another attempt at the effect may succeed: the store was unavailable, or the attempt that took
/// over from this one died.
fn is_temporary(error: &PerformError) -> bool {
    matches!(error, PerformError::Overtaken { .. })
        || matches!(
            error.code(),
            ErrorCode::StoreUnavailable | ErrorCode::StoreFull
        )
}

/// The results of the attempts at an effect, in the order in which they ended; `None` for one that was
/// dropped.
#[derive(Clone, Default)]
struct AttemptResults {
    queue: Arc<Mutex<VecDeque<Option<AttemptResult>>>>,
    bell: Notify,
}

type AttemptResult = Result<Event, PerformError>;

impl AttemptResults {
    fn push(&self, result: Option<AttemptResult>) {
        lock(&self.queue).push_back(result);
        self.bell.ring();
    }

    async fn next(&self) -> Option<AttemptResult> {
        loop {
            let heard = self.bell.heard();
            let result = lock(&self.queue).pop_front();
            match result {
                Some(result) => return result,
                None => heard.await,
            }
        }
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
