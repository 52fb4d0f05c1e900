//! The rates at which a store fails.

use std::time::Duration;

/// The faults of an [`UnreliableStore`](crate::UnreliableStore). Rates are per thousand calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Faults {
    /// The rate of calls that begin a burst of failing calls.
    pub bursts: u32,
    /// The most calls of a burst.
    pub longest_burst: usize,
    /// The rate of calls that begin an outage, in which every call fails before it is executed.
    pub outages: u32,
    /// The upper limit of the duration of an outage.
    pub longest_outage: Duration,
    /// The rate of failing calls that are executed and lose only their acknowledgement.
    pub lost: u32,
    /// The fewest calls that succeed after a burst or an outage.
    pub quiet: usize,
    /// The most times that a call yields to other tasks before it is executed.
    pub yields: usize,
    /// The most times that it yields afterwards, before it returns.
    pub yields_after: usize,
    /// The rate of calls that sleep.
    pub sleeps: u32,
    /// The upper limit of the duration of a sleep.
    pub longest_sleep: Duration,
    /// The number of calls after which every call hangs.
    pub calls: usize,
}

impl Faults {
    /// No call fails; every call yields to other tasks once, before it is executed.
    #[must_use]
    pub fn none() -> Self {
        Self {
            bursts: 0,
            longest_burst: 0,
            outages: 0,
            longest_outage: Duration::ZERO,
            lost: 0,
            quiet: 0,
            yields: 1,
            yields_after: 0,
            sleeps: 0,
            longest_sleep: Duration::ZERO,
            calls: usize::MAX,
        }
    }

    /// Every kind of fault occurs now and then, each for less time than a run waits for a store.
    #[must_use]
    pub fn some() -> Self {
        Self {
            bursts: 60,
            longest_burst: 3,
            outages: 4,
            longest_outage: Duration::from_secs(20),
            lost: 500,
            quiet: 4,
            yields: 3,
            yields_after: 3,
            sleeps: 40,
            longest_sleep: Duration::from_secs(4),
            calls: 20_000,
        }
    }
}
