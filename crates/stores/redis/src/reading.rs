//! Reads of one session, as of one instant.

use helix_agents_core::session::{OpenStep, PendingCall, SessionState};
use helix_agents_core::store::{
    AnsweredCall, Lookup, Page, Paged, SessionExtras, SessionKey, Snapshot, Staged,
};
use helix_agents_core::stored::{Stored, decode};
use helix_agents_core::usage::UsageEntry;
use helix_agents_core::{CallId, SessionId};
use serde::Serialize;

use crate::documents::{StoredAnswer, StoredAnswered, StoredOpenCall};
use crate::failure::{Failure, Result};
use crate::head::Head;
use crate::keys::{SessionKeys, Shard};
use crate::reply::{self, Answers};
use crate::rows::staged_field;
use crate::script::{Reads, words};
use crate::store::RedisStore;
use crate::{keys, states};

/// A session whose header is known, perhaps from before: each read finds out whether it still is the same.
pub(crate) struct Session<'a> {
    pub(crate) store: &'a RedisStore,
    pub(crate) shard: Shard,
    pub(crate) name: &'a SessionId,
    pub(crate) keys: SessionKeys,
    pub(crate) head: Head,
    pub(crate) generation: String,
}

impl Session<'_> {
    /// Reads from the session; `None` if it has changed.
    pub(crate) async fn read(&self, asked: Reads) -> Result<Option<Answers>> {
        let mut reads = Reads::default();
        reads.generation(&self.keys.head);
        reads.0.extend(asked.0);
        let mut answers = self.store.read(self.shard, reads).await?;
        let generation = reply::text(answers.next()?)?.unwrap_or_default();
        if generation == self.generation {
            return Ok(Some(answers));
        }
        self.store.inner.remembered.forget(self.shard, self.name);
        Ok(None)
    }
}

impl RedisStore {
    /// Finds a session under its root; `None` if it does not exist.
    pub(crate) async fn session<'a>(
        &'a self,
        key: SessionKey<'a>,
        fresh: bool,
    ) -> Result<Option<Session<'a>>> {
        let shard = self.keys().shard(key.root.as_str());
        let remembered = match fresh {
            true => None,
            false => self.inner.remembered.place(shard, key.session),
        };
        let place = match remembered.filter(|place| place.named(key).is_some()) {
            Some(place) => place,
            None => self.place(shard, key.session).await?,
        };
        let Some(head) = place.named(key).cloned() else {
            return Ok(None);
        };
        Ok(Some(Session {
            store: self,
            shard,
            name: key.session,
            keys: self.keys().session(shard, key.session),
            head,
            generation: place.generation,
        }))
    }
}

/// Reads of a session, again and again until it does not change meanwhile.
macro_rules! of_session {
    ($store:expr, $key:expr, |$session:ident| $read:expr, else $none:expr) => {{
        let mut attempts = 0;
        loop {
            let Some($session) = $store.session($key, attempts > 0).await? else {
                break $none;
            };
            if let Some(found) = $read {
                break Ok(found);
            }
            attempts += 1;
            if attempts == crate::commit::ATTEMPTS {
                break Err(crate::failure::Failure::busy().into());
            }
        }
    }};
}
pub(crate) use of_session;

fn one<T: Stored>(text: Option<String>) -> Result<Option<T>> {
    Ok(text.map(|text| decode(&text)).transpose()?)
}

/// Reads all that a snapshot has.
pub(crate) async fn snapshot(session: &Session<'_>) -> Result<Option<Snapshot>> {
    let Head { header, extra } = &session.head;
    let documents = session.keys.documents.as_str();
    let mut fields = states::fields(&extra.state, header.state_version);
    let versions = fields.len();
    let run = header.run.as_ref().map(|latest| keys::run(&latest.id));
    fields.extend(run.clone());
    for call in extra.pending.keys() {
        fields.extend([format!("p:{call}"), format!("pa:{call}")]);
    }
    let mut reads = Reads::default();
    reads.fields(documents, fields.iter().map(String::as_str));
    let mut open = vec!["s".to_owned()];
    open.extend(extra.open_calls.iter().map(|call| format!("c:{call}")));
    reads.fields(&session.keys.open, open.iter().map(String::as_str));
    if !extra.open_calls.is_empty() {
        let mut words = words!["ZMSCORE", session.keys.answered.as_str()];
        words.extend(extra.open_calls.iter().map(|call| call.as_str().into()));
        reads.ask(words);
    }
    let Some(mut answers) = session.read(reads).await? else {
        return Ok(None);
    };
    let mut texts = reply::texts(answers.next()?)?.into_iter();
    let mut state: SessionState = header.session.clone();
    let custom = states::rebuilt(texts.by_ref().take(versions))?;
    let custom = custom.ok_or_else(|| states::no_version(session.name, header.state_version))?;
    state.custom_state = custom.into();
    let run = if run.is_some() {
        one(texts.next().flatten())?
    } else {
        None
    };
    for call in extra.pending.keys() {
        let pending = one::<PendingCall>(texts.next().flatten())?;
        let answer = one::<StoredAnswer>(texts.next().flatten())?;
        if let Some(mut pending) = pending {
            pending.answer = answer.map(|answer| answer.0).or(pending.answer);
            state
                .pending_client_tool_calls
                .insert(call.clone(), pending);
        }
    }
    let mut texts = reply::texts(answers.next()?)?.into_iter();
    let mut open_step: Option<OpenStep> = one(texts.next().flatten())?;
    for (call, text) in extra.open_calls.iter().zip(texts) {
        if let (Some(step), Some(open)) = (&mut open_step, one::<StoredOpenCall>(text)?) {
            step.set_call(call, open.0);
        }
    }
    let answered = match extra.open_calls.is_empty() {
        true => Vec::new(),
        false => reply::texts(answers.next()?)?,
    };
    let is_answered = |call: &CallId| {
        let place = extra.open_calls.iter().position(|open| open == call);
        let found = place.and_then(|place| answered.get(place));
        Ok::<_, Failure>(found.is_some_and(Option::is_some))
    };
    let header = (**header).clone();
    Ok(Some(Snapshot::new(
        header,
        state,
        run,
        open_step,
        is_answered,
    )?))
}

/// A list of ids with documents.
pub(crate) struct List<'a> {
    /// The sorted set with the ids.
    pub(crate) ids: &'a str,
    /// What the names of the documents begin with.
    pub(crate) prefix: &'static str,
    pub(crate) last_first: bool,
}

/// Reads documents of a list, by id or a page of them; `None` if the session has changed meanwhile.
pub(crate) async fn listed<T: Stored + Serialize, Id: AsRef<str>>(
    session: &Session<'_>,
    list: List<'_>,
    which: &Lookup<Id>,
) -> Result<Option<Paged<T>>> {
    let mut reads = Reads::default();
    let page = match which {
        Lookup::One(id) => {
            reads.ask(words!["ZSCORE", list.ids, id.as_ref()]);
            Page::ALL
        }
        Lookup::Page(page) => {
            let command = if list.last_first {
                "ZREVRANGE"
            } else {
                "ZRANGE"
            };
            let (from, to) = bounds(*page);
            reads.ask(words!["ZCARD", list.ids]);
            reads.ask(words![command, list.ids, from, to]);
            *page
        }
    };
    let Some(mut answers) = session.read(reads).await? else {
        return Ok(None);
    };
    let first = answers.next()?;
    let (total, ids) = match which {
        Lookup::One(id) => match reply::text(first)? {
            Some(_) => (1, vec![id.as_ref().to_owned()]),
            None => (0, Vec::new()),
        },
        Lookup::Page(page) => {
            let mut ids = reply::present(answers.next()?)?;
            ids.truncate(page.limit);
            (size(reply::number(first)?), ids)
        }
    };
    if ids.is_empty() {
        return Ok(Some(Paged::new(Vec::new(), total, page)));
    }
    let fields: Vec<_> = ids
        .iter()
        .map(|id| format!("{}{id}", list.prefix))
        .collect();
    let mut reads = Reads::default();
    reads.fields(&session.keys.documents, fields.iter().map(String::as_str));
    let Some(mut answers) = session.read(reads).await? else {
        return Ok(None);
    };
    let texts = reply::present(answers.next()?)?;
    Ok(Some(fitting(texts, total, page)?))
}

/// Reads when calls were answered.
pub(crate) async fn answered(
    session: &Session<'_>,
    which: &Lookup<CallId>,
) -> Result<Option<Paged<AnsweredCall>>> {
    let list = List {
        ids: &session.keys.answered,
        prefix: "a:",
        last_first: false,
    };
    let found = listed::<StoredAnswered, _>(session, list, which).await?;
    Ok(found.map(|page| page.map(|one| one.0)))
}

/// Reads a page of usage entries.
pub(crate) async fn usage(session: &Session<'_>, page: Page) -> Result<Option<Paged<UsageEntry>>> {
    let (key, (from, to)) = (session.keys.usage.as_str(), bounds(page));
    let mut reads = Reads::default();
    reads.ask(words!["LLEN", key]);
    reads.ask(words!["LRANGE", key, from, to]);
    let Some(mut answers) = session.read(reads).await? else {
        return Ok(None);
    };
    let total = size(reply::number(answers.next()?)?);
    let mut texts = reply::present(answers.next()?)?;
    texts.truncate(page.limit);
    Ok(Some(fitting(texts, total, page)?))
}

/// Reads references to children, staged writes and retired call ids.
pub(crate) async fn extras(session: &Session<'_>) -> Result<Option<SessionExtras>> {
    let (keys, staged) = (&session.keys, &session.head.extra.staged);
    let mut reads = Reads::default();
    reads.ask(words!["SMEMBERS", keys.retired.as_str()]);
    if !staged.is_empty() {
        let fields: Vec<_> = staged
            .iter()
            .map(|(step, call)| staged_field(step, call))
            .collect();
        reads.fields(&keys.documents, fields.iter().map(String::as_str));
    }
    let Some(mut answers) = session.read(reads).await? else {
        return Ok(None);
    };
    let mut extras = SessionExtras::default();
    let mut retired = reply::present(answers.next()?)?;
    retired.sort();
    extras.retired_call_ids = retired.iter().map(CallId::new).collect::<Result<_, _>>()?;
    if !staged.is_empty() {
        let texts = reply::texts(answers.next()?)?;
        for ((step, call), text) in staged.iter().zip(texts) {
            let writes =
                one(text)?.ok_or_else(|| Failure::corrupt("writes", "they are missing"))?;
            let all = extras.staged.entry(step.clone()).or_default();
            all.push(Staged::new(call.clone(), writes));
        }
    }
    let list = List {
        ids: &keys.children,
        prefix: "k:",
        last_first: false,
    };
    let all = Lookup::<SessionId>::Page(Page::ALL);
    let Some(children) = listed(session, list, &all).await? else {
        return Ok(None);
    };
    extras.children = children.items;
    Ok(Some(extras))
}

/// The first and the last place of a page, as Redis counts; with nothing wanted the list is empty.
fn bounds(page: Page) -> (String, String) {
    let signed = |place: usize| i64::try_from(place).unwrap_or(i64::MAX);
    let from = signed(page.offset);
    let to = from.saturating_add(signed(page.limit)).saturating_sub(1);
    (from.to_string(), to.max(0).to_string())
}

pub(crate) fn size(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn fitting<T: Stored + Serialize>(
    texts: Vec<String>,
    total: usize,
    page: Page,
) -> Result<Paged<T>> {
    let mut room = helix_agents_core::store::PageRoom::of(page);
    let mut items = Vec::new();
    for text in texts {
        let item = decode(&text)?;
        if !room.takes(&item) {
            break;
        }
        items.push(item);
    }
    Ok(Paged::new(items, total, page))
}

/// Nothing of a session that does not exist.
pub(crate) fn none<T>(page: Page) -> Paged<T> {
    Paged::new(Vec::new(), 0, page)
}
