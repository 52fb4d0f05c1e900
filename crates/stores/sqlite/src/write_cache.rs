//! A cache of rows that the writer needs at every commit.
//!
//! Everything here was read or written by the one connection that writes. It is valid for as long as
//! no other connection has written, which each transaction asks SQLite first, and it is emptied when
//! a transaction, or a part of one, is undone.

use std::collections::HashMap;
use std::hash::Hash;

use helix_agents_core::{RunId, SessionId};

use crate::headers::StoredHeader;
use crate::key::OwnerId;
use crate::streams::Stream;
use crate::usage::LastUsage;

/// The most entries of a kind.
const CAPACITY: usize = 256;

/// Headers, streams and row numbers of the sessions that were written last.
#[derive(Debug, Default)]
pub(crate) struct WriteCache {
    /// SQLite's `data_version` of the file for which the entries are valid.
    version: Option<i64>,
    headers: HashMap<SessionId, StoredHeader>,
    streams: HashMap<SessionId, Stream>,
    rows: HashMap<OwnerId, SessionRows>,
    /// Whether another process subscribes to the change log; `None` when that is not known.
    has_subscribers: Option<bool>,
}

/// Rows of a session; `None` where they are not known.
#[derive(Debug, Default)]
struct SessionRows {
    usage: Option<LastUsage>,
    run: Option<RunRow>,
}

/// Where a run is stored.
#[derive(Debug, Clone)]
pub(crate) struct RunRow {
    pub(crate) id: RunId,
    pub(crate) key: i64,
    /// Whether its large parts are in the table `blob`.
    pub(crate) is_split: bool,
}

impl WriteCache {
    /// Empties the cache unless it is valid for this `data_version`. Called when a transaction begins.
    pub(crate) fn begin(&mut self, version: i64) {
        if self.version != Some(version) {
            self.clear();
            self.version = Some(version);
        }
    }

    /// Removes every entry.
    pub(crate) fn clear(&mut self) {
        self.headers.clear();
        self.streams.clear();
        self.rows.clear();
        self.has_subscribers = None;
    }

    /// Whether another process subscribes to the change log; `None` when that is not known.
    pub(crate) fn has_subscribers(&self) -> Option<bool> {
        self.has_subscribers
    }

    pub(crate) fn set_has_subscribers(&mut self, has_subscribers: Option<bool>) {
        self.has_subscribers = has_subscribers;
    }

    /// Removes and returns the header of a session. The caller puts back the header that is stored
    /// afterwards.
    pub(crate) fn take_header(&mut self, session: &SessionId) -> Option<StoredHeader> {
        self.headers.remove(session)
    }

    pub(crate) fn put_header(&mut self, session: SessionId, found: StoredHeader) {
        // Large headers are rare, and would fill the memory.
        if !found.place.is_split {
            put(&mut self.headers, session, found);
        }
    }

    /// Removes and returns a stream. The caller puts back the stream that is stored afterwards.
    pub(crate) fn take_stream(&mut self, root: &SessionId) -> Option<Stream> {
        self.streams.remove(root)
    }

    pub(crate) fn put_stream(&mut self, root: SessionId, stream: Stream) {
        put(&mut self.streams, root, stream);
    }

    /// Removes and returns the last usage row of a session. The caller puts back the one that is stored
    /// afterwards.
    pub(crate) fn take_usage(&mut self, session: OwnerId) -> Option<LastUsage> {
        self.rows.get_mut(&session)?.usage.take()
    }

    pub(crate) fn put_usage(&mut self, session: OwnerId, last: LastUsage) {
        if !last.is_full() {
            self.rows_of(session).usage = Some(last);
        }
    }

    /// Where a run is stored, if that is known.
    pub(crate) fn run(&self, session: OwnerId, run: &RunId) -> Option<&RunRow> {
        let row = self.rows.get(&session)?.run.as_ref();
        row.filter(|row| row.id == *run)
    }

    pub(crate) fn put_run(&mut self, session: OwnerId, row: RunRow) {
        self.rows_of(session).run = Some(row);
    }

    fn rows_of(&mut self, session: OwnerId) -> &mut SessionRows {
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
        // Sessions that are in use are soon cached again.
        all.clear();
    }
}
