//! A real terminal, in a private tmux: its input and output.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::Command;

use crate::kit::Folder;

/// The binary in a terminal.
pub(crate) struct Terminal {
    tmux: std::path::PathBuf,
    socket: std::path::PathBuf,
    output: File,
    /// Everything that was written to the terminal so far.
    seen: String,
    /// How much of it was consumed by waiting.
    read: usize,
    _place: tempfile::TempDir,
}

impl Terminal {
    /// Runs a command line of the binary in a terminal of this width. When it ends, the terminal
    /// shows `exit CODE.`
    pub(crate) fn run(tmux: &Path, folder: &Folder, columns: u16, line: &str) -> Self {
        let place = tempfile::tempdir().unwrap();
        let (socket, pipe) = (place.path().join("tmux"), place.path().join("pipe"));
        let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        // It waits for a key, so that nothing is written before the output is captured.
        let helix = env!("CARGO_BIN_EXE_helix");
        let script = format!(
            "read go; {} ; echo \"exit $?.\"; read end",
            line.replace("helix", helix)
        );
        let told = |arguments: &[&str]| run_tmux(tmux, &socket, arguments);
        let columns = columns.to_string();
        let folder = folder.path().to_str().unwrap();
        told(&[
            "new-session",
            "-d",
            "-x",
            &columns,
            "-y",
            "40",
            "-c",
            folder,
            "sh",
            "-c",
            &script,
        ]);
        told(&["pipe-pane", &format!("cat > '{}'", pipe.display())]);
        let output = File::open(&pipe).unwrap();
        told(&["send-keys", "Enter"]);
        Self {
            tmux: tmux.to_owned(),
            socket,
            output,
            seen: String::new(),
            read: 0,
            _place: place,
        }
    }

    /// Waits for a text after everything that was waited for before; returns the output up to it.
    pub(crate) fn until(&mut self, text: &str) -> String {
        loop {
            let new = &self.seen[self.read..];
            if let Some(at) = new.find(text) {
                let end = self.read + at + text.len();
                let came = self.seen[self.read..end].to_owned();
                self.read = end;
                return came;
            }
            let mut bytes = [0; 4096];
            let count = self.output.read(&mut bytes).unwrap();
            assert!(
                count > 0,
                "the terminal closed before {text:?}: {}",
                self.seen
            );
            self.seen
                .push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
    }

    /// Types a line.
    pub(crate) fn types(&self, line: &str) {
        if !line.is_empty() {
            run_tmux(&self.tmux, &self.socket, &["send-keys", "-l", line]);
        }
        run_tmux(&self.tmux, &self.socket, &["send-keys", "Enter"]);
    }

    /// Pastes a text at once, including line breaks.
    pub(crate) fn pastes(&self, text: &str) {
        run_tmux(&self.tmux, &self.socket, &["send-keys", "-l", text]);
    }

    /// Presses a key by its name.
    pub(crate) fn presses(&self, key: &str) {
        run_tmux(&self.tmux, &self.socket, &["send-keys", key]);
    }

    /// Waits for the end of the command, and returns its exit code.
    pub(crate) fn code(&mut self) -> i32 {
        self.until("exit ");
        self.until(".").trim_end_matches('.').parse().unwrap()
    }

    /// Returns the text on the screen.
    pub(crate) fn screen(&self) -> String {
        run_tmux(&self.tmux, &self.socket, &["capture-pane", "-p"])
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let mut end = Command::new(&self.tmux);
        // It may have ended already.
        let _ = end.arg("-S").arg(&self.socket).arg("kill-server").output();
    }
}

fn run_tmux(tmux: &Path, socket: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(tmux);
    command
        .arg("-S")
        .arg(socket)
        .args(["-f", "/dev/null"])
        .args(arguments);
    command
        .env_remove("TMUX")
        .env_remove("NO_COLOR")
        .env_remove("HELIX_LOG");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}
