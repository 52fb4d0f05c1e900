//! Opens the store that a URL names.

use std::path::Path;
use std::time::Duration;

use helix_agents_core::memory::MemoryStore;
use helix_agents_core::runtime::Backend;
use helix_agents_store_postgres::{Error as PostgresError, PostgresStore};
use helix_agents_store_redis::{
    Durability, Error as RedisError, RedisConfig, RedisStore, RedisStreams,
};
use helix_agents_store_sqlite::{Error as SqliteError, SqliteConfig, SqliteStore};

use super::{STORE, place};
use crate::UsageError;
use crate::config::{Demand, PostgresPlace, RedisPlace, StoreUrl};
use crate::screen::{Look, Screen};

/// What opening a store may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Opening {
    /// Nothing: a store that does not exist is an error.
    Existing,
    /// A store that does not exist is created.
    Create,
    /// A store that does not exist is created, and an older schema is upgraded.
    Migrate,
}

/// Opens a store, with its streams outside of it if they have a URL. The deltas of a turn are kept for `keep_deltas`
/// after its end.
///
/// # Errors
/// A [`UsageError`] that says what to do.
pub async fn open_store(
    url: &StoreUrl,
    stream: Option<&StoreUrl>,
    opening: Opening,
    keep_deltas: Duration,
) -> Result<Backend, UsageError> {
    match url {
        StoreUrl::Memory => Ok(MemoryStore::new().keep_deltas(keep_deltas).into()),
        StoreUrl::Sqlite(path) => open_sqlite(url, path, opening, keep_deltas).await,
        StoreUrl::Postgres(place) => match stream {
            None => {
                let store = open_postgres(url, place, opening, keep_deltas, false).await?;
                Ok(store.into())
            }
            Some(stream) => {
                let store = open_postgres(url, place, opening, keep_deltas, true).await?;
                let streams = open_streams(stream, keep_deltas).await?;
                let backend = Backend::from(store.clone());
                Ok(backend
                    .streaming_to(store, streams.clone())
                    .retained_by(streams.clone())
                    .also_checked_by(streams))
            }
        },
        StoreUrl::Redis(place) => {
            let open = async |config| RedisStore::open_with(&place.url, config).await;
            Ok(open_redis(url, place, keep_deltas, open).await?.into())
        }
    }
}

/// Opens the streams of a store that leaves them to another place.
async fn open_streams(url: &StoreUrl, keep_deltas: Duration) -> Result<RedisStreams, UsageError> {
    let StoreUrl::Redis(place) = url else {
        return Err(UsageError(format!(
            "{url} cannot have the streams of another store; name a Redis server"
        )));
    };
    let open = async |config| RedisStreams::open_with(&place.url, config).await;
    open_redis(url, place, keep_deltas, open).await
}

/// The error of a store that does not exist.
pub(super) fn not_found(url: &StoreUrl) -> UsageError {
    UsageError(format!(
        "store {url} not found; name the one you mean with --store or --config, or let `helix run`, `serve` or \
         `migrate` make it"
    ))
}

fn too_old(url: &StoreUrl, found: u32, known: u32) -> UsageError {
    UsageError(format!(
        "the store {url} has schema version {found}, this program needs {known}; run `helix migrate --store {}`",
        place::quoted(&url.to_string())
    ))
}

fn unusable(url: &StoreUrl, error: &dyn std::error::Error) -> UsageError {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    let causes: String = causes.map(|cause| format!(": {cause}")).collect();
    UsageError(format!("the store {url} cannot be used: {error}{causes}"))
}

/// Creates a folder that only its owner can read. An existing one is not changed.
fn make_private(folder: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

async fn open_sqlite(
    url: &StoreUrl,
    path: &Path,
    opening: Opening,
    keep_deltas: Duration,
) -> Result<Backend, UsageError> {
    if path == Path::new(STORE)
        && let Some(folder) = path.parent()
    {
        make_private(folder).map_err(|error| {
            UsageError(format!(
                "the folder {} cannot be created: {error}",
                folder.display()
            ))
        })?;
    }
    let open = async |migrate| {
        let config = SqliteConfig::new()
            .migrate(migrate)
            .keep_deltas(keep_deltas);
        SqliteStore::open_with(path, config).await
    };
    let opened = match open(opening == Opening::Migrate).await {
        Err(SqliteError::SchemaTooOld { found: 0, .. }) => open(true).await,
        Err(SqliteError::SchemaTooOld { found, known, .. }) => {
            return Err(too_old(url, found, known));
        }
        other => other,
    };
    Ok(opened.map_err(|error| unusable(url, &error))?.into())
}

async fn open_postgres(
    url: &StoreUrl,
    place: &PostgresPlace,
    opening: Opening,
    keep_deltas: Duration,
    leaves_streams: bool,
) -> Result<PostgresStore, UsageError> {
    let open = async |migrate| {
        let config = place.config().migrate(migrate).keep_deltas(keep_deltas);
        let config = if leaves_streams {
            config.with_outbox()
        } else {
            config
        };
        PostgresStore::connect_with(&place.url, config).await
    };
    let opened = match open(opening == Opening::Migrate).await {
        Err(PostgresError::SchemaTooOld { found: 0, .. }) if opening == Opening::Existing => {
            return Err(not_found(url));
        }
        Err(PostgresError::SchemaTooOld { found: 0, .. }) => open(true).await,
        Err(PostgresError::SchemaTooOld { found, known, .. }) => {
            return Err(too_old(url, found, known));
        }
        other => other,
    };
    opened.map_err(|error| unusable(url, &error))
}

/// A server that promises less than all is opened with a warning where the configuration does not say what it must
/// promise.
async fn open_redis<T>(
    url: &StoreUrl,
    place: &RedisPlace,
    keep_deltas: Duration,
    open: impl AsyncFn(RedisConfig) -> Result<T, RedisError>,
) -> Result<T, UsageError> {
    let open = async |durability| {
        let config = place.config(durability).keep_deltas(keep_deltas);
        open(config).await
    };
    let wanted = match place.demand {
        Demand::AtLeast(durability) => durability,
        Demand::Any | Demand::Unchecked => Durability::Always,
    };
    let opened = match open(wanted).await {
        Err(RedisError::LessDurable {
            appendonly,
            appendfsync,
            ..
        }) if place.demand == Demand::Any => {
            let text = format!(
                "{url} has `appendonly {appendonly}` and `appendfsync {appendfsync}`: what it has confirmed \
                 may be lost when the server ends; set `appendonly yes` and `appendfsync always` there, or say in \
                 helix.toml what is enough (`durability`)"
            );
            // A warning that cannot be written is no reason not to work.
            let _ = Screen::of_process().note(Look::Yellow, text);
            open(Durability::Memory).await
        }
        Err(error @ RedisError::SettingsHidden { .. }) => {
            let causes = unusable(url, &error);
            return Err(UsageError(format!(
                "{causes}; in helix.toml that is `durability = \"unchecked\"`"
            )));
        }
        other => other,
    };
    opened.map_err(|error| unusable(url, &error))
}
