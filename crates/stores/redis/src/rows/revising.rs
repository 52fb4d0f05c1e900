//! The rows that change what is stored already: what that is has to be read first.

use helix_agents_core::session::SubSessionRef;
use helix_agents_core::state::StepWrites;
use helix_agents_core::store::AnsweredCall;
use helix_agents_core::stored::{decode, encode};
use helix_agents_core::{CallId, CheckpointId, SessionId};
use serde_json::Value;

use super::{RowWriter, Work, calls_of};
use crate::documents::{StoredAnswered, StoredMessages};
use crate::failure::{Failure, Result};
use crate::keys::{SessionKeys, Shard};
use crate::remembered::KnownState;
use crate::reply::{self, Answers};
use crate::script::{Reads, words};
use crate::store::RedisStore;
use crate::{messages, states};

impl RowWriter<'_> {
    async fn read(&self, reads: Reads) -> Result<Answers> {
        self.store.read(self.shard, reads).await
    }

    pub(super) async fn truncate(&mut self, work: &mut Work, keep: usize) -> Result<()> {
        if !work.is_empty {
            let mut reads = Reads::default();
            messages::ask_from(&mut reads, &work.keys, keep);
            let mut answers = self.read(reads).await?;
            let mut used = Vec::new();
            for (at, mut row) in messages::rows_from(&mut answers)? {
                // What an earlier row of this commit has cut is not cut again.
                if at >= work.kept {
                    continue;
                }
                if at < keep {
                    let cut = row.split_off((keep - at).min(row.len()));
                    if cut.is_empty() {
                        continue;
                    }
                    used.extend(calls_of(&cut));
                    let (key, score) = (work.keys.messages.as_str(), at.to_string());
                    let text = messages::member(at, &encode(&StoredMessages(row))?);
                    let same = score.clone();
                    self.transaction
                        .command(words!["ZREMRANGEBYSCORE", key, same.clone(), same]);
                    self.transaction.command(words!["ZADD", key, score, text]);
                } else {
                    used.extend(calls_of(&row));
                }
            }
            self.retire(work, &used);
        }
        let cut: Vec<_> = work.calls.extract_if(.., |(at, _)| *at >= keep).collect();
        self.retire(work, cut.iter().flat_map(|(_, calls)| calls));
        work.kept = work.kept.min(keep);
        let key = work.keys.messages.as_str();
        self.transaction
            .command(words!["ZREMRANGEBYSCORE", key, keep.to_string(), "+inf"]);
        Ok(())
    }

    pub(super) async fn write_state(
        &mut self,
        session: &SessionId,
        work: &mut Work,
        version: u64,
        writes: StepWrites,
    ) -> Result<()> {
        let before = version.saturating_sub(1);
        let mut known = work.state.take();
        if known.is_none() && !work.is_empty {
            let generation = self
                .places
                .get(session)
                .map(|place| place.generation.as_str());
            let remembered = &self.store.inner.remembered;
            known = remembered.take_state(self.shard, session, generation.unwrap_or_default());
        }
        let state = match known.filter(|known| known.version == before) {
            Some(state) => state,
            None => {
                let fields = states::fields(&work.extra.state, before);
                let mut reads = Reads::default();
                reads.fields(&work.keys.documents, fields.iter().map(String::as_str));
                let texts = reply::texts(self.read(reads).await?.next()?)?;
                let value = states::rebuilt(texts)?;
                KnownState {
                    version: before,
                    bytes: work.extra.state.whole + work.extra.state.writes,
                    value: value.ok_or_else(|| states::no_version(session, before))?,
                }
            }
        };
        let place = &mut work.extra.state;
        let (text, state) = states::applied(place, session, state, version, writes)?;
        work.state = Some(state);
        self.transaction
            .set(&work.keys.documents, &states::field(version), text);
        Ok(())
    }

    pub(super) async fn state_at(
        &self,
        session: &SessionId,
        work: &Work,
        version: u64,
    ) -> Result<Value> {
        if let Some(state) = work.state.as_ref().filter(|state| state.version == version) {
            return Ok(state.value.clone());
        }
        let found = match work.is_empty {
            true => None,
            false => {
                let documents = &work.keys.documents;
                self.store
                    .stored_state(self.shard, documents, version)
                    .await?
            }
        };
        found.ok_or_else(|| states::no_version(session, version).into())
    }

    pub(super) async fn drop_checkpoints(
        &mut self,
        work: &mut Work,
        after: Option<CheckpointId>,
    ) -> Result<()> {
        let key = work.keys.checkpoints.as_str();
        let known = after
            .as_ref()
            .and_then(|after| work.checkpoints.get(after).cloned());
        let mut from = known;
        if !work.is_empty {
            let mut reads = Reads::default();
            if let Some(after) = &after {
                reads.ask(words!["ZSCORE", key, after.as_str()]);
            }
            reads.ask(words!["ZRANGE", key, "0", "-1", "WITHSCORES"]);
            let mut answers = self.read(reads).await?;
            if after.is_some() {
                let score = reply::text(answers.next()?)?;
                from = from.or(score);
            }
            let listed = reply::pairs(answers.next()?)?;
            let bound = from.as_ref().and_then(|from| from.parse::<f64>().ok());
            let dropped = listed.into_iter().filter(|(_, score)| {
                let score = score.parse::<f64>().ok();
                bound.is_none_or(|bound| score.is_some_and(|score| score > bound))
            });
            // A document that this commit wrote again is found by its place only.
            let dropped = dropped.filter(|(id, _)| {
                CheckpointId::new(id).is_ok_and(|id| !work.checkpoints.contains_key(&id))
            });
            self.remove(work, dropped.map(|(id, _)| format!("c:{id}")));
        }
        let from = from.map_or_else(|| "-inf".to_owned(), |from| format!("({from}"));
        let key = work.keys.checkpoints.as_str();
        self.transaction
            .command(words!["ZREMRANGEBYSCORE", key, from, "+inf"]);
        Ok(())
    }

    pub(super) async fn answered(&mut self, work: &mut Work, answered: AnsweredCall) -> Result<()> {
        let (call, field) = (answered.call.clone(), format!("a:{}", answered.call));
        let mut earlier = work.answered.get(&call).cloned();
        if earlier.is_none() && !work.is_empty {
            let mut reads = Reads::default();
            reads.ask(words!["ZSCORE", work.keys.answered.as_str(), call.as_str()]);
            reads.fields(&work.keys.documents, [field.as_str()]);
            let mut answers = self.read(reads).await?;
            let is_there = reply::text(answers.next()?)?.is_some();
            let text = reply::texts(answers.next()?)?.into_iter().flatten().next();
            if let Some(text) = text.filter(|_| is_there) {
                earlier = Some(decode::<StoredAnswered>(&text)?.0);
            }
        }
        if earlier.is_none_or(|earlier| answered.replaces(&earlier)) {
            let key = work.keys.answered.as_str();
            self.transaction
                .command(words!["ZADD", key, "0", call.as_str()]);
            self.document(work, &field, &StoredAnswered(answered.clone()))?;
            work.answered.insert(call, answered);
        }
        Ok(())
    }

    pub(super) async fn unlink(&mut self, work: &mut Work, calls: &[CallId]) -> Result<()> {
        let mut gone: Vec<SessionId> = Vec::new();
        if !work.is_empty {
            let children = self.store.stored_children(self.shard, &work.keys).await?;
            let unlinked = children
                .into_iter()
                .filter(|child| calls.contains(&child.tool_call_id));
            gone.extend(unlinked.map(|child| child.session_id));
        }
        let here = work
            .children
            .extract_if(.., |(_, call)| calls.contains(call));
        gone.extend(here.map(|(session, _)| session));
        self.remove(work, gone.iter().map(|session| format!("k:{session}")));
        let gone = gone.iter().map(SessionId::as_str);
        self.transaction.for_each("ZREM", &work.keys.children, gone);
        Ok(())
    }
}

impl RedisStore {
    /// Reads a version of a state; `None` if it does not exist.
    pub(crate) async fn stored_state(
        &self,
        shard: Shard,
        documents: &str,
        version: u64,
    ) -> Result<Option<Value>> {
        let mut reads = Reads::default();
        reads.fields(documents, [states::field(version).as_str()]);
        let texts = reply::texts(self.read(shard, reads).await?.next()?)?;
        let Some(text) = texts.into_iter().flatten().next() else {
            return Ok(None);
        };
        let Some(from) = states::begins(&text)? else {
            return states::rebuilt([Some(text)]);
        };
        let fields: Vec<_> = (from..=version).map(states::field).collect();
        let mut reads = Reads::default();
        reads.fields(documents, fields.iter().map(String::as_str));
        states::rebuilt(reply::texts(self.read(shard, reads).await?.next()?)?)
    }

    /// Reads the references to children, oldest first.
    pub(crate) async fn stored_children(
        &self,
        shard: Shard,
        keys: &SessionKeys,
    ) -> Result<Vec<SubSessionRef>> {
        let mut reads = Reads::default();
        reads.ask(words!["ZRANGE", keys.children.as_str(), "0", "-1"]);
        let ids = reply::present(self.read(shard, reads).await?.next()?)?;
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let fields: Vec<_> = ids.iter().map(|id| format!("k:{id}")).collect();
        let mut reads = Reads::default();
        reads.fields(&keys.documents, fields.iter().map(String::as_str));
        let texts = reply::present(self.read(shard, reads).await?.next()?)?;
        let children = texts.iter().map(|text| Ok(decode(text)?));
        children.collect::<Result<_, Failure>>()
    }
}
