//! One holder per key, until the lock lapses.

use std::time::Duration;

use helix_agents_core::lock::Lock;
use helix_agents_core::time::Timestamp;

use super::LockSubject;

const TEN: Duration = Duration::from_secs(10);

/// An instant so many seconds after the beginning.
fn at(seconds: u64) -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000 + seconds * 1_000)
}

async fn acquired(on: &LockSubject, holder: &str, now: u64) -> Lock {
    let lock = on.locks.acquire("key", holder, at(now), TEN).await.unwrap();
    lock.unwrap_or_else(|| panic!("{holder} must get a lock that nobody else holds"))
}

async fn is_refused(on: &LockSubject, holder: &str, now: u64) {
    let lock = on
        .elsewhere
        .acquire("key", holder, at(now), TEN)
        .await
        .unwrap();
    assert_eq!(
        lock, None,
        "{holder} must not get a lock that somebody else holds"
    );
}

/// A second holder is refused while the first one's lock is valid.
///
/// proves in part: LCK-01
pub async fn a_second_holder_is_refused(on: &LockSubject) {
    let lock = acquired(on, "a", 0).await;
    assert_eq!((lock.key.as_str(), lock.holder.as_str()), ("key", "a"));
    assert_eq!(lock.until, at(10));
    is_refused(on, "b", 0).await;
    is_refused(on, "b", 9).await;
    let other = on
        .locks
        .acquire("another key", "b", at(0), TEN)
        .await
        .unwrap();
    assert!(other.is_some(), "another key is another lock");
}

/// Exactly one of many concurrent requests gets the lock.
///
/// proves in part: LCK-01
pub async fn exactly_one_of_many_concurrent_requests_gets_the_lock(on: &LockSubject) {
    for round in 0..5 {
        let key = format!("key-{round}");
        let got = on.runner.at_once(12, async |index| {
            let locks = if index % 2 == 0 {
                &on.locks
            } else {
                &on.elsewhere
            };
            let holder = format!("holder-{index}");
            locks.acquire(&key, &holder, at(0), TEN).await.unwrap()
        });
        let holders: Vec<_> = got.into_iter().flatten().collect();
        assert_eq!(holders.len(), 1, "one holder per key: {holders:?}");
    }
}

/// A lock lapses at its instant; then others can acquire it.
///
/// proves in part: LCK-02
pub async fn a_lock_lapses(on: &LockSubject) {
    acquired(on, "a", 0).await;
    is_refused(on, "b", 9).await;
    let lock = acquired(on, "b", 10).await;
    assert_eq!((lock.holder.as_str(), lock.until), ("b", at(20)));
    is_refused(on, "a", 10).await;
}

/// A renewed lock stays held until its new instant.
///
/// proves in part: LCK-02
pub async fn a_lock_is_renewed(on: &LockSubject) {
    let lock = acquired(on, "a", 0).await;
    let renewed = on.locks.renew(&lock, at(5), TEN).await.unwrap();
    let renewed = renewed.expect("a lock that is held is renewed");
    assert_eq!((renewed.until, renewed.token), (at(15), lock.token));
    is_refused(on, "b", 14).await;
    // The lock value from before the renewal is still valid.
    assert!(
        on.elsewhere
            .renew(&lock, at(14), TEN)
            .await
            .unwrap()
            .is_some()
    );
    is_refused(on, "b", 23).await;
    acquired(on, "b", 24).await;
}

/// A released lock is free at once; it cannot be released twice, nor renewed afterwards.
///
/// proves in part: LCK-02
pub async fn a_released_lock_is_free(on: &LockSubject) {
    let lock = acquired(on, "a", 0).await;
    assert!(on.elsewhere.release(&lock).await.unwrap());
    assert!(
        !on.locks.release(&lock).await.unwrap(),
        "it was given up already"
    );
    let renewed = on.locks.renew(&lock, at(1), TEN).await.unwrap();
    assert_eq!(renewed, None, "what was given up cannot be held on to");
    acquired(on, "b", 1).await;
}

/// A later holder has a larger token, whatever happened in between.
///
/// proves in part: LCK-02
pub async fn a_later_holder_has_a_larger_token(on: &LockSubject) {
    let mut last = 0;
    for round in 0..6 {
        let holder = ["a", "b", "b"][round % 3];
        let now = u64::try_from(round).unwrap() * 20;
        let lock = acquired(on, holder, now).await;
        assert!(lock.token > last, "token {} after {last}", lock.token);
        last = lock.token;
        if round % 2 == 0 {
            assert!(on.locks.release(&lock).await.unwrap());
        }
    }
}

/// A holder that lost the lock can neither renew nor release it, and does not affect the current
/// holder.
///
/// proves in part: LCK-02
pub async fn a_superseded_holder_can_do_nothing(on: &LockSubject) {
    let lost = acquired(on, "a", 0).await;
    let held = acquired(on, "b", 11).await;
    assert_eq!(on.locks.renew(&lost, at(12), TEN).await.unwrap(), None);
    assert!(!on.locks.release(&lost).await.unwrap());
    is_refused(on, "a", 20).await;
    assert!(
        on.locks.release(&held).await.unwrap(),
        "the holder still holds it"
    );
}

/// A holder may acquire its own lock again, with a new token that supersedes the old one.
///
/// proves in part: LCK-02
pub async fn a_holder_may_take_its_lock_again(on: &LockSubject) {
    let first = acquired(on, "a", 0).await;
    let second = acquired(on, "a", 5).await;
    assert!(second.token > first.token);
    assert_eq!(second.until, at(15));
    assert_eq!(on.locks.renew(&first, at(6), TEN).await.unwrap(), None);
    assert!(!on.locks.release(&first).await.unwrap());
    is_refused(on, "b", 14).await;
}

/// A key is any text.
pub async fn a_key_is_any_text(on: &LockSubject) {
    let keys = ["", " ", "a'b\"c%_\\", "漢字 👍", &"k".repeat(500)];
    for (index, key) in keys.iter().enumerate() {
        let holder = format!("h-{index}");
        let lock = on.locks.acquire(key, &holder, at(0), TEN).await.unwrap();
        assert_eq!(lock.map(|lock| lock.key).as_deref(), Some(*key));
    }
}
