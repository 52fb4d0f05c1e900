//! Stores on servers: their URLs, and the keys of `[store]` that only they have.

use std::fmt;

use helix_agents_store_postgres::PostgresConfig;
use helix_agents_store_redis::{Durability, RedisConfig};

use super::suggest::remedy;
use super::{At, ConfigError, Section};

/// A PostgreSQL database. It is shown without passwords.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PostgresPlace {
    /// The URL, with its password.
    pub url: String,
    /// The schema of the tables.
    pub schema: Option<String>,
    /// The most connections.
    pub connections: Option<usize>,
    /// Whether statements are prepared once for each connection.
    pub prepared_statements: bool,
    /// The URL of the connections for notifications.
    pub listen_url: Option<String>,
}

impl PostgresPlace {
    pub(super) const KEYS: [&str; 4] =
        ["schema", "connections", "prepared_statements", "listen_url"];

    pub(super) fn new(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            schema: None,
            connections: None,
            prepared_statements: true,
            listen_url: None,
        }
    }

    pub(super) fn read(&mut self, section: &Section<'_>) -> Result<(), ConfigError> {
        self.schema = section.text("schema")?.map(|schema| schema.value);
        if let Some(At { value, at }) = section.count("connections", 1)? {
            let many = usize::try_from(value).ok().filter(|many| *many <= 10_000);
            let many = many.ok_or_else(|| section.error(&at, "`connections` is at most 10000"))?;
            self.connections = Some(many);
        }
        if let Some(prepares) = section.flag("prepared_statements")? {
            self.prepared_statements = prepares.value;
        }
        self.listen_url = section.text("listen_url")?.map(|url| url.value);
        Ok(())
    }

    /// Returns the configuration of the store.
    pub(crate) fn config(&self) -> PostgresConfig {
        let mut config = PostgresConfig::new().prepared_statements(self.prepared_statements);
        if let Some(schema) = &self.schema {
            config = config.schema(schema);
        }
        if let Some(connections) = self.connections {
            config = config.connections(connections);
        }
        if let Some(url) = &self.listen_url {
            config = config.listen_url(url);
        }
        config
    }
}

impl fmt::Display for PostgresPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&without_passwords(&self.url))
    }
}

impl fmt::Debug for PostgresPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PostgresPlace({self})")
    }
}

/// What a Redis server must promise of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Demand {
    /// Any server is taken, with a warning if it promises less than all.
    Any,
    /// A server that promises less is refused.
    AtLeast(Durability),
    /// The settings of the server are not asked for.
    Unchecked,
}

/// A Redis server or cluster. It is shown without passwords.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RedisPlace {
    /// The URL, with its password; those of several nodes with commas between them.
    pub url: String,
    /// The beginning of all keys.
    pub prefix: Option<String>,
    /// What the server must promise of a commit.
    pub demand: Demand,
}

/// The values of `durability`.
const DEMANDS: [(&str, Demand); 4] = [
    ("always", Demand::AtLeast(Durability::Always)),
    ("every_second", Demand::AtLeast(Durability::EverySecond)),
    ("memory", Demand::AtLeast(Durability::Memory)),
    ("unchecked", Demand::Unchecked),
];

impl RedisPlace {
    pub(super) const KEYS: [&str; 2] = ["prefix", "durability"];

    pub(super) fn new(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            prefix: None,
            demand: Demand::Any,
        }
    }

    pub(super) fn read(&mut self, section: &Section<'_>) -> Result<(), ConfigError> {
        self.prefix = section.text("prefix")?.map(|prefix| prefix.value);
        let Some(At { value, at }) = section.text("durability")? else {
            return Ok(());
        };
        let known = DEMANDS.into_iter().find(|(name, _)| *name == value);
        let (_, demand) = known.ok_or_else(|| {
            let remedy = remedy(&value, DEMANDS.map(|(name, _)| name));
            section.error(&at, format!("`durability` cannot be `{value}`; {remedy}"))
        })?;
        self.demand = demand;
        Ok(())
    }

    /// Returns the configuration of a store on a server that promises this.
    pub(crate) fn config(&self, durability: Durability) -> RedisConfig {
        let config = RedisConfig::new().durability(durability);
        let config = match self.demand {
            Demand::Unchecked => config.trust_server(),
            Demand::Any | Demand::AtLeast(_) => config,
        };
        match &self.prefix {
            Some(prefix) => config.prefix(prefix),
            None => config,
        }
    }
}

impl fmt::Display for RedisPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&without_passwords(&self.url))
    }
}

impl fmt::Debug for RedisPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisPlace({self})")
    }
}

/// The same URL, or URLs with commas between them, without passwords.
fn without_passwords(urls: &str) -> String {
    // A comma may also stand between hosts, and in a password.
    let mut shown: Vec<String> = Vec::new();
    for piece in urls.split(",redis") {
        let piece = without_password(piece);
        shown.push(piece);
    }
    shown.join(",redis")
}

fn without_password(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    // A password may have any character, also those that end a host elsewhere.
    let (user, rest) = match rest.rsplit_once('@') {
        Some((credentials, rest)) => {
            let user = credentials
                .split_once(':')
                .map_or(credentials, |(user, _)| user);
            (format!("{user}@"), rest)
        }
        None => (String::new(), rest),
    };
    let (host, parameters) = rest.split_once('?').unwrap_or((rest, ""));
    let is_open = |one: &&str| !one.is_empty() && !one.to_ascii_lowercase().contains("pass");
    let parameters: Vec<&str> = parameters.split('&').filter(is_open).collect();
    let mark = if parameters.is_empty() { "" } else { "?" };
    let separator = if url.contains("://") { "://" } else { "" };
    format!(
        "{scheme}{separator}{user}{host}{mark}{}",
        parameters.join("&")
    )
}

#[cfg(test)]
mod tests {
    use super::without_passwords;

    #[test]
    fn urls_are_shown_without_passwords() {
        let table = [
            ("postgres://h/db", "postgres://h/db"),
            ("postgres://u@h:5432/db", "postgres://u@h:5432/db"),
            (
                "postgres://u:p@h1,h2:1/db?sslmode=require",
                "postgres://u@h1,h2:1/db?sslmode=require",
            ),
            ("postgres://u:a,b?c@d/e@h/db", "postgres://u@h/db"),
            (
                "postgres:///db?host=/run&password=p&user=u",
                "postgres:///db?host=/run&user=u",
            ),
            ("postgres://h/db?Password=p", "postgres://h/db"),
            ("redis://:p@h:6379/1", "redis://@h:6379/1"),
            ("redis://:p@h:1,redis://:q@h:2", "redis://@h:1,redis://@h:2"),
            (
                "rediss://u:p@h:1,rediss://u:q@h:2",
                "rediss://u@h:1,rediss://u@h:2",
            ),
        ];
        for (url, wanted) in table {
            assert_eq!(without_passwords(url), wanted);
        }
    }
}
