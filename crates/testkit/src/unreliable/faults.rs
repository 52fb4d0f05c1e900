//! How a store misbehaves.

use std::time::Duration;

/// How a store misbehaves. Rates are of a thousand calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Faults {
    /// How many calls begin a burst in which calls fail.
    pub bursts: u32,
    /// The most calls that fail in a row.
    pub longest_burst: usize,
    /// How many calls begin a time in which every call fails before it is done.
    pub outages: u32,
    /// How long such a time is at most.
    pub longest_outage: Duration,
    /// How many of the calls that fail are done, and only their answer is lost.
    pub lost: u32,
    /// How many calls work at least after a burst or an outage.
    pub quiet: usize,
    /// How often others go on at most before a call is done.
    pub yields: usize,
    /// How often they do after it, before its answer is there.
    pub yields_after: usize,
    /// How many calls take a while.
    pub sleeps: u32,
    /// How long that is at most.
    pub longest_sleep: Duration,
    /// How many calls are answered at all: what asks for more waits for ever.
    pub calls: usize,
}

impl Faults {
    /// No call fails; every call gives way to others once, before it is done.
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

    /// Everything that can go wrong does so now and then, for less than anybody's patience.
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
