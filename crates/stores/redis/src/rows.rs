//! Writes the rows and headers of a plan into a transaction.

mod revising;

use std::collections::BTreeMap;
use std::sync::Arc;

use helix_agents_core::message::Message;
use helix_agents_core::session::{Answer, OpenStep, PendingCall};
use helix_agents_core::store::{AnsweredCall, Header, PerSession, Row, Unstage};
use helix_agents_core::stored::{Stored, encode};
use helix_agents_core::{CallId, CheckpointId, SessionId, StepId};
use serde_json::Value;

use crate::documents::{StoredAnswer, StoredMessages, StoredOpenCall};
use crate::failure::Result;
use crate::head::{Extra, Head, Place, Waiting};
use crate::index::Indexes;
use crate::keys::{SessionKeys, Shard};
use crate::remembered::KnownState;
use crate::script::{Transaction, words};
use crate::store::RedisStore;
use crate::{keys, messages, states};

/// Turns rows into commands. Some rows need a look at what is stored: the transaction compares the generations of
/// all sessions, so what was seen is still so when it is made.
pub(crate) struct RowWriter<'a> {
    pub(crate) store: &'a RedisStore,
    pub(crate) shard: Shard,
    pub(crate) root: &'a SessionId,
    pub(crate) places: &'a BTreeMap<SessionId, Place>,
    pub(crate) transaction: &'a mut Transaction,
    pub(crate) work: BTreeMap<SessionId, Work>,
}

/// A session under way.
pub(crate) struct Work {
    keys: SessionKeys,
    extra: Extra,
    /// Whether nothing of it was stored before this commit, or all of that is deleted by now.
    is_empty: bool,
    state: Option<KnownState>,
    /// Calls of messages of this commit, with the position of the row.
    calls: Vec<(usize, Vec<CallId>)>,
    /// How many messages that were stored are still there.
    kept: usize,
    children: Vec<(SessionId, CallId)>,
    checkpoints: BTreeMap<CheckpointId, String>,
    answered: BTreeMap<CallId, AnsweredCall>,
}

/// The field with what a call has staged in a step.
pub(crate) fn staged_field(step: &StepId, call: &CallId) -> String {
    format!("g:{step}/{call}")
}

fn calls_of(messages: &[Message]) -> Vec<CallId> {
    let replies = messages.iter().filter_map(|message| match message {
        Message::Assistant(reply) => Some(reply),
        _ => None,
    });
    replies
        .flat_map(|reply| reply.tool_calls().map(|call| call.id.clone()))
        .collect()
}

impl RowWriter<'_> {
    fn take(&mut self, session: &SessionId) -> Work {
        self.work.remove(session).unwrap_or_else(|| {
            let head = self
                .places
                .get(session)
                .and_then(|place| place.head.as_ref());
            Work {
                keys: self.store.keys().session(self.shard, session),
                extra: head.map(|head| (*head.extra).clone()).unwrap_or_default(),
                is_empty: head.is_none(),
                state: None,
                calls: Vec::new(),
                kept: usize::MAX,
                children: Vec::new(),
                checkpoints: BTreeMap::new(),
                answered: BTreeMap::new(),
            }
        })
    }

    /// Writes the rows of a plan, in their order. `headers` are the new ones.
    pub(crate) async fn rows(
        &mut self,
        rows: Vec<(SessionId, Row)>,
        headers: &PerSession<Option<Arc<Header>>>,
    ) -> Result<()> {
        for (at, (session, row)) in rows.into_iter().enumerate() {
            let header = headers.get(&session).and_then(Option::as_ref);
            // A number that grows with each commit of a session, and with each row of a commit.
            let moment = header.map_or(0, |header| header.session.version);
            let moment = (moment << 16) | at as u64;
            let mut work = self.take(&session);
            let written = self
                .row(&session, &mut work, row, &moment.to_string())
                .await;
            self.work.insert(session, work);
            written?;
        }
        Ok(())
    }

    /// Writes a document of a session under the name that it has there.
    fn document(&mut self, work: &Work, field: &str, value: &impl Stored) -> Result<()> {
        self.transaction
            .set(&work.keys.documents, field, encode(value)?);
        Ok(())
    }

    fn remove(&mut self, work: &Work, fields: impl IntoIterator<Item = String>) {
        self.transaction
            .for_each("HDEL", &work.keys.documents, fields);
    }

    /// Writes a row. No `_` arm: a kind that is added later must not be lost here.
    #[deny(clippy::wildcard_enum_match_arm)]
    async fn row(
        &mut self,
        session: &SessionId,
        work: &mut Work,
        row: Row,
        moment: &str,
    ) -> Result<()> {
        match row {
            Row::DeleteAll => self.delete(session, work),
            Row::Messages { at, messages } => {
                work.calls.push((at, calls_of(&messages)));
                let text = messages::member(at, &encode(&StoredMessages(messages))?);
                let key = work.keys.messages.as_str();
                self.transaction
                    .command(words!["ZADD", key, at.to_string(), text]);
            }
            Row::TruncateMessages { keep } => self.truncate(work, keep).await?,
            Row::StateSet { version, value } => self.set_state(work, version, value)?,
            Row::StateWrites { version, writes } => {
                self.write_state(session, work, version, writes).await?;
            }
            Row::StateRewind { version, to } => {
                let value = self.state_at(session, work, to).await?;
                self.set_state(work, version, Arc::new(value))?;
            }
            Row::Run(run) => {
                self.document(work, &keys::run(&run.id), &*run)?;
                let latest = self.header(session).and_then(|header| header.run.as_ref());
                let is_listed = !work.is_empty && latest.is_some_and(|latest| latest.id == run.id);
                if !is_listed {
                    let key = work.keys.runs.as_str();
                    self.transaction
                        .command(words!["ZADD", key, "NX", moment, run.id.as_str()]);
                }
            }
            Row::Checkpoint(checkpoint) => {
                self.document(work, &format!("c:{}", checkpoint.id), &checkpoint)?;
                let (key, id) = (work.keys.checkpoints.as_str(), checkpoint.id.as_str());
                self.transaction.command(words!["ZADD", key, moment, id]);
                work.checkpoints.insert(checkpoint.id, moment.to_owned());
            }
            Row::DropCheckpoints { after } => self.drop_checkpoints(work, after).await?,
            Row::OpenStep(step) => self.open_step(session, work, step.as_deref())?,
            Row::OpenCall(call, open) => {
                let text = encode(&StoredOpenCall(*open))?;
                self.transaction
                    .set(&work.keys.open, &format!("c:{call}"), text);
            }
            Row::Pending(call) => self.pending(work, &call)?,
            Row::Answer(call, answer) => self.answer(work, &call, *answer)?,
            Row::RemovePending(call) => {
                work.extra.pending.remove(&call);
                self.remove(work, [format!("p:{call}"), format!("pa:{call}")]);
            }
            Row::Answered(answered) => self.answered(work, answered).await?,
            Row::ForgetAnswered(calls) => {
                self.remove(work, calls.iter().map(|call| format!("a:{call}")));
                work.answered.retain(|call, _| !calls.contains(call));
                let calls = calls.iter().map(CallId::as_str);
                self.transaction
                    .for_each("ZREM", &work.keys.answered, calls);
            }
            Row::Child(child) => {
                self.document(work, &format!("k:{}", child.session_id), &*child)?;
                let (key, id) = (work.keys.children.as_str(), child.session_id.as_str());
                self.transaction
                    .command(words!["ZADD", key, "NX", moment, id]);
                work.children.push((child.session_id, child.tool_call_id));
            }
            // Without a place in the list the document is not found.
            Row::UpdateChild(child) => {
                self.document(work, &format!("k:{}", child.session_id), &*child)?;
            }
            Row::Unlink(calls) => self.unlink(work, &calls).await?,
            Row::Usage(entry) => {
                let key = work.keys.usage.as_str();
                self.transaction
                    .command(words!["RPUSH", key, encode(&entry)?]);
            }
            Row::Stage(step, call, writes) => {
                self.document(work, &staged_field(&step, &call), &writes)?;
                let place = (step, call);
                if !work.extra.staged.contains(&place) {
                    work.extra.staged.push(place);
                }
            }
            Row::Unstage(Unstage::Step(step)) => self.unstage(work, |have| *have != step),
            Row::Unstage(Unstage::AllBut(keep)) => {
                self.unstage(work, |have| Some(have) == keep.as_ref());
            }
            Row::RetireCallIds(calls) => self.retire(work, calls.iter()),
        }
        Ok(())
    }

    fn retire<'c>(&mut self, work: &Work, calls: impl IntoIterator<Item = &'c CallId>) {
        let calls = calls.into_iter().map(CallId::as_str);
        self.transaction.for_each("SADD", &work.keys.retired, calls);
    }

    fn delete(&mut self, session: &SessionId, work: &mut Work) {
        self.transaction
            .command(words!["UNLINK", work.keys.head.as_str()]);
        self.transaction
            .for_each("UNLINK", &work.keys.head, work.keys.content());
        if session == self.root {
            let stream = self.store.keys().stream(self.shard, session);
            let others = [stream.entries.as_str(), stream.rests.as_str()];
            self.transaction.for_each("UNLINK", &stream.info, others);
        }
        work.extra = Extra::default();
        work.is_empty = true;
        work.state = None;
        work.calls.clear();
        work.children.clear();
        work.checkpoints.clear();
        work.answered.clear();
    }

    fn set_state(&mut self, work: &mut Work, version: u64, value: Arc<Value>) -> Result<()> {
        let (text, state) = states::whole(&mut work.extra.state, version, value)?;
        work.state = Some(state);
        self.transaction
            .set(&work.keys.documents, &states::field(version), text);
        Ok(())
    }

    /// The header before this commit.
    fn header(&self, session: &SessionId) -> Option<&Header> {
        let place = self.places.get(session);
        place.and_then(Place::header).map(Arc::as_ref)
    }

    fn open_step(
        &mut self,
        session: &SessionId,
        work: &mut Work,
        step: Option<&OpenStep>,
    ) -> Result<()> {
        let header = self.header(session);
        let was_open = header.is_none_or(|header| header.mark.open.is_some());
        if was_open || work.is_empty || !work.extra.open_calls.is_empty() {
            self.transaction
                .command(words!["UNLINK", work.keys.open.as_str()]);
        }
        work.extra.open_calls.clear();
        if let Some(step) = step {
            self.transaction.set(&work.keys.open, "s", encode(step)?);
            let calls = step.message.tool_calls().map(|call| call.id.clone());
            work.extra.open_calls.extend(calls);
        }
        Ok(())
    }

    fn pending(&mut self, work: &mut Work, call: &PendingCall) -> Result<()> {
        let id = &call.tool_call_id;
        self.document(work, &format!("p:{id}"), call)?;
        self.remove(work, [format!("pa:{id}")]);
        let waiting = Waiting {
            since: call.created_at,
            is_answered: call.answer.is_some(),
        };
        work.extra.pending.insert(id.clone(), waiting);
        Ok(())
    }

    fn answer(&mut self, work: &mut Work, call: &CallId, answer: Answer) -> Result<()> {
        if let Some(waiting) = work.extra.pending.get_mut(call) {
            waiting.is_answered = true;
            self.document(work, &format!("pa:{call}"), &StoredAnswer(answer))?;
        }
        Ok(())
    }

    fn unstage(&mut self, work: &mut Work, keeps: impl Fn(&StepId) -> bool) {
        let gone: Vec<_> = work
            .extra
            .staged
            .extract_if(.., |(step, _)| !keeps(step))
            .collect();
        self.remove(
            work,
            gone.iter().map(|(step, call)| staged_field(step, call)),
        );
    }

    /// Writes the new headers, and returns what is stored then, with the states that are known.
    pub(crate) fn headers(
        &mut self,
        headers: &PerSession<Option<Arc<Header>>>,
        generation: &str,
    ) -> Result<Vec<(SessionId, Place, Option<KnownState>)>> {
        let mut stored = Vec::new();
        for (session, header) in headers.iter() {
            let work = self.take(session);
            let place = self.places.get(session);
            let before = place.and_then(|place| place.head.as_ref());
            let key = work.keys.head.as_str();
            let extra = match before {
                Some(before) if *before.extra == work.extra => Arc::clone(&before.extra),
                _ => Arc::new(work.extra),
            };
            let after = header.as_ref().map(|header| Head {
                header: Arc::clone(header),
                extra: Arc::clone(&extra),
            });
            let indexes = Indexes {
                keys: self.store.keys(),
                shard: self.shard,
            };
            indexes.update(self.transaction, before, after.as_ref())?;
            match &after {
                None => self.transaction.command(words!["UNLINK", key]),
                Some(after) => {
                    let header = encode(&*after.header)?;
                    let mut words = words!["HSET", key, "g", generation, "d", header];
                    let same = before.is_some_and(|before| Arc::ptr_eq(&before.extra, &extra));
                    if !same || work.is_empty {
                        words.extend(words!["x", encode(&*extra)?]);
                    }
                    self.transaction.command(words);
                    if place
                        .is_some_and(|place| place.head.is_none() && !place.generation.is_empty())
                    {
                        self.transaction.command(words!["PERSIST", key]);
                    }
                }
            }
            let generation = after
                .as_ref()
                .map_or_else(String::new, |_| generation.to_owned());
            let place = Place {
                generation,
                head: after,
            };
            stored.push((session.clone(), place, work.state));
        }
        Ok(stored)
    }
}
