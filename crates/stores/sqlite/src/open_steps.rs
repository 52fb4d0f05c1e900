//! The open step of a session: a column beside the header, written with it.

use std::sync::Arc;

use helix_agents_core::CallId;
use helix_agents_core::session::{OpenCall, OpenStep};
use helix_agents_core::stored::decode;
use rusqlite::Connection;
use rusqlite::types::Value as SqlValue;

use crate::content;
use crate::key::OwnerId;
use crate::operation_error::OperationError;

/// The change that a commit makes to the open step.
#[derive(Debug, Default)]
pub(crate) enum OpenStepChange {
    /// The commit does not change it.
    #[default]
    Unchanged,
    /// The commit replaces it, or removes it with `None`.
    Replaced(Option<Arc<OpenStep>>),
}

impl OpenStepChange {
    /// Replaces one call of the step. Does nothing when there is no step, or no such call in it.
    pub(crate) fn set_call(
        &mut self,
        conn: &Connection,
        session: OwnerId,
        call: &CallId,
        open: OpenCall,
    ) -> Result<(), OperationError> {
        if matches!(self, Self::Unchanged) {
            *self = Self::Replaced(find(conn, session)?.map(Arc::new));
        }
        let Self::Replaced(Some(step)) = self else {
            return Ok(());
        };
        let index = step.message.tool_calls().position(|made| made.id == *call);
        if let Some(slot) = index.and_then(|index| Arc::make_mut(step).calls.get_mut(index)) {
            *slot = open;
        }
        Ok(())
    }
}

/// Reads the open step of a session.
pub(crate) fn find(
    conn: &Connection,
    session: OwnerId,
) -> Result<Option<OpenStep>, OperationError> {
    let data: SqlValue = conn
        .prepare_cached("SELECT open_step FROM session WHERE id = ?")?
        .query_row([session], |row| row.get(0))?;
    match data {
        SqlValue::Null => Ok(None),
        data => Ok(Some(decode(&content::get(conn, data)?)?)),
    }
}
