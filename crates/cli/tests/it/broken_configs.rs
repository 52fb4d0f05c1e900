//! Tests of invalid configuration files, each with its message.

use std::fmt::Write;

use crate::kit::Folder;

/// A valid file, to be broken in one place.
pub(crate) const GOOD: &str = r#"[store]
url = "sqlite:helix.db"
[models.fast]
provider = "scripted"
script = "script.json"
[agents.support]
model = "fast"
tools = ["refund"]
[tools.refund]
description = "Refund an order"
kind = "http"
url = "http://127.0.0.1:9/refund"
"#;

/// The name of the error, the text that is replaced, and the replacement; an empty text appends.
pub(crate) const BROKEN: [(&str, &str, &str); 90] = [
    ("not toml", "[store]", "[store"),
    (
        "a key twice",
        "model = \"fast\"",
        "model = \"fast\"\nmodel = \"fast\"",
    ),
    ("an unknown table", "", "[agent.x]\nmodel = \"fast\""),
    (
        "an unknown key of an agent",
        "model = \"fast\"",
        "modle = \"fast\"",
    ),
    ("an unknown key of a tool", "", "time_out = 7"),
    ("an unknown key of the server", "", "[server]\nport = 8787"),
    (
        "a server without connections",
        "",
        "[server]\nmax_connections = 0",
    ),
    ("users without runs", "", "[server]\nmax_runs_per_user = 0"),
    (
        "a negative number of starts",
        "",
        "[server]\nmax_starts_per_minute = -1",
    ),
    (
        "connections per address that are not a number",
        "",
        "[server]\nmax_connections_per_address = \"off\"",
    ),
    (
        "an unknown key of the runtime",
        "",
        "[runtime]\nauto_resume = true",
    ),
    (
        "an unknown key of a token",
        "",
        "[[server.tokens]]\nenv = \"T\"\nuser = \"a\"\nadmn = true",
    ),
    ("a text that is a number", "model = \"fast\"", "model = 7"),
    ("a number that is a text", "", "timeout_ms = \"7\""),
    (
        "a negative number",
        "model = \"fast\"",
        "model = \"fast\"\nmax_steps = -1",
    ),
    (
        "a maximum of zero steps",
        "model = \"fast\"",
        "model = \"fast\"\nmax_steps = 0",
    ),
    (
        "a budget of zero tokens",
        "model = \"fast\"",
        "model = \"fast\"\nbudget = { run = { tokens = 0 } }",
    ),
    (
        "an unknown unit of a budget",
        "model = \"fast\"",
        "model = \"fast\"\nbudget = { session = { dollars = 5 } }",
    ),
    (
        "an unknown scope of a budget",
        "model = \"fast\"",
        "model = \"fast\"\nbudget = { month = { tokens = 5 } }",
    ),
    (
        "an unknown choice near the context limit",
        "model = \"fast\"",
        "model = \"fast\"\ncontext = { near_limit = \"summary\", model = \"fast\" }",
    ),
    (
        "a summary without a model",
        "model = \"fast\"",
        "model = \"fast\"\ncontext = { near_limit = \"summarize\", at_tokens = 1000 }",
    ),
    (
        "a summary by a model that is not defined",
        "model = \"fast\"",
        "model = \"fast\"\ncontext = { near_limit = \"summarize\", model = \"fats\" }",
    ),
    (
        "turns to keep without a number",
        "model = \"fast\"",
        "model = \"fast\"\ncontext = { near_limit = \"keep_turns\", at_tokens = 1000 }",
    ),
    (
        "turns to keep where the run fails",
        "model = \"fast\"",
        "model = \"fast\"\ncontext = { near_limit = \"fail\", keep_turns = 2 }",
    ),
    (
        "a model for summaries that are not made",
        "model = \"fast\"",
        "model = \"fast\"\ncontext = { near_limit = \"keep_turns\", keep_turns = 2, model = \"fast\" }",
    ),
    (
        "turns to keep near a limit that is not known",
        "model = \"fast\"",
        "model = \"fast\"\ncontext = { near_limit = \"keep_turns\", keep_turns = 2 }",
    ),
    (
        "tools that are not a list",
        "tools = [\"refund\"]",
        "tools = \"refund\"",
    ),
    (
        "a tool that is not defined",
        "tools = [\"refund\"]",
        "tools = [\"refnd\"]",
    ),
    (
        "a tool twice",
        "tools = [\"refund\"]",
        "tools = [\"refund\", \"refund\"]",
    ),
    (
        "a model that is not defined",
        "model = \"fast\"",
        "model = \"slow\"",
    ),
    ("an agent without a model", "model = \"fast\"\n", ""),
    ("a script that is missing", "script.json", "scrpt.json"),
    ("a script that is broken", "script.json", "broken.json"),
    (
        "a scripted model without a script",
        "script = \"script.json\"\n",
        "",
    ),
    (
        "a model of a provider with a script",
        "\"scripted\"",
        "\"anthropic\"\nmodel = \"m\"",
    ),
    (
        "a model of a provider without a name",
        "provider = \"scripted\"\nscript = \"script.json\"",
        "provider = \"openai\"",
    ),
    (
        "a setting of providers in a scripted model",
        "script = \"script.json\"",
        "script = \"script.json\"\ntemperature = 0.5",
    ),
    (
        "a base URL that is not one",
        "provider = \"scripted\"\nscript = \"script.json\"",
        "provider = \"openai\"\nmodel = \"m\"\nbase_url = \"localhost\"",
    ),
    (
        "a version of an API that has none",
        "provider = \"scripted\"\nscript = \"script.json\"",
        "provider = \"openai\"\nmodel = \"m\"\napi_version = \"v2\"",
    ),
    (
        "a price without its half",
        "provider = \"scripted\"\nscript = \"script.json\"",
        "provider = \"openai\"\nmodel = \"m\"\nprice = { input = 1 }",
    ),
    (
        "a provider that does not exist",
        "\"scripted\"",
        "\"opnai\"",
    ),
    (
        "an engine that is not supported yet",
        "",
        "[runtime]\nengine = \"temporal\"",
    ),
    (
        "an engine that does not exist",
        "",
        "[runtime]\nengine = \"locl\"",
    ),
    (
        "a choice that does not exist",
        "",
        "[runtime]\ndouble_texting = \"ignore\"",
    ),
    (
        "a header that every call has",
        "",
        "headers = { Idempotency-Key = \"7\" }",
    ),
    (
        "a header with an invalid name",
        "",
        "headers = { \"a b\" = \"7\" }",
    ),
    ("a header that is a number", "", "headers = { X-Team = 7 }"),
    (
        "a header without a value",
        "",
        "headers = { X-Team = { evn = \"TEAM\" } }",
    ),
    (
        "a header whose variable is not set",
        "",
        "headers = { Authorization = { env = \"HELIX_TEST_NOT_SET\" } }",
    ),
    (
        "an option of another kind of store",
        "url = \"sqlite:helix.db\"",
        "url = \"sqlite:helix.db\"\ndurability = \"always\"",
    ),
    (
        "a durability that does not exist",
        "url = \"sqlite:helix.db\"",
        "url = \"redis://h\"\ndurability = \"alway\"",
    ),
    (
        "a store that does not exist",
        "sqlite:helix.db",
        "sqlit:helix.db",
    ),
    ("a store without a kind", "sqlite:helix.db", "helix.db"),
    (
        "a stream outside of the store",
        "",
        "[stream]\nurl = \"sqlite:other.db\"",
    ),
    (
        "streams in another schema of the store",
        "url = \"sqlite:helix.db\"",
        "url = \"postgres://h/d\"\n[stream]\nurl = \"postgres://h/d\"\nschema = \"other\"",
    ),
    (
        "streams under another prefix of the store",
        "url = \"sqlite:helix.db\"",
        "url = \"redis://h\"\nprefix = \"a\"\n[stream]\nurl = \"redis://h\"\nprefix = \"b\"",
    ),
    (
        "a kind of tool that is not supported yet",
        "\"http\"",
        "\"mcp\"",
    ),
    ("a kind of tool that does not exist", "\"http\"", "\"htp\""),
    (
        "a service without a URL",
        "url = \"http://127.0.0.1:9/refund\"\n",
        "",
    ),
    (
        "an invalid URL",
        "http://127.0.0.1:9/refund",
        "ftp://x/refund",
    ),
    ("a client tool with a URL", "\"http\"", "\"client\""),
    (
        "an approval for all and for some calls",
        "",
        "require_approval = true\napproval_when = { pointer = \"/cents\", above = 1 }",
    ),
    (
        "an approval that finishes",
        "",
        "require_approval = true\nfinish_with = true",
    ),
    (
        "a client tool that finishes",
        "kind = \"http\"\nurl = \"http://127.0.0.1:9/refund\"\n",
        "kind = \"client\"\nfinish_with = true\n",
    ),
    (
        "a client tool that pauses",
        "kind = \"http\"\nurl = \"http://127.0.0.1:9/refund\"\n",
        "kind = \"client\"\non_unknown = \"pause\"\n",
    ),
    (
        "a rule without a limit",
        "",
        "approval_when = { pointer = \"/cents\" }",
    ),
    (
        "an invalid pointer",
        "",
        "approval_when = { pointer = \"cents\", above = 1 }",
    ),
    (
        "an invalid schema",
        "",
        "input_schema = { type = \"objct\" }",
    ),
    (
        "a schema that is not an object",
        "",
        "input_schema = { type = \"string\" }",
    ),
    (
        "a builtin that does not exist",
        "",
        "[tools.clok]\nkind = \"builtin\"",
    ),
    (
        "an agent that uses itself",
        "model = \"fast\"",
        "model = \"fast\"\nsub_agents = [\"support\"]",
    ),
    (
        "a sub-agent that does not exist",
        "model = \"fast\"",
        "model = \"fast\"\nsub_agents = [\"suport\"]",
    ),
    (
        "a sub-agent that is listed twice",
        "model = \"fast\"",
        "model = \"fast\"\nsub_agents = [\"helper\", \"helper\"]\n[agents.helper]\nmodel = \"fast\"",
    ),
    (
        "a persistent agent of itself",
        "model = \"fast\"",
        "model = \"fast\"\npersistent_agents = [{ agent = \"support\", mode = \"blocking\" }]",
    ),
    (
        "a persistent agent that does not exist",
        "model = \"fast\"",
        "model = \"fast\"\npersistent_agents = [{ agent = \"suport\", mode = \"blocking\" }]",
    ),
    (
        "a persistent agent without a mode",
        "model = \"fast\"",
        "model = \"fast\"\npersistent_agents = [{ agent = \"helper\" }]\n[agents.helper]\nmodel = \"fast\"",
    ),
    (
        "a persistent agent with an unknown mode",
        "model = \"fast\"",
        "model = \"fast\"\npersistent_agents = [{ agent = \"helper\", mode = \"nonblocking\" }]\n[agents.helper]\nmodel = \"fast\"",
    ),
    (
        "an invalid placeholder",
        "model = \"fast\"",
        "model = \"fast\"\nsystem_prompt = \"For {{state:name}}\"",
    ),
    (
        "a number that JSON cannot represent",
        "model = \"fast\"",
        "model = \"fast\"\ninitial_state = { all = [\n1.5,\nnan] }",
    ),
    (
        "a store in memory with a name",
        "sqlite:helix.db",
        "memory:x",
    ),
    ("models that are a list", "[models.fast]", "[[models]]"),
    (
        "an invalid address to listen on",
        "",
        "[server]\nlisten = \"somewhere\"",
    ),
    (
        "a token twice",
        "",
        "[[server.tokens]]\nenv = \"T\"\nuser = \"a\"\n[[server.tokens]]\nenv = \"T\"\nuser = \"b\"",
    ),
    (
        "tokens beside allow_unauthenticated",
        "",
        "[server]\nallow_unauthenticated = true\n[[server.tokens]]\nenv = \"T\"\nuser = \"a\"",
    ),
    (
        "a token's hash that is too short",
        "",
        "[[server.tokens]]\nsha256 = \"0123456789abcdef\"\nuser = \"a\"",
    ),
    (
        "an origin with a slash",
        "",
        "[server]\ncors_origins = [\"http://localhost:3000/\"]",
    ),
    (
        "a host with a port",
        "",
        "[server]\nhosts = [\"helix.example.com:8787\"]",
    ),
    (
        "a lease too short to be renewed",
        "",
        "[runtime]\nlease_ms = 99",
    ),
    (
        "a client tool that needs approval",
        "kind = \"http\"\nurl = \"http://127.0.0.1:9/refund\"\n",
        "kind = \"client\"\nrequire_approval = true\n",
    ),
    (
        "a token with two secrets",
        "",
        "[[server.tokens]]\nenv = \"T\"\nsha256 = \"00\"\nuser = \"a\"",
    ),
];

/// Returns the text of a broken file.
pub(crate) fn broken((what, part, instead): &(&str, &str, &str)) -> String {
    if part.is_empty() {
        return format!("{GOOD}{instead}\n");
    }
    assert!(GOOD.contains(part), "{what}");
    GOOD.replacen(part, instead, 1)
}

#[test]
fn a_broken_configuration_names_file_line_and_remedy() {
    let folder = Folder::with(GOOD, r#"{ "default": [ { "text": "ok" } ] }"#);
    folder.write("broken.json", "{\n  \"rules\": [ { \"mach\": \"x\" } ]\n}");
    folder
        .helix(&["run", "support", "hi", "--store", "memory:"])
        .ends(0);

    let mut messages = String::new();
    for case in BROKEN {
        let (what, text) = (case.0, broken(&case));
        let path = folder.write("broken.toml", &text);
        let did = folder.helix(&["run", "support", "hi", "--config", path.to_str().unwrap()]);
        assert_eq!((did.code, did.out.as_str()), (2, ""), "{what}: {did:?}");
        let place = folder.path().to_str().unwrap();
        let message = did.err.replace(place, "FOLDER");
        write!(messages, "{what}\n  {}\n", message.trim_end()).unwrap();
    }
    insta::assert_snapshot!(messages);
}

#[test]
fn the_error_for_a_missing_file_names_it() {
    let folder = Folder::empty();
    let did = folder
        .helix(&["pending", "--config", "nowhere.toml"])
        .ends(2);
    assert_eq!(
        did.err,
        "helix: nowhere.toml: file not found; write it, or name another with --config\n"
    );
}

#[test]
fn the_error_for_a_file_that_is_not_utf8_names_its_line() {
    let folder = Folder::empty();
    let bytes = b"[store]\n# caf\xe9\n".to_vec();
    std::fs::write(folder.path().join("helix.toml"), bytes).unwrap();
    let did = folder.helix(&["pending"]).ends(2);
    assert_eq!(
        did.err,
        "helix: helix.toml:2: this is not UTF-8; save the file as UTF-8 text\n"
    );
}
