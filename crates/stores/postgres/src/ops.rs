//! The operations of a commit on the tables beside `session`, as columns. The numbers of their kinds are those of the
//! function `commit`, which carries them out in this order.

use helix_agents_core::message::Message;
use helix_agents_core::session::{Answer, AnswerKind};
use helix_agents_core::store::{AnsweredCall, DueKind, Header};
use helix_agents_core::stored::{Stored, StoredError};
use helix_agents_core::time::Timestamp;
use helix_agents_core::{CallId, SessionId};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::convert;
use crate::due;
use crate::operation_error::OperationError;
use crate::states::StateRow;

/// The operations, one entry in each column.
#[derive(Debug, Default)]
pub(crate) struct Ops {
    pub(crate) kind: Vec<i16>,
    pub(crate) key: Vec<i64>,
    pub(crate) n: Vec<i64>,
    pub(crate) m: Vec<i64>,
    pub(crate) id: Vec<Option<Vec<u8>>>,
    pub(crate) sub: Vec<Option<Vec<u8>>>,
    pub(crate) data: Vec<Option<Vec<u8>>>,
}

/// One operation.
#[derive(Debug, Default)]
pub(crate) struct Op {
    pub(crate) kind: i16,
    pub(crate) key: i64,
    pub(crate) n: i64,
    pub(crate) m: i64,
    pub(crate) id: Option<Vec<u8>>,
    pub(crate) sub: Option<Vec<u8>>,
    pub(crate) data: Option<Vec<u8>>,
}

pub(crate) const CHUNKS: i16 = 2;
pub(crate) const CHECKPOINT: i16 = 3;
pub(crate) const RUN: i16 = 6;
pub(crate) const PENDING: i16 = 9;
pub(crate) const ANSWER: i16 = 10;
pub(crate) const REMOVE_PENDING: i16 = 11;
pub(crate) const FORGET_ANSWERED: i16 = 13;
pub(crate) const CHILD: i16 = 14;
pub(crate) const UPDATE_CHILD: i16 = 15;
pub(crate) const UNLINK: i16 = 16;
pub(crate) const STAGE: i16 = 17;
pub(crate) const UNSTAGE: i16 = 18;
pub(crate) const UNSTAGE_OTHERS: i16 = 19;
pub(crate) const RETIRE: i16 = 20;
pub(crate) const TRUNCATE: i16 = 21;
pub(crate) const DROP_CHECKPOINTS: i16 = 22;
pub(crate) const DROP_CHUNKS: i16 = 25;
pub(crate) const REPLACE_CHUNKS: i16 = 26;
pub(crate) const LEAVE: i16 = 27;
const MESSAGES: i16 = 1;
const USAGE: i16 = 4;
const STATE: i16 = 5;
const DUE: i16 = 7;
const NOT_DUE: i16 = 8;
const ANSWERED: i16 = 12;
const LABEL: i16 = 23;
const CLEAR_LABELS: i16 = 24;

/// The size up to which a label is indexed as it is.
const MAX_LABEL: usize = 512;

/// An answer to a pending call, as it is stored.
#[derive(Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct StoredAnswer(pub(crate) Answer);

impl Stored for StoredAnswer {
    const KIND: &'static str = "answer";
    const VERSION: u32 = 1;
}

pub(crate) fn bytes(text: impl AsRef<str>) -> Option<Vec<u8>> {
    Some(text.as_ref().as_bytes().to_vec())
}

impl Ops {
    pub(crate) fn push(&mut self, op: Op) {
        self.kind.push(op.kind);
        self.key.push(op.key);
        self.n.push(op.n);
        self.m.push(op.m);
        self.id.push(op.id);
        self.sub.push(op.sub);
        self.data.push(op.data);
    }

    /// An operation on a row with this id.
    pub(crate) fn by_id(&mut self, kind: i16, key: i64, id: impl AsRef<str>) {
        self.push(Op {
            kind,
            key,
            id: bytes(id),
            ..Op::default()
        });
    }

    /// Writes a document under an id, at this place in the order of writing.
    pub(crate) fn document<T: Stored>(
        &mut self,
        (kind, key): (i16, i64),
        id: impl AsRef<str>,
        n: i64,
        value: &T,
    ) -> Result<(), StoredError> {
        self.push(Op {
            kind,
            key,
            n,
            id: bytes(id),
            data: Some(convert::document(value)?),
            ..Op::default()
        });
        Ok(())
    }

    pub(crate) fn messages(
        &mut self,
        key: i64,
        at: usize,
        messages: &[Message],
    ) -> Result<(), StoredError> {
        self.push(Op {
            kind: MESSAGES,
            key,
            n: convert::count(at),
            m: convert::count(messages.len()),
            data: Some(convert::lines(messages)?),
            ..Op::default()
        });
        Ok(())
    }

    pub(crate) fn usage<T: Stored>(&mut self, key: i64, entries: &[T]) -> Result<(), StoredError> {
        self.push(Op {
            kind: USAGE,
            key,
            n: convert::count(entries.len()),
            data: Some(convert::lines(entries)?),
            ..Op::default()
        });
        Ok(())
    }

    pub(crate) fn state(&mut self, key: i64, row: &mut StateRow) {
        self.push(Op {
            kind: STATE,
            key,
            n: convert::signed(row.known.version),
            m: i64::from(row.is_whole),
            data: Some(std::mem::take(&mut row.data)),
            ..Op::default()
        });
    }

    /// Records an answered call, unless an earlier record of it stays. Which ones do is said by core.
    pub(crate) fn answered(&mut self, key: i64, one: &AnsweredCall) -> Result<(), StoredError> {
        let earlier = AnsweredCall::new(one.call.clone(), one.at);
        let replaces_submitted = one.replaces(&earlier);
        let replaces_other = one.replaces(&earlier.with_kind(AnswerKind::AnsweredLate));
        let kind = match one.kind.is_submitted() {
            true => None,
            false => Some(convert::document(&one.kind)?),
        };
        self.push(Op {
            kind: ANSWERED,
            key,
            n: convert::millis(one.at),
            m: i64::from(replaces_submitted) | i64::from(replaces_other) << 1,
            id: bytes(&one.call),
            data: kind,
            ..Op::default()
        });
        Ok(())
    }

    pub(crate) fn retire(&mut self, key: i64, calls: impl IntoIterator<Item = CallId>) {
        for call in calls {
            self.by_id(RETIRE, key, call);
        }
    }

    /// Changes the index of due work from what it was to what it is.
    pub(crate) fn due(
        &mut self,
        key: i64,
        session: &SessionId,
        before: Option<&Header>,
        after: &Header,
    ) -> Result<(), OperationError> {
        let agent = &after.session.agent_type;
        let same_agent = before.is_none_or(|before| before.session.agent_type == *agent);
        let was = before.map(Header::due_from).unwrap_or_default();
        let is = after.due_from();
        for kind in was.keys().filter(|kind| !is.contains_key(kind)) {
            self.push(Op {
                kind: NOT_DUE,
                key,
                n: i64::from(due::number(*kind)?),
                ..Op::default()
            });
        }
        let unchanged =
            |kind: &DueKind, since: &Timestamp| same_agent && was.get(kind) == Some(since);
        for (kind, since) in is.iter().filter(|(kind, since)| !unchanged(kind, since)) {
            self.push(Op {
                kind: DUE,
                key,
                n: i64::from(due::number(*kind)?),
                m: convert::millis(*since),
                id: bytes(&**agent),
                sub: bytes(session),
                data: None,
            });
        }
        Ok(())
    }

    /// Changes the labels of a session from what they were to what they are.
    pub(crate) fn labels(&mut self, key: i64, before: Option<&Header>, after: &Header) {
        let now = &after.session;
        if let Some(before) = before.map(|before| &before.session) {
            if before.tags == now.tags && before.metadata == now.metadata {
                return;
            }
            self.push(Op {
                kind: CLEAR_LABELS,
                key,
                ..Op::default()
            });
        }
        let tags = now.tags.iter().map(|tag| tag_label(tag));
        let metadata = now.metadata.iter();
        let metadata = metadata.map(|(name, value)| metadata_label(name, value));
        for label in tags.chain(metadata) {
            self.push(Op {
                kind: LABEL,
                key,
                id: Some(label),
                ..Op::default()
            });
        }
    }
}

/// The label of a tag.
pub(crate) fn tag_label(tag: &str) -> Vec<u8> {
    indexed(format!("t{tag}"))
}

/// The label of a metadata entry. The length keeps two entries apart.
pub(crate) fn metadata_label(name: &str, value: &str) -> Vec<u8> {
    indexed(format!("m{}:{name}{value}", name.len()))
}

/// A label as it is indexed: a digest stands for a long one, since an entry of an index has at most 2704 bytes.
fn indexed(label: String) -> Vec<u8> {
    if label.len() <= MAX_LABEL {
        return label.into_bytes();
    }
    let mut digest = vec![b'h'];
    digest.extend(Sha256::digest(label));
    digest
}
