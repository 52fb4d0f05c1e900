//! What the writer knows of the file without looking.
//!
//! Everything here was read or written by the one connection that writes. It is right for as long as
//! no other connection has written, which each transaction asks SQLite first, and it is forgotten
//! when a transaction, or a part of one, is undone.

use std::collections::HashMap;
use std::hash::Hash;

use helix_agents_core::{RunId, SessionId};

use crate::headers::Found;
use crate::key::Owner;
use crate::streams::Stream;

/// So many of a kind are remembered at most.
const CAPACITY: usize = 256;

/// What is known of the file.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// What SQLite called the file's content when this was learned.
    version: Option<i64>,
    headers: HashMap<SessionId, Found>,
    streams: HashMap<SessionId, Stream>,
    rows: HashMap<Owner, Rows>,
    /// Whether somebody else wants to know of what is written.
    is_heard: Option<bool>,
}

/// What is known of a session's rows.
#[derive(Debug, Default)]
struct Rows {
    usage: Option<u64>,
    run: Option<RunRow>,
}

/// The row of a run.
#[derive(Debug, Clone)]
pub(crate) struct RunRow {
    pub(crate) id: RunId,
    pub(crate) key: i64,
    /// Whether parts of it are kept elsewhere.
    pub(crate) is_split: bool,
}

impl Known {
    /// Begins a transaction that sees this version of the file.
    pub(crate) fn begin(&mut self, version: i64) {
        if self.version != Some(version) {
            self.clear();
            self.version = Some(version);
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.headers.clear();
        self.streams.clear();
        self.rows.clear();
        self.is_heard = None;
    }

    /// Whether somebody else wants to know of what is written.
    pub(crate) fn is_heard(&self) -> Option<bool> {
        self.is_heard
    }

    pub(crate) fn put_heard(&mut self, is_heard: Option<bool>) {
        self.is_heard = is_heard;
    }

    /// Gives the header of a session away. Whoever changes it gives the new one back.
    pub(crate) fn take_header(&mut self, session: &SessionId) -> Option<Found> {
        self.headers.remove(session)
    }

    pub(crate) fn put_header(&mut self, session: SessionId, found: Found) {
        // Large ones are rare, and would fill the memory.
        if !found.place.is_split {
            put(&mut self.headers, session, found);
        }
    }

    /// Gives a stream away. Whoever changes it gives the new one back.
    pub(crate) fn take_stream(&mut self, root: &SessionId) -> Option<Stream> {
        self.streams.remove(root)
    }

    pub(crate) fn put_stream(&mut self, root: SessionId, stream: Stream) {
        put(&mut self.streams, root, stream);
    }

    /// How many usage entries a session has.
    pub(crate) fn usage(&self, session: Owner) -> Option<u64> {
        self.rows.get(&session)?.usage
    }

    pub(crate) fn put_usage(&mut self, session: Owner, count: u64) {
        self.rows_of(session).usage = Some(count);
    }

    /// The row of a run.
    pub(crate) fn run(&self, session: Owner, run: &RunId) -> Option<&RunRow> {
        let row = self.rows.get(&session)?.run.as_ref();
        row.filter(|row| row.id == *run)
    }

    pub(crate) fn put_run(&mut self, session: Owner, row: RunRow) {
        self.rows_of(session).run = Some(row);
    }

    fn rows_of(&mut self, session: Owner) -> &mut Rows {
        make_room(&mut self.rows, &session);
        self.rows.entry(session).or_default()
    }
}

fn put<K: Eq + Hash, V>(all: &mut HashMap<K, V>, key: K, value: V) {
    make_room(all, &key);
    all.insert(key, value);
}

fn make_room<K: Eq + Hash, V>(all: &mut HashMap<K, V>, key: &K) {
    if all.len() >= CAPACITY && !all.contains_key(key) {
        // Those who are busy are soon back.
        all.clear();
    }
}
