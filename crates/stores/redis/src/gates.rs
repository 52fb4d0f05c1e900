//! What a stream beside a store with an outbox was told: the last entry, and the gates by which writers of deltas are
//! judged. Both are in one hash of the root. A transaction compares what is remembered, so it is never believed.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use helix_agents_core::SessionId;
use helix_agents_core::stored::decode;
use helix_agents_core::stream::{DeltaGate, Incarnation, OutboxPosition, StreamWriter};

use crate::failure::{Failure, Result};
use crate::reply;
use crate::script::{Reads, Transaction};
use crate::store::RedisStore;

/// The kind of the key.
pub(crate) const GATES: &str = "g";

/// The field that a stream has while it lacks its status.
pub(crate) const LACKS_STATUS: &str = "u";

/// The most roots of which something is remembered.
const ROOTS: usize = 4096;

/// The fields of the hash beside those of [`Told`]: `n`, the number of the last entry, `inc`, the incarnation of the
/// stream, and `u`, while the stream lacks its status.
pub(crate) mod told {
    use super::SessionId;

    /// The number of entries whose places in the stream are kept.
    const PLACES: u64 = 64;

    /// The gate of a session.
    pub(crate) fn session(session: &SessionId) -> String {
        format!("s:{session}")
    }

    /// The end of the stream after an entry.
    pub(crate) fn place(number: u64) -> String {
        format!("p:{}", number % PLACES)
    }
}

/// The last entry that a stream was told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Told {
    /// 0 if there was none.
    pub(crate) number: u64,
    /// `None` if the root is deleted.
    pub(crate) incarnation: Option<Incarnation>,
    /// Whether the stream has begun anew, and was not told its status since.
    pub(crate) lacks_status: bool,
}

impl Told {
    /// The fields that it is read from.
    pub(crate) const FIELDS: [&str; 3] = ["n", "inc", LACKS_STATUS];

    /// Takes these fields.
    pub(crate) fn parse(fields: &[Option<String>]) -> Result<Self> {
        let number = |text: &String| {
            let corrupt = || Failure::corrupt("stream", "what it was told is no number");
            text.parse().map_err(|_| corrupt())
        };
        let field = |at: usize| fields.get(at).and_then(Option::as_ref).map(number);
        Ok(Self {
            number: field(0).transpose()?.unwrap_or_default(),
            incarnation: field(1).transpose()?.map(Incarnation),
            lacks_status: fields.get(2).is_some_and(Option::is_some),
        })
    }

    /// The field `n` as it is stored.
    pub(crate) fn number_text(&self) -> String {
        let number = Some(self.number).filter(|number| *number > 0);
        number.map(|number| number.to_string()).unwrap_or_default()
    }

    /// The field `inc` as it is stored.
    pub(crate) fn incarnation_text(&self) -> String {
        let text = self
            .incarnation
            .map(|incarnation| incarnation.0.to_string());
        text.unwrap_or_default()
    }

    /// The position, while the root exists.
    pub(crate) fn position(&self) -> Option<OutboxPosition> {
        Some(OutboxPosition {
            incarnation: self.incarnation?,
            number: self.number,
        })
    }

    /// The position, if nothing is missing that the stream was told.
    pub(crate) fn seen(&self) -> Option<OutboxPosition> {
        self.position().filter(|_| !self.lacks_status)
    }
}

/// A gate, and its text to compare.
#[derive(Debug, Clone)]
struct Gate {
    text: String,
    gate: DeltaGate,
}

impl Gate {
    fn parse(text: String) -> Result<Arc<Self>> {
        let gate = decode(&text)?;
        Ok(Arc::new(Self { text, gate }))
    }
}

/// What this process knows of one root.
#[derive(Debug, Default)]
struct Known {
    told: Told,
    gates: HashMap<SessionId, Arc<Gate>>,
}

/// What this process knows of all roots.
#[derive(Debug, Default)]
pub(crate) struct Gates(Mutex<HashMap<SessionId, Known>>);

impl Gates {
    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a stream was told, if it is remembered.
    pub(crate) fn told(&self, root: &SessionId) -> Option<Told> {
        self.lock().get(root).map(|known| known.told)
    }

    /// Remembers what a stream was told, as it was read.
    pub(crate) fn is_told(&self, root: &SessionId, told: Told) {
        let mut all = self.lock();
        if all.len() >= ROOTS && !all.contains_key(root) {
            all.clear();
        }
        let known = all.entry(root.clone()).or_default();
        if known.told != told {
            *known = Known {
                told,
                gates: HashMap::new(),
            };
        }
    }

    /// Remembers what was written, on top of what was compared.
    pub(crate) fn now(
        &self,
        root: &SessionId,
        told: Told,
        forgets: bool,
        changed: BTreeMap<SessionId, Option<String>>,
    ) {
        let mut all = self.lock();
        let Some(known) = all.get_mut(root) else {
            return;
        };
        known.told = told;
        if forgets {
            known.gates.clear();
        }
        for (session, text) in changed {
            let gate = text.and_then(|text| Gate::parse(text).ok());
            match gate {
                Some(gate) => drop(known.gates.insert(session, gate)),
                None => drop(known.gates.remove(&session)),
            }
        }
    }

    pub(crate) fn forget(&self, root: &SessionId) {
        self.lock().remove(root);
    }

    /// What is remembered of the gates of a writer, and which incarnation it writes to.
    fn of(&self, writer: &StreamWriter) -> Option<(Told, Arc<Gate>, Arc<Gate>)> {
        let all = self.lock();
        let known = all.get(&writer.root)?;
        let gate = |session| known.gates.get(session).cloned();
        Some((known.told, gate(&writer.session)?, gate(&writer.root)?))
    }

    fn are(&self, writer: &StreamWriter, told: Told, own: &Arc<Gate>, root: &Arc<Gate>) {
        self.is_told(&writer.root, told);
        if let Some(known) = self.lock().get_mut(&writer.root) {
            let gates = &mut known.gates;
            gates.insert(writer.session.clone(), Arc::clone(own));
            gates.insert(writer.root.clone(), Arc::clone(root));
        }
    }
}

impl RedisStore {
    /// Begins a transaction of a writer, which is refused if the gates do not let it write.
    pub(crate) async fn admitted_by_gates(
        &self,
        writer: &StreamWriter,
        fresh: bool,
    ) -> Result<Transaction> {
        let shard = self.keys().shard(writer.root.as_str());
        let gates = self.keys().key(shard, GATES, writer.root.as_str());
        let remembered = self.inner.gates.of(writer).filter(|_| !fresh);
        let admits = |own: &Gate, root: &Gate| {
            DeltaGate::admit(writer, Some(&own.gate), Some(&root.gate)).is_ok()
        };
        let remembered = remembered.filter(|(_, own, root)| admits(own, root));
        let (told, own) = match remembered {
            Some((told, own, _)) => (told, own),
            None => self.read_gates(writer, &gates).await?,
        };
        let mut transaction = self.reaching(&writer.root, told);
        transaction.incarnation = told.incarnation;
        transaction.expect(&gates, "inc", &told.incarnation_text());
        transaction.expect(&gates, &told::session(&writer.session), &own.text);
        let keys = self.keys().stream(shard, &writer.root);
        let incarnation = told.incarnation.unwrap_or_default();
        transaction.begin_stream(&keys, incarnation.0);
        Ok(transaction)
    }

    /// Reads the gates of a writer, and refuses it if they do not let it write.
    async fn read_gates(&self, writer: &StreamWriter, gates: &str) -> Result<(Told, Arc<Gate>)> {
        let shard = self.keys().shard(writer.root.as_str());
        let (own, root) = (told::session(&writer.session), told::session(&writer.root));
        let mut reads = Reads::default();
        let sessions = [own.as_str(), root.as_str()];
        reads.fields(gates, Told::FIELDS.into_iter().chain(sessions));
        let mut answers = self.read(shard, reads).await?;
        let mut fields = reply::texts(answers.next()?)?;
        let gate = |text: Option<Option<String>>| text.flatten().map(Gate::parse).transpose();
        let root = gate(fields.pop())?;
        let own = gate(fields.pop())?;
        let told = Told::parse(&fields)?;
        DeltaGate::admit(
            writer,
            own.as_ref().map(|own| &own.gate),
            root.as_ref().map(|root| &root.gate),
        )?;
        let missing = || Failure::corrupt("gate", "it is missing");
        let (own, root) = (own.ok_or_else(missing)?, root.ok_or_else(missing)?);
        self.inner.gates.are(writer, told, &own, &root);
        Ok((told, own))
    }
}
