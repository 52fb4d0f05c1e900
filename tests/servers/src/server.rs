//! A server process that ends with the process that started it.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::programs::User;

/// How long a server may take to answer after its start.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running server.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
}

impl Server {
    /// Starts a program, as another user if one is given, and writes what it says to a file. The kernel sends it
    /// `dies_by` when the thread that started it has ended.
    pub(crate) fn start(
        program: &Path,
        arguments: &[String],
        user: Option<User>,
        dies_by: &str,
        log: &Path,
    ) -> Result<Self> {
        let mut command = Command::new("setpriv");
        if let Some(User { uid, gid }) = user {
            command.arg(format!("--reuid={uid}"));
            command.arg(format!("--regid={gid}"));
            command.arg("--clear-groups");
        }
        let log = File::options().create(true).append(true).open(log)?;
        let child = command
            .arg(format!("--pdeathsig={dies_by}"))
            .arg(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("setpriv cannot be started; apt-get install util-linux")?;
        Ok(Self { child })
    }

    /// Waits until `is_ready`, and fails if the server ends before or takes too long.
    pub(crate) fn wait_until(&mut self, log: &Path, is_ready: impl Fn() -> bool) -> Result<()> {
        let begun = Instant::now();
        while !is_ready() {
            let said = || std::fs::read_to_string(log).unwrap_or_default();
            if let Some(status) = self.child.try_wait()? {
                bail!("the server ended with {status}:\n{}", said());
            }
            if begun.elapsed() > PATIENCE {
                bail!("the server does not answer:\n{}", said());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Waits for a program that ends by itself.
    pub(crate) fn wait(&mut self) -> Result<ExitStatus> {
        Ok(self.child.wait()?)
    }

    /// Sends a signal and waits for the end.
    pub(crate) fn end(&mut self, signal: Signal) -> Result<ExitStatus> {
        if let Some(status) = self.child.try_wait()? {
            return Ok(status);
        }
        kill_process(Pid::from_child(&self.child), signal)?;
        Ok(self.child.wait()?)
    }
}
