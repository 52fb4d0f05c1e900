//! Ids that are unique across processes.

use std::fmt::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use helix_agents_core::id::IdSource;

/// The maximum length of an id.
const MAX_CHARS: usize = 64;
/// The length of a UUID with the `-` before it.
const UUID_CHARS: usize = 33;
/// The number of random bytes that are asked of the system at once: those of 64 ids.
const POOL_BYTES: usize = 512;
/// The bits of the counter of ids within a millisecond.
const COUNTER_BITS: u32 = 42;

/// Version 7 UUIDs with a prefix: globally unique, and ordered by creation.
///
/// ```
/// use helix_agents_core::id::IdSourceExt;
/// use helix_agents_runtime_local::UuidIds;
///
/// let (one, two) = (UuidIds.session_id()?, UuidIds.session_id()?);
/// assert_ne!(one, two);
/// # Ok::<(), helix_agents_core::IdError>(())
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct UuidIds;

impl UuidIds {
    /// Creates a source of ids.
    #[must_use]
    pub fn new() -> Self {
        Self
    }
}

impl IdSource for UuidIds {
    fn next(&self, prefix: &str) -> String {
        let mut id = String::with_capacity(MAX_CHARS);
        let allowed = prefix.chars().filter(char::is_ascii_alphanumeric);
        id.extend(allowed.take(MAX_CHARS - UUID_CHARS));
        let uuid = pool().next(millis());
        // Writing to a string does not fail.
        let _ = write!(id, "-{uuid:032x}");
        id
    }
}

fn millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let millis = since.unwrap_or_default().as_millis();
    u64::try_from(millis).unwrap_or(u64::MAX)
}

/// Randomness of the system that is not used yet, and the last id that was made.
struct Pool {
    bytes: [u8; POOL_BYTES],
    used: usize,
    millis: u64,
    counter: u64,
}

fn pool() -> MutexGuard<'static, Pool> {
    static POOL: Mutex<Pool> = Mutex::new(Pool {
        bytes: [0; POOL_BYTES],
        used: POOL_BYTES,
        millis: 0,
        counter: 0,
    });
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pool {
    /// Makes the next UUID: the time, a counter that starts anywhere in each millisecond, and 32
    /// random bits. A clock that goes back does not repeat or reorder ids.
    fn next(&mut self, millis: u64) -> u128 {
        if millis > self.millis {
            self.millis = millis;
            // Half of the range is left to count in.
            self.counter = self.random() >> (64 - COUNTER_BITS + 1);
        } else {
            self.counter += 1;
            if self.counter >> COUNTER_BITS != 0 {
                self.counter = 0;
                self.millis += 1;
            }
        }
        let time = u128::from(self.millis & 0xffff_ffff_ffff) << 80;
        let high = u128::from(self.counter >> 30) << 64;
        let low = u128::from(self.counter & 0x3fff_ffff) << 32;
        let random = u128::from(self.random() >> 32);
        let version = 7 << 76;
        let variant = 2 << 62;
        time | version | high | variant | low | random
    }

    /// Returns eight random bytes.
    fn random(&mut self) -> u64 {
        if self.used + 8 > POOL_BYTES {
            fill(&mut self.bytes);
            self.used = 0;
        }
        let unused = self.bytes.get(self.used..).unwrap_or_default();
        self.used += 8;
        let bytes = unused.first_chunk::<8>().copied().unwrap_or_default();
        u64::from_ne_bytes(bytes)
    }
}

/// Asks the system for random bytes.
#[expect(
    clippy::panic,
    reason = "without randomness two processes would make the same ids"
)]
fn fill(bytes: &mut [u8]) {
    if let Err(error) = getrandom::fill(bytes) {
        panic!("the system gives no random bytes: {error}");
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use helix_agents_core::id::IdSourceExt;

    use super::*;

    #[test]
    fn ids_differ_and_keep_to_the_limits() {
        let ids = UuidIds::new();
        let long = "ä_".repeat(100) + &"x".repeat(100);
        for prefix in ["run", "", &long] {
            let id = ids.next(prefix);
            assert!(id.len() <= MAX_CHARS, "{id}");
            let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-';
            assert!(id.chars().all(allowed), "{id}");
        }
        let many: BTreeSet<_> = (0..1_000).map(|_| ids.run_id().unwrap()).collect();
        assert_eq!(many.len(), 1_000);
    }

    fn fresh() -> Pool {
        Pool {
            bytes: [0; POOL_BYTES],
            used: POOL_BYTES,
            millis: 0,
            counter: 0,
        }
    }

    #[test]
    fn an_id_is_a_version_7_uuid_of_its_instant() {
        let millis = 0x0123_4567_89ab;
        let text = format!("{:032x}", fresh().next(millis));
        assert_eq!(&text[..13], "0123456789ab7");
        assert!("89ab".contains(&text[16..17]), "{text}");
    }

    #[test]
    fn ids_are_ordered_also_within_a_millisecond_and_when_the_clock_goes_back() {
        let mut pool = fresh();
        let instants = [5, 5, 5, 4, 6, 1, 1, 7];
        let all: Vec<_> = instants.iter().map(|at| pool.next(*at)).collect();
        assert!(all.is_sorted_by(|one, next| one < next), "{all:x?}");
        pool.counter = (1 << COUNTER_BITS) - 1;
        let (last, next) = (pool.next(8), pool.next(8));
        assert!(last < next, "{last:x} {next:x}");
        pool.counter = (1 << COUNTER_BITS) - 1;
        let (last, next) = (next, pool.next(8));
        assert!(last < next, "a full counter: {last:x} {next:x}");
    }

    #[test]
    fn two_pools_make_different_ids() {
        let (mut one, mut other) = (fresh(), fresh());
        let ids: BTreeSet<_> = (0..100)
            .flat_map(|_| [one.next(1), other.next(1)])
            .collect();
        assert_eq!(ids.len(), 200);
    }
}
