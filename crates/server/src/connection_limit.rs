//! The limits on connections, in total and per address.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Counts open connections and enforces the limits.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionLimit {
    most: usize,
    most_per_address: Option<usize>,
    counts: Arc<Mutex<Counts>>,
}

#[derive(Debug, Default)]
struct Counts {
    all: usize,
    by_address: HashMap<IpAddr, usize>,
}

impl ConnectionLimit {
    pub(crate) fn new(most: usize, most_per_address: Option<usize>) -> Self {
        Self {
            most,
            most_per_address,
            counts: Arc::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a slot for a connection, if one is free. Connections from this host do not count per
    /// address, because a local proxy forwards the requests of all clients.
    pub(crate) fn acquire(&self, address: IpAddr) -> Option<ConnectionSlot> {
        let address = address.to_canonical();
        let counted = self.most_per_address.filter(|_| !address.is_loopback());
        let mut counts = self.lock();
        if counts.all >= self.most {
            return None;
        }
        if let Some(most) = counted {
            let count = counts.by_address.entry(address).or_default();
            if *count >= most {
                return None;
            }
            *count += 1;
        }
        counts.all += 1;
        Some(ConnectionSlot {
            limit: self.clone(),
            address: counted.map(|_| address),
        })
    }
}

/// The slot of an open connection, released when it is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionSlot {
    limit: ConnectionLimit,
    address: Option<IpAddr>,
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut counts = self.limit.lock();
        counts.all -= 1;
        let Some(address) = self.address else {
            return;
        };
        if let Entry::Occupied(mut count) = counts.by_address.entry(address) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn connections_are_limited_per_address_and_in_total() {
        let limit = ConnectionLimit::new(3, Some(2));
        let one = address("192.0.2.1");
        let first = limit.acquire(one).unwrap();
        let _second = limit.acquire(one).unwrap();
        assert!(limit.acquire(one).is_none(), "the same address");
        // The same address in IPv6 notation.
        assert!(limit.acquire(address("::ffff:192.0.2.1")).is_none());
        let other = limit.acquire(address("192.0.2.2")).unwrap();
        assert!(limit.acquire(address("192.0.2.3")).is_none(), "in all");
        drop(first);
        assert!(limit.acquire(one).is_some());
        drop(other);
        assert_eq!(
            limit.lock().by_address.len(),
            1,
            "a closed connection is forgotten"
        );
    }

    #[test]
    fn connections_from_this_host_count_in_total_only() {
        let limit = ConnectionLimit::new(3, Some(1));
        let in_all =
            ["127.0.0.1", "::1", "::ffff:127.0.0.1"].map(|text| limit.acquire(address(text)));
        assert!(in_all.iter().all(Option::is_some));
        assert!(limit.acquire(address("127.0.0.1")).is_none());
        let unlimited = ConnectionLimit::new(2, None);
        let one = address("192.0.2.1");
        assert!(unlimited.acquire(one).is_some() && unlimited.acquire(one).is_some());
    }
}
