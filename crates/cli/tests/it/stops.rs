//! Tests of runs that are stopped from outside, and of runs whose process is killed.

use crate::busy::{Busy, err};
use crate::kit::{Folder, config};

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_interrupted_from_another_process_and_continues_later() {
    let busy = Busy::with("").await;
    let did = busy.folder.helix(&["resume", "s"]).ends(1);
    assert!(did.err.contains("is performed by"), "{}", did.err);
    let did = busy
        .folder
        .helix(&["run", "a", "more", "--session", "s"])
        .ends(1);
    assert!(did.err.contains("still running"), "{}", did.err);
    assert!(
        did.err.contains("`helix resume s` takes it over"),
        "{}",
        did.err
    );
    let did = busy
        .folder
        .helix(&["interrupt", "s", "--reason", "lunch", "--json"])
        .ends(0);
    assert_eq!(did.json()["accepted"], true);
    assert!(did.json()["runId"].is_string());
    let (folder, output) = busy.finish();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(
        err(&output).contains("interrupted; `helix resume s` continues it"),
        "{output:?}"
    );
    let did = folder.helix(&["resume", "s"]).ends(0);
    assert_eq!(did.out, "Done: \n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_aborted_from_another_process_and_fails() {
    let busy = Busy::with("").await;
    busy.folder
        .helix(&["abort", "s", "--reason", "wrong order"])
        .ends(0);
    let (folder, output) = busy.finish();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(
        err(&output).contains("failed (framework_cancelled): wrong order"),
        "{output:?}"
    );
    folder.helix(&["resume", "s"]).ends(1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_in_flight_at_a_crash_is_not_run_again() {
    let (folder, service) = Busy::with("").await.kill();
    let did = folder.helix(&["resume", "s"]).ends(0);
    assert!(
        did.out.contains("may or may not have taken effect"),
        "{}",
        did.out
    );
    assert_eq!(service.asked().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idempotent_call_in_flight_at_a_crash_is_run_again_under_its_key() {
    let (folder, service) = Busy::with("idempotent = true\n").await.kill();
    let did = folder.helix(&["resume", "s"]).ends(0);
    assert_eq!(did.out, "Done: again\n");
    let asked = service.asked();
    let keys: Vec<_> = asked
        .iter()
        .map(|one| one.header("idempotency-key"))
        .collect();
    assert_eq!(keys, [keys[0]; 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_process_is_gone_must_be_resumed_first() {
    let (folder, _) = Busy::with("").await.kill();
    for command in ["export", "delete"] {
        let did = folder.helix(&["sessions", command, "s"]).ends(1);
        assert!(did.err.contains("is gone; `helix resume s`"), "{}", did.err);
    }
    let did = folder.helix(&["interrupt", "s"]).ends(0);
    assert!(did.out.contains("accepted"), "{}", did.out);
    assert!(
        did.err
            .contains("its process is gone; it stops when `helix resume s` takes it over"),
        "{}",
        did.err
    );
    let did = folder.helix(&["resume", "s"]).ends(1);
    assert!(
        did.err.contains("interrupted; `helix resume s`"),
        "{}",
        did.err
    );
    folder.helix(&["sessions", "export", "s"]).ends(0);

    let (folder, _) = Busy::with("").await.kill();
    let did = folder
        .helix(&["abort", "s", "--reason", "-5 is wrong", "--json"])
        .ends(0);
    assert_eq!(did.json()["accepted"], true);
    assert!(did.err.contains("`helix resume s`"), "{}", did.err);
    let did = folder.helix(&["resume", "s"]).ends(1);
    assert!(did.err.contains("-5 is wrong"), "{}", did.err);
}

#[test]
fn output_of_the_former_process_is_not_repeated() {
    let slow = r#"{ "default": [ { "text": "Old words that nobody keeps.", "chunk_chars": 9, "delay_ms": 600000 } ] }"#;
    let folder = Folder::with(&config("[agents.a]\nmodel = \"fast\"\n"), slow);
    let mut command = folder.command(&["run", "a", "go", "--session", "s"]);
    let mut child = command
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = [0; 9];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut said).unwrap();
    assert_eq!(&said, b"Old words");
    child.kill().unwrap();
    child.wait().unwrap();

    folder.write(
        "script.json",
        r#"{ "default": [ { "text": "New words." } ] }"#,
    );
    let did = folder.helix(&["resume", "s"]).ends(0);
    assert_eq!(
        (did.out.as_str(), did.err.as_str()),
        ("New words.\n", "session s\n")
    );
}
