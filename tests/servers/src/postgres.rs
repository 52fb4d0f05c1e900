//! Private PostgreSQL servers.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::port;
use crate::programs::{self, User};
use crate::server::Server;

/// How a private PostgreSQL is started.
#[derive(Debug, Clone, Default)]
pub struct PostgresSettings {
    settings: Vec<String>,
}

impl PostgresSettings {
    /// Settings for tests that restart nothing: it does not wait for the disk.
    #[must_use]
    pub fn quick() -> Self {
        let quick = [
            "fsync=off",
            "synchronous_commit=off",
            "full_page_writes=off",
        ];
        quick.into_iter().fold(Self::durable(), Self::set)
    }

    /// PostgreSQL's own settings: what is committed is on the disk.
    #[must_use]
    pub fn durable() -> Self {
        Self::default()
            .set("max_connections=400")
            .set("shared_buffers=64MB")
    }

    /// Adds a setting, like `max_connections=10`.
    #[must_use]
    pub fn set(mut self, setting: &str) -> Self {
        self.settings.push(setting.to_owned());
        self
    }
}

/// A private PostgreSQL with the superuser `helix`, which needs no password.
#[derive(Debug)]
pub struct PostgresServer {
    server: Server,
    settings: PostgresSettings,
    user: Option<User>,
    port: u16,
    folder: TempDir,
}

impl PostgresServer {
    /// Creates a database cluster and starts a server of it.
    ///
    /// # Errors
    /// If PostgreSQL is not installed, or does not start.
    pub fn start(settings: PostgresSettings) -> Result<Self> {
        let folder = TempDir::with_prefix("helix-postgres-")?;
        let user = User::unprivileged()?;
        if let Some(user) = user {
            user.own(folder.path())?;
        }
        let data = folder.path().join("data");
        let mut server = Server::start(
            &programs::of_postgres("initdb")?,
            &[
                "--auth=trust".to_owned(),
                "--username=helix".to_owned(),
                "--encoding=UTF8".to_owned(),
                "--locale=C".to_owned(),
                "--no-sync".to_owned(),
                format!("--pgdata={}", data.display()),
            ],
            user,
            "KILL",
            &folder.path().join("initdb.log"),
        )?;
        let status = server.wait()?;
        if !status.success() {
            let said = std::fs::read_to_string(folder.path().join("initdb.log"));
            bail!("initdb ended with {status}:\n{}", said.unwrap_or_default());
        }
        let port = port::free()?;
        let server = run(folder.path(), port, user, &settings)?;
        Ok(Self {
            server,
            settings,
            user,
            port,
            folder,
        })
    }

    /// Returns the URL of the database `postgres`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("postgres://helix@127.0.0.1:{}/postgres", self.port)
    }

    /// Returns the same URL through the server's unix socket.
    #[must_use]
    pub fn socket_url(&self) -> String {
        let folder = self.folder.path().display();
        format!(
            "postgres:///postgres?host={folder}&port={}&user=helix",
            self.port
        )
    }

    /// Returns the port that it listens on.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Ends it at once, as `pg_ctl stop -m immediate` does: the next start recovers from the log.
    ///
    /// # Errors
    /// If the process cannot be ended.
    pub fn stop_immediately(&mut self) -> Result<()> {
        self.server.end(Signal::QUIT)?;
        Ok(())
    }

    /// Starts it again with the same data on the same port.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start_again(&mut self) -> Result<()> {
        self.server = run(self.folder.path(), self.port, self.user, &self.settings)?;
        Ok(())
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        // The data is removed with the folder, so nothing has to be written any more.
        if let Err(error) = self.server.end(Signal::QUIT) {
            let _ = error;
        }
    }
}

fn run(
    folder: &Path,
    port: u16,
    user: Option<User>,
    settings: &PostgresSettings,
) -> Result<Server> {
    let mut arguments = vec![
        "-D".to_owned(),
        folder.join("data").display().to_string(),
        "-p".to_owned(),
        port.to_string(),
        "-c".to_owned(),
        "listen_addresses=127.0.0.1".to_owned(),
        "-c".to_owned(),
        format!("unix_socket_directories={}", folder.display()),
    ];
    for setting in &settings.settings {
        arguments.extend(["-c".to_owned(), setting.clone()]);
    }
    let log: PathBuf = folder.join("postgres.log");
    let program = programs::of_postgres("postgres")?;
    let mut server = Server::start(&program, &arguments, user, "QUIT", &log)?;
    let is_ready = programs::of_postgres("pg_isready")?;
    server
        .wait_until(&log, || {
            let mut ask = Command::new(&is_ready);
            ask.args([
                "-q",
                "-h",
                "127.0.0.1",
                "-U",
                "helix",
                "-d",
                "postgres",
                "-p",
            ]);
            ask.arg(port.to_string());
            ask.status().is_ok_and(|status| status.success())
        })
        .context("PostgreSQL did not start")?;
    Ok(server)
}
