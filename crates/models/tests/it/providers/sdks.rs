//! The providers' own SDKs certify the cassettes: they accept every request that our clients make, and make of
//! every reply what our clients make of it.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use helix_agents_models::Provider;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use super::cassettes::{base_url, play_all, server};

/// The Python that has the SDKs: `./test` installs it and says where it is.
fn python() -> Option<PathBuf> {
    std::env::var_os("HELIX_SDK_PYTHON").map(PathBuf::from)
}

async fn the_sdk_agrees(provider: Provider) {
    let Some(python) = python() else {
        assert!(
            std::env::var_os("HELIX_NO_SKIP").is_none(),
            "HELIX_SDK_PYTHON names no Python with the providers' SDKs"
        );
        println!("skipped: the SDK of {provider} (HELIX_SDK_PYTHON is not set; run ./test)");
        return;
    };
    let server = server(provider.name()).await;
    let all = play_all(&server, provider).await;
    let mut input = String::new();
    for played in &all {
        let name = &played.cassette.name;
        let url = base_url(&server, provider, name, "sdk");
        for body in &played.requests {
            let body: Value = serde_json::from_slice(body).unwrap();
            let model = &played.cassette.model;
            let line = json!({ "cassette": name, "baseUrl": url, "model": model, "request": body });
            input.push_str(&format!("{line}\n"));
        }
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sdk/certify.py");
    let mut certifying = Command::new(python)
        .arg(script)
        .arg(provider.name())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut stdin = certifying.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).await.unwrap();
    drop(stdin);
    let output = certifying.wait_with_output().await.unwrap();
    assert!(output.status.success(), "{provider}: the script failed");
    let said = String::from_utf8(output.stdout).unwrap();
    let mut said = said
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    for played in &all {
        let name = &played.cassette.name;
        for (at, ours) in played.replies.iter().enumerate() {
            let theirs = said.next().unwrap();
            assert_eq!(
                theirs["invalid"],
                Value::Null,
                "{provider} {name}: request {at}"
            );
            assert_eq!(
                theirs["reply"],
                comparable(ours),
                "{provider} {name}: reply {at}"
            );
        }
    }
    assert_eq!(said.next(), None);
}

/// A reply as far as an SDK can tell it: it knows neither our kinds of errors nor the usage before one.
fn comparable(reply: &Value) -> Value {
    if reply.get("error").is_some() {
        return json!({ "error": true });
    }
    reply.clone()
}

/// proves: LLM-02
#[tokio::test]
async fn the_sdk_of_openai_agrees() {
    the_sdk_agrees(Provider::OpenAi).await;
}

/// proves: LLM-02
#[tokio::test]
async fn the_sdk_of_openai_responses_agrees() {
    the_sdk_agrees(Provider::OpenAiResponses).await;
}

/// proves: LLM-02
#[tokio::test]
async fn the_sdk_of_anthropic_agrees() {
    the_sdk_agrees(Provider::Anthropic).await;
}

/// proves: LLM-02
#[tokio::test]
async fn the_sdk_of_gemini_agrees() {
    the_sdk_agrees(Provider::Gemini).await;
}
