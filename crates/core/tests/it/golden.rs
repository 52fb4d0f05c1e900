//! Checks that stored records stay readable.

/// The payloads of chunks.
mod chunks;
/// Run states, events and effects.
mod machine;
/// Messages, writes and usage.
mod messages;
/// Sessions and their records.
mod records;

use std::fmt::Debug;
use std::path::PathBuf;

use helix_agents_core::error::{Coded, ErrorCode};
use helix_agents_core::session::Checkpoint;
use helix_agents_core::stored::{Stored, StoredError, decode, encode};
use serde_json::json;

pub(crate) use records::full_session;

/// Returns the golden file of a kind and version, one stored value per line.
fn golden(kind: &str, version: u32) -> (PathBuf, Vec<String>) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(format!("{kind}.v{version}.jsonl"));
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    let lines = text.lines().map(str::to_owned).collect();
    (path, lines)
}

/// Checks that the golden file contains, line by line, exactly what is written today for these
/// samples, and decodes to them. Golden files of older versions must be readable, too: they stay
/// when a version is raised.
///
/// `HELIX_WRITE_GOLDEN=1` adds the lines of new samples. It never changes or removes a line.
fn pin<T: Stored + Debug + PartialEq>(samples: impl IntoIterator<Item = T>) {
    let samples: Vec<T> = samples.into_iter().collect();
    let lines: Vec<_> = samples.iter().map(|one| encode(one).unwrap()).collect();
    let (path, mut golden_lines) = golden(T::KIND, T::VERSION);
    let only_added = golden_lines.iter().all(|line| lines.contains(line));
    if only_added && std::env::var_os("HELIX_WRITE_GOLDEN").is_some() {
        std::fs::write(&path, lines.join("\n") + "\n").unwrap();
        golden_lines.clone_from(&lines);
    }
    let kind = T::KIND;
    for (line, golden_line) in lines.iter().zip(&golden_lines) {
        assert_eq!(
            line, golden_line,
            "the format of a stored {kind} changed: raise its VERSION and add an upgrade; \
             for a new sample run the tests once with HELIX_WRITE_GOLDEN=1"
        );
    }
    assert_eq!(
        lines.len(),
        golden_lines.len(),
        "{}: for new samples or a new version run the tests once with HELIX_WRITE_GOLDEN=1",
        path.display()
    );
    for (line, sample) in golden_lines.iter().zip(&samples) {
        assert_eq!(&decode::<T>(line).unwrap(), sample);
    }
    for older in 1..T::VERSION {
        let (path, lines) = golden(T::KIND, older);
        assert!(!lines.is_empty(), "{} is gone", path.display());
        for line in lines {
            decode::<T>(&line).unwrap();
        }
    }
}

/// proves in part: SES-07
#[test]
fn stored_records_of_every_version_can_be_read() {
    pin(records::sessions());
    pin(records::headers());
    pin(records::runs());
    pin(records::open_steps());
    pin(records::pendings());
    pin(records::answer_kinds());
    pin(records::checkpoints());
    pin(records::children());
    pin(records::stops());
    pin(messages::messages());
    pin([messages::writes()]);
    pin(messages::usage());
    pin(chunks::chunks());
    let entries = records::outbox_entries();
    pin(entries
        .iter()
        .flat_map(|entry| entry.gates.values().flatten().cloned()));
    pin(entries);
    pin(machine::states());
    pin(machine::events());
    pin(machine::effects());
}

#[test]
fn unreadable_records_are_reported_as_errors() {
    let text = encode(&records::checkpoint()).unwrap();
    let newer = text.replacen("[\"checkpoint\",1,", "[\"checkpoint\",2,", 1);
    let error = decode::<Checkpoint>(&newer).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a stored checkpoint has format version 2, this program reads up to 1; upgrade this program"
    );
    assert_eq!(error.code(), ErrorCode::StateUnsupportedVersion);

    let run = encode(&records::runs()[0]).unwrap();
    for broken in ["", "{}", &text[..text.len() - 4], &run] {
        let error = decode::<Checkpoint>(broken).unwrap_err();
        assert!(matches!(error, StoredError::Corrupt { .. }), "{broken}");
        assert_eq!(error.code(), ErrorCode::StateCorrupt);
    }
    let other = decode::<Checkpoint>(&run).unwrap_err();
    assert_eq!(
        other.to_string(),
        "a stored checkpoint cannot be read: it is a run; restore it from a backup or delete it"
    );
}

/// An older format is upgraded one version at a time.
#[test]
fn older_formats_are_upgraded_step_by_step() {
    #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
    struct Third {
        steps: Vec<u32>,
    }
    impl Stored for Third {
        const KIND: &'static str = "third";
        const VERSION: u32 = 3;
        fn upgrade(from: u32, data: serde_json::Value) -> Result<serde_json::Value, String> {
            match from {
                1 => Ok(json!({"step": data["s"]})),
                2 => Ok(json!({"steps": [data["step"]]})),
                _ => Err(format!("no upgrade from {from}")),
            }
        }
    }
    for text in [
        r#"["third",1,{"s":7}]"#,
        r#"["third",2,{"step":7}]"#,
        r#"["third",3,{"steps":[7]}]"#,
    ] {
        assert_eq!(
            decode::<Third>(text).unwrap(),
            Third { steps: vec![7] },
            "{text}"
        );
    }
    assert!(decode::<Third>(r#"["third",0,{}]"#).is_err());
}
