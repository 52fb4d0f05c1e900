//! `[store]` and `[stream]`: where sessions are stored.

use std::fmt;
use std::path::{Path, PathBuf};

use super::store_servers::{PostgresPlace, RedisPlace};
use super::suggest::remedy;
use super::{At, ConfigError, Section};

/// The URL of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreUrl {
    /// In the memory of this process; gone when it ends.
    Memory,
    /// In a SQLite file.
    Sqlite(PathBuf),
    /// In a PostgreSQL database.
    Postgres(PostgresPlace),
    /// On a Redis server or cluster.
    Redis(RedisPlace),
}

/// The error of an invalid store URL.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct StoreUrlError {
    message: String,
}

impl StoreUrl {
    /// Parses a URL. The path of a SQLite file is relative to `folder`, since a file named in a
    /// configuration is beside it.
    ///
    /// # Errors
    /// A [`StoreUrlError`] that says what to write instead.
    pub fn parse(url: &str, folder: &Path) -> Result<Self, StoreUrlError> {
        const FORMS: &str = "write `sqlite:PATH`, `postgres://...`, `redis://...` or `memory:`";
        let wrong = |message: String| StoreUrlError { message };
        let Some((scheme, rest)) = url.split_once(':') else {
            return Err(wrong(format!("`{url}` is not a store URL; {FORMS}")));
        };
        match scheme {
            "memory" if rest.is_empty() => Ok(Self::Memory),
            "memory" => Err(wrong(format!(
                "`{url}` has a name, but a store in memory has none; write `memory:`"
            ))),
            "sqlite" if rest == ":memory:" => Ok(Self::Memory),
            "sqlite" => {
                let path = rest.strip_prefix("//").unwrap_or(rest);
                if path.is_empty() {
                    return Err(wrong(format!("`{url}` names no file; {FORMS}")));
                }
                // `./x` and `x` are the same file; the shorter form is shown.
                let folder = if folder == Path::new(".") {
                    Path::new("")
                } else {
                    folder
                };
                Ok(Self::Sqlite(folder.join(path)))
            }
            "postgres" | "postgresql" => Ok(Self::Postgres(PostgresPlace::new(url))),
            "redis" | "rediss" => Ok(Self::Redis(RedisPlace::new(url))),
            _ => {
                let remedy = remedy(scheme, ["sqlite", "postgres", "redis", "memory"]);
                Err(wrong(format!(
                    "unknown kind of store `{scheme}`; {remedy} ({FORMS})"
                )))
            }
        }
    }

    /// Whether two URLs name the same place, whatever else is said about it.
    #[must_use]
    pub fn is_same_place(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Postgres(one), Self::Postgres(other)) => one.url == other.url,
            (Self::Redis(one), Self::Redis(other)) => one.url == other.url,
            _ => self == other,
        }
    }

    /// The key by which this is another part of the same place than the other, if it says one.
    fn other_part(&self, store: &Self) -> Option<&'static str> {
        let differs = |own: &Option<String>, other| own.is_some() && own != other;
        match (self, store) {
            (Self::Postgres(own), Self::Postgres(store)) => {
                differs(&own.schema, &store.schema).then_some("schema")
            }
            (Self::Redis(own), Self::Redis(store)) => {
                differs(&own.prefix, &store.prefix).then_some("prefix")
            }
            _ => None,
        }
    }

    fn read(section: &Section<'_>, folder: &Path) -> Result<Self, ConfigError> {
        let At { value, at } = section.required("url", "\"sqlite:helix.db\"")?;
        let url = Self::parse(&value, folder);
        let mut url = url.map_err(|error| section.error(&at, error.message))?;
        match &mut url {
            Self::Postgres(place) => {
                section.refuse(&RedisPlace::KEYS, "PostgreSQL")?;
                place.read(section)?;
            }
            Self::Redis(place) => {
                section.refuse(&PostgresPlace::KEYS, "Redis")?;
                place.read(section)?;
            }
            Self::Memory | Self::Sqlite(_) => {
                let kind = if url == Self::Memory {
                    "a store in memory"
                } else {
                    "SQLite"
                };
                section.refuse(&PostgresPlace::KEYS, kind)?;
                section.refuse(&RedisPlace::KEYS, kind)?;
            }
        }
        section.finish()?;
        Ok(url)
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("memory:"),
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Self::Postgres(place) => place.fmt(f),
            Self::Redis(place) => place.fmt(f),
        }
    }
}

/// Reads `[store]` or `[stream]`.
pub(super) fn read(
    section: Option<Section<'_>>,
    folder: &Path,
) -> Result<Option<StoreUrl>, ConfigError> {
    section
        .map(|section| StoreUrl::read(&section, folder))
        .transpose()
}

/// Reads `[stream]`, beside what `[store]` says.
pub(super) fn read_stream(
    section: Option<Section<'_>>,
    store: Option<&StoreUrl>,
    folder: &Path,
) -> Result<Option<StoreUrl>, ConfigError> {
    let Some(section) = section else {
        return Ok(None);
    };
    let stream = StoreUrl::read(&section, folder)?;
    // Without [store] it is up to the command line.
    if let Some(store) = store {
        let is_outside = is_outside(&stream, store);
        is_outside.map_err(|message| section.error(&section.at, message))?;
    }
    Ok(Some(stream))
}

/// Whether streams at this URL are outside of the store.
///
/// # Errors
/// What to write instead, if they cannot be.
pub(crate) fn is_outside(stream: &StoreUrl, store: &StoreUrl) -> Result<bool, String> {
    match (store, stream) {
        _ if stream.is_same_place(store) => match stream.other_part(store) {
            Some(key) => Err(format!(
                "streams at {stream} do not go with the store {store}: streams in the store have its `{key}`; leave \
                 `{key}` or the stream out"
            )),
            None => Ok(false),
        },
        (StoreUrl::Postgres(_), StoreUrl::Redis(_)) => Ok(true),
        _ => Err(format!(
            "streams at {stream} do not go with the store {store}: only PostgreSQL has its streams elsewhere, on \
             Redis; leave the stream out, and it is kept in the store"
        )),
    }
}
