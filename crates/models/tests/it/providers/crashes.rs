//! A run over a provider's client, killed at every point.

use helix_agents_core::memory::MemoryStore;
use helix_agents_core::tool::ToolCx;
use helix_agents_core::{Agent, Tool};
use helix_agents_models::{Provider, ProviderModel};
use helix_agents_testkit::crash::{CrashTest, Scenario};
use serde_json::{Value, json};

use super::cassette;
use super::http_server::{HttpServer, Seen};

/// Serves a cassette to any process: the number of results in a request says which reply it gets.
async fn cassette_server(provider: Provider, name: &str, result: &'static str) -> HttpServer {
    let cassettes = cassette::of(provider.name());
    let cassette = cassettes.into_iter().find(|one| one.name == name).unwrap();
    let respond = move |seen: &Seen| {
        let body = String::from_utf8_lossy(&seen.body);
        let results = body.matches(result).count();
        cassette.exchanges[results].response()
    };
    HttpServer::start(respond).await
}

/// The driver counts model calls: one whose reply was committed is not made again, wherever the process is
/// killed. The server counts them, too.
///
/// proves in part: LLM-01
#[tokio::test]
async fn a_paid_reply_is_not_bought_again() {
    let server = cassette_server(Provider::OpenAi, "tools", r#""role":"tool""#).await;
    let url = format!("http://{}/v1", server.address);
    let scenario = Scenario::new("a model over HTTP", move |_| {
        let model = ProviderModel::builder(Provider::OpenAi, "gpt-5-mini")
            .base_url(url.clone())
            .build();
        let schema = json!({ "type": "object", "properties": { "city": { "type": "string" } } });
        let weather = Tool::raw(
            "get_weather",
            "The weather.",
            schema,
            |_: Value, cx: ToolCx| async move {
                cx.edit_state(|draft| draft.increment("/asked", 1))?;
                Ok(json!({ "celsius": 4 }))
            },
        );
        let agent = Agent::builder("weather")
            .model(model.unwrap())
            .tools(weather.idempotent());
        agent.initial_state(json!({ "asked": 0 })).build().unwrap()
    })
    .says("Weather in Oslo?")
    .leaves(json!({ "asked": 1 }));
    let report = CrashTest::new(scenario)
        .every_point(|| async { MemoryStore::new().into() })
        .await;
    report.check();
    assert!(report.points >= 10, "{report:?}");
    // Two calls in each undisturbed play, and one more where a call was killed before its commit.
    let plays = report.points + 2;
    let asked = server.seen().len();
    assert!(
        asked >= 2 * plays && asked <= 2 * plays + report.kills,
        "{asked} calls in {report:?}"
    );
}
