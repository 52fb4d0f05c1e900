//! [`StreamLog`] for streams beside a store with an outbox: its entries become commands of one transaction.

use std::collections::BTreeMap;

use async_trait::async_trait;
use helix_agents_core::SessionId;
use helix_agents_core::stored::encode;
use helix_agents_core::stream::{
    DeltaGate, Incarnation, OutboxEntry, OutboxPosition, Sequence, StreamError, StreamInfo,
    StreamLog, StreamManager, StreamRepair, StreamStatus,
};

use crate::changes::Topic;
use crate::commit::ATTEMPTS;
use crate::failure::{Failure, Result};
use crate::gates::{GATES, LACKS_STATUS, Told, told};
use crate::index::Indexes;
use crate::keys::{Shard, StreamKeys};
use crate::reply;
use crate::script::{Reads, Transaction, words};
use crate::store::{RedisStore, Written};
use crate::stream_store::RedisStreams;
use crate::streams::COMMITTED;

/// How long it is remembered which entries of a deleted root were written, in seconds.
const REMEMBERED: u64 = 24 * 60 * 60;

/// How many sequences a second has: a stream that begins anew begins above all that it can have had before.
const PER_SECOND: u32 = 20;

/// How many looks without a change are a while.
const QUIET: usize = 4;

/// Entries on their way into a stream.
struct Relaying<'a> {
    store: &'a RedisStore,
    root: &'a SessionId,
    shard: Shard,
    keys: StreamKeys,
    gates: String,
    transaction: Transaction,
    /// The position after the entries so far.
    told: Told,
    /// Whether the stream lacked its status before them.
    lacked_status: bool,
    /// The gates that changed.
    changed: BTreeMap<SessionId, Option<String>>,
    /// Whether all gates of before are forgotten.
    forgets: bool,
}

impl<'a> Relaying<'a> {
    /// Begins at what the stream was told.
    fn new(store: &'a RedisStore, root: &'a SessionId, told: Told) -> Self {
        let shard = store.keys().shard(root.as_str());
        let gates = store.keys().key(shard, GATES, root.as_str());
        let mut transaction = store.reaching(root, told);
        transaction.expect(&gates, "n", &told.number_text());
        transaction.expect(&gates, "inc", &told.incarnation_text());
        if told.lacks_status {
            transaction.expect(&gates, LACKS_STATUS, "1");
        }
        let keys = store.keys().stream(shard, root);
        Self {
            store,
            root,
            shard,
            keys,
            gates,
            transaction,
            told,
            lacked_status: told.lacks_status,
            changed: BTreeMap::new(),
            forgets: false,
        }
    }

    /// Removes the stream, and all that it was told.
    fn remove(&mut self) {
        let StreamKeys {
            info,
            entries,
            rests,
        } = &self.keys;
        let words = words![
            "UNLINK",
            info.as_str(),
            entries.as_str(),
            rests.as_str(),
            self.gates.as_str()
        ];
        self.transaction.command(words);
        self.transaction.makes_room = true;
        self.forgets = true;
        self.changed.clear();
    }

    /// Begins a stream that has lost something, above all sequences that it may have had.
    fn begin_anew(&mut self, incarnation: Incarnation, last: Sequence) {
        self.remove();
        let info = self.keys.info.as_str();
        let words = words!["HSET", info, "inc", incarnation.0.to_string()];
        self.transaction.command(words);
        let (store, root) = (self.store, self.root);
        store.begin_above(&mut self.transaction, root, last);
        self.told.lacks_status = true;
    }

    fn tell(&mut self, session: &SessionId, gate: Option<&DeltaGate>) -> Result<()> {
        let gate = gate.map(encode).transpose()?;
        let field = told::session(session);
        match &gate {
            Some(text) => self.transaction.set(&self.gates, &field, text.as_str()),
            None => {
                let words = words!["HDEL", self.gates.as_str(), field];
                self.transaction.command(words);
            }
        }
        self.changed.insert(session.clone(), gate);
        Ok(())
    }

    /// Adds an entry that follows.
    fn add(&mut self, number: u64, entry: &OutboxEntry, last: Sequence) -> Result<()> {
        let is_other = self.told.incarnation != Some(entry.incarnation);
        if entry.ends || is_other {
            self.remove();
            self.told.lacks_status = false;
        }
        if entry.previous > self.told.number && !entry.ends {
            self.begin_anew(entry.incarnation, last);
        }
        for (session, gate) in &entry.gates {
            self.tell(session, gate.as_ref())?;
        }
        if entry.says_something() {
            self.transaction
                .begin_stream(&self.keys, entry.incarnation.0);
            self.transaction
                .append_chunks(&self.keys, &entry.chunks, COMMITTED)?;
            if let Some(status) = entry.status {
                self.set_status(status)?;
            }
        }
        let is_gone = entry.gates.get(self.root).is_some_and(Option::is_none);
        self.told = Told {
            number,
            incarnation: (!is_gone).then_some(entry.incarnation),
            ..self.told
        };
        let (place, number) = (told::place(number), number.to_string());
        self.transaction.note_place(&self.gates, &place, &number);
        Ok(())
    }

    fn set_status(&mut self, status: StreamStatus) -> Result<()> {
        self.transaction.set_status(&self.keys, status)?;
        self.told.lacks_status = false;
        let is_over = matches!(status, StreamStatus::Ended | StreamStatus::Failed);
        if is_over && self.store.inner.config.keep_deltas.is_some() {
            let indexes = Indexes {
                keys: self.store.keys(),
                shard: self.shard,
            };
            let now = self.store.now().as_millis();
            self.transaction
                .note_end(&indexes.ended(), now, self.root.as_str());
        }
        Ok(())
    }

    /// Writes it all, and returns the end of the stream if nobody was faster.
    async fn write(mut self) -> Result<Option<Sequence>> {
        let gates = self.gates.as_str();
        let number = self.told.number.to_string();
        let mut words = words!["HSET", gates, "n", number];
        if self.told.lacks_status {
            words.extend(words![LACKS_STATUS, "1"]);
        } else if self.lacked_status {
            let words = words!["HDEL", gates, LACKS_STATUS];
            self.transaction.command(words);
        }
        match self.told.incarnation {
            Some(incarnation) => {
                words.extend(words!["inc", incarnation.0.to_string()]);
                self.transaction.command(words);
            }
            None => {
                self.transaction.command(words);
                let time = REMEMBERED.to_string();
                self.transaction.command(words!["HDEL", gates, "inc"]);
                self.transaction.command(words!["EXPIRE", gates, time]);
            }
        }
        let topic = Topic::Stream(self.root.clone());
        let message = words!["PUBLISH", self.store.keys().channel(), topic.message()];
        self.transaction.command(message);
        let store = self.store;
        let written = store.write(self.transaction).await;
        let known = &store.inner.gates;
        match written {
            Ok(Written::Done(last)) => {
                let of = self.told.incarnation;
                store.inner.acknowledged.note(self.root, of, last);
                known.now(self.root, self.told, self.forgets, self.changed);
                store.inner.changes.ring(&topic);
                Ok(Some(last))
            }
            Ok(Written::Changed) => {
                known.forget(self.root);
                store.begin_anew_if_short(self.root).await?;
                Ok(None)
            }
            Err(failure) => {
                known.forget(self.root);
                Err(failure)
            }
        }
    }
}

impl RedisStore {
    /// Lets a stream begin above all sequences that it may have had, of which this is one.
    pub(crate) fn begin_above(&self, on: &mut Transaction, root: &SessionId, last: Sequence) {
        let seconds = self.server_time().as_millis() / 1000;
        let start = (seconds << PER_SECOND).max(last.0 + 1).to_string();
        let info = self.keys().stream(on.shard, root).info;
        let mut words = words!["HSET", info.as_str()];
        // The number of removals differs from every earlier one, too.
        for bound in ["last", "trimmed", "condensed", "e"] {
            words.extend(words![bound, start.as_str()]);
        }
        on.command(words);
        tracing::warn!(event = "stream.lost", session = %root, from = %start);
    }

    /// What the stream of a root was told.
    pub(crate) async fn told(&self, root: &SessionId, fresh: bool) -> Result<Told> {
        if let Some(known) = self.inner.gates.told(root).filter(|_| !fresh) {
            return Ok(known);
        }
        let shard = self.keys().shard(root.as_str());
        let gates = self.keys().key(shard, GATES, root.as_str());
        let mut reads = Reads::default();
        reads.fields(&gates, Told::FIELDS);
        let mut answers = self.read(shard, reads).await?;
        let told = Told::parse(&reply::texts(answers.next()?)?)?;
        self.inner.gates.is_told(root, told);
        Ok(told)
    }

    async fn relay(
        &self,
        root: &SessionId,
        entries: &[(u64, OutboxEntry)],
    ) -> Result<Option<Sequence>> {
        let _turn = self.inner.turns.take(root).await;
        let (mut rest, mut end, mut fresh) = (entries, None, false);
        for _ in 0..ATTEMPTS {
            let told = self.told(root, fresh).await?;
            let new = rest.iter().position(|(number, _)| *number > told.number);
            let Some((_, new)) = new.and_then(|at| rest.split_at_checked(at)) else {
                return Ok(end);
            };
            rest = new;
            match self.relay_some(root, told, rest).await? {
                Some((count, last)) => {
                    rest = rest.get(count..).unwrap_or_default();
                    end = last;
                }
                // Somebody else has relayed them, or some of them.
                None => fresh = true,
            }
            if rest.is_empty() {
                return Ok(end);
            }
        }
        Err(Failure::busy())
    }

    /// Relays the entries up to the next one that removes chunks, or that one alone. Returns how many they were and the
    /// end of the stream unless it lacks its status, or nothing if somebody else was faster.
    async fn relay_some(
        &self,
        root: &SessionId,
        told: Told,
        entries: &[(u64, OutboxEntry)],
    ) -> Result<Option<(usize, Option<Sequence>)>> {
        let mut relaying = Relaying::new(self, root, told);
        let removes = |(_, entry): &(u64, OutboxEntry)| entry.rewind.is_some();
        let count = match entries.first() {
            Some((number, entry)) if entry.rewind.is_some() => {
                let is_lost = entry.previous > told.number;
                if let Some(rewind) = entry.rewind.as_ref().filter(|_| !is_lost) {
                    let keys = &relaying.keys;
                    let part = self.all_batches(relaying.shard, keys, rewind.to).await?;
                    relaying.transaction.expect_stream(keys, &part);
                    relaying
                        .transaction
                        .retain(keys, part.entries, |_, stored| rewind.keeps(stored))?;
                }
                relaying.add_lost(*number, entry).await?;
                1
            }
            _ => {
                let count = entries.iter().position(removes);
                let some = entries.get(..count.unwrap_or(entries.len()));
                let some = some.unwrap_or_default();
                for (number, entry) in some {
                    relaying.add_lost(*number, entry).await?;
                }
                some.len()
            }
        };
        let lacks_status = relaying.told.lacks_status;
        let written = relaying.write().await?;
        Ok(written.map(|last| (count, Some(last).filter(|_| !lacks_status))))
    }

    async fn repaired(
        &self,
        root: &SessionId,
        seen: Option<OutboxPosition>,
        repair: Option<&StreamRepair>,
    ) -> Result<bool> {
        let _turn = self.inner.turns.take(root).await;
        let told = self.told(root, true).await?;
        if told.seen() != seen {
            return Ok(false);
        }
        let mut relaying = Relaying::new(self, root, told);
        match repair {
            None => {
                relaying.remove();
                relaying.told.incarnation = None;
                relaying.told.lacks_status = false;
            }
            Some(repair) => {
                let OutboxPosition {
                    incarnation,
                    number,
                } = repair.position;
                if told.position() != Some(repair.position) {
                    let last = relaying.last().await?;
                    relaying.begin_anew(incarnation, last);
                    relaying.told.number = number;
                    relaying.told.incarnation = Some(incarnation);
                }
                if relaying.told.lacks_status {
                    relaying.set_status(repair.status)?;
                }
                for (session, gate) in &repair.gates {
                    relaying.tell(session, Some(gate))?;
                }
            }
        }
        Ok(relaying.write().await?.is_some())
    }
}

impl Relaying<'_> {
    /// The end of the stream, which must not change until it is written.
    async fn last(&mut self) -> Result<Sequence> {
        let info = self.store.stream_info(self.root).await?;
        let last = info.map_or(Sequence::START, |info| info.last);
        let text = info.map(|_| last.to_string()).unwrap_or_default();
        self.transaction.expect(&self.keys.info, "last", &text);
        Ok(last)
    }

    /// Adds an entry, and finds out where the stream ends if it has lost something.
    async fn add_lost(&mut self, number: u64, entry: &OutboxEntry) -> Result<()> {
        let is_lost = entry.previous > self.told.number && !entry.ends;
        let last = match is_lost {
            true => self.last().await?,
            false => Sequence::START,
        };
        self.add(number, entry, last)
    }
}

#[async_trait]
impl StreamLog for RedisStreams {
    /// Usually one command: the entries, the gates and the places are one transaction.
    async fn relay(
        &self,
        root: &SessionId,
        entries: &[(u64, OutboxEntry)],
    ) -> Result<Option<Sequence>, StreamError> {
        Ok(self.0.relay(root, entries).await?)
    }

    async fn position(
        &self,
        root: &SessionId,
        number: u64,
    ) -> Result<Option<Sequence>, StreamError> {
        let place = self.0.place_of(root, number).await?;
        Ok(place)
    }

    async fn seen(&self, root: &SessionId) -> Result<Option<OutboxPosition>, StreamError> {
        Ok(self.0.told(root, true).await?.seen())
    }

    async fn repair(
        &self,
        root: &SessionId,
        seen: Option<OutboxPosition>,
        repair: Option<&StreamRepair>,
    ) -> Result<bool, StreamError> {
        Ok(self.0.repaired(root, seen, repair).await?)
    }

    /// A while is a few of the looks that a waiting reader takes by itself.
    async fn changed_or_quiet(
        &self,
        root: &SessionId,
        known: Option<StreamInfo>,
    ) -> Result<bool, StreamError> {
        let waiting = self.0.wait_for(Topic::Stream(root.clone()));
        for _ in 0..QUIET {
            let heard = waiting.hear();
            if StreamInfo::differs(self.info(root).await?, known) {
                return Ok(true);
            }
            waiting.pause(heard).await;
        }
        Ok(StreamInfo::differs(self.info(root).await?, known))
    }
}

impl RedisStore {
    /// The end of a stream right after an entry.
    async fn place_of(&self, root: &SessionId, number: u64) -> Result<Option<Sequence>> {
        let shard = self.keys().shard(root.as_str());
        let gates = self.keys().key(shard, GATES, root.as_str());
        let mut reads = Reads::default();
        reads.fields(&gates, [told::place(number).as_str()]);
        let mut answers = self.read(shard, reads).await?;
        let place = reply::texts(answers.next()?)?.into_iter().next().flatten();
        let place = place.as_deref().and_then(|place| place.split_once(':'));
        let place = place.filter(|(of, _)| *of == number.to_string());
        Ok(place.and_then(|(_, last)| last.parse().ok()).map(Sequence))
    }
}
