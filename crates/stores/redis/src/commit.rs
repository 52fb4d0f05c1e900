//! A commit: reads what is not remembered, asks `plan`, and writes the plan by one command.

use std::cell::RefCell;
use std::collections::BTreeMap;

use helix_agents_core::SessionId;
use helix_agents_core::store::{
    Change, Commit, Fence, Headers, Plan, Precondition, Receipt, Row, SessionKey, StoreError, plan,
};
use helix_agents_core::stream::StreamStatus;
use helix_agents_core::time::Timestamp;

use crate::changes::Topic;
use crate::failure::{Failure, Result};
use crate::head::{Floor, Place};
use crate::index::Indexes;
use crate::keys::Shard;
use crate::messages;
use crate::rows::RowWriter;
use crate::script::{Transaction, words};
use crate::store::{RedisStore, Written};
use crate::streams::COMMITTED;

/// How often an operation is tried when another writer is always faster. Of all who write at the same time one
/// succeeds, so nobody tries as often.
pub(crate) const ATTEMPTS: usize = 256;

/// How often a commit is planned anew after a failure that a change meanwhile may explain.
const DOUBTS: usize = 2;

/// What is known when a commit is judged.
struct Known {
    places: BTreeMap<SessionId, Place>,
    /// `None` if it was not read.
    floor: Option<Floor>,
    /// How many messages stay, for truncations that were asked for.
    kept: BTreeMap<(SessionId, usize), usize>,
}

/// What `plan` asked for that is not known yet.
#[derive(Default)]
struct Missing {
    floor: bool,
    kept: Option<(SessionId, usize)>,
}

/// What became of an attempt.
enum Attempt {
    Done(Receipt),
    /// What it was planned on has changed.
    Changed,
    /// It was refused by the headers.
    Refused(StoreError),
    /// It could not be carried out, perhaps because something was changed after the headers were read.
    Failed(Failure),
}

impl RedisStore {
    /// The places of sessions, remembered or read.
    pub(crate) async fn known_places(
        &self,
        shard: Shard,
        sessions: &[SessionId],
        fresh: bool,
    ) -> Result<(Vec<Place>, Option<Floor>, bool)> {
        if !fresh {
            let remembered = &self.inner.remembered;
            let known = sessions
                .iter()
                .map(|session| remembered.place(shard, session));
            if let Some(places) = known.collect::<Option<Vec<_>>>() {
                return Ok((places, None, true));
            }
        }
        let (places, floor) = self.places(shard, sessions).await?;
        Ok((places, Some(floor), false))
    }

    /// Makes a commit.
    pub(crate) async fn make(&self, commit: Commit) -> Result<Receipt> {
        let sessions = commit.sessions();
        let shard = self.keys().shard(commit.root.as_str());
        let _turn = self.inner.turns.take(&commit.root).await;
        let (mut fresh, mut doubts) = (false, 0);
        for _ in 0..ATTEMPTS {
            let (places, floor, is_remembered) = self.known_places(shard, &sessions, fresh).await?;
            let known = Known {
                places: sessions.iter().cloned().zip(places).collect(),
                floor,
                kept: BTreeMap::new(),
            };
            match self.attempt(shard, commit.clone(), known).await? {
                Attempt::Done(receipt) => return Ok(receipt),
                Attempt::Refused(refused) if !is_remembered => return Err(refused.into()),
                Attempt::Failed(failure) if !is_remembered && doubts == DOUBTS => {
                    return Err(failure);
                }
                // What is remembered may be old.
                Attempt::Changed | Attempt::Refused(_) => {}
                Attempt::Failed(_) => doubts += usize::from(!is_remembered),
            }
            fresh = true;
        }
        Err(Failure::busy())
    }

    async fn attempt(&self, shard: Shard, commit: Commit, mut known: Known) -> Result<Attempt> {
        let headers: Headers = known
            .places
            .iter()
            .filter_map(|(session, place)| Some((session.clone(), place.header()?.clone())))
            .collect();
        let mut conditions = commit.preconditions.iter();
        let now = match conditions.any(|(_, one)| *one == Precondition::LeaseFree) {
            true => self.measured_now(shard).await?,
            false => self.now(),
        };
        let mut plan = match self.plan(shard, &commit, &headers, now, &mut known).await? {
            Ok(plan) => plan,
            Err(refused) => return Ok(Attempt::Refused(refused)),
        };
        if plan.floor.is_some() && known.floor.is_none() {
            known.floor = Some(self.places(shard, &[]).await?.1);
        }
        let mut transaction = Transaction::new(shard);
        for (session, place) in &known.places {
            transaction.expect(&self.keys().head(shard, session), "g", &place.generation);
        }
        let claims = self.claims(&commit.root, deleted_children(&commit, &plan));
        let claims = claims.await?;
        let generation = self.unique();
        let rows = std::mem::take(&mut plan.rows);
        transaction.makes_room = rows.iter().any(|(_, row)| *row == Row::DeleteAll);
        match self
            .carry_out(&commit, &plan, rows, &known, &mut transaction, &generation)
            .await
        {
            Ok(stored) => {
                let topics = self.tell(&commit, &plan, &mut transaction);
                let written = self.write(transaction).await;
                self.remember(shard, &known, stored, &written);
                match written? {
                    Written::Changed => Ok(Attempt::Changed),
                    Written::Done(last) => {
                        topics
                            .iter()
                            .for_each(|topic| self.inner.changes.ring(topic));
                        self.drop_claims(claims).await;
                        Ok(Attempt::Done(plan.receipt(&headers, last)))
                    }
                }
            }
            Err(failure @ Failure::Judged(_)) => Ok(Attempt::Failed(failure)),
            Err(failure) => Err(failure),
        }
    }

    /// Asks `plan`, and reads what it needs beside the headers.
    async fn plan(
        &self,
        shard: Shard,
        commit: &Commit,
        headers: &Headers,
        now: Timestamp,
        known: &mut Known,
    ) -> Result<Result<Plan, StoreError>> {
        loop {
            let missing = match self.plan_once(commit, headers, now, known) {
                Ok(judged) => return Ok(judged),
                Err(missing) => missing,
            };
            if missing.floor {
                known.floor = Some(self.places(shard, &[]).await?.1);
            }
            if let Some((session, count)) = missing.kept {
                let key = SessionKey::new(&commit.root, &session);
                let kept = match self.session(key, false).await? {
                    Some(found) => messages::whole_steps(&found, count).await?,
                    None => None,
                };
                // Where it has changed meanwhile, the transaction finds out.
                known.kept.insert((session, count), kept.unwrap_or(0));
            }
        }
    }

    /// Asks `plan` once; the error says what it needs.
    fn plan_once(
        &self,
        commit: &Commit,
        headers: &Headers,
        now: Timestamp,
        known: &Known,
    ) -> Result<Result<Plan, StoreError>, Missing> {
        let missing = RefCell::new(Missing::default());
        let unknown = || StoreError::Invalid {
            session: commit.root.clone(),
            reason: "something about it is not known yet".to_owned(),
        };
        let floor = || match &known.floor {
            Some(floor) => Ok(floor.fence()),
            None => {
                missing.borrow_mut().floor = true;
                Err(unknown())
            }
        };
        let kept = |session: &SessionId, count: usize| {
            let place = (session.clone(), count);
            if let Some(kept) = known.kept.get(&place) {
                return Ok(*kept);
            }
            missing.borrow_mut().kept = Some(place);
            Err(unknown())
        };
        let limits = self.inner.config.limits;
        let judged = plan(commit.clone(), headers, now, limits, floor, kept);
        let missing = missing.into_inner();
        match judged {
            Err(_) if missing.floor || missing.kept.is_some() => Err(missing),
            judged => Ok(judged),
        }
    }

    /// Writes a plan into a transaction, and returns what is stored then.
    async fn carry_out(
        &self,
        commit: &Commit,
        plan: &Plan,
        rows: Vec<(SessionId, Row)>,
        known: &Known,
        transaction: &mut Transaction,
        generation: &str,
    ) -> Result<Stored> {
        let shard = transaction.shard;
        let is_new = |(_, change): &(SessionId, Change)| matches!(change, Change::Create(_));
        let is_absent =
            |(_, condition): &(SessionId, Precondition)| *condition == Precondition::Absent;
        if commit.changes.iter().any(is_new) || commit.preconditions.iter().any(is_absent) {
            self.enrol(commit, transaction).await?;
        }
        let creates = commit.changes.iter().any(is_new);
        if let Some(floor) = known
            .floor
            .as_ref()
            .filter(|_| creates || plan.floor.is_some())
        {
            let meta = self.keys().meta(shard);
            transaction.expect(&meta, "floor", &floor.0);
            if let Some(raised) = plan.floor.filter(|raised| *raised > floor.fence()) {
                transaction.set(&meta, "floor", raised.0.to_string());
            }
        }
        let mut writer = RowWriter {
            store: self,
            shard,
            root: &commit.root,
            places: &known.places,
            transaction: &mut *transaction,
            work: BTreeMap::new(),
        };
        writer.rows(rows, &plan.headers).await?;
        let stored = writer.headers(&plan.headers, generation)?;
        self.write_stream(commit, plan, known, transaction).await?;
        Ok(stored)
    }

    async fn write_stream(
        &self,
        commit: &Commit,
        plan: &Plan,
        known: &Known,
        transaction: &mut Transaction,
    ) -> Result<()> {
        let (shard, root) = (transaction.shard, &commit.root);
        let keys = self.keys().stream(shard, root);
        transaction.on_stream(&keys.info);
        if plan.chunks.is_empty() && plan.stream.is_none() && plan.rewind.is_none() {
            return Ok(());
        }
        let changed = plan.headers.get(root).and_then(Option::as_ref);
        let header = changed.or_else(|| known.places.get(root).and_then(Place::header));
        let fence = header.map_or(Fence::default(), |header| header.fence);
        transaction.open_stream(&keys, fence);
        if let Some(rewind) = &plan.rewind {
            let part = self.all_batches(shard, &keys, rewind.to).await?;
            transaction.expect_stream(&keys, &part);
            transaction.retain(&keys, part.entries, |_, stored| rewind.keeps(stored))?;
        }
        transaction.append_chunks(&keys, &plan.chunks, COMMITTED)?;
        if let Some(status) = plan.stream {
            transaction.set_status(&keys, status)?;
            let is_over = matches!(status, StreamStatus::Ended | StreamStatus::Failed);
            if is_over && self.inner.config.keep_deltas.is_some() {
                let indexes = Indexes {
                    keys: self.keys(),
                    shard,
                };
                transaction.note_end(&indexes.ended(), self.now().as_millis(), root.as_str());
            }
        }
        Ok(())
    }

    /// Publishes what has changed, and returns it.
    fn tell(&self, commit: &Commit, plan: &Plan, transaction: &mut Transaction) -> Vec<Topic> {
        let stopped = commit.stopped_sessions().cloned();
        let mut topics: Vec<_> = stopped.map(Topic::Stop).collect();
        let is_deleted = matches!(plan.headers.get(&commit.root), Some(None));
        let writes = !plan.chunks.is_empty() || plan.stream.is_some() || plan.rewind.is_some();
        if writes || is_deleted {
            topics.push(Topic::Stream(commit.root.clone()));
        }
        for topic in &topics {
            transaction.command(words!["PUBLISH", self.keys().channel(), topic.message()]);
        }
        topics
    }

    /// Remembers what is stored, if that is known.
    fn remember(&self, shard: Shard, known: &Known, stored: Stored, written: &Result<Written>) {
        let remembered = &self.inner.remembered;
        match written {
            Ok(Written::Done(_)) => {
                for (session, place, state) in stored {
                    // A state that this commit did not change is still known.
                    let before = known.places.get(&session);
                    let kept = before.and_then(|before| {
                        remembered.take_state(shard, &session, &before.generation)
                    });
                    let version = place.header().map(|header| header.state_version);
                    let kept = kept.filter(|kept| Some(kept.version) == version);
                    remembered.put(shard, &session, place, state.or(kept));
                }
            }
            _ => known
                .places
                .keys()
                .for_each(|session| remembered.forget(shard, session)),
        }
    }
}

/// The children that a commit deletes.
fn deleted_children(commit: &Commit, plan: &Plan) -> Vec<SessionId> {
    let gone = plan.headers.iter();
    let gone = gone.filter(|(session, header)| header.is_none() && **session != commit.root);
    gone.map(|(session, _)| session.clone()).collect()
}

/// What is stored after a commit: places, and states that are known.
type Stored = Vec<(SessionId, Place, Option<crate::remembered::KnownState>)>;
