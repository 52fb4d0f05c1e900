//! The rows of the table `session` that a commit compares and writes, as columns.

use helix_agents_core::SessionId;
use helix_agents_core::session::OpenStep;
use helix_agents_core::store::Header;
use helix_agents_core::stored::encode;
use serde::{Deserialize, Serialize};

use crate::convert;
use crate::listeners;
use crate::operation_error::OperationError;
use helix_agents_core::CallId;
use helix_agents_core::session::OpenCall;
use helix_agents_core::stored::Stored;

/// What the database does with the row of a session. The numbers are those of the function `commit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    Read = 0,
    Update = 1,
    UpdateWithColumns = 2,
    Create = 3,
    Delete = 4,
    Absent = 5,
}

/// A call of the open step that has changed since the step was written.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ChangedCall {
    pub(crate) call: CallId,
    pub(crate) open: OpenCall,
}

impl Stored for ChangedCall {
    const KIND: &'static str = "changed_call";
    const VERSION: u32 = 1;
}

/// The change that a commit makes to the open step of a session.
#[derive(Debug, Default)]
pub(crate) enum StepChange {
    /// It stays.
    #[default]
    None,
    /// It is replaced, or removed.
    Replaced(Option<Box<OpenStep>>),
    /// Some of its calls change.
    Calls(Vec<ChangedCall>),
}

impl StepChange {
    pub(crate) fn set_call(&mut self, call: CallId, open: OpenCall) {
        match self {
            Self::None => *self = Self::Calls(vec![ChangedCall { call, open }]),
            Self::Calls(calls) => calls.push(ChangedCall { call, open }),
            Self::Replaced(Some(step)) => step.set_call(&call, open),
            Self::Replaced(None) => {}
        }
    }
}

/// One row of the table.
#[derive(Debug)]
pub(crate) struct SessionRow<'a> {
    pub(crate) session: &'a SessionId,
    /// The number of the session before the commit.
    pub(crate) key: Option<i64>,
    /// The header before the commit.
    pub(crate) before: Option<&'a Header>,
    /// The header after it.
    pub(crate) after: Option<&'a Header>,
    /// The number of a session that is created.
    pub(crate) new_key: Option<i64>,
    pub(crate) act: Act,
    pub(crate) step: StepChange,
}

/// The rows as columns, one entry for each session, ordered by name.
#[derive(Debug, Default)]
pub(crate) struct SessionColumns {
    pub(crate) name: Vec<Vec<u8>>,
    pub(crate) key: Vec<Option<i64>>,
    pub(crate) version: Vec<i64>,
    pub(crate) act: Vec<i16>,
    pub(crate) header: Vec<Option<Vec<u8>>>,
    pub(crate) next: Vec<i64>,
    pub(crate) run: Vec<Option<Vec<u8>>>,
    pub(crate) stopping: Vec<Option<Vec<u8>>>,
    pub(crate) step_act: Vec<i16>,
    pub(crate) step: Vec<Option<Vec<u8>>>,
    pub(crate) calls: Vec<Vec<u8>>,
    // Of sessions that are created, or whose columns change; the others have none.
    pub(crate) new_key: Vec<Option<i64>>,
    pub(crate) root: Vec<Option<Vec<u8>>>,
    pub(crate) agent: Vec<Option<Vec<u8>>>,
    pub(crate) owner: Vec<Option<Vec<u8>>>,
    pub(crate) parent: Vec<Option<Vec<u8>>>,
    pub(crate) status: Vec<Option<String>>,
    pub(crate) created: Vec<Option<i64>>,
}

fn bytes(text: impl AsRef<str>) -> Vec<u8> {
    text.as_ref().as_bytes().to_vec()
}

/// Whether the columns that queries look for are the same in both.
pub(crate) fn has_same_columns(before: &Header, after: &Header) -> bool {
    let (before, after) = (&before.session, &after.session);
    before.agent_type == after.agent_type
        && before.user_id == after.user_id
        && before.parent_session_id == after.parent_session_id
        && before.status == after.status
        && before.created_at == after.created_at
}

impl SessionColumns {
    /// Adds a row. The rows come in the order of the names, in which they are locked. `scope` is the schema.
    pub(crate) fn push(&mut self, scope: u64, row: SessionRow<'_>) -> Result<(), OperationError> {
        let name = row.session.as_str().as_bytes();
        self.version
            .push(match row.before.filter(|_| row.key.is_some()) {
                Some(before) => convert::signed(before.session.version),
                None => listeners::hash(scope, name).cast_signed(),
            });
        self.name.push(name.to_vec());
        self.key.push(row.key);
        self.act.push(row.act as i16);
        let after = row.after;
        self.header.push(after.map(convert::document).transpose()?);
        self.next
            .push(after.map_or(0, |after| convert::signed(after.session.version)));
        let run = after.and_then(|after| after.run.as_ref());
        self.run.push(run.map(|run| bytes(&run.id)));
        let stop = after.and_then(|after| after.stop.as_ref());
        self.stopping.push(stop.map(|stop| bytes(&stop.run_id)));
        let (step_act, step, calls) = match row.step {
            StepChange::None => (0, None, Vec::new()),
            StepChange::Replaced(step) => {
                let step = step.as_deref().map(convert::document).transpose()?;
                (1, step, Vec::new())
            }
            StepChange::Calls(calls) => {
                let mut lines = Vec::new();
                for call in &calls {
                    lines.extend(encode(call)?.into_bytes());
                    lines.push(b'\n');
                }
                (2, None, lines)
            }
        };
        self.step_act.push(step_act);
        self.step.push(step);
        self.calls.push(calls);
        let has_columns = matches!(row.act, Act::Create | Act::UpdateWithColumns);
        let session = after.filter(|_| has_columns).map(|after| &after.session);
        self.new_key.push(row.new_key);
        let root = session.filter(|session| !session.key().is_root());
        self.root.push(root.map(|session| bytes(session.root())));
        self.agent.push(session.map(|one| bytes(&*one.agent_type)));
        let owner = session.and_then(|one| one.user_id.as_ref());
        self.owner.push(owner.map(bytes));
        let parent = session.and_then(|one| one.parent_session_id.as_ref());
        self.parent.push(parent.map(bytes));
        let status = session.map(|one| convert::variant_name("status", one.status));
        self.status.push(status.transpose()?);
        self.created
            .push(session.map(|one| convert::millis(one.created_at)));
        Ok(())
    }
}
