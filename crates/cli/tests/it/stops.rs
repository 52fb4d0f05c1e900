//! Runs that are stopped from outside, and runs whose process is killed.

use std::process::{Child, Output, Stdio};
use std::sync::Arc;

use tokio::sync::Notify;

use crate::kit::{Folder, config};
use crate::service::{Reply, Service};

const SCRIPT: &str = r#"{ "default": [
    { "tool_calls": [ { "id": "c", "name": "work" } ] },
    { "text": "Done: {{tool_result:c}}" } ] }"#;

/// A run in a process of its own, in the middle of a call.
struct Busy {
    folder: Folder,
    service: Service,
    word: Arc<Notify>,
    child: Child,
}

impl Busy {
    async fn with(more: &str) -> Self {
        let word = Arc::new(Notify::new());
        let replies = vec![
            Reply::Waits(Arc::clone(&word)),
            Reply::Says(200, "text/plain", "again".into()),
        ];
        let service = Service::that(replies).await;
        let address = &service.address;
        let folder = Folder::with(
            &config(&format!(
                "[agents.a]\nmodel = \"fast\"\ntools = [\"work\"]\n[tools.work]\n\
                 description = \"Works\"\nkind = \"http\"\nurl = \"http://{address}/\"\n\
                 timeout_ms = 60000\n{more}"
            )),
            SCRIPT,
        );
        let mut command = folder.command(&["run", "a", "go", "--session", "s"]);
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        service.arrived().await;
        Self {
            folder,
            service,
            word,
            child,
        }
    }

    /// Lets the call end, and waits for the process.
    fn finish(self) -> (Folder, Output) {
        self.word.notify_one();
        (self.folder, self.child.wait_with_output().unwrap())
    }

    fn kill(mut self) -> (Folder, Service) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.word.notify_one();
        (self.folder, self.service)
    }
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_interrupted_from_another_process_and_goes_on_later() {
    let busy = Busy::with("").await;
    let did = busy.folder.helix(&["resume", "s"]).ends(1);
    assert!(did.err.contains("is performed by"), "{}", did.err);
    let did = busy
        .folder
        .helix(&["run", "a", "more", "--session", "s"])
        .ends(1);
    assert!(did.err.contains("still going on"), "{}", did.err);
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
        err(&output).contains("interrupted; `helix resume s` goes on"),
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
