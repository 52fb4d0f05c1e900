//! Where a provider is, and how it is reached.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use helix_agents_core::model::{ModelError, ModelErrorKind};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::Policy;

use super::Provider;
use super::secret::Secret;
use super::wire::WireRequest;

/// The server of a provider, with everything that a request to it needs beside its body.
pub(crate) struct Endpoint {
    pub(crate) provider: Provider,
    /// The name of the model at the provider.
    pub(crate) model: String,
    /// Without a slash at its end.
    pub(crate) base_url: String,
    pub(crate) key: Option<Secret>,
    /// Headers that a user adds. They replace headers of the same name.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) client: Client,
}

/// An HTTP client with its settings; made when it is first needed.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    pub(crate) connect_timeout: Duration,
    pub(crate) idle_timeout: Duration,
    made: Arc<OnceLock<Result<reqwest::Client, String>>>,
}

impl Client {
    pub(crate) fn new(connect_timeout: Duration, idle_timeout: Duration) -> Self {
        Self {
            connect_timeout,
            idle_timeout,
            made: Arc::default(),
        }
    }

    pub(crate) fn get(&self) -> Result<&reqwest::Client, ModelError> {
        let made = self.made.get_or_init(|| {
            // The first provider of cryptography is used for the whole process; a second choice
            // changes nothing.
            let _ = rustls::crypto::ring::default_provider().install_default();
            let client = reqwest::Client::builder()
                .redirect(Policy::none())
                // The loop retries, and counts what it retries.
                .retry(reqwest::retry::never())
                .connect_timeout(self.connect_timeout)
                .read_timeout(self.idle_timeout)
                .tcp_nodelay(true)
                // The same whatever features other crates of a program switch on: a compressed stream may
                // be held back, and a dropped stream must close its connection.
                .http1_only()
                .no_gzip()
                .no_brotli()
                .no_zstd()
                .no_deflate()
                .user_agent(concat!("helix-agents/", env!("CARGO_PKG_VERSION")))
                .build();
            client.map_err(|error| error.to_string())
        });
        made.as_ref().map_err(|why| {
            let detail = format!("the HTTP client cannot be set up: {why}");
            ModelError::new(ModelErrorKind::Invalid, detail)
        })
    }
}

impl Endpoint {
    /// Prepares a request, whose response comes once its head is here.
    pub(crate) fn send(
        &self,
        request: &WireRequest,
        more_headers: &BTreeMap<String, String>,
    ) -> Result<impl Future<Output = reqwest::Result<reqwest::Response>> + Send + use<>, ModelError>
    {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let ours = request.headers.iter();
        let ours = ours.map(|(name, value)| (*name, value.as_str()));
        let added = self.headers.iter().chain(more_headers);
        let added = added.map(|(name, value)| (name.as_str(), value.as_str()));
        for (name, value) in ours.chain(added) {
            let (name, value) = header(name, value)?;
            headers.insert(name, value);
        }
        for (name, value) in &request.listed {
            let (name, value) = header(name, &listed(headers.get(*name), value))?;
            headers.insert(name, value);
        }
        let url = format!("{}{}", self.base_url, request.path);
        let sending = self.client.get()?.post(url).headers(headers);
        Ok(sending.body(request.body.clone()).send())
    }

    /// Returns a header that carries the key, if there is one.
    pub(crate) fn key_header(
        &self,
        name: &'static str,
        prefix: &str,
    ) -> Option<(&'static str, String)> {
        let key = self.key.as_ref()?;
        Some((name, format!("{prefix}{}", key.reveal())))
    }
}

/// The error of a connection. Its address may hold what is nobody's business, so it is left out.
pub(crate) fn transport_error(
    provider: &str,
    client: &Client,
    error: reqwest::Error,
) -> ModelError {
    let detail = if error.is_connect() {
        format!(
            "{provider} cannot be reached; check `base_url`, the network and the proxy settings"
        )
    } else if error.is_timeout() {
        let idle = client.idle_timeout;
        format!(
            "{provider} sent nothing for {idle:?}; raise the idle timeout if its replies may take longer"
        )
    } else {
        format!("the connection to {provider} broke")
    };
    ModelError::new(ModelErrorKind::Transport, detail).caused_by(error.without_url())
}

/// Adds a value to a header that is a list.
fn listed(so_far: Option<&HeaderValue>, value: &str) -> String {
    let so_far = so_far.and_then(|list| list.to_str().ok());
    let so_far = so_far.filter(|list| !list.trim().is_empty());
    match so_far {
        None => value.to_owned(),
        Some(list) if list.split(',').any(|one| one.trim() == value) => list.to_owned(),
        Some(list) => format!("{list},{value}"),
    }
}

/// Checks a header. Its value may be a key, so it is not shown.
pub(crate) fn header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), ModelError> {
    let invalid = |what: &str| {
        let detail =
            format!("the {what} of the header {name:?} has characters that HTTP does not allow");
        ModelError::new(ModelErrorKind::Invalid, detail)
    };
    let valid_name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid("name"))?;
    let mut valid_value = HeaderValue::from_str(value).map_err(|_| invalid("value"))?;
    valid_value.set_sensitive(true);
    Ok((valid_name, valid_value))
}
