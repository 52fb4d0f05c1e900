//! How many connections there may be, in all and from one address.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Counts who is in.
#[derive(Debug, Clone)]
pub(crate) struct Door {
    most: usize,
    most_of_one: Option<usize>,
    inside: Arc<Mutex<Inside>>,
}

#[derive(Debug, Default)]
struct Inside {
    all: usize,
    by_address: HashMap<IpAddr, usize>,
}

impl Door {
    pub(crate) fn new(most: usize, most_of_one: Option<usize>) -> Self {
        Self {
            most,
            most_of_one,
            inside: Arc::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets somebody in, if there is room. Whoever comes from this host is not counted by its address:
    /// a proxy here brings everybody's requests.
    pub(crate) fn enter(&self, address: IpAddr) -> Option<Guest> {
        let address = address.to_canonical();
        let counted = self.most_of_one.filter(|_| !address.is_loopback());
        let mut inside = self.lock();
        if inside.all >= self.most {
            return None;
        }
        if let Some(most) = counted {
            let count = inside.by_address.entry(address).or_default();
            if *count >= most {
                return None;
            }
            *count += 1;
        }
        inside.all += 1;
        Some(Guest {
            door: self.clone(),
            address: counted.map(|_| address),
        })
    }
}

/// Somebody who is in; leaves when this is dropped.
#[derive(Debug)]
pub(crate) struct Guest {
    door: Door,
    address: Option<IpAddr>,
}

impl Drop for Guest {
    fn drop(&mut self) {
        let mut inside = self.door.lock();
        inside.all -= 1;
        let Some(address) = self.address else {
            return;
        };
        if let Entry::Occupied(mut count) = inside.by_address.entry(address) {
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
    fn one_address_has_only_so_many_and_all_together_too() {
        let door = Door::new(3, Some(2));
        let one = address("192.0.2.1");
        let first = door.enter(one).unwrap();
        let _second = door.enter(one).unwrap();
        assert!(door.enter(one).is_none(), "the same address");
        // The same address in the other notation.
        assert!(door.enter(address("::ffff:192.0.2.1")).is_none());
        let other = door.enter(address("192.0.2.2")).unwrap();
        assert!(door.enter(address("192.0.2.3")).is_none(), "in all");
        drop(first);
        assert!(door.enter(one).is_some());
        drop(other);
        assert_eq!(door.lock().by_address.len(), 1, "who has left is forgotten");
    }

    #[test]
    fn whoever_comes_from_this_host_is_counted_in_all_only() {
        let door = Door::new(3, Some(1));
        let in_all = ["127.0.0.1", "::1", "::ffff:127.0.0.1"].map(|text| door.enter(address(text)));
        assert!(in_all.iter().all(Option::is_some));
        assert!(door.enter(address("127.0.0.1")).is_none());
        let unlimited = Door::new(2, None);
        let one = address("192.0.2.1");
        assert!(unlimited.enter(one).is_some() && unlimited.enter(one).is_some());
    }
}
