//! The example prints what its documentation promises, in one run and day by day.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue fails")]

use std::path::Path;
use std::process::{Command, Output};

const ASK: &str = r#"ask:    deploy({"version":"1.4.0"}) needs an approval
ask:    the process ends, the question stays
"#;

const ANSWER: &str = r#"answer: 1 pending
answer: deploy({"version":"1.4.0"}), approved
answer: Done: version 1.4.0 is live.
"#;

fn example(arguments: &[&str], folder: &Path) -> Output {
    let mut example = Command::new(env!("CARGO_BIN_EXE_approval-tomorrow"));
    example
        .env("TMPDIR", folder)
        .args(arguments)
        .output()
        .unwrap()
}

fn stdout_of(run: &Output) -> String {
    let errors = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{errors}");
    String::from_utf8_lossy(&run.stdout).into_owned()
}

/// proves: SUS-02
#[test]
fn another_process_answers() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("helix.db");
    let file = file.to_str().unwrap();
    assert_eq!(stdout_of(&example(&["ask", file], folder.path())), ASK);
    assert_eq!(
        stdout_of(&example(&["answer", file], folder.path())),
        ANSWER
    );
    let nothing_left = stdout_of(&example(&["answer", file], folder.path()));
    assert_eq!(nothing_left, "answer: 0 pending\n");
}

#[test]
fn without_arguments_it_does_both() {
    let folder = tempfile::tempdir().unwrap();
    let both = stdout_of(&example(&[], folder.path()));
    assert_eq!(both, format!("{ASK}{ANSWER}"));
    let left = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 0, "its folder is removed");
}

#[test]
fn other_arguments_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let run = example(&["tomorrow"], folder.path());
    assert!(!run.status.success());
    let errors = String::from_utf8_lossy(&run.stderr);
    assert!(errors.contains("usage: approval-tomorrow"), "{errors}");
}
