//! Tests of stores on servers: one that is not there, one that dies while agents are served, and sessions that move.

use std::net::TcpListener;

use helix_agents_test_servers::{
    PostgresServer, PostgresSettings, RedisServer, RedisSettings, skips_without,
};
use serde_json::{Value, json};

use crate::databases::Database;
use crate::killed_server::{check, counting, folder, read};
use crate::kit::{Folder, config_on};
use crate::serving::Served;

const AGENT: &str = "[server]\nallow_unauthenticated = true\n[agents.a]\nmodel = \"fast\"\n";
const SCRIPT: &str = r#"{ "default": [ { "text": "ok" } ] }"#;

fn has_servers() -> bool {
    let has = Database::Postgres.sections().is_some() && Database::Redis.sections().is_some();
    if !has {
        skips_without("PostgreSQL and Redis");
    }
    has
}

/// The message names the server and what to do, and never a password. One server refuses connections, the other takes
/// them and says nothing.
#[test]
fn a_server_that_does_not_answer_is_an_error_at_the_start() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent_port = silent.local_addr().unwrap().port();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap();
    let closed_port = closed.local_addr().unwrap().port();
    drop(closed);
    for (scheme, end) in [("postgres", "/db"), ("redis", "/0")] {
        for port in [silent_port, closed_port] {
            let store = format!("[store]\nurl = \"{scheme}://me:hush@127.0.0.1:{port}{end}\"\n");
            let folder = Folder::with(&config_on(&store, AGENT), SCRIPT);
            let shown = format!("{scheme}://me@127.0.0.1:{port}{end}");
            let commands = [&["serve"][..], &["run", "a", "hi"], &["sessions", "list"]];
            // Each waits for one that says nothing.
            let commands = if port == silent_port {
                &commands[..1]
            } else {
                &commands
            };
            for arguments in commands {
                let did = folder.helix(arguments).ends(2);
                let wanted = format!("the store {shown} cannot be used: ");
                assert!(did.err.contains(&wanted), "{did:?}");
                assert!(did.err.contains("; check "), "{did:?}");
                assert!(!format!("{did:?}").contains("hush"), "{did:?}");
            }
            if port == silent_port {
                continue;
            }
            let found = folder.helix(&["doctor", "--json"]).ends(1).json();
            let checks = found["checks"].as_array().unwrap();
            let store = checks
                .iter()
                .find(|check| check["name"] == "store")
                .unwrap();
            assert_eq!(store["ok"], false, "{found}");
        }
    }
}

/// Commands that need a session do not set up a schema for it.
#[test]
fn a_command_that_reads_sets_up_no_schema() {
    let Some(store) = Database::Postgres.sections() else {
        return;
    };
    let folder = Folder::with(&config_on(&store, AGENT), SCRIPT);
    for arguments in [&["resume", "s"][..], &["sessions", "show", "s"]] {
        let did = folder.helix(arguments).ends(2);
        assert!(
            did.err.contains(" not found; name the one you mean"),
            "{did:?}"
        );
    }
    folder.helix(&["run", "a", "hi", "--session", "s"]).ends(0);
    folder.helix(&["sessions", "show", "s"]).ends(0);
    folder.helix(&["migrate"]).ends(0);
    let found = folder.helix(&["doctor", "--json"]).ends(0).json();
    assert_eq!(found["findings"], 0, "{found}");
}

#[test]
fn a_session_moves_from_one_kind_of_store_to_another() {
    if !has_servers() {
        return;
    }
    let script = r#"{ "rules": [ { "match": "ask", "steps": [
        { "tool_calls": [ { "id": "n", "name": "notes", "arguments": { "action": "add", "text": "asked" } },
                          { "id": "pick", "name": "pick" } ] },
        { "text": "Got {{tool_result:pick}}." } ] } ],
        "default": [ { "text": "Hello.", "usage": { "input": 12, "output": 3 } } ] }"#;
    let agent = "[agents.a]\nmodel = \"fast\"\ntools = [\"notes\", \"pick\"]\ninitial_state = { notes = [] }\n\
                 [tools.notes]\nkind = \"builtin\"\n[tools.pick]\nkind = \"client\"\n";
    let folder = Folder::empty();
    folder.write("script.json", script);
    let kinds = Database::ALL;
    let files = ["sqlite.toml", "postgres.toml", "redis.toml", "mixed.toml"];
    for (kind, file) in kinds.into_iter().zip(files) {
        folder.write(file, &config_on(&kind.sections().unwrap(), agent));
    }
    let at = |file: &str, words: &[&str], code| {
        let words = [words, &["--config", file]].concat();
        folder.helix(&words).ends(code)
    };
    at(
        files[0],
        &["run", "a", "hi", "--session", "s", "--user", "ada"],
        0,
    );
    at(files[0], &["run", "a", "ask", "--session", "s"], 4);
    let export = |file: &str| {
        at(file, &["sessions", "export", "s", "--out", "s.json"], 0);
        let text = std::fs::read_to_string(folder.path().join("s.json")).unwrap();
        let mut export: Value = serde_json::from_str(&text).unwrap();
        // A version of the state, of which each store has its own.
        export["openStep"]
            .as_object_mut()
            .unwrap()
            .remove("stateBefore");
        export
    };
    let first = export(files[0]);
    for to in [files[1], files[2], files[3]] {
        at(to, &["sessions", "import", "s.json"], 0);
        let there = export(to);
        for key in ["messages", "usage", "openStep", "retiredCallIds", "state"] {
            assert_eq!(first[key], there[key], "{key} in {to}");
        }
    }
    for to in [files[2], files[3]] {
        let listed = at(to, &["pending", "--user", "ada", "--json"], 0).json();
        assert_eq!(listed["pending"][0]["toolCallId"], "pick", "{listed}");
        at(to, &["submit", "s", "pick", "--result", "\"red\""], 0);
        assert_eq!(at(to, &["resume", "s"], 0).out, "Got red.\n");
    }
    // The others are as they were.
    at(files[1], &["resume", "s"], 4);
}

/// Readiness follows the store, and what was being performed is completed without anybody's help.
async fn survives(store: &str, mut end: impl FnMut(), mut start_again: impl FnMut()) {
    let (address, reached) = counting().await;
    let folder = folder(store, &address);
    let served = Served::start(&folder, &["serve"]);
    let body = json!({ "sessionId": "s", "agentType": "a", "message": "go" });
    assert_eq!(served.ask("/start", Some(body), None).await.0, 200);
    let mut seen = Vec::new();
    for _ in 0..2 {
        assert!(!read(&served, &mut seen, 20).await, "it is still performed");
        end();
        becomes(&served, 503).await;
        start_again();
        becomes(&served, 200).await;
    }
    while !read(&served, &mut seen, usize::MAX).await {}
    check(&served, &seen, &reached).await;
    assert_eq!(served.terminate(), Some(0));
}

async fn becomes(served: &Served, wanted: u16) {
    while served.ask("/readyz", None, None).await.0 != wanted {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_postgres_server_may_die_twice_during_a_run() {
    if !has_servers() {
        return;
    }
    let server = PostgresServer::start(PostgresSettings::durable()).unwrap();
    let store = format!("[store]\nurl = \"{}\"\n", server.url());
    let server = std::cell::RefCell::new(server);
    let end = || server.borrow_mut().stop_immediately().unwrap();
    survives(&store, end, || server.borrow_mut().start_again().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_server_may_die_twice_during_a_run() {
    if !has_servers() {
        return;
    }
    let server = RedisServer::start(RedisSettings::durable()).unwrap();
    let store = format!(
        "[store]\nurl = \"{}\"\ndurability = \"always\"\n",
        server.url()
    );
    let server = std::cell::RefCell::new(server);
    let end = || server.borrow_mut().kill().unwrap();
    survives(&store, end, || server.borrow_mut().start_again().unwrap()).await;
}

/// No turn begins without its stream, so such a server is not ready; what has begun ends by itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_redis_server_with_streams_may_die_twice_during_a_run() {
    if !has_servers() {
        return;
    }
    let store = Database::Postgres.sections().unwrap();
    let server = RedisServer::start(RedisSettings::durable()).unwrap();
    let url = server.url();
    let store = format!("{store}[stream]\nurl = \"{url}\"\ndurability = \"always\"\n");
    let server = std::cell::RefCell::new(server);
    let end = || server.borrow_mut().kill().unwrap();
    survives(&store, end, || server.borrow_mut().start_again().unwrap()).await;
}

/// A Redis that may lose what it has confirmed is used with a warning, unless the configuration demands more.
#[test]
fn what_a_redis_server_promises_is_compared_with_what_is_asked_for() {
    if !has_servers() {
        return;
    }
    let server = RedisServer::start(RedisSettings::quick()).unwrap();
    let url = server.url();
    let with = |more: &str| {
        let store = format!("[store]\nurl = \"{url}\"\n{more}");
        Folder::with(&config_on(&store, AGENT), SCRIPT)
    };
    let did = with("").helix(&["run", "a", "hi"]).ends(0);
    assert!(
        did.err.contains("what it has confirmed may be lost"),
        "{did:?}"
    );
    for accepted in ["memory", "unchecked"] {
        let did = with(&format!("durability = \"{accepted}\"\n"))
            .helix(&["run", "a", "hi"])
            .ends(0);
        assert!(!did.err.contains("lost"), "{did:?}");
    }
    for refused in ["always", "every_second"] {
        let did = with(&format!("durability = \"{refused}\"\n"))
            .helix(&["run", "a", "hi"])
            .ends(2);
        assert!(did.err.contains("`appendonly no`"), "{did:?}");
    }
}
