//! HTTP tools: one POST per call.

use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use helix_agents_core::tool::{Execute, ToolCx, ToolError, ToolResult};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Body, Response, StatusCode, Url};
use serde_json::{Value, json};

use super::answer::{Answer, chain, refusal};
use super::client::{HttpClient, ProxyUse};
use super::tracked_body::TrackedBody;
use super::unsent::Unsent;

/// The maximum number of retries of an idempotent call.
const RETRIES: u32 = 3;
/// The delay before the first retry; each further delay is twice as long.
const BACK_OFF: Duration = Duration::from_millis(250);
/// The maximum size of a response.
const MAX_ANSWER_BYTES: usize = 4 * 1024 * 1024;

/// A tool that calls an HTTP service.
///
/// A call is a POST of `{tool, arguments, sessionId, runId, toolCallId}` with the header
/// `Idempotency-Key`, which is always the same for the same call. A 2xx gives the result, a 4xx an
/// error for the model. A 5xx, a timeout or a lost connection is retried only if the service is
/// idempotent; otherwise the model reads that the outcome is unknown. If there was no
/// connection, nothing was sent: that is retried for every service, and the model is told that the
/// call was not executed.
///
/// The URL may contain a key. The model and users see only the tool's name; logs show the URL
/// without its query and user.
#[derive(Debug, Clone)]
pub struct HttpTool {
    client: HttpClient,
    name: String,
    url: Url,
    way: ProxyUse,
    headers: HeaderMap,
    timeout: Duration,
    retries: u32,
    back_off: Duration,
}

/// The error of an invalid URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{url}` cannot be called; write an address like \"http://127.0.0.1:9100/refund\"")]
#[non_exhaustive]
pub struct BadUrl {
    /// The URL as it was written, up to its query.
    pub url: String,
}

impl BadUrl {
    fn of(url: &str) -> Self {
        let shown = url.split(['?', '#']).next().unwrap_or_default();
        let url = shown.to_owned();
        Self { url }
    }
}

/// Formats a URL for logs: without a user, a password, a query or a fragment.
fn url_for_log(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    let port = url.port().map(|port| format!(":{port}"));
    let port = port.unwrap_or_default();
    format!("{}://{host}{port}{}", url.scheme(), url.path())
}

/// The result of one attempt.
enum Attempt {
    Done(Answer),
    /// An error for the model; a retry would not help.
    Refused(String),
    /// The request was not sent, so the call had no effect.
    Unsent(Unsent),
    /// The outcome is unknown.
    Unclear(String),
}

impl HttpTool {
    /// Creates a tool that calls a URL.
    ///
    /// # Errors
    /// A [`BadUrl`] if it is not an http or https URL.
    pub fn new(client: HttpClient, name: &str, url: &str) -> Result<Self, BadUrl> {
        let parsed = Url::parse(url).ok();
        let usable =
            parsed.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        let url = usable.ok_or_else(|| BadUrl::of(url))?;
        Ok(Self {
            client,
            name: name.to_owned(),
            way: ProxyUse::to(url.host_str().unwrap_or_default()),
            url,
            headers: HeaderMap::new(),
            timeout: Duration::from_secs(10),
            retries: 0,
            back_off: BACK_OFF,
        })
    }

    /// Sets additional headers of every call.
    #[must_use]
    pub fn headers(mut self, headers: HeaderMap) -> Self {
        self.headers = headers;
        self
    }

    /// Sets whether calls use the proxy that the environment names. By default, calls to this
    /// machine and to private networks do not.
    #[must_use]
    pub fn proxied(mut self, proxied: bool) -> Self {
        self.way = if proxied {
            ProxyUse::Proxied
        } else {
            ProxyUse::Direct
        };
        self
    }

    /// Sets the timeout of one attempt; 10 s by default.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets whether a call with an unknown outcome is retried. Use it only for a service that
    /// performs the same call once, however often it is sent.
    #[must_use]
    pub fn retries(mut self, idempotent: bool) -> Self {
        self.retries = if idempotent { RETRIES } else { 0 };
        self
    }

    /// Sets the delay before the first retry; a quarter of a second by default.
    #[must_use]
    pub fn back_off(mut self, wait: Duration) -> Self {
        self.back_off = wait;
        self
    }

    async fn attempt(&self, body: &[u8], key: &str) -> ToolResult<Attempt> {
        let client = self.client.get(self.way)?;
        let (body, asked) = TrackedBody::new(body);
        let request = client
            .post(self.url.clone())
            .headers(self.headers.clone())
            .header(CONTENT_TYPE, "application/json")
            .header("Idempotency-Key", HeaderValue::from_str(key)?)
            .body(Body::wrap(body))
            .timeout(self.timeout);
        // Errors are shown to people and models, and the URL may contain a key.
        let sent = request.send().await.map_err(reqwest::Error::without_url);
        let response = match sent {
            Ok(response) => response,
            Err(error) if !asked.load(Ordering::Acquire) => {
                return Ok(Attempt::Unsent(Unsent::of(&error)));
            }
            Err(error) if error.is_timeout() => {
                let wait = self.timeout.as_millis();
                return Ok(Attempt::Unclear(format!(
                    "no response arrived within {wait} ms"
                )));
            }
            Err(error) => return Ok(Attempt::Unclear(chain(&error))),
        };
        Ok(classify(response).await)
    }
}

async fn classify(response: Response) -> Attempt {
    let status = response.status();
    let content_type = response.headers().get(CONTENT_TYPE);
    let content_type = content_type.and_then(|value| Some(value.to_str().ok()?.to_owned()));
    let body = match read(response).await {
        Ok(body) => body,
        Err(lost) if status.is_client_error() => return Attempt::Refused(lost),
        Err(lost) => return Attempt::Unclear(lost),
    };
    if status.is_success() {
        return Attempt::Done(Answer { content_type, body });
    }
    if status.is_client_error() {
        return Attempt::Refused(refusal(status.as_u16(), &body));
    }
    if status.is_redirection() || status == StatusCode::SWITCHING_PROTOCOLS {
        return Attempt::Refused(format!(
            "the service responded with status {}; redirects of tools are not followed",
            status.as_u16()
        ));
    }
    Attempt::Unclear(format!(
        "the service responded with status {}",
        status.as_u16()
    ))
}

/// Reads the body, up to the maximum size.
pub(super) async fn read(mut response: Response) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(|error| chain(&error))? {
        body.extend_from_slice(&piece);
        if body.len() > MAX_ANSWER_BYTES {
            return Err(format!(
                "the response is larger than {MAX_ANSWER_BYTES} bytes"
            ));
        }
    }
    Ok(body)
}

#[async_trait]
impl Execute for HttpTool {
    async fn execute(&self, arguments: Value, cx: ToolCx) -> ToolResult<Value> {
        let body = json!({
            "tool": self.name,
            "arguments": arguments,
            "sessionId": cx.session_id(),
            "runId": cx.run_id(),
            "toolCallId": cx.call_id(),
        })
        .to_string();
        let mut tried = 0;
        loop {
            let attempt = self.attempt(body.as_bytes(), cx.idempotency_key()).await?;
            tried += 1;
            let (told, detail, retries) = match attempt {
                Attempt::Done(answer) => return answer.into_result(&cx),
                Attempt::Refused(text) => return Err(ToolError::tell_model(text)),
                Attempt::Unsent(unsent) => {
                    let retries = if unsent.may_pass { RETRIES } else { 0 };
                    (not_executed(&self.name, unsent.why), unsent.detail, retries)
                }
                Attempt::Unclear(text) => (unknown(&self.name, &text), text, self.retries),
            };
            tracing::warn!(
                event = "tool.http_failed",
                tool = self.name,
                url = url_for_log(&self.url),
                tried,
                detail
            );
            if tried > retries {
                return Err(ToolError::tell_model(told));
            }
            let wait = self.back_off.saturating_mul(2u32.saturating_pow(tried - 1));
            tokio::time::sleep(wait).await;
        }
    }
}

fn not_executed(tool: &str, why: &str) -> String {
    format!("this call of {tool} was not executed: {why}. Nothing was sent.")
}

fn unknown(tool: &str, why: &str) -> String {
    format!(
        "the outcome of this call of {tool} is unknown: {why}. The call may or may not have taken \
         effect. Do not repeat it before checking."
    )
}
