//! The HTTP client that tools share.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use reqwest::redirect::Policy;

use super::public_address::is_public;

type Made = Arc<OnceLock<Result<reqwest::Client, String>>>;

/// A client that is made when it is first used. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct HttpClient {
    proxied: Made,
    direct: Made,
}

/// How a service is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// Through the proxy that the environment names, where it names one.
    Proxied,
    /// Without a proxy.
    Direct,
}

impl Way {
    /// The way to a host when nobody says otherwise: a proxy does not reach this machine and private
    /// networks, and has no business in what is said there.
    pub(super) fn to(host: &str) -> Self {
        let host = host.trim_matches(['[', ']']).trim_end_matches('.');
        let host = host.to_ascii_lowercase();
        let is_near = match host.parse::<IpAddr>() {
            Ok(address) => !is_public(address),
            Err(_) => {
                let local = [".localhost", ".local", ".internal"];
                !host.contains('.') || local.iter().any(|end| host.ends_with(end))
            }
        };
        if is_near { Self::Direct } else { Self::Proxied }
    }
}

impl HttpClient {
    /// A client.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The client itself. It follows no redirects.
    pub(super) fn get(&self, way: Way) -> Result<&reqwest::Client, ClientError> {
        let (made, builder): (_, fn() -> _) = match way {
            Way::Proxied => (&self.proxied, builder),
            Way::Direct => (&self.direct, || builder().no_proxy()),
        };
        let made = made.get_or_init(|| {
            let client = builder().build();
            client.map_err(|error| super::answer::chain(&error))
        });
        made.as_ref().map_err(|why| ClientError(why.clone()))
    }
}

/// There is no HTTP client.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the HTTP client cannot be set up: {0}")]
pub(super) struct ClientError(String);

/// A client under construction, as all tools use it.
pub(super) fn builder() -> reqwest::ClientBuilder {
    // Whoever comes first chooses for the process; a second choice changes nothing.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .redirect(Policy::none())
        // A call is sent once: nothing is repeated below us, and no connection is used again that
        // its other end may be closing.
        .retry(reqwest::retry::never())
        .pool_max_idle_per_host(0)
        .user_agent(concat!("helix/", env!("CARGO_PKG_VERSION")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_for_the_world_outside() {
        for near in [
            "localhost",
            "LOCALHOST.",
            "127.0.0.1",
            "10.1.2.3",
            "[::1]",
            "[fd00::1]",
            "192.168.0.9",
            "refunds",
            "a.localhost",
            "printer.local",
            "api.internal",
        ] {
            assert_eq!(Way::to(near), Way::Direct, "{near}");
        }
        for far in [
            "example.com",
            "1.1.1.1",
            "[2606:4700::1111]",
            "localhost.example.com",
        ] {
            assert_eq!(Way::to(far), Way::Proxied, "{far}");
        }
    }
}
