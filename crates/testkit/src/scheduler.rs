//! Runs tasks on one thread, in a chosen order.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use helix_agents_core::time::Clock;

use crate::{Dice, VirtualClock};

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The id of a task; ids grow in the order in which tasks are added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(usize);

#[derive(Default)]
struct Shared {
    given: usize,
    new: Vec<(TaskId, Task)>,
    killed: Vec<TaskId>,
    alive: BTreeSet<TaskId>,
    ready: BTreeSet<TaskId>,
}

/// Adds tasks to a [`Scheduler`] and kills them, also from inside a task. Clones share the tasks.
#[derive(Clone, Default)]
pub struct Spawner {
    shared: Arc<Mutex<Shared>>,
}

impl Spawner {
    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a task, which runs independently of the caller.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> TaskId {
        let mut shared = self.lock();
        let id = TaskId(shared.given);
        shared.given += 1;
        shared.new.push((id, Box::pin(task)));
        shared.alive.insert(id);
        shared.ready.insert(id);
        id
    }

    /// Drops a task at its current point, as the end of a process does. A task that has ended is
    /// not affected.
    pub fn kill(&self, id: TaskId) {
        let mut shared = self.lock();
        shared.alive.remove(&id);
        shared.killed.push(id);
    }

    /// Whether a task has neither ended nor been killed.
    #[must_use]
    pub fn is_alive(&self, id: TaskId) -> bool {
        self.lock().alive.contains(&id)
    }
}

impl fmt::Debug for Spawner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let alive = self.lock().alive.len();
        f.debug_struct("Spawner").field("alive", &alive).finish()
    }
}

struct Ready {
    id: TaskId,
    spawner: Spawner,
}

impl Wake for Ready {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.spawner.lock().ready.insert(self.id);
    }
}

/// How the tasks of a [`Scheduler`] ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchedulerOutcome {
    /// All tasks have ended.
    Over,
    /// Some tasks wait, and nothing will wake them.
    Stuck,
    /// The limit of polls was reached.
    TooLong,
}

/// Runs tasks on one thread. Whenever more than one is ready, a function or a seed chooses; while all
/// wait, the clock moves on to the next deadline. The same tasks and choices give the same run.
pub struct Scheduler {
    spawner: Spawner,
    clock: Arc<VirtualClock>,
    tasks: BTreeMap<TaskId, Task>,
    polls: usize,
}

impl Scheduler {
    /// Makes a scheduler with a limit of polls. The clock must not move by itself.
    #[must_use]
    pub fn new(clock: Arc<VirtualClock>, polls: usize) -> Self {
        Self {
            spawner: Spawner::default(),
            clock,
            tasks: BTreeMap::new(),
            polls,
        }
    }

    /// A handle that adds tasks.
    #[must_use]
    pub fn spawner(&self) -> Spawner {
        self.spawner.clone()
    }

    /// Runs all tasks to their end in an order that the dice choose.
    pub fn run(&mut self, dice: &Dice) -> SchedulerOutcome {
        self.run_by(|ready, _| dice.below(ready.len()))
    }

    /// Runs all tasks to their end. `choose` gets the tasks that are ready and the one that ran
    /// last, and returns the index of the one to run.
    pub fn run_by(
        &mut self,
        mut choose: impl FnMut(&[TaskId], Option<TaskId>) -> usize,
    ) -> SchedulerOutcome {
        let mut last = None;
        loop {
            self.take_in();
            let ready: Vec<_> = {
                let shared = self.spawner.lock();
                let ready = shared.ready.iter().copied();
                ready.filter(|id| self.tasks.contains_key(id)).collect()
            };
            if ready.is_empty() {
                if self.tasks.is_empty() {
                    return SchedulerOutcome::Over;
                }
                let Some(deadline) = self.clock.next_deadline() else {
                    return SchedulerOutcome::Stuck;
                };
                self.clock.advance(deadline.since(self.clock.now()));
                continue;
            }
            let place = if ready.len() == 1 {
                0
            } else {
                choose(&ready, last)
            };
            let Some(id) = ready.get(place).or(ready.first()).copied() else {
                return SchedulerOutcome::Stuck;
            };
            let Some(left) = self.polls.checked_sub(1) else {
                return SchedulerOutcome::TooLong;
            };
            self.polls = left;
            last = Some(id);
            self.poll(id);
        }
    }

    fn poll(&mut self, id: TaskId) {
        self.spawner.lock().ready.remove(&id);
        let Some(task) = self.tasks.get_mut(&id) else {
            return;
        };
        let spawner = self.spawner.clone();
        let waker = Waker::from(Arc::new(Ready { id, spawner }));
        if task.as_mut().poll(&mut Context::from_waker(&waker)) == Poll::Ready(()) {
            self.tasks.remove(&id);
            self.spawner.lock().alive.remove(&id);
        }
    }

    /// Takes in new tasks and drops killed ones. Dropping a task may call this scheduler again, so
    /// nothing is dropped under the lock.
    fn take_in(&mut self) {
        loop {
            let (new, killed) = {
                let mut shared = self.spawner.lock();
                (
                    std::mem::take(&mut shared.new),
                    std::mem::take(&mut shared.killed),
                )
            };
            if new.is_empty() && killed.is_empty() {
                return;
            }
            self.tasks.extend(new);
            for id in killed {
                drop(self.tasks.remove(&id));
            }
        }
    }
}

impl fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scheduler")
            .field("tasks", &self.tasks.len())
            .field("polls", &self.polls)
            .finish_non_exhaustive()
    }
}

/// Yields to other tasks this many times.
pub async fn yields(times: usize) {
    let mut left = times;
    std::future::poll_fn(move |cx| {
        let Some(fewer) = left.checked_sub(1) else {
            return Poll::Ready(());
        };
        left = fewer;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use helix_agents_core::time::Timestamp;

    use super::*;

    fn clock() -> Arc<VirtualClock> {
        Arc::new(VirtualClock::new(Timestamp::from_millis(0)))
    }

    /// The order in which three tasks of three turns each went on.
    fn order(seed: u64) -> String {
        let mut scheduler = Scheduler::new(clock(), 100);
        let said = Arc::new(Mutex::new(String::new()));
        for name in ["a", "b", "c"] {
            let said = Arc::clone(&said);
            scheduler.spawner().spawn(async move {
                for _ in 0..3 {
                    said.lock().unwrap().push_str(name);
                    yields(1).await;
                }
            });
        }
        assert_eq!(scheduler.run(&Dice::new(seed)), SchedulerOutcome::Over);
        said.lock().unwrap().clone()
    }

    #[test]
    fn the_seed_decides_the_order() {
        assert_eq!(order(1), order(1));
        let orders: BTreeSet<_> = (0..50).map(order).collect();
        assert!(orders.len() > 10, "{orders:?}");
    }

    #[test]
    fn time_passes_while_everybody_waits() {
        let clock = clock();
        let mut scheduler = Scheduler::new(Arc::clone(&clock), 100);
        for seconds in [3, 1, 2] {
            let clock = Arc::clone(&clock);
            scheduler.spawner().spawn(async move {
                clock
                    .sleep_until(clock.now().saturating_add(Duration::from_secs(seconds)))
                    .await;
            });
        }
        assert_eq!(scheduler.run(&Dice::new(1)), SchedulerOutcome::Over);
        assert_eq!(clock.now(), Timestamp::from_millis(3000));
    }

    #[test]
    fn a_waiting_task_is_stuck_and_an_endless_one_takes_too_long() {
        let mut scheduler = Scheduler::new(clock(), 100);
        scheduler.spawner().spawn(std::future::pending());
        assert_eq!(scheduler.run(&Dice::new(1)), SchedulerOutcome::Stuck);
        scheduler.spawner().spawn(yields(1000));
        assert_eq!(scheduler.run(&Dice::new(1)), SchedulerOutcome::TooLong);
    }

    #[test]
    fn a_task_that_was_killed_goes_no_further() {
        let mut scheduler = Scheduler::new(clock(), 100);
        let spawner = scheduler.spawner();
        let victim = spawner.spawn(std::future::pending());
        let killer = spawner.clone();
        spawner.spawn(async move { killer.kill(victim) });
        assert_eq!(scheduler.run(&Dice::new(1)), SchedulerOutcome::Over);
        assert!(!spawner.is_alive(victim));
    }
}
