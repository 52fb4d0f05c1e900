//! A run in a separate process, during a call.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::sync::Arc;

use tokio::sync::Notify;

use crate::kit::{Folder, config};
use crate::service::{Reply, Service};

const SCRIPT: &str = r#"{ "default": [
    { "tool_calls": [ { "id": "c", "name": "work" } ] },
    { "text": "Done: {{tool_result:c}}" } ] }"#;

/// A run of session `s` in a separate process, during a call.
pub(crate) struct Busy {
    pub(crate) folder: Folder,
    service: Service,
    word: Arc<Notify>,
    child: Child,
    err: BufReader<ChildStderr>,
    /// The standard error of the process so far.
    said: String,
}

impl Busy {
    pub(crate) async fn with(more: &str) -> Self {
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
        let mut child = command.spawn().unwrap();
        let err = BufReader::new(child.stderr.take().unwrap());
        service.arrived().await;
        Self {
            folder,
            service,
            word,
            child,
            err,
            said: String::new(),
        }
    }

    /// Lets the call end, and waits for the process.
    pub(crate) fn finish(self) -> (Folder, Output) {
        self.word.notify_one();
        self.wait()
    }

    /// Asks the process to end, and waits until it has noticed.
    pub(crate) fn ask_to_end(&mut self, signal: &str) {
        self.signal(signal);
        while !self.said.contains("once more stops at once") {
            let read = self.err.read_line(&mut self.said).unwrap();
            assert!(read > 0, "it ended: {}", self.said);
        }
    }

    /// Sends a signal to the process.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([name, &pid]).status();
        assert!(sent.unwrap().success());
    }

    /// Waits for the process, although the call does not end.
    pub(crate) fn wait(mut self) -> (Folder, Output) {
        self.err.read_to_string(&mut self.said).unwrap();
        let mut output = self.child.wait_with_output().unwrap();
        output.stderr = self.said.into_bytes();
        (self.folder, output)
    }

    /// Kills the process.
    pub(crate) fn kill(mut self) -> (Folder, Service) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.word.notify_one();
        (self.folder, self.service)
    }
}

/// Returns the standard error of a process.
pub(crate) fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}
