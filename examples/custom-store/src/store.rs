//! The store: one text per session, and transactions over several of them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use helix_agents::core::message::Message;
use helix_agents::core::notify::Notify;
use helix_agents::core::runtime::Backend;
use helix_agents::core::session::{Checkpoint, PendingCall, RunRecord, SessionState, StopRequest};
use helix_agents::core::store::{
    AnsweredCall, Backlog, Commit, DueCursor, DuePage, DueQuery, Fence, Header, Headers, Lookup,
    Page, Paged, PendingQuery, Receipt, SessionExtras, SessionKey, SessionQuery, SessionStore,
    Snapshot, Staged, StoreError, WatchStops, plan,
};
use helix_agents::core::stored::{decode, encode};
use helix_agents::core::stream::StreamLimits;
use helix_agents::core::time::Timestamp;
use helix_agents::core::usage::UsageEntry;
use helix_agents::core::{CallId, CheckpointId, RunId, SessionId};
use serde::Serialize;
use serde_json::Value;

use crate::document::Document;
use crate::file::{Contents, DataFile};
use crate::streams::MAX_CHUNK_BYTES;

type Result<T, E = StoreError> = std::result::Result<T, E>;

/// Keeps each session and its stream as one JSON text, in memory or in a file.
///
/// One process may have the file open. Every commit writes the whole file and blocks the thread of
/// its caller meanwhile: an example, not a database.
#[derive(Debug, Default)]
pub struct JsonStore {
    contents: Mutex<Contents>,
    file: Option<DataFile>,
    /// Rings after every write, for readers and watchers that wait.
    pub(crate) changed: Notify,
}

/// Documents that are about to change. When it is dropped, nothing has changed.
pub(crate) struct Transaction<'a> {
    contents: &'a Contents,
    /// The fence at which sessions begin, above those of all that were deleted.
    floor: Fence,
    open: BTreeMap<SessionId, Document>,
}

impl Transaction<'_> {
    /// A session's document, to be read and changed; an empty one when there is none.
    pub(crate) fn open(&mut self, session: &SessionId) -> Result<&mut Document> {
        match self.open.entry(session.clone()) {
            Entry::Occupied(open) => Ok(open.into_mut()),
            Entry::Vacant(place) => {
                let text = self.contents.texts.get(session);
                let document = text.map(|text| decode(text)).transpose()?;
                Ok(place.insert(document.unwrap_or_default()))
            }
        }
    }
}

impl JsonStore {
    /// An empty store in memory. It is gone when it is dropped.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens the store in a file, which is made when there is none.
    ///
    /// # Errors
    /// When the file cannot be read, or is none of this store's.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let (file, contents) = DataFile::open(path.as_ref())?;
        Ok(Self {
            contents: Mutex::new(contents),
            file: Some(file),
            changed: Notify::default(),
        })
    }

    fn contents(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A session's document as it is; an empty one when there is none under this root.
    pub(crate) fn document(&self, key: SessionKey<'_>) -> Result<Document> {
        let found = self.any_document(key.session)?;
        let is_named = |found: &Document| {
            let header = found.header.as_ref();
            header.is_some_and(|header| key.names(&header.session))
        };
        Ok(found.filter(is_named).unwrap_or_default())
    }

    /// A session's document, whatever its root.
    fn any_document(&self, session: &SessionId) -> Result<Option<Document>> {
        let found = self.contents().texts.get(session).map(|text| decode(text));
        Ok(found.transpose()?)
    }

    fn documents(&self) -> Result<Vec<Document>> {
        let contents = self.contents();
        let texts = contents.texts.values();
        texts.map(|text| Ok(decode(text)?)).collect()
    }

    fn headers(&self) -> Result<impl Iterator<Item = Header>> {
        let documents = self.documents()?.into_iter();
        Ok(documents.filter_map(|document| document.header.map(Arc::unwrap_or_clone)))
    }

    /// Makes every change of `work`, or none if it fails, and wakes those who wait.
    pub(crate) fn transact<T, E: From<StoreError>>(
        &self,
        work: impl FnOnce(&mut Transaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut contents = self.contents();
        let mut transaction = Transaction {
            contents: &contents,
            floor: contents.floor,
            open: BTreeMap::new(),
        };
        let output = work(&mut transaction)?;
        let Transaction { floor, open, .. } = transaction;
        let mut next = Contents {
            floor,
            ..contents.clone()
        };
        for (session, document) in open {
            if document.is_kept() {
                let text = encode(&document).map_err(StoreError::from)?;
                next.texts.insert(session, text);
            } else {
                next.texts.remove(&session);
            }
        }
        // No reader sees a commit before it is durable: first the file, then the memory.
        if let Some(file) = &self.file {
            file.replace(&next)?;
        }
        *contents = next;
        drop(contents);
        self.changed.ring();
        Ok(output)
    }
}

impl From<JsonStore> for Backend {
    fn from(store: JsonStore) -> Self {
        Self::new(store)
    }
}

impl fmt::Display for JsonStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let contents = self.contents();
        let mut texts = contents.texts.iter();
        texts.try_for_each(|(id, text)| writeln!(f, "{id}: {text}"))
    }
}

/// Judges a commit and writes it into a transaction.
fn commit(transaction: &mut Transaction<'_>, commit: Commit) -> Result<Receipt> {
    let root = commit.root.clone();
    let mut headers = Headers::new();
    for session in commit.sessions() {
        if let Some(header) = transaction.open(&session)?.header.clone() {
            headers.insert(session, header);
        }
    }
    // A store on a server of its own would ask that for the time: one clock judges leases.
    let now = commit.at;
    let floor = transaction.floor;
    let mut plan = plan(
        commit,
        &headers,
        now,
        StreamLimits::new(MAX_CHUNK_BYTES),
        || Ok(floor),
        |session, count| Ok(transaction.open(session)?.whole_steps(count)),
    )?;
    transaction.floor = floor.max(plan.floor.unwrap_or_default());
    for (session, row) in std::mem::take(&mut plan.rows) {
        transaction.open(&session)?.write(&session, row)?;
    }
    for (session, header) in plan.headers.iter() {
        transaction.open(session)?.header.clone_from(header);
    }
    let sequence = transaction.open(&root)?.commit_chunks(&mut plan);
    Ok(plan.receipt(&headers, sequence))
}

/// One item by its id, or a page of all.
fn lookup<T: Serialize, Id: PartialEq>(
    mut all: Vec<T>,
    which: Lookup<Id>,
    id: impl Fn(&T) -> &Id,
) -> Paged<T> {
    let page = match which {
        Lookup::Page(page) => page,
        Lookup::One(wanted) => {
            all.retain(|one| *id(one) == wanted);
            Page::ALL
        }
    };
    Paged::of(all.into_iter(), page)
}

#[async_trait]
impl SessionStore for JsonStore {
    async fn commit(&self, change: Commit) -> Result<Receipt> {
        self.transact(|transaction| commit(transaction, change))
    }

    async fn load(&self, session: SessionKey<'_>) -> Result<Option<Snapshot>> {
        Ok(self.document(session)?.snapshot())
    }

    async fn messages(&self, session: SessionKey<'_>, page: Page) -> Result<Paged<Message>> {
        Ok(Paged::of(
            self.document(session)?.messages.into_iter(),
            page,
        ))
    }

    async fn state_at(&self, session: SessionKey<'_>, version: u64) -> Result<Arc<Value>> {
        let document = self.document(session)?;
        if document.header.is_none() {
            let session = session.session.clone();
            return Err(StoreError::NotFound { session });
        }
        document.state(session.session, version)
    }

    async fn runs(
        &self,
        session: SessionKey<'_>,
        which: Lookup<RunId>,
    ) -> Result<Paged<RunRecord>> {
        Ok(lookup(self.document(session)?.runs, which, |run| &run.id))
    }

    async fn checkpoints(
        &self,
        session: SessionKey<'_>,
        which: Lookup<CheckpointId>,
    ) -> Result<Paged<Checkpoint>> {
        let mut all = self.document(session)?.checkpoints;
        all.reverse();
        Ok(lookup(all, which, |checkpoint| &checkpoint.id))
    }

    async fn answered(
        &self,
        session: SessionKey<'_>,
        which: Lookup<CallId>,
    ) -> Result<Paged<AnsweredCall>> {
        let all = self.document(session)?.answered.into_values();
        Ok(lookup(all.collect(), which, |one| &one.call))
    }

    async fn extras(&self, session: SessionKey<'_>) -> Result<SessionExtras> {
        let document = self.document(session)?;
        let mut staged: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (step, call, writes) in document.staged {
            staged
                .entry(step)
                .or_default()
                .push(Staged::new(call, writes));
        }
        let retired = document.retired.into_iter().collect();
        Ok(SessionExtras {
            children: document.children,
            staged,
            retired_call_ids: retired,
        })
    }

    async fn usage(&self, session: SessionKey<'_>, page: Page) -> Result<Paged<UsageEntry>> {
        Ok(Paged::of(self.document(session)?.usage.into_iter(), page))
    }

    async fn root_of(&self, session: &SessionId) -> Result<Option<SessionId>> {
        // Everything is in one place here, so what is stored is the directory.
        let found = self.any_document(session)?;
        let header = found.and_then(|found| found.header);
        let root = header.map(|header| header.session.root().clone());
        Ok(root.filter(|root| root != session))
    }

    async fn list(&self, query: &SessionQuery) -> Result<Paged<SessionState>> {
        let mut found: Vec<_> = self.headers()?.map(|header| header.session).collect();
        found.retain(|session| query.matches(session));
        found.sort_by(|a, b| (b.created_at, &b.session_id).cmp(&(a.created_at, &a.session_id)));
        Ok(Paged::of(found.into_iter(), query.page.capped()))
    }

    async fn pending(&self, query: &PendingQuery) -> Result<Paged<PendingCall>> {
        let mut documents = self.documents()?;
        documents.retain(|document| {
            let owner = document
                .header
                .as_ref()
                .and_then(|header| header.session.user_id.as_ref());
            query.user_id.is_none() || query.user_id.as_ref() == owner
        });
        let calls = documents
            .into_iter()
            .flat_map(|document| document.pending.into_values());
        let mut open: Vec<_> = calls.filter(|call| call.answer.is_none()).collect();
        if let Some(root) = &query.root {
            open.retain(|call| call.root_session_id == *root);
        }
        open.sort_by_key(|call| (call.created_at, call.session_id.clone()));
        Ok(Paged::of(open.into_iter(), query.page.capped()))
    }

    async fn due(&self, query: &DueQuery) -> Result<DuePage> {
        let now = query.at;
        let all: BTreeMap<_, _> = self
            .headers()?
            .map(|header| (header.session.session_id.clone(), Arc::new(header)))
            .collect();
        let places = all.iter().filter_map(|(id, header)| {
            let (since, _) = query.judge(header, now)?;
            Some(DueCursor::new(since, id.clone()))
        });
        let mut places: Vec<_> = places.collect();
        places.sort();
        query.page(now, [places], |id| Ok(all.get(id).cloned()))
    }

    async fn backlog(&self, at: Timestamp) -> Result<Backlog> {
        let mut backlog = Backlog::default();
        for document in self.documents()? {
            if let Some(header) = &document.header {
                backlog.add_session(header, at);
            }
            let calls = document.pending.values();
            for call in calls.filter(|call| call.answer.is_none()) {
                backlog.add_pending(call.created_at);
            }
        }
        Ok(backlog)
    }
}

#[async_trait]
impl WatchStops for JsonStore {
    async fn stopped(&self, session: SessionKey<'_>, run: &RunId) -> Result<StopRequest> {
        loop {
            // Listening begins before the read, so that no change in between is missed.
            let heard = self.changed.heard();
            let header = self.document(session)?.header;
            let header = header.ok_or_else(|| StoreError::NotFound {
                session: session.session.clone(),
            })?;
            let stop = header.stop.clone();
            if let Some(stop) = stop.filter(|stop| stop.run_id == *run) {
                return Ok(stop);
            }
            heard.await;
        }
    }
}
