//! Tests of existing and missing stores.

use crate::kit::{Folder, config, config_on};

const AGENT: &str = "[agents.a]\nmodel = \"fast\"\n";
const SCRIPT: &str = r#"{ "default": [ { "text": "ok" } ] }"#;

/// The default folder of the store is created so that only its owner can read it.
#[test]
#[cfg(unix)]
fn the_store_folder_is_private_to_its_owner() {
    use std::os::unix::fs::PermissionsExt;

    let folder = Folder::empty();
    folder.helix(&["run", "support", "hi"]).ends(0);
    for (name, wanted) in [(".helix", 0o700), (".helix/helix.db", 0o600)] {
        let found = std::fs::metadata(folder.path().join(name)).unwrap();
        assert_eq!(found.permissions().mode() & 0o777, wanted, "{name}");
    }
}

#[test]
fn reading_commands_create_no_store() {
    let folder = Folder::with(&config(AGENT), SCRIPT);
    let table: [&[&str]; 8] = [
        &["resume", "s"],
        &["interrupt", "s"],
        &["abort", "s"],
        &["submit", "s", "c", "--approve"],
        &["sessions", "show", "s"],
        &["sessions", "export", "s"],
        &["sessions", "delete", "s"],
        &["sessions", "branch", "s", "--message", "0"],
    ];
    for arguments in table {
        let did = folder.helix(arguments).ends(2);
        assert!(
            did.err.contains(" not found; name the one you mean"),
            "{}",
            did.err
        );
    }
    for arguments in [&["pending"][..], &["sessions", "list"]] {
        let empty = folder.helix(&[arguments, &["--json"]].concat()).ends(0);
        assert_eq!(empty.json()["total"], 0);
        let named = [arguments, &["--json", "--store", "sqlite:other.db"]].concat();
        let did = folder.helix(&named).ends(0);
        assert_eq!(did.json()["total"], 0);
        assert_eq!(did.err, "the store sqlite:other.db does not exist yet\n");
    }
    for (arguments, file) in [
        (&["doctor"][..], "helix.db"),
        (&["doctor", "--store", "sqlite:other.db"], "other.db"),
    ] {
        let did = folder.helix(arguments).ends(0);
        let wanted = format!("sqlite:{file} does not exist yet");
        assert!(did.out.contains(&wanted), "{did:?}");
    }
    let mut files: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(files.len(), 2, "{files:?}");

    let bare = Folder::empty();
    for arguments in [&["pending"][..], &["sessions", "list"], &["doctor"]] {
        bare.helix(arguments).ends(0);
    }
    bare.helix(&["resume", "s"]).ends(2);
    files = std::fs::read_dir(bare.path()).unwrap().collect();
    assert!(files.is_empty(), "{files:?}");
}

#[test]
fn a_store_is_one_file_when_the_process_has_ended() {
    let folder = Folder::with(&config(AGENT), SCRIPT);
    for turn in 0..12 {
        folder.helix(&["run", "a", "hi", "--session", "s"]).ends(0);
        let log = folder.path().join("helix.db-wal");
        assert!(!log.exists(), "after turn {turn}");
    }
}

/// `--store` replaces the place as a whole: streams that the file keeps elsewhere are those of its own store.
#[test]
fn a_store_on_the_command_line_has_its_own_streams() {
    let place =
        "[store]\nurl = \"postgres://127.0.0.1:1/db\"\n[stream]\nurl = \"redis://127.0.0.1:1\"\n";
    let folder = Folder::with(&config_on(place, AGENT), SCRIPT);
    for store in ["sqlite:other.db", "memory:"] {
        let did = folder.helix(&["run", "a", "hi", "--store", store]).ends(0);
        assert_eq!(did.out, "ok\n");
    }
}
