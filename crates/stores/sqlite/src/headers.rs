//! The table `session`: one row with the header of each session, and the columns that queries filter by.

use std::sync::Arc;

use helix_agents_core::SessionId;
use helix_agents_core::session::{OpenStep, SessionState, SessionStatus};
use helix_agents_core::store::{Fence, Header, SessionKey};
use helix_agents_core::stored::decode;
use helix_agents_core::time::Timestamp;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, params};

use crate::content::{self, Cell, RowRef, ValueKind};
use crate::due;
use crate::json;
use crate::key::{OwnerId, from_name, millis, signed, unsigned, variant_name};
use crate::open_steps::OpenStepChange;
use crate::operation_error::OperationError;
use crate::write_connection::WriteConnection;

/// A header that was read, and where it is stored.
#[derive(Debug)]
pub(crate) struct StoredHeader {
    pub(crate) place: HeaderPlace,
    pub(crate) header: Arc<Header>,
}

/// Where a header is stored, and in which form.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeaderPlace {
    pub(crate) owner: OwnerId,
    /// Whether large parts of the header are in the table `blob`.
    pub(crate) is_split: bool,
    /// Whether large parts of the open step are in the table `blob`.
    is_step_split: bool,
}

/// The fence at which new sessions begin, above those of all deleted ones.
pub(crate) fn floor(conn: &Connection) -> Result<Fence, OperationError> {
    let fence = conn
        .prepare_cached("SELECT fence FROM floor")?
        .query_row([], |row| row.get(0))?;
    Ok(Fence(unsigned(fence)))
}

/// Makes new sessions begin at this fence or above.
pub(crate) fn raise_floor(conn: &Connection, fence: Fence) -> Result<(), OperationError> {
    conn.prepare_cached("UPDATE floor SET fence = max(fence, ?)")?
        .execute([signed(fence.0)])?;
    Ok(())
}

/// The number of a session; `None` when it does not exist under this root.
pub(crate) fn owner(
    conn: &Connection,
    key: SessionKey<'_>,
) -> Result<Option<OwnerId>, OperationError> {
    let owner = conn
        .prepare_cached("SELECT id FROM session WHERE name = ? AND root IS ?")?
        .query_row(params![key.session.as_str(), root(key)], |row| row.get(0))
        .optional()?;
    Ok(owner)
}

/// The value of the column `root`: null for a root.
fn root(key: SessionKey<'_>) -> Option<&str> {
    (!key.is_root()).then_some(key.root.as_str())
}

/// The root of a child; `None` for a root, and for a session that does not exist.
pub(crate) fn root_of(
    conn: &Connection,
    session: &SessionId,
) -> Result<Option<SessionId>, OperationError> {
    let root: Option<Option<String>> = conn
        .prepare_cached("SELECT root FROM session WHERE name = ?")?
        .query_row([session.as_str()], |row| row.get(0))
        .optional()?;
    root.flatten()
        .map(|root| from_name("session id", root))
        .transpose()
}

/// Fills the column `root` from the headers, for files of an older schema.
pub(crate) fn fill_roots(conn: &Connection) -> Result<(), OperationError> {
    let mut statement = conn.prepare("SELECT id, header FROM session")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let header: Header = decode(&content::get(conn, row.get(1)?)?)?;
        if let Some(root) = root(header.session.key()) {
            let owner: OwnerId = row.get(0)?;
            conn.prepare_cached("UPDATE session SET root = ? WHERE id = ?")?
                .execute(params![root, owner])?;
        }
    }
    Ok(())
}

/// Reads the header of a session; `None` when it does not exist under this root.
pub(crate) fn find_under(
    conn: &Connection,
    key: SessionKey<'_>,
) -> Result<Option<StoredHeader>, OperationError> {
    let found = find(conn, key.session)?;
    Ok(found.filter(|found| key.names(&found.header.session)))
}

/// Reads the header of a session, whatever its root.
pub(crate) fn find(
    conn: &Connection,
    session: &SessionId,
) -> Result<Option<StoredHeader>, OperationError> {
    let mut statement = conn.prepare_cached(
        "SELECT id, header, typeof(open_step) = 'blob' FROM session WHERE name = ?",
    )?;
    let mut rows = statement.query([session.as_str()])?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    let owner = row.get(0)?;
    let (header, is_split) = match row.get_ref(1)? {
        ValueRef::Text(text) => {
            let text = std::str::from_utf8(text)
                .map_err(|error| OperationError::corrupt("header", error.to_string()))?;
            (decode(text)?, false)
        }
        _ => (decode(&content::get(conn, row.get(1)?)?)?, true),
    };
    let place = HeaderPlace {
        owner,
        is_split,
        is_step_split: row.get(2)?,
    };
    let header = Arc::new(header);
    Ok(Some(StoredHeader { place, header }))
}

/// Takes a header out of the cache, or reads it. The caller gives it back with [`give_back`], as it is
/// stored then.
pub(crate) fn take(
    db: &WriteConnection,
    session: &SessionId,
) -> Result<Option<StoredHeader>, OperationError> {
    let known = db.cache.borrow_mut().take_header(session);
    match known {
        Some(found) => Ok(Some(found)),
        None => find(&db.conn, session),
    }
}

/// Puts the header that is stored now into the cache.
pub(crate) fn give_back(db: &WriteConnection, session: SessionId, found: StoredHeader) {
    db.cache.borrow_mut().put_header(session, found);
}

/// The columns of a session that queries filter by.
#[derive(PartialEq)]
struct Columns<'a> {
    agent: &'a str,
    user: Option<&'a str>,
    parent: Option<&'a str>,
    status: SessionStatus,
    created: Timestamp,
}

impl<'a> Columns<'a> {
    fn of(header: &'a Header) -> Self {
        let session = &header.session;
        Self {
            agent: &session.agent_type,
            user: session.user_id.as_ref().map(AsRef::as_ref),
            parent: session.parent_session_id.as_ref().map(AsRef::as_ref),
            status: session.status,
            created: session.created_at,
        }
    }
}

/// Inserts a new session.
pub(crate) fn insert(
    conn: &Connection,
    session: &SessionId,
    header: &Header,
) -> Result<OwnerId, OperationError> {
    let columns = Columns::of(header);
    // The parts of a large header are stored under the number of the session, which is not known yet.
    let text = json::stored(header)?;
    let (now, later) = match content::is_large(&text) {
        true => ("", Some(text.as_str())),
        false => (text.as_str(), None),
    };
    conn.prepare_cached(
        "INSERT INTO session (name, root, agent, user, parent, status, created, header) \
         VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
    )?
    .execute(params![
        session.as_str(),
        root(header.session.key()),
        columns.agent,
        columns.user,
        columns.parent,
        variant_name("status", columns.status)?,
        millis(columns.created),
        now,
    ])?;
    let owner = OwnerId(conn.last_insert_rowid());
    if let Some(text) = later {
        let holder = RowRef::new(owner, ValueKind::Header, 0);
        let cell = content::put(conn, holder, text.to_owned())?;
        conn.prepare_cached("UPDATE session SET header = ? WHERE id = ?")?
            .execute(params![cell, owner])?;
    }
    due::update_index(conn, session, None, Some(header))?;
    add_labels(conn, owner, &header.session)?;
    Ok(owner)
}

/// Replaces the header of a session, and its open step if that has changed.
pub(crate) fn update(
    conn: &Connection,
    place: &mut HeaderPlace,
    before: &Header,
    header: &Header,
    step: &OpenStepChange,
) -> Result<(), OperationError> {
    let owner = place.owner;
    let holder = RowRef::new(owner, ValueKind::Header, 0);
    if place.is_split {
        content::release(conn, holder)?;
    }
    let cell = content::put(conn, holder, json::stored(header)?)?;
    place.is_split = matches!(cell, Cell::Split(_));
    match step {
        OpenStepChange::Unchanged => {
            conn.prepare_cached("UPDATE session SET header = ? WHERE id = ?")?
                .execute(params![cell, owner])?;
        }
        OpenStepChange::Replaced(step) => {
            if place.is_step_split {
                content::release(conn, RowRef::new(owner, ValueKind::OpenStep, 0))?;
            }
            let step = step_cell(conn, owner, step.as_deref())?;
            place.is_step_split = matches!(step, Some(Cell::Split(_)));
            conn.prepare_cached("UPDATE session SET header = ?, open_step = ? WHERE id = ?")?
                .execute(params![cell, step, owner])?;
        }
    }
    let columns = Columns::of(header);
    // Columns that did not change are not named: their indexes stay untouched.
    if columns != Columns::of(before) {
        conn.prepare_cached(
            "UPDATE session SET agent = ?, user = ?, parent = ?, status = ?, created = ? \
             WHERE id = ?",
        )?
        .execute(params![
            columns.agent,
            columns.user,
            columns.parent,
            variant_name("status", columns.status)?,
            millis(columns.created),
            owner,
        ])?;
    }
    due::update_index(conn, &header.session.session_id, Some(before), Some(header))?;
    let (before, now) = (&before.session, &header.session);
    if before.user_id != now.user_id {
        conn.prepare_cached("UPDATE pending SET user = ? WHERE session = ?")?
            .execute(params![columns.user, owner])?;
    }
    if before.tags != now.tags || before.metadata != now.metadata {
        conn.prepare_cached("DELETE FROM label WHERE session = ?")?
            .execute([owner])?;
        add_labels(conn, owner, now)?;
    }
    Ok(())
}

/// Writes the open step of a session that this commit has inserted.
pub(crate) fn write_step(
    conn: &Connection,
    owner: OwnerId,
    step: &OpenStepChange,
) -> Result<(), OperationError> {
    if let OpenStepChange::Replaced(Some(step)) = step {
        let step = step_cell(conn, owner, Some(step))?;
        conn.prepare_cached("UPDATE session SET open_step = ? WHERE id = ?")?
            .execute(params![step, owner])?;
    }
    Ok(())
}

fn step_cell(
    conn: &Connection,
    owner: OwnerId,
    step: Option<&OpenStep>,
) -> Result<Option<Cell>, OperationError> {
    let holder = RowRef::new(owner, ValueKind::OpenStep, 0);
    let text = step.map(json::stored).transpose()?;
    text.map(|text| content::put(conn, holder, text))
        .transpose()
}

/// The kinds of labels: tags and metadata entries. The numbers are stored.
pub(crate) const TAG: i64 = 0;
pub(crate) const METADATA: i64 = 1;

fn add_labels(
    conn: &Connection,
    owner: OwnerId,
    session: &SessionState,
) -> Result<(), OperationError> {
    let tags = session.tags.iter().map(|tag| (TAG, tag.as_str(), ""));
    let metadata = session.metadata.iter();
    let metadata = metadata.map(|(key, value)| (METADATA, key.as_str(), value.as_str()));
    let created = millis(session.created_at);
    for (kind, key, value) in tags.chain(metadata) {
        conn.prepare_cached("INSERT OR IGNORE INTO label VALUES (?, ?, ?, ?, ?)")?
            .execute(params![kind, key, value, created, owner])?;
    }
    Ok(())
}
