//! Pages of the lists of one session.

use std::collections::BTreeMap;
use std::sync::Arc;

use helix_agents_core::store::{
    AnsweredCall, Lookup, Page, PageRoom, Paged, SessionExtras, SessionKey, Staged,
};
use helix_agents_core::stored::{Stored, StoredError};
use helix_agents_core::{CallId, StepId};
use serde::Serialize;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::convert;
use crate::database::Transaction;
use crate::headers;
use crate::operation_error::OperationError;
use crate::store::Inner;

/// The most rows that are read at once when a page is limited by its bytes.
const ROWS: i64 = 64;

/// The number of a session that is named by its root.
const KEY: &str = "(SELECT key FROM @session WHERE name = $1 AND root IS NOT DISTINCT FROM $2)";

/// Reads a page of values that are stored several to a row, each row at the position of its first.
pub(crate) async fn of_rows<T: Stored + Serialize>(
    on: &Inner,
    table: &'static str,
    key: SessionKey<'_>,
    page: Page,
) -> Result<Paged<T>, OperationError> {
    let snapshot = on.database.snapshot().await?;
    let read = rows_of(&snapshot, table, key, page).await;
    snapshot.undo().await?;
    read
}

async fn rows_of<T: Stored + Serialize>(
    snapshot: &Transaction,
    table: &'static str,
    key: SessionKey<'_>,
    page: Page,
) -> Result<Paged<T>, OperationError> {
    let (name, root) = (headers::name(key), headers::root(key));
    let sql = format!(
        "SELECT k.key, coalesce((SELECT at + count FROM @{table} WHERE session = k.key \
           ORDER BY at DESC LIMIT 1), 0), \
         coalesce((SELECT at FROM @{table} WHERE session = k.key AND at <= $3 \
           ORDER BY at DESC LIMIT 1), 0) FROM {KEY} k"
    );
    let offset = convert::count(page.offset);
    let params = [
        (&name as _, Type::BYTEA),
        (&root as _, Type::BYTEA),
        (&offset as _, Type::INT8),
    ];
    let found = snapshot.rows(&sql, &params).await?;
    let Some(row) = found.first() else {
        return Ok(Paged::new(Vec::new(), 0, page));
    };
    let (session, total, first): (Option<i64>, i64, i64) =
        (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    let total = convert::size(total);
    let end = page.offset.saturating_add(page.limit).min(total);
    let mut items = Vec::new();
    let mut room = PageRoom::of(page);
    let mut from = first;
    let sql = format!(
        "SELECT at, count, data FROM @{table} WHERE session = $1 AND at >= $2 AND at < $3 \
         ORDER BY at LIMIT $4"
    );
    let to = convert::count(end);
    let most = page.bytes.map_or(i64::MAX, |_| ROWS);
    while page.offset < end && from < to {
        let params = [
            (&session as _, Type::INT8),
            (&from as _, Type::INT8),
            (&to as _, Type::INT8),
            (&most as _, Type::INT8),
        ];
        let rows = snapshot.rows(&sql, &params).await?;
        if rows.is_empty() {
            return Err(convert::corrupt(T::KIND, "rows of the list are missing").into());
        }
        for row in &rows {
            let (at, count): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
            from = at + count;
            let values: Vec<T> = convert::parse_lines(row.try_get(2)?)?;
            for (place, value) in (convert::size(at)..).zip(values) {
                if place < page.offset || place >= end {
                    continue;
                }
                if !room.takes(&value) {
                    return Ok(Paged::new(items, total, page));
                }
                items.push(value);
            }
        }
    }
    Ok(Paged::new(items, total, page))
}

/// A list with one document in each row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DocumentList {
    pub(crate) table: &'static str,
    pub(crate) id: &'static str,
    pub(crate) order: &'static str,
    pub(crate) columns: &'static str,
}

pub(crate) const RUNS: DocumentList = DocumentList {
    table: "run",
    id: "id",
    order: "n",
    columns: "data",
};
pub(crate) const CHECKPOINTS: DocumentList = DocumentList {
    table: "checkpoint",
    id: "id",
    order: "n DESC",
    columns: "data",
};
pub(crate) const ANSWERED: DocumentList = DocumentList {
    table: "answered",
    id: "call",
    order: "call",
    columns: "call, time, kind",
};

/// Reads one item by its id, or a page of a list.
pub(crate) async fn documents<T: Serialize, Id: AsRef<str>>(
    on: &Inner,
    list: DocumentList,
    key: SessionKey<'_>,
    which: Lookup<Id>,
    parse: impl Fn(&Row) -> Result<T, OperationError>,
) -> Result<Paged<T>, OperationError> {
    let DocumentList {
        table,
        id,
        order,
        columns,
    } = list;
    let (name, root) = (headers::name(key), headers::root(key));
    let session = [(&name as _, Type::BYTEA), (&root as _, Type::BYTEA)];
    let page = match which {
        Lookup::One(wanted) => {
            let sql = format!("SELECT {columns} FROM @{table} WHERE session = {KEY} AND {id} = $3");
            let wanted = wanted.as_ref().as_bytes();
            let [name, root] = session;
            let rows = on
                .database
                .read(&sql, &[name, root, (&wanted, Type::BYTEA)])
                .await?;
            let one = rows.first().map(parse).transpose()?;
            return Ok(Paged::of(one.into_iter(), Page::ALL));
        }
        Lookup::Page(page) => page,
    };
    let snapshot = on.database.snapshot().await?;
    let sql = format!("SELECT count(*) FROM @{table} WHERE session = {KEY}");
    let counted = snapshot.rows(&sql, &session).await?;
    let total: i64 = counted.first().map_or(Ok(0), |row| row.try_get(0))?;
    let sql = format!(
        "SELECT {columns} FROM @{table} WHERE session = {KEY} ORDER BY {order} LIMIT $3 OFFSET $4"
    );
    let mut items = Vec::new();
    let mut room = PageRoom::of(page);
    'rows: while items.len() < page.limit {
        let left = convert::count(page.limit - items.len());
        let most = page.bytes.map_or(left, |_| left.min(ROWS));
        let offset = convert::count(page.offset.saturating_add(items.len()));
        let [name, root] = session.clone();
        let params = [
            name,
            root,
            (&most as _, Type::INT8),
            (&offset as _, Type::INT8),
        ];
        let rows = snapshot.rows(&sql, &params).await?;
        for row in &rows {
            let item = parse(row)?;
            if !room.takes(&item) {
                break 'rows;
            }
            items.push(item);
        }
        if convert::count(rows.len()) < most {
            break;
        }
    }
    snapshot.undo().await?;
    Ok(Paged::new(items, convert::size(total), page))
}

/// Reads a row that is one document.
pub(crate) fn document<T: Stored>(row: &Row) -> Result<T, OperationError> {
    Ok(convert::parse(row.try_get(0)?)?)
}

/// Reads a row of the table `answered`.
pub(crate) fn answered_call(row: &Row) -> Result<AnsweredCall, OperationError> {
    let call: CallId = convert::id("call id", row.try_get(0)?)?;
    let answered = AnsweredCall::new(call, convert::time(row.try_get(1)?));
    Ok(match row.try_get::<_, Option<&[u8]>>(2)? {
        Some(kind) => answered.with_kind(convert::parse(kind)?),
        None => answered,
    })
}

/// Reads the children, staged writes and retired call ids of a session.
pub(crate) async fn extras(
    on: &Inner,
    key: SessionKey<'_>,
) -> Result<SessionExtras, OperationError> {
    let (name, root) = (headers::name(key), headers::root(key));
    let params = [(&name as _, Type::BYTEA), (&root as _, Type::BYTEA)];
    let sql = format!(
        "SELECT array(SELECT data FROM @child WHERE session = k.key ORDER BY n), \
         array(SELECT step FROM @staged WHERE session = k.key ORDER BY n, step, call), \
         array(SELECT call FROM @staged WHERE session = k.key ORDER BY n, step, call), \
         array(SELECT data FROM @staged WHERE session = k.key ORDER BY n, step, call), \
         array(SELECT id FROM @retired_call WHERE session = k.key ORDER BY id) FROM {KEY} k"
    );
    let rows = on.database.read(&sql, &params).await?;
    let Some(row) = rows.first() else {
        return Ok(SessionExtras::default());
    };
    let column = |index: usize| row.try_get::<_, Vec<&[u8]>>(index);
    let children = column(0)?.into_iter().map(convert::parse);
    let mut staged: BTreeMap<StepId, Vec<Staged>> = BTreeMap::new();
    let writes = column(1)?.into_iter().zip(column(2)?).zip(column(3)?);
    for ((step, call), data) in writes {
        let kept = Staged::new(convert::id("call id", call)?, convert::parse(data)?);
        let step: StepId = convert::id("step id", step)?;
        staged.entry(step).or_default().push(kept);
    }
    let retired = column(4)?;
    let retired = retired.into_iter().map(|call| convert::id("call id", call));
    Ok(SessionExtras {
        children: children.collect::<Result<_, StoredError>>()?,
        staged,
        retired_call_ids: retired.collect::<Result<_, StoredError>>()?,
    })
}

/// Reads a version of the state of a session.
pub(crate) async fn state_at(
    on: &Inner,
    key: SessionKey<'_>,
    version: u64,
) -> Result<Arc<serde_json::Value>, OperationError> {
    let (name, root) = (headers::name(key), headers::root(key));
    let params = [(&name as _, Type::BYTEA), (&root as _, Type::BYTEA)];
    let rows = on
        .database
        .read(&format!("SELECT k.key FROM {KEY} k"), &params)
        .await?;
    let found: Option<Option<i64>> = rows.first().map(|row| row.try_get(0)).transpose()?;
    let Some(session) = found.flatten() else {
        let session = key.session.clone();
        return Err(helix_agents_core::store::StoreError::NotFound { session }.into());
    };
    let state = crate::states::read(on, session, version).await?;
    let state = state.ok_or_else(|| crate::states::no_version(key.session, version))?;
    Ok(state.value)
}
