//! The header of a session as it is stored, and what this store keeps beside it.

use std::collections::BTreeMap;
use std::sync::Arc;

use helix_agents_core::store::{Fence, Header, SessionKey};
use helix_agents_core::stored::{Stored, decode};
use helix_agents_core::time::Timestamp;
use helix_agents_core::{CallId, SessionId, StepId};
use serde::{Deserialize, Serialize};

use crate::failure::{Failure, Result};
use crate::keys::Shard;
use crate::reply::{self, Answers};
use crate::script::{Reads, words};
use crate::store::RedisStore;

/// The place of a session: its header, or that it has none, and when that was last changed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Place {
    /// Another text after each change; it is never used again. Empty if there is nothing.
    pub(crate) generation: String,
    pub(crate) head: Option<Head>,
}

impl Place {
    pub(crate) fn header(&self) -> Option<&Arc<Header>> {
        self.head.as_ref().map(|head| &head.header)
    }

    /// The head, if the session is the one that the key names.
    pub(crate) fn named(&self, key: SessionKey<'_>) -> Option<&Head> {
        self.head
            .as_ref()
            .filter(|head| key.names(&head.header.session))
    }
}

/// A header, and what this store must know to write and read without asking first.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    pub(crate) header: Arc<Header>,
    pub(crate) extra: Arc<Extra>,
}

/// The part of a head that is not the header.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Extra {
    /// The calls of the open step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) open_calls: Vec<CallId>,
    /// The pending calls.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) pending: BTreeMap<CallId, Waiting>,
    /// The staged writes, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) staged: Vec<(StepId, CallId)>,
    /// Where the current state is.
    pub(crate) state: StatePlace,
}

/// A pending call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Waiting {
    pub(crate) since: Timestamp,
    pub(crate) is_answered: bool,
}

/// The versions from which the current state is made.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct StatePlace {
    /// The last version that is stored whole.
    pub(crate) from: u64,
    /// The size of that.
    pub(crate) whole: usize,
    /// The size of the writes since then.
    pub(crate) writes: usize,
}

impl Stored for Extra {
    const KIND: &'static str = "redis_extra";
    const VERSION: u32 = 1;
}

impl Place {
    /// Takes the answer to [`Reads::place`].
    pub(crate) fn of(answers: &mut Answers) -> Result<Self> {
        let mut fields = reply::texts(answers.next()?)?.into_iter();
        let mut next = || fields.next().flatten();
        let generation = next().unwrap_or_default();
        let (header, extra) = (next(), next());
        let head = match (header, extra) {
            (Some(header), Some(extra)) => Some(Head {
                header: Arc::new(decode(&header)?),
                extra: Arc::new(decode(&extra)?),
            }),
            (None, None) => None,
            _ => return Err(Failure::corrupt("header", "a part of it is missing")),
        };
        Ok(Self { generation, head })
    }
}

impl Reads {
    /// Reads the place of a session.
    pub(crate) fn place(&mut self, head: &str) {
        self.fields(head, ["g", "d", "x"]);
    }

    /// Reads the generation of a session.
    pub(crate) fn generation(&mut self, head: &str) {
        self.ask(words!["HGET", head, "g"]);
    }

    /// Reads the floor of a shard.
    pub(crate) fn floor(&mut self, meta: &str) {
        self.ask(words!["HGET", meta, "floor"]);
    }
}

/// The fence at which new sessions of a shard begin, as it is stored.
#[derive(Debug, Clone, Default)]
pub(crate) struct Floor(pub(crate) String);

impl Floor {
    pub(crate) fn fence(&self) -> Fence {
        Fence(self.0.parse().unwrap_or_default())
    }
}

impl RedisStore {
    /// Reads the places of sessions as of one instant, and the floor of their shard.
    pub(crate) async fn places(
        &self,
        shard: Shard,
        sessions: &[SessionId],
    ) -> Result<(Vec<Place>, Floor)> {
        let mut reads = Reads::default();
        reads.floor(&self.keys().meta(shard));
        for session in sessions {
            reads.place(&self.keys().head(shard, session));
        }
        let mut answers = self.read(shard, reads).await?;
        let floor = Floor(reply::text(answers.next()?)?.unwrap_or_default());
        let places: Result<Vec<_>> = sessions.iter().map(|_| Place::of(&mut answers)).collect();
        let places = places?;
        for (session, place) in sessions.iter().zip(&places) {
            self.inner
                .remembered
                .put(shard, session, place.clone(), None);
        }
        Ok((places, floor))
    }

    /// Reads the place of a session.
    pub(crate) async fn place(&self, shard: Shard, session: &SessionId) -> Result<Place> {
        let (places, _) = self.places(shard, std::slice::from_ref(session)).await?;
        Ok(places.into_iter().next().unwrap_or_default())
    }
}
