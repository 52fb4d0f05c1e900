//! Loads a session as of one instant.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;

use helix_agents_core::CallId;
use helix_agents_core::session::{OpenStep, PendingCall};
use helix_agents_core::store::{Header, SessionKey, Snapshot};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::convert;
use crate::headers;
use crate::operation_error::OperationError;
use crate::ops::StoredAnswer;
use crate::session_rows::ChangedCall;
use crate::states;
use crate::store::Inner;

/// How often a session is read again because it changed between two statements.
const ATTEMPTS: usize = 100;

/// Everything but the answered calls, in one statement and so as of one instant.
const LOAD: &str = "SELECT s.key, s.version, s.header, s.open_step, s.open_calls, \
       (SELECT r.data FROM @run r WHERE r.session = s.key AND r.id = s.run), \
       array(SELECT v.data FROM @state v WHERE v.session = s.key AND v.version >= \
         (SELECT max(w.version) FROM @state w WHERE w.session = s.key AND w.whole) ORDER BY v.version), \
       array(SELECT p.data FROM @pending p WHERE p.session = s.key ORDER BY p.call), \
       array(SELECT p.answer FROM @pending p WHERE p.session = s.key ORDER BY p.call) \
     FROM @session s WHERE s.name = $1 AND s.root IS NOT DISTINCT FROM $2";

const ANSWERED: &str = "SELECT s.version, \
       array(SELECT a.call FROM @answered a WHERE a.session = s.key AND a.call = ANY($2)) \
     FROM @session s WHERE s.key = $1";

/// Loads a session; `None` when it does not exist under this root.
pub(crate) async fn load(
    on: &Inner,
    key: SessionKey<'_>,
) -> Result<Option<Snapshot>, OperationError> {
    let (name, root) = (headers::name(key), headers::root(key));
    let params = [(&name as _, Type::BYTEA), (&root as _, Type::BYTEA)];
    for _ in 0..ATTEMPTS {
        let rows = on.database.read(LOAD, &params).await?;
        let Some(row) = rows.first() else {
            return Ok(None);
        };
        let open_step = open_step(row)?;
        let calls = open_step.iter().flat_map(|open| open.message.tool_calls());
        let calls: Vec<&[u8]> = calls.map(|call| call.id.as_str().as_bytes()).collect();
        if calls.is_empty() {
            return Ok(Some(snapshot(row, open_step, &BTreeSet::new())?));
        }
        let (session, version): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
        let params = [
            (&session as _, Type::INT8),
            (&calls as _, Type::BYTEA_ARRAY),
        ];
        let rows = on.database.read(ANSWERED, &params).await?;
        let Some(found) = rows.first() else {
            continue;
        };
        // A session that has changed meanwhile is read again.
        if found.try_get::<_, i64>(0)? == version {
            let answered: Vec<&[u8]> = found.try_get(1)?;
            let answered = answered
                .into_iter()
                .map(|call| convert::id("call id", call));
            let answered = answered.collect::<Result<_, _>>()?;
            return Ok(Some(snapshot(row, open_step, &answered)?));
        }
    }
    Err(OperationError::overtaken(ATTEMPTS))
}

fn open_step(row: &Row) -> Result<Option<OpenStep>, OperationError> {
    let Some(data) = row.try_get::<_, Option<&[u8]>>(3)? else {
        return Ok(None);
    };
    let mut step: OpenStep = convert::parse(data)?;
    let changed: Vec<ChangedCall> = convert::parse_lines(row.try_get(4)?)?;
    for ChangedCall { call, open } in changed {
        step.set_call(&call, open);
    }
    Ok(Some(step))
}

fn snapshot(
    row: &Row,
    open_step: Option<OpenStep>,
    answered: &BTreeSet<CallId>,
) -> Result<Snapshot, OperationError> {
    let header: Header = convert::parse(row.try_get(2)?)?;
    let run: Option<&[u8]> = row.try_get(5)?;
    let states: Vec<&[u8]> = row.try_get(6)?;
    let mut session = header.session.clone();
    let state = states::made_of(header.state_version, &states)?;
    session.custom_state = Arc::clone(&state.value);
    session.pending_client_tool_calls = pending(row)?;
    let run = run.map(convert::parse).transpose()?;
    let is_answered = |call: &CallId| Ok::<_, Infallible>(answered.contains(call));
    match Snapshot::new(header, session, run, open_step, is_answered) {
        Ok(snapshot) => Ok(snapshot),
        Err(never) => match never {},
    }
}

fn pending(row: &Row) -> Result<BTreeMap<CallId, PendingCall>, OperationError> {
    let calls: Vec<&[u8]> = row.try_get(7)?;
    let answers: Vec<Option<&[u8]>> = row.try_get(8)?;
    let mut pending = BTreeMap::new();
    for (call, answer) in calls.into_iter().zip(answers) {
        let call = with_answer(call, answer)?;
        pending.insert(call.tool_call_id.clone(), call);
    }
    Ok(pending)
}

fn with_answer(call: &[u8], answer: Option<&[u8]>) -> Result<PendingCall, OperationError> {
    let mut call: PendingCall = convert::parse(call)?;
    if let Some(answer) = answer {
        let StoredAnswer(answer) = convert::parse(answer)?;
        call.answer = Some(answer);
    }
    Ok(call)
}
