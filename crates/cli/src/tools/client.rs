//! The HTTP client that tools share.

use std::sync::{Arc, OnceLock};

use reqwest::redirect::Policy;

/// A client that is made when it is first used. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct HttpClient {
    made: Arc<OnceLock<Result<reqwest::Client, String>>>,
}

impl HttpClient {
    /// A client.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The client itself. It follows no redirects.
    pub(super) fn get(&self) -> Result<&reqwest::Client, ClientError> {
        let made = self.made.get_or_init(|| {
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
