//! Tests of `helix serve` and `helix dev`, from the first line to shutdown.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::kit::{Folder, config};

const SCRIPT: &str = r#"{ "default": [
    { "text": "Let me ask.", "tool_calls": [ { "id": "c", "name": "color" } ] },
    { "text": "{{last_tool_result}} it is." } ] }"#;

const AGENT: &str =
    "[agents.a]\nmodel = \"fast\"\ntools = [\"color\"]\n[tools.color]\nkind = \"client\"\n";

/// A server in a separate process.
pub(crate) struct Served {
    child: Child,
    url: String,
}

impl Served {
    pub(crate) fn start(folder: &Folder, arguments: &[&str]) -> Self {
        let mut command = folder.command(arguments);
        command
            .args(["--listen", "127.0.0.1:0"])
            .env("HELIX_TEST_TOKEN", "open sesame");
        let served = Self::spawn(command);
        folder.check_schema();
        served
    }

    /// Waits until a command prints its address.
    pub(crate) fn spawn(mut command: Command) -> Self {
        command.stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        let url = line.strip_prefix("helix: listening on ");
        let url = url.unwrap_or_else(|| panic!("the first line is {line:?}"));
        Self {
            url: url.trim().to_owned(),
            child,
        }
    }

    /// Returns the process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the URL of the server.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) async fn ask(
        &self,
        path: &str,
        body: Option<Value>,
        token: Option<&str>,
    ) -> (u16, Value) {
        let client = client();
        let url = format!("{}{path}", self.url);
        let request = match body {
            Some(body) => client
                .post(url)
                .header("content-type", "application/json")
                .body(body.to_string()),
            None => client.get(url),
        };
        let request = match token {
            Some(token) => request.bearer_auth(token),
            None => request,
        };
        let answer = request.send().await.unwrap();
        let status = answer.status().as_u16();
        let text = answer.text().await.unwrap();
        (status, serde_json::from_str(&text).unwrap_or(Value::Null))
    }

    /// Requests a path whose response is read in pieces.
    pub(crate) async fn get(&self, path: &str) -> reqwest::Response {
        self.get_with(path, &[]).await
    }

    /// Requests a path with headers.
    pub(crate) async fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> reqwest::Response {
        let request = client().get(format!("{}{path}", self.url));
        let add = |request: reqwest::RequestBuilder, (name, value): &(&str, &str)| {
            request.header(*name, *value)
        };
        headers.iter().fold(request, add).send().await.unwrap()
    }

    /// Kills the process.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Reads the stream to its end, and returns the data of the end frame.
    pub(crate) async fn end(&self, session: &str, token: Option<&str>) -> Value {
        let url = format!("{}/sse?sessionId={session}", self.url);
        let request = client().get(url);
        let request = match token {
            Some(token) => request.bearer_auth(token),
            None => request,
        };
        let text = request.send().await.unwrap().text().await.unwrap();
        let (_, end) = text.split_once("event: end\ndata: ").unwrap();
        serde_json::from_str(end.lines().next().unwrap()).unwrap()
    }

    /// Ends the process with SIGTERM, and returns its exit code.
    pub(crate) fn terminate(mut self) -> Option<i32> {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &pid]).status();
        assert!(sent.unwrap().success());
        self.child.wait().unwrap().code()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns a client. reqwest needs a cryptography provider even if it is not used.
fn client() -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::new()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspended_run_continues_after_a_restart() {
    let tokens = "[[server.tokens]]\nenv = \"HELIX_TEST_TOKEN\"\nuser = \"alice\"\n";
    let folder = Folder::with(&config(&format!("{tokens}{AGENT}")), SCRIPT);
    let token = Some("open sesame");
    let served = Served::start(&folder, &["serve"]);
    let start = json!({ "sessionId": "s", "agentType": "a", "message": "go" });
    let (status, refused) = served.ask("/start", Some(start.clone()), None).await;
    assert_eq!((status, &refused["code"]), (401, &json!("UNAUTHENTICATED")));
    let (status, started) = served.ask("/start", Some(start), token).await;
    assert_eq!((status, &started["sessionId"]), (200, &json!("s")));
    assert!(served.end("s", token).await["suspended"].is_object());
    assert_eq!(served.terminate(), Some(0));

    let served = Served::start(&folder, &["serve"]);
    let answer = json!({
        "sessionId": "s", "kind": "client-tool-result", "toolCallId": "c", "result": "teal",
    });
    let (status, taken) = served.ask("/submit-tool-result", Some(answer), token).await;
    let wanted = json!({ "status": "accepted", "continuation": "new_run" });
    assert_eq!((status, taken), (200, wanted));
    assert_eq!(served.end("s", token).await["status"], json!("completed"));
    let (_, told) = served.ask("/sessions/s/messages", None, token).await;
    let last = told["messages"].as_array().unwrap().last().unwrap();
    assert_eq!(last["content"], json!("teal it is."));
    assert_eq!(served.terminate(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn dev_serves_the_demo_agents_on_loopback() {
    let folder = Folder::empty();
    let served = Served::start(&folder, &["dev"]);
    let (status, _) = served.ask("/readyz", None, None).await;
    assert_eq!(status, 200);
    let (_, agents) = served.ask("/agents", None, None).await;
    let agents = agents["agents"].as_array().unwrap();
    let names: Vec<_> = agents.iter().map(|agent| &agent["agentType"]).collect();
    assert_eq!(
        names,
        [
            "checker",
            "form",
            "researcher",
            "scenarios",
            "support",
            "writer"
        ]
    );
    assert_eq!(served.terminate(), Some(0));
    assert!(folder.path().join(".helix/helix.db").is_file());
}

#[test]
fn a_server_without_usable_authentication_is_not_started() {
    let folder = Folder::with(&config(AGENT), SCRIPT);
    let did = folder.helix(&["serve"]).ends(2);
    assert!(did.err.contains("[[server.tokens]]"), "{did:?}");
    let did = folder.helix(&["dev", "--listen", "0.0.0.0:0"]).ends(2);
    assert!(did.err.contains("this machine only"), "{did:?}");

    let unset = "[[server.tokens]]\nenv = \"HELIX_UNSET_TOKEN\"\nuser = \"alice\"\n";
    let folder = Folder::with(&config(&format!("{unset}{AGENT}")), SCRIPT);
    let did = folder.helix(&["serve"]).ends(2);
    assert!(
        did.err.contains("helix.toml:6: the token of user alice is in the environment variable HELIX_UNSET_TOKEN, which is not set; set it"),
        "{did:?}"
    );
    let mut empty = folder.command(&["serve"]);
    let output = empty.env("HELIX_UNSET_TOKEN", "").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(
        err.contains("helix.toml:6: ") && err.contains("is empty"),
        "{err}"
    );
}

#[test]
fn a_token_belongs_to_one_user() {
    // printf 'open sesame' | sha256sum
    let hash = "41ef4bb0b23661e66301aac36066912dac037827b4ae63a7b1165a5aa93ed4eb";
    let second = [
        format!("sha256 = \"{hash}\""),
        "env = \"HELIX_OTHER_TOKEN\"".to_owned(),
    ];
    for second in second {
        let tokens = format!(
            "[[server.tokens]]\nenv = \"HELIX_TEST_TOKEN\"\nuser = \"alice\"\n\
             [[server.tokens]]\n{second}\nuser = \"bob\"\n"
        );
        let folder = Folder::with(&config(&format!("{tokens}{AGENT}")), SCRIPT);
        let mut command = folder.command(&["serve"]);
        let command = command.env("HELIX_TEST_TOKEN", "open sesame");
        let output = command
            .env("HELIX_OTHER_TOKEN", "open sesame")
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let err = String::from_utf8(output.stderr).unwrap();
        let why = "helix.toml:9: the tokens of users alice and bob are the same";
        assert!(err.contains(why), "{err}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dev_reports_which_settings_it_ignores() {
    let server =
        "[server]\nlisten = \"0.0.0.0:0\"\n[[server.tokens]]\nenv = \"T\"\nuser = \"alice\"\n";
    let folder = Folder::with(&config(&format!("{server}{AGENT}")), SCRIPT);
    let notes = folder.path().join("notes");
    let mut command = folder.command(&["dev", "--config", "helix.toml"]);
    command.stderr(std::fs::File::create(&notes).unwrap());
    let served = Served::spawn(command);
    assert!(
        served.url().starts_with("http://127.0.0.1:"),
        "{}",
        served.url()
    );
    let (status, _) = served.ask("/agents", None, None).await;
    assert_eq!(status, 200);
    assert_eq!(served.terminate(), Some(0));
    let notes = std::fs::read_to_string(notes).unwrap();
    for note in [
        "`helix dev` serves this machine only: it listens on 127.0.0.1:0, not on 0.0.0.0:0",
        "`helix dev` has no authentication; the tokens of helix.toml are for `helix serve`",
    ] {
        assert_eq!(notes.matches(note).count(), 1, "{notes}");
    }
}

#[test]
fn localhost_can_be_listened_on() {
    let folder = Folder::empty();
    for host in ["localhost:0", "LOCALHOST:0"] {
        let served = Served::spawn(folder.command(&["dev", "--listen", host]));
        assert!(
            served.url().starts_with("http://127.0.0.1:"),
            "{}",
            served.url()
        );
        assert_eq!(served.terminate(), Some(0));
    }
    folder.helix(&["dev", "--listen", "localhost"]).ends(2);
}

#[tokio::test(flavor = "multi_thread")]
async fn flags_set_the_default_agent_and_the_stream_store() {
    let more =
        format!("[server]\nallow_unauthenticated = true\n{AGENT}[agents.b]\nmodel = \"fast\"\n");
    let folder = Folder::with(&config(&more), SCRIPT);
    for (arguments, wanted) in [
        (&["serve"][..], "a"),
        (
            &["serve", "--agent", "b", "--stream", "sqlite:helix.db"],
            "b",
        ),
        (&["dev", "--agent", "b"], "b"),
    ] {
        let served = Served::start(&folder, arguments);
        let (_, agents) = served.ask("/agents", None, None).await;
        assert_eq!(agents["defaultAgentType"], json!(wanted), "{arguments:?}");
    }
    for (arguments, why) in [
        (
            &["serve", "--agent", "c"][..],
            "agent `c` not found; use one of: a, b",
        ),
        (
            &["dev", "--agent", "c"],
            "agent `c` not found; use one of: a, b",
        ),
        (
            &["serve", "--stream", "redis://127.0.0.1"],
            "only PostgreSQL has its streams elsewhere, on Redis; leave the stream out",
        ),
        (
            &["serve", "--stream", "sqlite:other.db"],
            "streams at sqlite:other.db do not go with the store sqlite:helix.db",
        ),
        (
            &["serve", "--stream", "here"],
            "--stream: `here` is not a store URL",
        ),
    ] {
        let did = folder.helix(arguments).ends(2);
        assert!(did.err.contains(why), "{did:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_given_elsewhere_are_continued_without_recover_on_start() {
    let more = format!(
        "[server]\nallow_unauthenticated = true\n[runtime]\nrecover_on_start = false\n{AGENT}"
    );
    let folder = Folder::with(&config(&more), SCRIPT);
    let served = Served::start(&folder, &["serve"]);
    let start = json!({ "sessionId": "s", "agentType": "a", "message": "go" });
    served.ask("/start", Some(start), None).await;
    assert!(served.end("s", None).await["suspended"].is_object());
    let submit = ["submit", "s", "c", "--result", "\"teal\""];
    folder.helix(&submit).ends(0);
    while served.end("s", None).await["status"] != json!("completed") {}
}

/// A server without tokens prints a warning at every log level, and accepts the listed host names.
#[tokio::test]
async fn a_server_without_tokens_warns_and_accepts_its_host_names() {
    let open =
        format!("[server]\nallow_unauthenticated = true\nhosts = [\"helix.example.com\"]\n{AGENT}");
    let folder = Folder::with(&config(&open), SCRIPT);
    let mut command = folder.command(&["serve"]);
    command
        .args(["--listen", "127.0.0.1:0"])
        .env("HELIX_LOG", "off")
        .stderr(Stdio::piped());
    let mut served = Served::spawn(command);
    for (host, wanted) in [
        ("helix.example.com", 200),
        ("HELIX.example.com:443", 200),
        ("localhost", 200),
        ("elsewhere.example.com", 403),
    ] {
        let asked = client().get(format!("{}/agents", served.url()));
        let answer = asked.header("host", host).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), wanted, "{host}");
    }
    let mut said = String::new();
    let mut err = BufReader::new(served.child.stderr.take().unwrap());
    err.read_line(&mut said).unwrap();
    assert!(
        said.contains("every client that can reach this server"),
        "{said}"
    );
}

/// An invalid log level is an error, and no default is used.
#[test]
fn an_invalid_log_level_is_an_error() {
    let folder = Folder::with(&config(AGENT), SCRIPT);
    for name in ["HELIX_LOG", "RUST_LOG"] {
        let output = folder.command(&["pending"]).env(name, "loud").output();
        let output = output.unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(&format!("{name} is `loud`")), "{said}");
    }
}

/// Events that an operator needs to know are logged by default, one line each.
#[tokio::test]
async fn a_server_logs_what_an_operator_has_to_know() {
    let script = r#"{ "rules": [ { "match": "sum", "steps": [
        { "tool_calls": [ { "id": "c", "name": "calculator", "arguments": { "expression": "1 /" } } ] },
        { "text": "no sum" } ] } ],
        "default": [ { "error": { "kind": "auth", "attempts": 9 } } ] }"#;
    let agent = "[[server.tokens]]\nenv = \"HELIX_TEST_TOKEN\"\nuser = \"me\"\n\
                 [agents.a]\nmodel = \"fast\"\ntools = [\"calculator\"]\n\
                 [tools.calculator]\nkind = \"builtin\"\n";
    for format in ["text", "json"] {
        let folder = Folder::with(&config(agent), script);
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        let mut command = folder.command(&["serve"]);
        command
            .args(["--listen", "127.0.0.1:0"])
            .env("HELIX_TEST_TOKEN", "open sesame")
            .env("HELIX_LOG_FORMAT", format)
            .stderr(log);
        let served = Served::spawn(command);
        let (status, _) = served.ask("/agents", None, Some("wrong")).await;
        assert_eq!(status, 401);
        for (session, message) in [("s1", "the sum"), ("s2", "anything")] {
            let body = json!({ "sessionId": session, "agentType": "a", "message": message });
            served.ask("/start", Some(body), Some("open sesame")).await;
            served.end(session, Some("open sesame")).await;
        }
        assert_eq!(served.terminate(), Some(0));
        let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
        for event in ["auth.refused", "tool.failed", "run.failed"] {
            let lines = log.lines().filter(|line| line.contains(event));
            let lines: Vec<_> = lines.collect();
            assert_eq!(lines.len(), 1, "{event}: {log}");
            if format == "json" {
                let line: Value = serde_json::from_str(lines[0]).unwrap();
                assert_eq!(line["event"], event);
            }
        }
        assert!(
            !log.contains("open sesame") && !log.contains("wrong"),
            "{log}"
        );
    }
}
