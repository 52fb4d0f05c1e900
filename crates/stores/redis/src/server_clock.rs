//! The clock of the server, as this process knows it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use helix_agents_core::time::Timestamp;

use crate::failure::Result;
use crate::keys::Shard;
use crate::opening;
use crate::reply::{self, Answers};
use crate::script::{Reads, words};
use crate::store::RedisStore;

/// An answer that took longer than this says too little.
const WIDEST: Duration = Duration::from_secs(1);
/// A server that is behind what is expected by more than this has had its clock set.
const SET_BACK: Duration = Duration::from_secs(1);
/// How long an answer counts where somebody could do harm by a wrong time.
const TRUSTED: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy)]
struct Known {
    /// A time of the server, and when this process had it.
    told: Timestamp,
    had: Instant,
    /// When an answer last agreed with that.
    confirmed: Instant,
}

impl Known {
    fn at(&self, instant: Instant) -> Timestamp {
        let since = instant.saturating_duration_since(self.had);
        self.told.saturating_add(since)
    }
}

/// The time of the server, kept up between its answers by the monotonic clock of this process.
///
/// It is behind the server by at most the time that an answer takes. So a lease never begins or lapses too early.
#[derive(Debug)]
pub(crate) struct ServerClock(Mutex<Known>);

impl ServerClock {
    /// Starts with the answer of a server.
    pub(crate) fn new(told: Timestamp) -> Self {
        let had = Instant::now();
        Self(Mutex::new(Known {
            told,
            had,
            confirmed: had,
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.lock().at(Instant::now())
    }

    /// Whether the server has not told its time for long.
    fn is_old(&self) -> bool {
        self.lock().confirmed.elapsed() >= TRUSTED
    }

    /// Takes the time from an answer that has just come to a question of this instant.
    pub(crate) fn hear(&self, asked: Instant, told: Timestamp) {
        self.heard(asked, Instant::now(), told);
    }

    fn heard(&self, asked: Instant, had: Instant, told: Timestamp) {
        let trip = had.saturating_duration_since(asked);
        if trip > WIDEST {
            return;
        }
        let mut known = self.lock();
        let expected = known.at(had);
        // An answer that came late says less than the ones before; one far behind tells of a clock that was set.
        if told > expected || expected.since(told.saturating_add(trip)) > SET_BACK {
            (known.told, known.had) = (told, had);
        }
        known.confirmed = had;
    }
}

impl RedisStore {
    /// The time by which it is judged whether a lease has lapsed, and what is due: asked for if the server has not told
    /// it for long.
    pub(crate) async fn measured_now(&self, shard: Shard) -> Result<Timestamp> {
        let clock = &self.inner.clock;
        if self.inner.config.clock.is_some() || !clock.is_old() {
            return Ok(self.now());
        }
        let mut reads = Reads::default();
        reads.ask(words!["TIME"]);
        let asked = Instant::now();
        let mut time = Answers::of(self.read(shard, reads).await?.next()?)?;
        let (seconds, micros) = (reply::number(time.next()?)?, reply::number(time.next()?)?);
        let told = opening::instant(seconds, micros);
        clock.hear(asked, told);
        Ok(told)
    }
}

#[cfg(test)]
mod tests {
    use helix_agents_core::SessionId;
    use helix_agents_core::store::{
        Change, Commit, LeaseRequest, NewSession, Precondition, SessionStore, Sessions, StoreError,
    };
    use helix_agents_test_servers::{REDIS, shared};
    use helix_agents_testkit::VirtualClock;

    use crate::config::{Durability, RedisConfig};

    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn it_follows_the_server_and_forgives_slow_answers() {
        let clock = ServerClock::new(at(1_000_000));
        let asked = Instant::now();
        clock.hear(asked, at(1_000_000 - 500));
        assert!(clock.now() >= at(1_000_000));
        clock.hear(asked, at(1_060_000));
        assert!(clock.now() >= at(1_060_000));
        clock.hear(asked, at(500_000));
        assert!(clock.now() < at(900_000), "the clock of the server was set");
    }

    #[test]
    fn an_answer_that_came_late_does_not_set_it_back() {
        let clock = ServerClock::new(at(1_000_000));
        let asked = Instant::now();
        let after = |millis| asked + Duration::from_millis(millis);
        // Of the time when it was asked for; what has passed since is not behind.
        clock.heard(asked, after(5_000), at(1_000_000));
        clock.heard(after(4_100), after(5_000), at(1_003_500));
        assert!(clock.lock().at(after(5_000)) >= at(1_005_000));
        // Nor does it confirm anything if it took too long.
        clock.heard(after(60_000), after(64_000), at(1_064_000));
        assert_eq!(clock.lock().confirmed, after(5_000));
    }

    /// The clock of a process goes by what it was told long ago, and is an hour ahead.
    #[test]
    fn a_lease_is_not_free_by_a_time_that_was_told_long_ago() {
        let Some(url) = shared(REDIS) else { return };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let prefix = format!("clock{}", std::process::id());
            let config = RedisConfig::new()
                .prefix(&prefix)
                .durability(Durability::Memory);
            let store = RedisStore::open_with(&url, config).await.unwrap();
            let (root, clock) = (SessionId::new("s").unwrap(), VirtualClock::new(at(0)));
            let sessions = Sessions::new(&store, &clock);
            let new = NewSession::of("agent");
            sessions.create_session(&root, new).await.unwrap();
            let lease = LeaseRequest::new("holder", Duration::from_secs(600));
            let commit = || Commit::new(root.clone(), store.now());
            let held = commit().then(Change::Lease(Some(lease)));
            store.commit(held).await.unwrap();
            let Some(long_ago) = Instant::now().checked_sub(TRUSTED) else {
                return;
            };
            let ahead = store.now().saturating_add(Duration::from_secs(3600));
            *store.inner.clock.lock() = Known {
                told: ahead,
                had: long_ago,
                confirmed: long_ago,
            };
            let take = commit().when(Precondition::LeaseFree);
            let refused = store.commit(take).await.unwrap_err();
            assert!(matches!(refused, StoreError::Refused { .. }), "{refused}");
            assert!(store.now() < ahead, "it was measured again");
        });
    }
}
