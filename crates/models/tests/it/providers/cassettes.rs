//! Every cassette gives what it says, through our clients.

use std::collections::HashMap;
use std::sync::Mutex;

use helix_agents_models::{Provider, ProviderModel};
use serde_json::Value;

use super::cassette::{self, Cassette};
use super::http_server::{HttpServer, Response, Seen};
use super::scene::{Scene, described, described_error};

/// The outcome of a cassette, exchange by exchange.
pub(super) struct Played {
    pub(super) cassette: Cassette,
    /// The bodies of the requests.
    pub(super) requests: Vec<Vec<u8>>,
    pub(super) replies: Vec<Value>,
}

/// A server that plays all cassettes of a provider to any number of clients. The base URL of a client names it
/// and the cassette: `/CASSETTE/CLIENT`; each of its requests gets the next exchange.
pub(super) async fn server(provider: &str) -> HttpServer {
    let cassettes = cassette::of(provider);
    let played: Mutex<HashMap<String, usize>> = Mutex::default();
    let respond = move |seen: &Seen| {
        let mut parts = seen.path.split('/').skip(1);
        let (name, client) = (parts.next().unwrap(), parts.next().unwrap());
        let Some(cassette) = cassettes.iter().find(|one| one.name == name) else {
            return Response::new(404, "text/plain", format!("no cassette {name}"));
        };
        let mut played = played.lock().unwrap();
        let next = played.entry(format!("{name}/{client}")).or_default();
        *next += 1;
        match cassette.exchanges.get(*next - 1) {
            Some(exchange) => exchange.response(),
            None => Response::new(404, "text/plain", "the cassette is over"),
        }
    };
    HttpServer::start(respond).await
}

/// The base URL of a cassette for a client, as the provider's SDK means it.
pub(super) fn base_url(
    server: &HttpServer,
    provider: Provider,
    name: &str,
    client: &str,
) -> String {
    let version = match provider {
        Provider::OpenAi | Provider::OpenAiResponses => "/v1",
        _ => "",
    };
    format!("http://{}/{name}/{client}{version}", server.address)
}

/// Plays all cassettes of a provider through our client.
pub(super) async fn play_all(server: &HttpServer, provider: Provider) -> Vec<Played> {
    let mut all = Vec::new();
    for cassette in cassette::of(provider.name()) {
        let url = base_url(server, provider, &cassette.name, "ours");
        let model = ProviderModel::builder(provider, &cassette.model)
            .base_url(url)
            .api_key("test-key")
            .build()
            .unwrap();
        let mut scene = Scene::of(&cassette.scene);
        let mut replies = Vec::new();
        for _ in &cassette.exchanges {
            replies.push(match scene.reply(&model).await {
                Ok(reply) => {
                    scene.push(&reply);
                    described(&reply)
                }
                Err((error, usage)) => described_error(&error, &usage),
            });
        }
        let own = format!("/{}/ours/", cassette.name);
        let seen = server.seen().into_iter();
        let requests = seen.filter(|seen| seen.path.starts_with(&own));
        all.push(Played {
            requests: requests.map(|seen| seen.body).collect(),
            cassette,
            replies,
        });
    }
    all
}

async fn every_cassette_gives_what_it_says(provider: Provider) {
    let server = server(provider.name()).await;
    let all = play_all(&server, provider).await;
    assert!(all.len() >= 12, "{provider} has {} cassettes", all.len());
    for played in all {
        let name = &played.cassette.name;
        let expected: Vec<_> = played
            .cassette
            .exchanges
            .iter()
            .map(|one| &one.expect)
            .collect();
        assert_eq!(
            played.replies.iter().collect::<Vec<_>>(),
            expected,
            "{provider} {name}"
        );
        assert_eq!(
            played.requests.len(),
            expected.len(),
            "{provider} {name}: one request each"
        );
        // The beginning of a request is the request before it, byte by byte.
        for pair in played.requests.windows(2) {
            let end = common_prefix(&pair[0], &pair[1]);
            let rest = String::from_utf8_lossy(&pair[0][end..]);
            assert!(
                rest.len() <= 24 && rest.bytes().all(|byte| b"]},".contains(&byte)),
                "{provider} {name}: the next request does not begin with this one, which goes on with {rest:?}"
            );
        }
    }
}

fn common_prefix(one: &[u8], other: &[u8]) -> usize {
    one.iter()
        .zip(other)
        .take_while(|(one, other)| one == other)
        .count()
}

/// proves: LLM-02
#[tokio::test]
async fn every_cassette_of_openai_gives_what_it_says() {
    every_cassette_gives_what_it_says(Provider::OpenAi).await;
}

/// proves: LLM-02
#[tokio::test]
async fn every_cassette_of_openai_responses_gives_what_it_says() {
    every_cassette_gives_what_it_says(Provider::OpenAiResponses).await;
}

/// proves: LLM-02
#[tokio::test]
async fn every_cassette_of_anthropic_gives_what_it_says() {
    every_cassette_gives_what_it_says(Provider::Anthropic).await;
}

/// proves: LLM-02
#[tokio::test]
async fn every_cassette_of_gemini_gives_what_it_says() {
    every_cassette_gives_what_it_says(Provider::Gemini).await;
}
