//! Streams that lost deltas and nothing else: they end before what this process was told of them.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use helix_agents_core::SessionId;
use helix_agents_core::stream::{Incarnation, Sequence};

use crate::changes::Topic;
use crate::failure::Result;
use crate::gates::Told;
use crate::script::{Transaction, words};
use crate::store::{RedisStore, Written};

/// The most roots of which the end is remembered.
const ROOTS: usize = 4096;

/// The ends of streams that servers have acknowledged to this process, each the highest of an incarnation.
#[derive(Debug, Default)]
pub(crate) struct Acknowledged(Mutex<HashMap<SessionId, (Incarnation, Sequence)>>);

impl Acknowledged {
    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, (Incarnation, Sequence)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the end of a stream; of one that is deleted nothing is known any more.
    pub(crate) fn note(&self, root: &SessionId, of: Option<Incarnation>, last: Sequence) {
        let mut all = self.lock();
        let Some(of) = of else {
            all.remove(root);
            return;
        };
        let known = all.get(root).filter(|(known, _)| *known == of);
        let last = known.map_or(last, |(_, known)| last.max(*known));
        if all.len() >= ROOTS && !all.contains_key(root) {
            all.clear();
        }
        all.insert(root.clone(), (of, last));
    }

    /// The highest end of a stream, or its start.
    pub(crate) fn of(&self, root: &SessionId, of: Option<Incarnation>) -> Sequence {
        let all = self.lock();
        let known = all.get(root).filter(|(known, _)| Some(*known) == of);
        known.map_or(Sequence::START, |(_, last)| *last)
    }
}

impl RedisStore {
    /// Begins a transaction that is made only if the stream of a root has all that this process was told of it.
    pub(crate) fn reaching(&self, root: &SessionId, told: Told) -> Transaction {
        let shard = self.keys().shard(root.as_str());
        let mut transaction = Transaction::new(shard);
        transaction.on_stream(&self.keys().stream(shard, root).info);
        transaction.expect_end(self.inner.acknowledged.of(root, told.incarnation));
        transaction
    }

    /// Finds out whether a stream has lost deltas although it was told no less than before. It begins anew then, in the
    /// status that it has.
    pub(crate) async fn begin_anew_if_short(&self, root: &SessionId) -> Result<()> {
        let told = self.told(root, true).await?;
        let known = self.inner.acknowledged.of(root, told.incarnation);
        let info = self.stream_info(root).await?;
        let last = info.map_or(Sequence::START, |info| info.last);
        if last >= known {
            return Ok(());
        }
        let shard = self.keys().shard(root.as_str());
        let keys = self.keys().stream(shard, root);
        let mut transaction = Transaction::new(shard);
        transaction.makes_room = true;
        let before = info.map(|_| last.to_string()).unwrap_or_default();
        transaction.expect(&keys.info, "last", &before);
        transaction.expect(&keys.info, "inc", &told.incarnation_text());
        transaction.command(words!["UNLINK", keys.entries.as_str(), keys.rests.as_str()]);
        self.begin_above(&mut transaction, root, known);
        let topic = Topic::Stream(root.clone());
        transaction.command(words!["PUBLISH", self.keys().channel(), topic.message()]);
        if let Written::Done(_) = self.write(transaction).await? {
            self.inner.changes.ring(&topic);
        }
        Ok(())
    }
}
