//! Private Redis servers.

use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::port;
use crate::programs;
use crate::server::Server;

/// How a private Redis is started.
#[derive(Debug, Clone, Default)]
pub struct RedisSettings {
    settings: Vec<String>,
}

impl RedisSettings {
    /// Settings for tests that restart nothing: all is in memory.
    #[must_use]
    pub fn quick() -> Self {
        Self::default().set("appendonly", "no")
    }

    /// What was answered is on the disk.
    #[must_use]
    pub fn durable() -> Self {
        Self::default()
            .set("appendonly", "yes")
            .set("appendfsync", "always")
    }

    /// Adds a setting, like `maxmemory-policy` with `noeviction`.
    #[must_use]
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.settings
            .extend([format!("--{name}"), value.to_owned()]);
        self
    }
}

/// A private Redis.
#[derive(Debug)]
pub struct RedisServer {
    server: Server,
    settings: RedisSettings,
    port: u16,
    folder: TempDir,
}

impl RedisServer {
    /// Starts an empty server.
    ///
    /// # Errors
    /// If Redis is not installed, or does not start.
    pub fn start(settings: RedisSettings) -> Result<Self> {
        Self::start_on(settings, port::free()?)
    }

    pub(crate) fn start_on(settings: RedisSettings, port: u16) -> Result<Self> {
        let folder = TempDir::with_prefix("helix-redis-")?;
        let server = run(&folder, port, &settings)?;
        Ok(Self {
            server,
            settings,
            port,
            folder,
        })
    }

    /// Returns its URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Returns the port that it listens on.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Kills it.
    ///
    /// # Errors
    /// If the process cannot be ended.
    pub fn kill(&mut self) -> Result<()> {
        self.server.end(Signal::KILL)?;
        Ok(())
    }

    /// Starts it again with the same data on the same port.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start_again(&mut self) -> Result<()> {
        self.server = run(&self.folder, self.port, &self.settings)?;
        Ok(())
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        if let Err(error) = self.server.end(Signal::KILL) {
            let _ = error;
        }
    }
}

/// Runs a command of `redis-cli`, and returns what it printed if it succeeded.
pub(crate) fn ask(port: u16, words: &[&str]) -> Result<String> {
    let mut command = Command::new(programs::of_redis("redis-cli")?);
    command
        .args(["-h", "127.0.0.1", "-p"])
        .arg(port.to_string());
    let output = command.args(words).stdin(Stdio::null()).output()?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn run(folder: &TempDir, port: u16, settings: &RedisSettings) -> Result<Server> {
    let folder = folder.path();
    let own = [
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--daemonize",
        "no",
        "--dir",
    ];
    let mut arguments: Vec<String> = own.into_iter().map(str::to_owned).collect();
    arguments.push(folder.display().to_string());
    arguments.extend(["--port".to_owned(), port.to_string()]);
    arguments.extend(settings.settings.iter().cloned());
    let log = folder.join("redis.log");
    let program = programs::of_redis("redis-server")?;
    let mut server = Server::start(&program, &arguments, None, "KILL", &log)?;
    // A server that reads its data says LOADING.
    let is_ready = || ask(port, &["PING"]).is_ok_and(|answer| answer.trim() == "PONG");
    server
        .wait_until(&log, is_ready)
        .context("Redis did not start")?;
    Ok(server)
}
