//! Where the programs of the servers are.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// Returns the path of a program of PostgreSQL. Debian keeps the programs of each version in a folder of their own,
/// which is not in the search path.
pub(crate) fn of_postgres(name: &str) -> Result<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten();
    let mut found: Vec<PathBuf> = versions
        .filter_map(|version| Some(version.ok()?.path().join("bin").join(name)))
        .filter(|program| program.is_file())
        .collect();
    found.sort();
    found
        .pop()
        .or_else(|| in_path(name))
        .with_context(|| format!("{name} not found; apt-get install postgresql"))
}

/// Returns the path of a program of Redis.
pub(crate) fn of_redis(name: &str) -> Result<PathBuf> {
    in_path(name).with_context(|| format!("{name} not found; apt-get install redis-server"))
}

fn in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let mut places = std::env::split_paths(&path).map(|folder| folder.join(name));
    places.find(|place| place.is_file())
}

/// The ids of the user that owns PostgreSQL's files: `initdb` and `postgres` refuse to run as root.
#[derive(Debug, Clone, Copy)]
pub(crate) struct User {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl User {
    /// Returns the user that a server has to run as; `None` if this process is not root's.
    pub(crate) fn unprivileged() -> Result<Option<Self>> {
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let users = std::fs::read_to_string("/etc/passwd").context("/etc/passwd cannot be read")?;
        let user = ["postgres", "nobody"]
            .into_iter()
            .find_map(|name| Self::named(&users, name));
        Ok(Some(user.context("no user `postgres` or `nobody`")?))
    }

    fn named(users: &str, name: &str) -> Option<Self> {
        let fields = users
            .lines()
            .map(|line| line.split(':').collect::<Vec<_>>());
        let mut found = fields.filter(|fields| fields.first() == Some(&name));
        let fields = found.next()?;
        Some(Self {
            uid: fields.get(2)?.parse().ok()?,
            gid: fields.get(3)?.parse().ok()?,
        })
    }

    /// Makes this user the owner of a folder.
    pub(crate) fn own(self, folder: &Path) -> Result<()> {
        std::os::unix::fs::chown(folder, Some(self.uid), Some(self.gid))
            .with_context(|| format!("{} cannot be given away", folder.display()))
    }
}
