//! The directory of children: under which root a session is.
//!
//! An entry is in the shard of the child's own id, and the child in that of its root, so that no transaction reaches
//! both. A root that is about to create a child claims the id first. Whoever finds a claim of another root, and no
//! child there, revokes it: another generation of the place where the child would be lets the commit of the other root
//! find out. Each claim has a text of its own, so that none is taken for an earlier one.

use futures_util::future::{join_all, try_join_all};
use helix_agents_core::SessionId;
use helix_agents_core::store::{Change, Commit, Precondition, StoreError};

use crate::commit::ATTEMPTS;
use crate::failure::{Failure, Result};
use crate::head::Place;
use crate::keys::Shard;
use crate::reply;
use crate::script::{Reads, Transaction, words};
use crate::store::{RedisStore, Written};

/// How long a place is remembered where nothing was created, in seconds: no commit is under way for so long.
const REVOKED: &str = "86400";

/// What the directory and the shard of an id say.
struct Entry {
    /// The claim as it is stored; empty if there is none.
    claim: String,
    /// The place in the shard of the id: of a root with that id, or of a child whose root is there, too.
    place: Place,
}

impl Entry {
    fn root(&self) -> Result<Option<SessionId>> {
        let root = self.claim.split_once(' ').map(|(_, root)| root);
        Ok(root.map(SessionId::new).transpose()?)
    }
}

fn taken<T>(session: &SessionId) -> Result<T> {
    let session = session.clone();
    Err(StoreError::AlreadyExists { session }.into())
}

impl RedisStore {
    async fn entry(&self, session: &SessionId) -> Result<Entry> {
        let (shard, key) = self.keys().directory(session);
        let mut reads = Reads::default();
        reads.ask(words!["HGET", key.as_str(), "v"]);
        reads.place(&self.keys().head(shard, session));
        let mut answers = self.read(shard, reads).await?;
        Ok(Entry {
            claim: reply::text(answers.next()?)?.unwrap_or_default(),
            place: Place::of(&mut answers)?,
        })
    }

    /// The root that the directory names for an id.
    pub(crate) async fn claimed_by(&self, session: &SessionId) -> Result<Option<SessionId>> {
        self.entry(session).await?.root()
    }

    /// Refuses a commit that needs an id which another root has, and claims the ids of the children that it creates.
    pub(crate) async fn enrol(&self, commit: &Commit, transaction: &mut Transaction) -> Result<()> {
        let shard = self.keys().shard(commit.root.as_str());
        let creates = commit.changes.iter();
        let creates = creates.filter(|(_, change)| matches!(change, Change::Create(_)));
        let creates: Vec<_> = creates.map(|(session, _)| session).collect();
        let absent = commit.preconditions.iter();
        let absent = absent.filter(|(_, condition)| *condition == Precondition::Absent);
        for (session, _) in absent {
            if !creates.contains(&session) {
                let entry = self.entry(session).await?;
                self.check_free(shard, &commit.root, session, &entry)
                    .await?;
            }
        }
        for session in creates {
            match *session == commit.root {
                true => self.enrol_root(shard, session, transaction).await?,
                false => self.claim(shard, &commit.root, session).await?,
            }
        }
        Ok(())
    }

    /// The claims of children that a commit deletes, as they are before it. Afterwards nobody claims an id with one of
    /// them: whoever planned its creation before the deletion finds another floor, and claims the id again.
    pub(crate) async fn claims(
        &self,
        root: &SessionId,
        deleted: Vec<SessionId>,
    ) -> Result<Vec<(SessionId, String)>> {
        let claims = deleted.into_iter().map(|session| async move {
            let entry = self.entry(&session).await?;
            let is_own = entry.root()?.is_some_and(|of| of == *root);
            Ok::<_, Failure>(is_own.then_some((session, entry.claim)))
        });
        let claims = try_join_all(claims).await?;
        Ok(claims.into_iter().flatten().collect())
    }

    /// Takes claims out of the directory. One that stays, because the server cannot be asked, does no harm.
    pub(crate) async fn drop_claims(&self, claims: Vec<(SessionId, String)>) {
        let drops = claims.into_iter().map(|(session, claim)| async move {
            let (shard, key) = self.keys().directory(&session);
            let mut dropping = Transaction::new(shard);
            dropping.makes_room = true;
            dropping.expect(&key, "v", &claim);
            dropping.command(words!["UNLINK", key]);
            if let Err(error) = self.write(dropping).await {
                tracing::debug!(event = "store.claim_stays", %session, ?error);
            }
        });
        join_all(drops).await;
    }

    /// Refuses an id that a session under another root has; revokes the claim of one that has not created it.
    async fn check_free(
        &self,
        own: Shard,
        root: &SessionId,
        session: &SessionId,
        entry: &Entry,
    ) -> Result<()> {
        let (shard, _) = self.keys().directory(session);
        // Within one shard an id is one place, which the commit compares.
        if shard != own && entry.place.head.is_some() {
            return taken(session);
        }
        let Some(other) = entry.root()?.filter(|other| other != root) else {
            return Ok(());
        };
        let there = self.keys().shard(other.as_str());
        if there == own {
            return Ok(());
        }
        let place = self.place(there, session).await?;
        if place.head.is_some() {
            return taken(session);
        }
        let key = self.keys().head(there, session);
        let mut revoking = Transaction::new(there);
        revoking.expect(&key, "g", &place.generation);
        revoking.set(&key, "g", self.unique());
        revoking.command(words!["EXPIRE", key, REVOKED]);
        match self.write(revoking).await? {
            Written::Done(_) => Ok(()),
            // It may have been created just now: look again.
            Written::Changed => Box::pin(self.check_free(own, root, session, entry)).await,
        }
    }

    /// Lets the commit that creates a root take its id out of the directory.
    async fn enrol_root(
        &self,
        own: Shard,
        session: &SessionId,
        transaction: &mut Transaction,
    ) -> Result<()> {
        let entry = self.entry(session).await?;
        self.check_free(own, session, session, &entry).await?;
        let (_, key) = self.keys().directory(session);
        transaction.expect(&key, "v", &entry.claim);
        if !entry.claim.is_empty() {
            transaction.command(words!["UNLINK", key]);
        }
        Ok(())
    }

    /// Claims the id of a child.
    async fn claim(&self, own: Shard, root: &SessionId, session: &SessionId) -> Result<()> {
        let (shard, key) = self.keys().directory(session);
        for _ in 0..ATTEMPTS {
            let entry = self.entry(session).await?;
            self.check_free(own, root, session, &entry).await?;
            let mut claiming = Transaction::new(shard);
            claiming.expect(&key, "v", &entry.claim);
            if shard != own {
                // No root with that id.
                claiming.expect(&self.keys().head(shard, session), "d", "");
            }
            claiming.set(&key, "v", format!("{} {root}", self.unique()));
            if let Written::Done(_) = self.write(claiming).await? {
                return Ok(());
            }
        }
        Err(Failure::busy())
    }
}
