//! The hosts that `fetch` may reach.

use std::net::IpAddr;

use super::public_address::is_public;

/// The hosts that `fetch` may reach: the whole public internet, or only a list.
///
/// An entry is a host (`api.example.com`), its subdomains (`*.example.com`), an address, or a
/// network (`10.1.0.0/16`), each but the last with or without a port, or `*` for all public
/// addresses. Private, loopback and link-local addresses are reached only if they are listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowed {
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Entry {
    Public,
    Host {
        name: String,
        port: Option<u16>,
    },
    Subdomains {
        of: String,
        port: Option<u16>,
    },
    Network {
        address: IpAddr,
        bits: u8,
        port: Option<u16>,
    },
}

/// The error of an invalid entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{entry}` cannot be allowed; write a host, `*.HOST`, an address, a network like 10.0.0.0/8, or `*`"
)]
#[non_exhaustive]
pub struct BadEntry {
    /// The entry as it was written.
    pub entry: String,
}

impl Allowed {
    /// Allows all public addresses.
    #[must_use]
    pub fn public() -> Self {
        Self {
            entries: vec![Entry::Public],
        }
    }

    /// Allows no addresses.
    #[must_use]
    pub fn none() -> Self {
        Self {
            entries: Vec::new(),
        }
    }

    /// Adds an entry to the list.
    ///
    /// # Errors
    /// A [`BadEntry`] for an invalid entry.
    pub fn and(mut self, entry: &str) -> Result<Self, BadEntry> {
        let parsed = parse(entry).ok_or_else(|| BadEntry {
            entry: entry.to_owned(),
        })?;
        self.entries.push(parsed);
        Ok(self)
    }

    /// Whether a host is listed by its name, whatever its address.
    pub(super) fn names(&self, host: &str, port: u16) -> bool {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        self.entries.iter().any(|entry| match entry {
            Entry::Host { name, port: only } => *name == host && fits(*only, port),
            Entry::Subdomains { of, port: only } => {
                let before = host.strip_suffix(of.as_str());
                before.is_some_and(|before| before.ends_with('.')) && fits(*only, port)
            }
            Entry::Public | Entry::Network { .. } => false,
        })
    }

    /// Whether the address of a host that is not listed by name has to be resolved: if all public
    /// addresses are allowed, and for this machine, which needs no query.
    pub(super) fn looks_up(&self, host: &str) -> bool {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        host == "localhost" || host.ends_with(".localhost") || self.entries.contains(&Entry::Public)
    }

    /// Whether an address may be reached under any name.
    pub(super) fn reaches(&self, address: IpAddr, port: u16) -> bool {
        let address = address.to_canonical();
        self.entries.iter().any(|entry| match entry {
            Entry::Public => is_public(address),
            Entry::Network {
                address: network,
                bits,
                port: only,
            } => is_in(address, *network, *bits) && fits(*only, port),
            Entry::Host { .. } | Entry::Subdomains { .. } => false,
        })
    }
}

fn fits(only: Option<u16>, port: u16) -> bool {
    only.is_none_or(|only| only == port)
}

fn is_in(address: IpAddr, network: IpAddr, bits: u8) -> bool {
    let (address, network, width) = match (address, network) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (u128::from(a.to_bits()), u128::from(b.to_bits()), 32),
        (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits(), b.to_bits(), 128),
        _ => return false,
    };
    let shift = u32::from(width - bits.min(width));
    address.checked_shr(shift).unwrap_or(0) == network.checked_shr(shift).unwrap_or(0)
}

fn parse(text: &str) -> Option<Entry> {
    if text == "*" {
        return Some(Entry::Public);
    }
    if let Some((network, bits)) = text.split_once('/') {
        let address: IpAddr = network.parse().ok()?;
        let bits: u8 = bits.parse().ok()?;
        let width = if address.is_ipv4() { 32 } else { 128 };
        return (bits <= width).then_some(Entry::Network {
            address,
            bits,
            port: None,
        });
    }
    let alone = |address: IpAddr, port| Entry::Network {
        address: address.to_canonical(),
        bits: if address.to_canonical().is_ipv4() {
            32
        } else {
            128
        },
        port,
    };
    if let Ok(address) = text.trim_matches(['[', ']']).parse() {
        return Some(alone(address, None));
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) => (host, Some(port.parse().ok()?)),
        None => (text, None),
    };
    if let Ok(address) = host.trim_matches(['[', ']']).parse() {
        return Some(alone(address, port));
    }
    let name = host.to_ascii_lowercase();
    let is_name = |name: &str| {
        let letters = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
        !name.is_empty() && name.chars().all(letters) && !name.starts_with('.')
    };
    match name.strip_prefix("*.") {
        Some(of) if is_name(of) => Some(Entry::Subdomains {
            of: of.to_owned(),
            port,
        }),
        None if is_name(&name) => Some(Entry::Host { name, port }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(entries: &[&str]) -> Allowed {
        let all = entries.iter();
        all.fold(Allowed::none(), |all, entry| all.and(entry).unwrap())
    }

    #[test]
    fn private_addresses_are_reached_only_when_listed() {
        let reaches = |allowed: &Allowed, address: &str, port| {
            allowed.reaches(address.parse().unwrap(), port)
        };
        let public = Allowed::public();
        assert!(reaches(&public, "1.1.1.1", 80));
        assert!(!reaches(&public, "127.0.0.1", 80));

        let some = listed(&["127.0.0.1:9000", "10.1.0.0/16", "[::1]:80"]);
        assert!(reaches(&some, "127.0.0.1", 9000));
        assert!(reaches(&some, "::ffff:127.0.0.1", 9000), "the same address");
        assert!(!reaches(&some, "127.0.0.1", 9001));
        assert!(reaches(&some, "10.1.200.3", 1));
        assert!(!reaches(&some, "10.2.0.1", 1));
        assert!(reaches(&some, "::1", 80));
        assert!(!reaches(&some, "1.1.1.1", 80), "not listed");
    }

    #[test]
    fn hosts_are_listed_by_name() {
        let some = listed(&["api.example.com:8080", "*.corp.example"]);
        assert!(some.names("API.example.com.", 8080));
        assert!(!some.names("api.example.com", 80));
        assert!(some.names("a.b.corp.example", 1));
        assert!(!some.names("corp.example", 1));
        assert!(!some.names("evilcorp.example", 1));
        for host in ["a.b.corp.example", "secret.evil.example"] {
            assert!(!some.looks_up(host), "{host}");
        }
        assert!(listed(&["127.0.0.1"]).looks_up("localhost"));
        assert!(Allowed::public().looks_up("example.com"));
    }

    #[test]
    fn invalid_entries_are_refused() {
        for bad in ["", "*.", "10.0.0.0/33", "host:port", "a b", "http://x"] {
            assert!(Allowed::none().and(bad).is_err(), "{bad}");
        }
    }
}
