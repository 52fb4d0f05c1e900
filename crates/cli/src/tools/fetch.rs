//! Reads web pages from allowed hosts.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use async_trait::async_trait;
use helix_agents_core::tool::{Execute, ToolCx, ToolError, ToolResult};
use reqwest::header::{CONTENT_TYPE, LOCATION};
use reqwest::{Response, Url};
use serde_json::{Value, json};

use super::allowed::Allowed;
use super::answer::chain;
use super::builtin::text_of;
use super::{client, http};

/// The default timeout of one request.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum number of redirects.
const MAX_REDIRECTS: usize = 5;
/// The maximum length of a text for the model.
const MAX_TEXT_BYTES: usize = 256 * 1024;

/// Reads web pages from allowed hosts.
///
/// A name is resolved once, and the connection is made only to the addresses that were allowed, so
/// a name whose address changes cannot lead elsewhere. Each redirect is checked like the first URL.
#[derive(Debug, Clone)]
pub(super) struct Fetch {
    allowed: Allowed,
    timeout: Duration,
}

impl Fetch {
    pub(super) fn new(allowed: Allowed, timeout: Option<Duration>) -> Self {
        Self {
            allowed,
            timeout: timeout.unwrap_or(TIMEOUT),
        }
    }

    /// Returns the addresses of a URL that may be reached.
    async fn addresses(&self, url: &Url) -> ToolResult<Vec<SocketAddr>> {
        let tell = |text: String| ToolError::tell_model(text);
        let ("http" | "https", Some(host), Some(port)) =
            (url.scheme(), url.host_str(), url.port_or_known_default())
        else {
            return Err(tell(format!("`{url}` is not an http or https address")));
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err(tell(
                "an address with a user or a password is not fetched".to_owned(),
            ));
        }
        let blocked = || tell(format!("fetching from {host} is not allowed here"));
        if let Ok(address) = host.trim_matches(['[', ']']).parse::<IpAddr>() {
            let reached = self.allowed.reaches(address, port) || self.allowed.names(host, port);
            let address = SocketAddr::new(address, port);
            return reached.then(|| vec![address]).ok_or_else(blocked);
        }
        let named = self.allowed.names(host, port);
        // Resolving a name reveals it to others, so a disallowed name is not resolved.
        if !named && !self.allowed.looks_up(host) {
            return Err(blocked());
        }
        let lookup = tokio::net::lookup_host((host, port));
        let found = tokio::time::timeout(self.timeout, lookup).await;
        let late = |_| tell(format!("the host {host} was not found in time"));
        let found = found.map_err(late)?;
        let found = found
            .map_err(|error| tell(format!("the host {host} cannot be found")).caused_by(error))?;
        let reached: Vec<_> = found
            .filter(|address| named || self.allowed.reaches(address.ip(), port))
            .collect();
        if reached.is_empty() {
            return Err(blocked());
        }
        Ok(reached)
    }

    async fn get(&self, url: &Url) -> ToolResult<Response> {
        let addresses = self.addresses(url).await?;
        // A proxy would resolve the name again, unchecked.
        let client = client::builder()
            .no_proxy()
            .resolve_to_addrs(url.host_str().unwrap_or_default(), &addresses)
            .timeout(self.timeout)
            .build()?;
        let sent = client.get(url.clone()).send().await;
        sent.map_err(|error| {
            ToolError::tell_model(format!("{url} cannot be read: {}", chain(&error)))
        })
    }
}

#[async_trait]
impl Execute for Fetch {
    async fn execute(&self, input: Value, _cx: ToolCx) -> ToolResult<Value> {
        let wrote = text_of(&input, "url");
        let mut url = Url::parse(&wrote)
            .map_err(|_| ToolError::tell_model(format!("`{wrote}` is not an address")))?;
        for _ in 0..=MAX_REDIRECTS {
            let response = self.get(&url).await?;
            let status = response.status();
            let headers = response.headers();
            let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
            if let (true, Some(next)) = (status.is_redirection(), text(LOCATION)) {
                url = url.join(next).map_err(|_| {
                    ToolError::tell_model(format!(
                        "{url} redirects to `{next}`, which is not an address"
                    ))
                })?;
                continue;
            }
            let content_type = text(CONTENT_TYPE).map(str::to_owned);
            let body = http::read(response).await;
            let body = body
                .map_err(|error| ToolError::tell_model(format!("{url} cannot be read: {error}")))?;
            let mut text = String::from_utf8_lossy(&body).into_owned();
            let whole = text.len();
            let mut end = whole.min(MAX_TEXT_BYTES);
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            text.truncate(end);
            let mut result = json!({
                "url": url.as_str(),
                "status": status.as_u16(),
                "body": text,
                "truncated": end < whole,
            });
            if let (Some(result), Some(kind)) = (result.as_object_mut(), content_type) {
                result.insert("contentType".to_owned(), kind.into());
            }
            return Ok(result);
        }
        Err(ToolError::tell_model(format!(
            "`{wrote}` redirects more than {MAX_REDIRECTS} times"
        )))
    }
}
