//! Enumerates the orders in which tasks can run.

use crate::TaskId;

/// Enumerates all orders of tasks with at most a number of preemptions. An order is the list of its
/// choices; the next order differs from it as late as possible.
#[derive(Debug)]
pub(super) struct Orders {
    preemptions: usize,
    prefix: Vec<usize>,
}

/// The order that is being played.
#[derive(Debug)]
pub(super) struct Order<'a> {
    orders: &'a Orders,
    left: usize,
    /// Each choice, and the number of options that it had.
    made: Vec<(usize, usize)>,
}

impl Orders {
    pub(super) fn new(preemptions: usize) -> Self {
        Self {
            preemptions,
            prefix: Vec::new(),
        }
    }

    pub(super) fn begin(&self) -> Order<'_> {
        Order {
            orders: self,
            left: self.preemptions,
            made: Vec::new(),
        }
    }

    /// Moves on to the next order. Returns false after the last one.
    pub(super) fn next(&mut self, mut made: Vec<(usize, usize)>) -> bool {
        while let Some((choice, of)) = made.pop() {
            if choice + 1 < of {
                self.prefix = made.iter().map(|(choice, _)| *choice).collect();
                self.prefix.push(choice + 1);
                return true;
            }
        }
        false
    }
}

impl Order<'_> {
    /// Chooses the task that runs next, as an index into `ready`.
    pub(super) fn choose(&mut self, ready: &[TaskId], last: Option<TaskId>) -> usize {
        let running = last.and_then(|last| ready.iter().position(|id| *id == last));
        let of = match running {
            Some(_) if self.left == 0 => 1,
            _ => ready.len(),
        };
        let choice = self.orders.prefix.get(self.made.len()).copied();
        let choice = choice.unwrap_or_default().min(of.saturating_sub(1));
        self.made.push((choice, of));
        match running {
            None => choice,
            // The first choice is the task that ran last.
            Some(place) if choice == 0 => place,
            Some(place) => {
                self.left -= 1;
                if choice <= place { choice - 1 } else { choice }
            }
        }
    }

    pub(super) fn into_choices(self) -> Vec<(usize, usize)> {
        self.made
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::{Arc, Mutex};

    use helix_agents_core::time::Timestamp;

    use super::*;
    use crate::{Scheduler, VirtualClock, yields};

    /// All orders of two tasks with three turns each.
    fn orders(preemptions: usize) -> BTreeSet<String> {
        let mut orders = Orders::new(preemptions);
        let mut all = BTreeSet::new();
        loop {
            let clock = Arc::new(VirtualClock::new(Timestamp::from_millis(0)));
            let mut scheduler = Scheduler::new(clock, 100);
            let said = Arc::new(Mutex::new(String::new()));
            for name in ["a", "b"] {
                let said = Arc::clone(&said);
                scheduler.spawner().spawn(async move {
                    for turn in 0..3 {
                        said.lock().unwrap().push_str(name);
                        yields(usize::from(turn < 2)).await;
                    }
                });
            }
            let mut order = orders.begin();
            scheduler.run_by(|ready, last| order.choose(ready, last));
            let made = order.into_choices();
            assert!(all.insert(said.lock().unwrap().clone()), "twice the same");
            if !orders.next(made) {
                return all;
            }
        }
    }

    #[test]
    fn every_order_is_played_exactly_once() {
        assert_eq!(orders(0).len(), 2);
        // 6 over 3: all there are.
        assert_eq!(orders(5).len(), 20);
        assert!(orders(1).contains("abbbaa"));
    }
}
