//! A reader that does the least that gives the text of a reply: it finds the events, and reads the one field
//! of each that holds text. It knows no calls, no thinking, no usage, no errors and no end.

use std::borrow::Cow;
use std::net::SocketAddr;

use helix_agents_models::Provider;
use memchr::memmem;
use serde::Deserialize;

use crate::sqlite::Outcome;

/// An event of any provider.
#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, default)]
    choices: Vec<Choice<'a>>,
    #[serde(borrow, default)]
    candidates: Vec<Candidate<'a>>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow)]
    delta: ChatDelta<'a>,
}

#[derive(Deserialize)]
struct ChatDelta<'a> {
    #[serde(borrow, default)]
    content: Option<Cow<'a, str>>,
}

/// An event of the Responses format.
#[derive(Deserialize)]
struct ResponsesEvent<'a> {
    #[serde(borrow, default)]
    delta: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct AnthropicEvent<'a> {
    #[serde(borrow, default)]
    delta: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct Candidate<'a> {
    #[serde(borrow)]
    content: Content<'a>,
}

#[derive(Deserialize)]
struct Content<'a> {
    #[serde(borrow)]
    parts: Vec<Text<'a>>,
}

#[derive(Deserialize)]
struct Text<'a> {
    #[serde(borrow, default)]
    text: Option<Cow<'a, str>>,
}

/// Returns the text of an event, as a value of its own as a caller needs it.
fn text(provider: Provider, data: &[u8]) -> Outcome<Option<String>> {
    let text = match provider {
        Provider::OpenAiResponses => serde_json::from_slice::<ResponsesEvent<'_>>(data)?.delta,
        Provider::Anthropic => {
            let event: AnthropicEvent<'_> = serde_json::from_slice(data)?;
            event.delta.and_then(|delta| delta.text)
        }
        _ => {
            let event: Event<'_> = serde_json::from_slice(data)?;
            let choice = event.choices.into_iter().next();
            let candidate = event.candidates.into_iter().next();
            let part = candidate.and_then(|one| one.content.parts.into_iter().next());
            let content = choice.and_then(|choice| choice.delta.content);
            content.or_else(|| part.and_then(|part| part.text))
        }
    };
    Ok(text.filter(|text| !text.is_empty()).map(Cow::into_owned))
}

/// Asks the server, and returns the number of pieces of text.
pub(super) async fn read(
    client: &reqwest::Client,
    provider: Provider,
    server: SocketAddr,
) -> Outcome<usize> {
    let end_of_event = memmem::Finder::new("\n\n");
    let mut response = client.post(format!("http://{server}/")).send().await?;
    let (mut received, mut pieces) = (Vec::new(), 0);
    while let Some(bytes) = response.chunk().await? {
        received.extend_from_slice(&bytes);
        let mut begin = 0;
        loop {
            let rest = received.get(begin..).unwrap_or_default();
            let Some(length) = end_of_event.find(rest) else {
                break;
            };
            let event = rest.get(..length).unwrap_or_default();
            begin += length + 2;
            let named = event.starts_with(b"event: ");
            let line = memchr::memchr(b'\n', event).filter(|_| named);
            let event = event.get(line.map_or(0, |line| line + 1)..);
            let data = event.unwrap_or_default();
            let data = data.strip_prefix(b"data: ").unwrap_or(data);
            if data != b"[DONE]"
                && let Some(text) = text(provider, data)?
            {
                pieces += usize::from(!std::hint::black_box(text).is_empty());
            }
        }
        received.drain(..begin);
    }
    Ok(pieces)
}
