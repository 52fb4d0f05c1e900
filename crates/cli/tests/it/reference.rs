//! Tests of the reference page and the JSON Schema of `helix.toml` against the program.

use std::path::Path;
use std::sync::LazyLock;

use helix_agents_cli::reference;
use jsonschema::Validator;
use serde_json::Value;

use crate::broken_configs::{BROKEN, GOOD, broken};
use crate::kit::Folder;
use crate::reading::EVERYTHING;

static SCHEMA: LazyLock<Validator> =
    LazyLock::new(|| jsonschema::validator_for(&reference::schema()).unwrap());

/// Returns the schema errors of a configuration; `None` if it is not TOML.
fn problems(text: &str) -> Option<Vec<String>> {
    let value: Value = toml::from_str(text).ok()?;
    let problems = SCHEMA.iter_errors(&value);
    Some(
        problems
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect(),
    )
}

/// Fails unless the schema accepts a configuration that the program accepted.
#[track_caller]
pub(crate) fn accepts(text: &str) {
    assert_eq!(problems(text), Some(Vec::new()), "{text}");
}

/// `HELIX_WRITE_REFERENCE=1` writes the page.
#[test]
fn the_reference_page_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference.md");
    if std::env::var_os("HELIX_WRITE_REFERENCE").is_some() {
        std::fs::write(&path, reference::page()).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    let remedy = "run this test with HELIX_WRITE_REFERENCE=1, and commit docs/reference.md";
    assert!(
        written == reference::page(),
        "docs/reference.md is not up to date; {remedy}"
    );
}

#[test]
fn the_schema_is_printed() {
    let did = Folder::empty().helix(&["schema"]).ends(0);
    assert_eq!(did.json(), reference::schema());
}

#[test]
fn the_schema_accepts_what_the_documents_show() {
    accepts(EVERYTHING);
    accepts(GOOD);
    let folder = Folder::empty();
    folder.helix(&["init"]).ends(0);
    accepts(&std::fs::read_to_string(folder.path().join("helix.toml")).unwrap());
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let mut shown = 0;
    for file in std::fs::read_dir(docs).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        let text = std::fs::read_to_string(path).unwrap();
        let blocks = text.split("```toml\n").skip(1);
        let blocks = blocks.map(|rest| rest.split("```").next().unwrap());
        // Other examples show only a few keys of a table, or the manifest of a crate.
        let is_whole =
            |block: &&str| block.starts_with('[') && !block.starts_with("[dependencies]");
        for block in blocks.filter(is_whole) {
            accepts(block);
            shown += 1;
        }
    }
    assert!(shown > 0);
}

/// Errors that only the program can detect: undefined names, missing files, and the content of
/// texts.
const UNSEEN: [&str; 23] = [
    "a summary by a model that is not defined",
    "turns to keep near a limit that is not known",
    "a tool that is not defined",
    "a model that is not defined",
    "a script that is missing",
    "a script that is broken",
    "a header that every call has",
    "a header with an invalid name",
    "a header whose variable is not set",
    "an option of another kind of store",
    "a stream outside of the store",
    "streams in another schema of the store",
    "streams under another prefix of the store",
    "an invalid schema",
    "a schema that is not an object",
    "a builtin that does not exist",
    "an agent that uses itself",
    "a sub-agent that does not exist",
    "a persistent agent of itself",
    "a persistent agent that does not exist",
    "an invalid placeholder",
    "a number that JSON cannot represent",
    "a token twice",
];

#[test]
fn the_schema_refuses_broken_configurations() {
    let unseen = BROKEN.iter().filter(|case| {
        let problems = problems(&broken(case));
        problems.is_some_and(|problems| problems.is_empty())
    });
    let unseen: Vec<_> = unseen.map(|(what, ..)| *what).collect();
    assert_eq!(unseen, UNSEEN);
}
