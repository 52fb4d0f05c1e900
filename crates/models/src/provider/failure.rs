//! Errors of providers, as kinds that are common to all.

use std::borrow::Cow;
use std::collections::HashSet;
use std::time::{Duration, SystemTime};

use helix_agents_core::model::{ModelError, ModelErrorKind};
use reqwest::header::{HeaderMap, RETRY_AFTER};
use serde_json::Value;

/// The maximum length of a provider's message in an error.
const MAX_MESSAGE: usize = 400;
/// The length of a text from which on it counts as quoted from the request.
const QUOTE: usize = 24;
/// The maximum size of a request that is searched for quotes.
const MAX_SEARCHED: usize = 2 << 20;

/// An error as a provider reports it, in whichever of its fields.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct ProviderFailure {
    /// The provider's name of the error, like `overloaded_error` or `context_length_exceeded`.
    pub(crate) code: String,
    pub(crate) message: String,
    pub(crate) retry_after: Option<Duration>,
}

impl ProviderFailure {
    /// Reads the error object of a body. The formats agree on `error.message`; the name of the error is
    /// `code`, `type` or `status`.
    pub(crate) fn of_body(body: &[u8]) -> Self {
        let Ok(value) = serde_json::from_slice::<Value>(body) else {
            return Self::default();
        };
        // Gemini's streams wrap the object in an array.
        let value = value.get(0).unwrap_or(&value);
        Self::of_error(value.get("error").unwrap_or(value))
    }

    /// Reads an error object.
    pub(crate) fn of_error(error: &Value) -> Self {
        if let Value::String(message) = error {
            return Self {
                message: message.clone(),
                ..Self::default()
            };
        }
        let text = |field: &str| error.get(field).and_then(Value::as_str).unwrap_or_default();
        let codes = ["code", "type", "status"].map(text);
        let code = codes.iter().find(|code| !code.is_empty());
        // Some servers have nothing but a status here.
        let status = || {
            error
                .get("code")
                .and_then(Value::as_u64)
                .map(|it| it.to_string())
        };
        Self {
            code: code
                .map(|code| (*code).to_owned())
                .or_else(status)
                .unwrap_or_default(),
            message: text("message").to_owned(),
            retry_after: retry_delay(error),
        }
    }

    /// Whether the code or the message has one of these words.
    fn says(&self, words: &[&str]) -> bool {
        let message = self.message.to_ascii_lowercase();
        self.is_named(words) || words.iter().any(|word| message.contains(word))
    }

    /// Whether the code has one of these words.
    fn is_named(&self, words: &[&str]) -> bool {
        let code = self.code.to_ascii_lowercase();
        words.iter().any(|word| code.contains(word))
    }

    /// Whether the key or its account is refused, so that no retry helps. Advice about billing stands in the
    /// messages of plain rate limits, too, so there only the code tells.
    fn is_about_the_account(&self) -> bool {
        const CODES: &[&str] = &[
            "api_key_invalid",
            "invalid_api_key",
            "authentication_error",
            "permission_error",
            "unauthenticated",
            "permission_denied",
            "insufficient_quota",
            "billing",
        ];
        const MESSAGES: &[&str] = &[
            "api key not valid",
            "api key expired",
            "api_key_invalid",
            "invalid_api_key",
            "credit balance is too low",
            "enable billing",
            "insufficient_quota",
        ];
        self.is_named(CODES) || self.says(MESSAGES)
    }

    /// Returns the kind, by the status where there is one.
    pub(crate) fn kind(&self, status: Option<u16>) -> ModelErrorKind {
        const CONTEXT: &[&str] = &[
            "context_length",
            "context length",
            "context window",
            "prompt is too long",
            "maximum context",
            "input token count",
            "exceeds the maximum number of tokens",
            "request_too_large",
            "model_context_window_exceeded",
        ];
        const FILTER: &[&str] = &[
            "content_filter",
            "_policy",
            "content filtering policy",
            "responsibleai",
        ];
        const LIMIT: &[&str] = &["rate_limit", "resource_exhausted", "too_many_requests"];
        const LOAD: &[&str] = &[
            "overloaded",
            "unavailable",
            "server_error",
            "api_error",
            "internal",
            "timeout",
        ];
        // The request was accepted before its stream failed: an error of any other name is the provider's.
        const REFUSED: &[&str] = &[
            "invalid",
            "not_found",
            "unsupported",
            "bad_request",
            "image",
            "data_residency",
        ];
        let status = status.or_else(|| self.code.parse().ok().filter(|code| *code >= 400));
        match status {
            Some(400 | 404 | 422) | None if self.says(CONTEXT) => ModelErrorKind::ContextLength,
            Some(400 | 403 | 422) | None if self.says(FILTER) => ModelErrorKind::ContentFilter,
            // A bad key is a 400 at Gemini; an account without credit is a 429 at OpenAI, and no retry helps.
            Some(400 | 429) | None if self.is_about_the_account() => ModelErrorKind::Auth,
            Some(401..=403) => ModelErrorKind::Auth,
            Some(408) => ModelErrorKind::Transport,
            Some(413) => ModelErrorKind::ContextLength,
            Some(429) => ModelErrorKind::RateLimited,
            Some(409 | 425 | 500..) => ModelErrorKind::Overloaded,
            None if self.says(LIMIT) => ModelErrorKind::RateLimited,
            None if self.says(LOAD) || !self.says(REFUSED) => ModelErrorKind::Overloaded,
            _ => ModelErrorKind::Invalid,
        }
    }
}

/// Texts that an error must not repeat: the key, and the request.
pub(crate) struct Confidential<'a> {
    pub(crate) key: Option<&'a str>,
    pub(crate) body: &'a [u8],
}

impl Confidential<'_> {
    /// Returns a provider's message without the key, and without passages of the request. A provider may
    /// quote both.
    pub(crate) fn removed_from(&self, message: &str) -> String {
        let message = match self.key.filter(|key| key.len() >= 6) {
            Some(key) => Cow::Owned(message.replace(key, "[key]")),
            None => Cow::Borrowed(message),
        };
        // Not earlier: a key that is cut off would not be found.
        let message: String = message.chars().take(MAX_MESSAGE).collect();
        if self.body.len() > MAX_SEARCHED {
            return String::new();
        }
        let quotable: HashSet<&[u8]> = message.as_bytes().windows(QUOTE).collect();
        let is_quoted = |window: &&[u8]| quotable.contains(*window);
        let quoted: HashSet<&[u8]> = self.body.windows(QUOTE).filter(is_quoted).collect();
        if quoted.is_empty() {
            return message;
        }
        let mut hidden = vec![false; message.len()];
        for (at, window) in message.as_bytes().windows(QUOTE).enumerate() {
            if quoted.contains(window)
                && let Some(part) = hidden.get_mut(at..at + QUOTE)
            {
                part.fill(true);
            }
        }
        let mut shown = String::new();
        let mut was_hidden = false;
        for (at, letter) in message.char_indices() {
            let is_hidden = hidden.get(at) == Some(&true);
            if is_hidden && !was_hidden {
                shown.push_str("[..]");
            } else if !is_hidden {
                shown.push(letter);
            }
            was_hidden = is_hidden;
        }
        shown
    }
}

/// The error of a response that is not a success.
pub(crate) fn of_response(
    provider: &str,
    status: u16,
    headers: &HeaderMap,
    body: &[u8],
    confidential: &Confidential<'_>,
) -> ModelError {
    let failure = ProviderFailure::of_body(body);
    let kind = failure.kind(Some(status));
    let wait = retry_after(headers).or(failure.retry_after);
    let about = format!("{provider} answered {status}");
    with_wait(described(kind, &about, &failure, confidential), wait)
}

/// The error that a stream reported in the middle of a reply.
pub(crate) fn of_event(
    provider: &str,
    failure: &ProviderFailure,
    confidential: &Confidential<'_>,
) -> ModelError {
    let kind = failure.kind(None);
    let about = format!("{provider} reported an error in the middle of its reply");
    with_wait(
        described(kind, &about, failure, confidential),
        failure.retry_after,
    )
}

fn described(
    kind: ModelErrorKind,
    about: &str,
    failure: &ProviderFailure,
    confidential: &Confidential<'_>,
) -> ModelError {
    let message = confidential.removed_from(&failure.message);
    let mut detail = about.to_owned();
    if !failure.code.is_empty() {
        let code = confidential.removed_from(&failure.code);
        let code: String = code.chars().take(80).collect();
        detail.push_str(&format!(" ({code})"));
    }
    if !message.is_empty() {
        detail.push_str(": ");
        detail.push_str(&message);
    }
    if let Some(remedy) = remedy(kind) {
        detail.push_str("; ");
        detail.push_str(remedy);
    }
    ModelError::new(kind, detail)
}

/// Returns what to do about an error that no retry repairs.
fn remedy(kind: ModelErrorKind) -> Option<&'static str> {
    Some(match kind {
        ModelErrorKind::Auth => "check the API key, its permissions and its account",
        ModelErrorKind::ContextLength => {
            "shorten the conversation, or set what the agent does near the limit of the context"
        }
        _ => return None,
    })
}

fn with_wait(error: ModelError, wait: Option<Duration>) -> ModelError {
    match wait {
        Some(wait) => error.retry_after(wait),
        None => error,
    }
}

/// Reads how long a provider asks to be left alone: `retry-after-ms`, or `retry-after` as seconds or a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    if let Some(millis) = text("retry-after-ms").and_then(|text| text.parse::<f64>().ok()) {
        return Duration::try_from_secs_f64(millis / 1000.0).ok();
    }
    let wanted = text(RETRY_AFTER.as_str())?;
    if let Ok(seconds) = wanted.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let at = httpdate::parse_http_date(wanted).ok()?;
    let now = text("date").and_then(|date| httpdate::parse_http_date(date).ok());
    Some(
        at.duration_since(now.unwrap_or_else(SystemTime::now))
            .unwrap_or_default(),
    )
}

/// Reads Gemini's `RetryInfo`: `{"retryDelay": "13s"}` among the details of an error.
fn retry_delay(error: &Value) -> Option<Duration> {
    let details = error.get("details")?.as_array()?;
    let delay = details
        .iter()
        .find_map(|detail| detail.get("retryDelay")?.as_str())?;
    let seconds = delay.strip_suffix('s')?.parse::<f64>().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use reqwest::header::{HeaderName, HeaderValue};
    use serde_json::json;

    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn a_wait_is_read_in_each_of_its_forms() {
        let wait = |pairs: &[_]| retry_after(&headers(pairs)).map(|wait| wait.as_millis());
        assert_eq!(
            wait(&[("retry-after-ms", "250"), ("retry-after", "9")]),
            Some(250)
        );
        assert_eq!(wait(&[("retry-after", "1.5")]), Some(1500));
        let date = ("date", "Sun, 15 Nov 2026 10:00:00 GMT");
        let later = ("retry-after", "Sun, 15 Nov 2026 10:00:07 GMT");
        let earlier = ("retry-after", "Sun, 15 Nov 2026 09:00:00 GMT");
        assert_eq!(wait(&[date, later]), Some(7000));
        assert_eq!(wait(&[date, earlier]), Some(0));
        assert_eq!(wait(&[("retry-after", "soon")]), None);
        assert_eq!(wait(&[("retry-after", "-3")]), None);
        let info = json!({ "details": [{ "@type": "x" }, { "retryDelay": "13.5s" }] });
        assert_eq!(retry_delay(&info), Some(Duration::from_millis(13_500)));
    }

    #[test]
    fn neither_keys_nor_prompts_are_repeated() {
        let body =
            br#"{"messages":[{"content":"My diagnosis is a secret that nobody may read."}]}"#;
        let confidential = Confidential {
            key: Some("sk-live-1234567"),
            body,
        };
        let message = "Key sk-live-1234567 is wrong; got 'diagnosis is a secret that nobody may read.' instead";
        let shown = confidential.removed_from(message);
        assert!(shown.starts_with("Key [key] is wrong; got"), "{shown}");
        assert!(
            shown.contains("[..]") && shown.ends_with("instead"),
            "{shown}"
        );
        assert!(!shown.contains("secret"), "{shown}");
        assert_eq!(confidential.removed_from("a short one"), "a short one");
        // Neither is the beginning of a key that stands where a message is cut off.
        let long = format!("{}sk-live-1234567", " ".repeat(MAX_MESSAGE - 8));
        assert!(!confidential.removed_from(&long).contains("sk-live"));
        let failure = ProviderFailure {
            code: "sk-live-1234567".to_owned(),
            ..ProviderFailure::default()
        };
        let error = of_event("openai", &failure, &confidential);
        assert!(!error.detail.contains("sk-live"), "{error}");
    }

    #[test]
    fn kinds_follow_the_status_and_then_the_words() {
        let said = |code: &str, message: &str| ProviderFailure {
            code: code.to_owned(),
            message: message.to_owned(),
            retry_after: None,
        };
        let plain = said("", "");
        for (status, kind) in [
            (400, ModelErrorKind::Invalid),
            (401, ModelErrorKind::Auth),
            (403, ModelErrorKind::Auth),
            (404, ModelErrorKind::Invalid),
            (408, ModelErrorKind::Transport),
            (413, ModelErrorKind::ContextLength),
            (429, ModelErrorKind::RateLimited),
            (500, ModelErrorKind::Overloaded),
            (503, ModelErrorKind::Overloaded),
            (529, ModelErrorKind::Overloaded),
        ] {
            assert_eq!(plain.kind(Some(status)), kind, "{status}");
        }
        for (code, kind) in [
            ("502", ModelErrorKind::Overloaded),
            ("429", ModelErrorKind::RateLimited),
            ("400", ModelErrorKind::Invalid),
            ("bio_policy", ModelErrorKind::ContentFilter),
            ("server_error", ModelErrorKind::Overloaded),
            ("invalid_prompt", ModelErrorKind::Invalid),
            ("image_parse_error", ModelErrorKind::Invalid),
            ("data_residency_mismatch", ModelErrorKind::Invalid),
            ("a name that nobody knows", ModelErrorKind::Overloaded),
        ] {
            assert_eq!(said(code, "").kind(None), kind, "{code}");
        }
        let numbered = ProviderFailure::of_error(&json!({ "code": 502, "message": "m" }));
        assert_eq!(numbered, said("502", "m"));
        let too_long = said("context_length_exceeded", "");
        assert_eq!(too_long.kind(Some(400)), ModelErrorKind::ContextLength);
        let broke = said("insufficient_quota", "You exceeded your current quota");
        assert_eq!(broke.kind(Some(429)), ModelErrorKind::Auth);
        // Both are limits of a rate, and advise to pay more.
        for (code, message) in [
            (
                "RESOURCE_EXHAUSTED",
                "You exceeded your current quota, please check your plan and billing details.",
            ),
            (
                "rate_limit_exceeded",
                "Rate limit reached. You can increase it by adding a payment method at https://x/account/billing.",
            ),
        ] {
            let limited = said(code, message);
            for status in [Some(429), None] {
                assert_eq!(limited.kind(status), ModelErrorKind::RateLimited, "{code}");
            }
        }
        let poor = said(
            "invalid_request_error",
            "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing.",
        );
        assert_eq!(poor.kind(Some(400)), ModelErrorKind::Auth);
        let bad_key = said(
            "INVALID_ARGUMENT",
            "API key not valid. Please pass a valid API key.",
        );
        assert_eq!(bad_key.kind(Some(400)), ModelErrorKind::Auth);
        assert_eq!(
            said("overloaded_error", "").kind(None),
            ModelErrorKind::Overloaded
        );
        assert_eq!(
            said("content_filter", "").kind(Some(400)),
            ModelErrorKind::ContentFilter
        );
        assert_eq!(
            said("rate_limit_exceeded", "").kind(None),
            ModelErrorKind::RateLimited
        );
    }
}
