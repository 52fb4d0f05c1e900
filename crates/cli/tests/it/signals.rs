//! Tests of a process that is asked to end while its run is running.

use crate::busy::{Busy, err};

#[tokio::test(flavor = "multi_thread")]
async fn the_current_step_is_finished_and_the_run_continues_later() {
    for signal in ["-TERM", "-INT"] {
        let mut busy = Busy::with("").await;
        busy.ask_to_end(signal);
        let (folder, output) = busy.finish();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let err = err(&output);
        let shown = err.find("\u{2190} work").unwrap();
        let stopped = err.find("stopped; `helix resume s` continues it").unwrap();
        assert!(shown < stopped, "{err}");
        let did = folder.helix(&["resume", "s"]).ends(0);
        assert_eq!(did.out, "Done: \n");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_ends_during_shutdown_is_reported_as_usual() {
    let mut busy = Busy::with("finish_with = true\n").await;
    busy.ask_to_end("-TERM");
    let (folder, output) = busy.finish();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(output.stdout, b"\"\"\n");
    let err = err(&output);
    assert!(
        err.ends_with("session s\n") && !err.contains("stopped"),
        "{err}"
    );
    let did = folder.helix(&["sessions", "show", "s", "--json"]).ends(0);
    assert_eq!(did.json()["status"], "completed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_stops_at_once() {
    let mut busy = Busy::with("").await;
    busy.ask_to_end("-TERM");
    busy.signal("-INT");
    let (_, output) = busy.wait();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(
        err(&output).contains("stopped at once; `helix resume s` continues it"),
        "{output:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_does_not_end_does_not_keep_the_process() {
    let mut busy = Busy::with("").await;
    busy.ask_to_end("-TERM");
    let (folder, output) = busy.wait();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(
        err(&output).contains("stopped; `helix resume s` continues it"),
        "{output:?}"
    );
    let did = folder.helix(&["resume", "s"]).ends(0);
    assert!(
        did.out.contains("may or may not have taken effect"),
        "{}",
        did.out
    );
}
