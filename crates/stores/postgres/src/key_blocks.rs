//! The numbers of new sessions, which this process takes from the database in blocks.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use crate::database::Database;
use crate::operation_error::OperationError;

/// How many numbers a block has.
const BLOCK: i64 = 64;

/// The numbers that this process has taken and not used. None is ever used twice.
#[derive(Debug, Default)]
pub(crate) struct KeyBlocks(Mutex<Range<i64>>);

impl KeyBlocks {
    /// The next number.
    pub(crate) async fn next(&self, database: &Database) -> Result<i64, OperationError> {
        loop {
            if let Some(next) = self.0.lock().unwrap_or_else(PoisonError::into_inner).next() {
                return Ok(next);
            }
            let text = "SELECT nextval('@key_block')";
            let rows = database.read(text, &[]).await?;
            let block: Option<i64> = rows.first().map(|row| row.try_get(0)).transpose()?;
            let block = block.ok_or_else(|| OperationError::internal("there is no number left"))?;
            let first = block * BLOCK;
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = first..first + BLOCK;
        }
    }
}
