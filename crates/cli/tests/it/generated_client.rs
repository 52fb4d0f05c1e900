//! Tests of a client that is generated from `/openapi.json`, against the real binary. It needs
//! Node.js and the packages of `tests/client`, which `./test` installs from their lock file.

use std::path::Path;
use std::process::Command;

use crate::kit::{Folder, config};
use crate::programs;
use crate::serving::Served;

const SCRIPT: &str = r#"{ "default": [
    { "tool_calls": [ { "id": "p", "name": "pay", "arguments": { "cents": 500 } } ] },
    { "tool_calls": [ { "id": "c", "name": "color" } ] },
    { "text": "{{last_tool_result}} it is." } ] }"#;

const AGENT: &str = "[[server.tokens]]\nenv = \"HELIX_TEST_TOKEN\"\nuser = \"alice\"\n\
    [agents.a]\nmodel = \"fast\"\ntools = [\"pay\", \"color\"]\n\
    [tools.pay]\nkind = \"http\"\nurl = \"http://127.0.0.1:1/\"\nrequire_approval = true\n\
    [tools.color]\nkind = \"client\"\n";

#[test]
fn a_client_generated_from_the_openapi_document_works() {
    let client = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/client");
    let packages = "tests/client/node_modules (npm ci --prefix tests/client)";
    let has_packages = client.join("node_modules/.package-lock.json").is_file();
    if programs::find("node").is_none() || !programs::is_there(packages, has_packages) {
        return;
    }
    let folder = Folder::with(&config(AGENT), SCRIPT);
    let generated = Folder::empty();
    let served = Served::start(&folder, &["serve"]);
    let output = Command::new("node")
        .arg(client.join("check.mjs"))
        .args([served.url(), "open sesame"])
        .arg(generated.path())
        .output()
        .unwrap();
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(output.status.success(), "{said}");
    assert!(said.contains("the client works"), "{said}");
}
