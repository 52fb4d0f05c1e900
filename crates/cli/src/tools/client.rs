//! The HTTP client that tools share.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use reqwest::redirect::Policy;

use super::public_address::is_public;

type Made = Arc<OnceLock<Result<reqwest::Client, String>>>;

/// A client that is created when it is first used. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct HttpClient {
    proxied: Made,
    direct: Made,
}

/// How a service is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProxyUse {
    /// Through the proxy that the environment names, if any.
    Proxied,
    /// Directly, without a proxy.
    Direct,
}

impl ProxyUse {
    /// Returns the default for a host: a proxy does not reach this machine and private networks,
    /// and should not see that traffic.
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
    /// Creates a client; it is set up when the first request needs it.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the client. It follows no redirects.
    pub(super) fn get(&self, way: ProxyUse) -> Result<&reqwest::Client, ClientError> {
        let (made, builder): (_, fn() -> _) = match way {
            ProxyUse::Proxied => (&self.proxied, builder),
            ProxyUse::Direct => (&self.direct, || builder().no_proxy()),
        };
        let made = made.get_or_init(|| {
            let client = builder().build();
            client.map_err(|error| super::answer::chain(&error))
        });
        made.as_ref().map_err(|why| ClientError(why.clone()))
    }
}

/// The error that the HTTP client cannot be created.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the HTTP client cannot be set up: {0}")]
pub(super) struct ClientError(String);

/// Returns a client builder with the settings of all tools.
pub(super) fn builder() -> reqwest::ClientBuilder {
    // The first provider is used for the whole process; a second choice changes nothing.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .redirect(Policy::none())
        // A call is sent once: the client retries nothing, and reuses no connection that the server
        // may be closing.
        .retry(reqwest::retry::never())
        .pool_max_idle_per_host(0)
        .user_agent(concat!("helix/", env!("CARGO_PKG_VERSION")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_used_only_for_public_hosts() {
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
            assert_eq!(ProxyUse::to(near), ProxyUse::Direct, "{near}");
        }
        for far in [
            "example.com",
            "1.1.1.1",
            "[2606:4700::1111]",
            "localhost.example.com",
        ] {
            assert_eq!(ProxyUse::to(far), ProxyUse::Proxied, "{far}");
        }
    }
}
