//! Tests that configured secrets are never shown.

use serde_json::json;

use crate::kit::{Folder, config};
use crate::service::{Reply, Service};
use crate::serving::Served;

const TOKEN: &str = "token-4f1c9a77";
const HEADER: &str = "header-8d02be31";
const QUERY: &str = "query-61e5cc20";
const PASSWORD: &str = "password-a9b37d5e";
const SECRETS: [&str; 4] = [TOKEN, HEADER, QUERY, PASSWORD];

const TOOLS: [&str; 5] = ["gone", "lost", "drops", "fails", "refuses"];

/// A script that calls every tool in one step, and then reports the results.
fn script() -> String {
    let calls: Vec<_> = TOOLS
        .iter()
        .map(|name| json!({ "id": name, "name": name, "arguments": {} }))
        .collect();
    let said = TOOLS.map(|name| format!("{{{{tool_result:{name}}}}}"));
    json!({ "default": [ { "tool_calls": calls }, { "text": said.join("\n") } ] }).to_string()
}

/// Transcripts, streams, responses, metrics and the log at its most verbose contain no secret,
/// after a run in which every tool failed in a different way.
#[tokio::test]
async fn no_secret_is_shown_to_anybody() {
    let drops = Service::that(vec![Reply::Drops]).await;
    let fails = Service::that(vec![Reply::Says(500, "", "broken".to_owned())]).await;
    let refuses = Service::that(vec![Reply::Says(403, "", "not you".to_owned())]).await;
    let places = [
        "127.0.0.1:1",
        "nobody.invalid",
        &drops.address,
        &fails.address,
        &refuses.address,
    ];
    let tools = TOOLS.iter().zip(places).map(|(name, place)| {
        format!(
            "[tools.{name}]\nkind = \"http\"\n\
             url = \"http://user:{PASSWORD}@{place}/do?key={QUERY}\"\n\
             headers = {{ X-Key = {{ env = \"HELIX_TEST_HEADER\" }} }}\n"
        )
    });
    let tools: String = tools.collect();
    let more = format!(
        "[[server.tokens]]\nenv = \"HELIX_TEST_TOKEN\"\nuser = \"me\"\n\
         [agents.a]\nmodel = \"fast\"\ntools = {TOOLS:?}\n{tools}"
    );
    let folder = Folder::with(&config(&more), &script());
    let log = std::fs::File::create(folder.path().join("log")).unwrap();
    let mut command = folder.command(&["serve"]);
    command
        .args(["--listen", "127.0.0.1:0"])
        .env("HELIX_TEST_TOKEN", TOKEN)
        .env("HELIX_TEST_HEADER", HEADER)
        .env("HELIX_LOG", "trace")
        .stderr(log);
    let served = Served::spawn(command);

    let mut shown = Vec::new();
    let body = json!({ "sessionId": "s", "agentType": "a", "message": "go" });
    let (status, started) = served.ask("/start", Some(body), Some(TOKEN)).await;
    assert_eq!(status, 200, "{started}");
    let bearer = format!("Bearer {TOKEN}");
    let headers = [("authorization", bearer.as_str())];
    for path in [
        "/sse?sessionId=s",
        "/status?sessionId=s",
        "/sessions/s",
        "/sessions/s/messages",
        "/sessions/s/runs",
        "/sessions/s/usage?entries=true",
        "/agents",
        "/pending",
        "/metrics",
        "/openapi.json",
    ] {
        let answer = served.get_with(path, &headers).await;
        assert_eq!(answer.status().as_u16(), 200, "{path}");
        shown.push((path.to_owned(), answer.text().await.unwrap()));
    }
    let (_, refused) = served.ask("/agents", None, Some("another")).await;
    shown.push(("a refusal".to_owned(), refused.to_string()));
    assert_eq!(served.terminate(), Some(0));
    let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
    for name in TOOLS {
        assert!(log.contains(name), "the log at trace tells of {name}");
    }
    shown.push(("the log".to_owned(), log));
    for arguments in [
        &["doctor"][..],
        &["sessions", "show", "s", "--json"],
        &["sessions", "export", "s"],
    ] {
        let mut command = folder.command(arguments);
        command
            .env("HELIX_TEST_TOKEN", TOKEN)
            .env("HELIX_TEST_HEADER", HEADER);
        let output = command.env("HELIX_LOG", "trace").output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        shown.push((arguments.join(" "), String::from_utf8(said).unwrap()));
    }

    let metrics = &shown[8].1;
    for wanted in [
        "helix_runs_ended_total{status=\"completed\"} 1\n",
        "helix_tool_calls_total{tool=\"fails\",outcome=\"failed\"} 1\n",
        "helix_store_up 1\n",
    ] {
        assert!(metrics.contains(wanted), "{wanted} is not in {metrics}");
    }
    let messages = &shown[3].1;
    for wanted in ["not executed", "unknown", "not you"] {
        assert!(messages.contains(wanted), "{messages}");
    }
    for (place, text) in &shown {
        for secret in SECRETS {
            let line = text.lines().find(|line| line.contains(secret));
            assert_eq!(line, None, "{place}");
        }
    }
    assert_eq!(
        refuses.asked()[0].header("x-key"),
        Some(HEADER),
        "it is sent"
    );
}
