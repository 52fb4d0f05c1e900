//! A tool that is a service: one POST per call.

use std::time::Duration;

use async_trait::async_trait;
use helix_agents_core::tool::{Execute, ToolCx, ToolError, ToolResult};
use reqwest::header::{CONTENT_TYPE, HeaderValue};
use reqwest::{Response, StatusCode, Url};
use serde_json::{Value, json};

use super::answer::{Answer, chain, refusal};
use super::client::HttpClient;

/// How often an idempotent call is tried again.
const RETRIES: u32 = 3;
/// The wait before the first of them; each is twice as long as the one before.
const BACK_OFF: Duration = Duration::from_millis(250);
/// The largest answer that is read.
const MAX_ANSWER_BYTES: usize = 4 * 1024 * 1024;

/// A tool that is a service.
///
/// A call is a POST of `{tool, arguments, sessionId, runId, toolCallId}` with the header
/// `Idempotency-Key`, which is the same for the same call, always. A 2xx gives the result, a 4xx an
/// error that the model reads. A 5xx, a time-out or a lost connection is tried again only when the
/// service is idempotent; else nobody knows whether the call took effect, and the model is told so.
#[derive(Debug, Clone)]
pub struct HttpTool {
    client: HttpClient,
    name: String,
    url: Url,
    timeout: Duration,
    retries: u32,
    back_off: Duration,
}

/// An address that cannot be called.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{url}` cannot be called; write an address like \"http://127.0.0.1:9100/refund\"")]
#[non_exhaustive]
pub struct BadUrl {
    /// What was written.
    pub url: String,
}

/// What one attempt came to.
enum Attempt {
    Done(Answer),
    /// The model reads this; trying again would not help.
    Refused(String),
    /// Nobody knows whether it took effect.
    Unclear(String),
}

impl HttpTool {
    /// A tool at an address.
    ///
    /// # Errors
    /// [`BadUrl`] when it is not an address of http or https.
    pub fn new(client: HttpClient, name: &str, url: &str) -> Result<Self, BadUrl> {
        let parsed = Url::parse(url).ok();
        let usable =
            parsed.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        Ok(Self {
            client,
            name: name.to_owned(),
            url: usable.ok_or_else(|| BadUrl {
                url: url.to_owned(),
            })?,
            timeout: Duration::from_secs(10),
            retries: 0,
            back_off: BACK_OFF,
        })
    }

    /// How long one attempt may take; 10 s by default.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Whether a call of unclear outcome is tried again. Only for a service that does the same call
    /// once, however often it is sent.
    #[must_use]
    pub fn retries(mut self, idempotent: bool) -> Self {
        self.retries = if idempotent { RETRIES } else { 0 };
        self
    }

    /// The wait before the first retry; a quarter of a second by default.
    #[must_use]
    pub fn back_off(mut self, wait: Duration) -> Self {
        self.back_off = wait;
        self
    }

    async fn attempt(&self, body: &[u8], key: &str) -> ToolResult<Attempt> {
        let client = self.client.get()?;
        let request = client
            .post(self.url.clone())
            .header(CONTENT_TYPE, "application/json")
            .header("Idempotency-Key", HeaderValue::from_str(key)?)
            .body(body.to_vec())
            .timeout(self.timeout);
        let response = match request.send().await {
            Ok(response) => response,
            Err(error) if error.is_timeout() => {
                let wait = self.timeout.as_millis();
                return Ok(Attempt::Unclear(format!("no answer came within {wait} ms")));
            }
            Err(error) => return Ok(Attempt::Unclear(chain(&error))),
        };
        Ok(judge(response).await)
    }
}

async fn judge(response: Response) -> Attempt {
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
            "the service answered with status {}; redirects of tools are not followed",
            status.as_u16()
        ));
    }
    Attempt::Unclear(format!(
        "the service answered with status {}",
        status.as_u16()
    ))
}

/// The body, as far as it may be read.
pub(super) async fn read(mut response: Response) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(|error| chain(&error))? {
        body.extend_from_slice(&piece);
        if body.len() > MAX_ANSWER_BYTES {
            return Err(format!(
                "the answer is larger than {MAX_ANSWER_BYTES} bytes"
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
            let text = match attempt {
                Attempt::Done(answer) => return answer.into_result(&cx),
                Attempt::Refused(text) => return Err(ToolError::tell_model(text)),
                Attempt::Unclear(text) => text,
            };
            tracing::warn!(
                event = "tool.http_failed",
                tool = self.name,
                tried,
                detail = text
            );
            if tried > self.retries {
                return Err(ToolError::tell_model(unknown(&self.name, &text)));
            }
            let wait = self.back_off.saturating_mul(2u32.saturating_pow(tried - 1));
            tokio::time::sleep(wait).await;
        }
    }
}

fn unknown(tool: &str, why: &str) -> String {
    format!(
        "the outcome of this call of {tool} is unknown: {why}. The call may or may not have taken \
         effect. Do not repeat it before checking."
    )
}
