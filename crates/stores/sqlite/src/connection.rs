//! Opens connections and sets them up.

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::config::SqliteConfig;
use crate::error::{Error, Result};
use crate::schema;

/// The capacity of the statement cache: all statements of this crate, so that each is prepared once per
/// connection.
const STATEMENTS: usize = 128;
/// The size in bytes to which SQLite cuts the write-ahead log when it begins it anew.
const LOG_LIMIT: u32 = 64 * 1024 * 1024;

/// Opens the connection that writes, and brings the schema of the file up to date.
pub(crate) fn writer(path: &Path, config: &SqliteConfig) -> Result<Connection> {
    if !config.migrate && !path.exists() {
        return Err(schema::missing(path));
    }
    create_file(path)?;
    let failed = |error| Error::opening(path, error);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags).map_err(failed)?;
    connection
        .busy_timeout(config.busy_timeout)
        .map_err(failed)?;
    // Nothing is written to a file before it is known to be ours.
    schema::check(&connection, path, config.migrate)?;
    write_ahead(&connection, config.busy_timeout).map_err(failed)?;
    set_up(&connection, config).map_err(failed)?;
    schema::migrate(&mut connection, path, config.migrate)?;
    Ok(connection)
}

/// Opens a connection that only reads.
pub(crate) fn reader(path: &Path, config: &SqliteConfig) -> Result<Connection> {
    let failed = |error| Error::opening(path, error);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(failed)?;
    connection
        .busy_timeout(config.busy_timeout)
        .map_err(failed)?;
    set_up(&connection, config).map_err(failed)?;
    connection
        .pragma_update(None, "query_only", true)
        .map_err(failed)?;
    Ok(connection)
}

/// Opens the only connection to a database in memory.
pub(crate) fn memory(config: &SqliteConfig) -> Result<Connection> {
    let path = Path::new(":memory:");
    let failed = |error| Error::opening(path, error);
    let mut connection = Connection::open_in_memory().map_err(failed)?;
    set_up(&connection, config).map_err(failed)?;
    schema::migrate(&mut connection, path, true)?;
    Ok(connection)
}

fn set_up(connection: &Connection, config: &SqliteConfig) -> rusqlite::Result<()> {
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    connection.pragma_update(None, "synchronous", config.synchronous.pragma())?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.pragma_update_and_check(None, "journal_size_limit", LOG_LIMIT, |_| Ok(()))?;
    if let Some(pages) = config.max_pages {
        connection.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))?;
    }
    Ok(())
}

/// Switches a file to write-ahead logging. Waits for another process that does the same, which SQLite
/// does not do here.
fn write_ahead(connection: &Connection, timeout: Duration) -> rusqlite::Result<()> {
    let patience = Instant::now() + timeout;
    loop {
        match connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(())) {
            Err(error) if is_busy(&error) && Instant::now() < patience => {
                thread::sleep(Duration::from_millis(1));
            }
            other => return other,
        }
    }
}

/// Whether a statement failed because another connection holds a lock.
pub(crate) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
    )
}

/// Creates the file if it does not exist, with access for its owner alone, since it holds conversations.
/// SQLite gives the files beside it the same permissions. The error says what is wrong with the path;
/// SQLite says only that it cannot open it.
fn create_file(path: &Path) -> Result<()> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let Err(source) = options.open(path) else {
        return Ok(());
    };
    let folder_exists = path
        .parent()
        .is_none_or(|folder| folder.as_os_str().is_empty() || folder.is_dir());
    let at = path.to_owned();
    Err(match source.kind() {
        _ if path.is_dir() => Error::IsAFolder { path: at },
        ErrorKind::NotFound if !folder_exists => Error::NoFolder { path: at },
        ErrorKind::NotADirectory => Error::NoFolder { path: at },
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Error::ReadOnly {
            path: at,
            source: Box::new(source),
        },
        _ => Error::Open {
            path: at,
            source: Box::new(source),
        },
    })
}
