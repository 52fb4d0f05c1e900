//! The indexes of a shard: sorted sets whose members say everything, so that their order is that of the texts.

use std::collections::BTreeSet;

use helix_agents_core::SessionId;
use helix_agents_core::session::SessionStatus;
use helix_agents_core::store::{DueKind, Header};
use helix_agents_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::failure::{Failure, Result};
use crate::head::Head;
use crate::keys::{Keys, Shard};
use crate::script::{Transaction, words};

/// The largest member after a prefix: ids are ASCII.
pub(crate) const END: &str = "~";

/// An instant as indexes have it: the order of texts is that of instants.
pub(crate) fn instant(at: Timestamp) -> String {
    format!("{:016x}", at.as_millis())
}

/// Splits a member into its instant and the rest.
pub(crate) fn split(member: &str) -> Result<(Timestamp, &str)> {
    let parts = member.split_at_checked(16);
    let parts = parts.and_then(|(at, rest)| Some((u64::from_str_radix(at, 16).ok()?, rest)));
    let (millis, rest) =
        parts.ok_or_else(|| Failure::corrupt("index", format!("`{member}` has no instant")))?;
    Ok((Timestamp::from_millis(millis), rest))
}

/// A pending call as indexes have it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct PendingMember(pub(crate) SessionId, pub(crate) helix_agents_core::CallId);

/// The name of a status in keys.
pub(crate) fn status_name(status: SessionStatus) -> String {
    let name = serde_json::to_value(status).ok();
    let name = name.as_ref().and_then(|name| name.as_str());
    name.unwrap_or_default().to_owned()
}

/// The stored number of a kind of due work.
pub(crate) fn kind_number(kind: DueKind) -> Result<u8> {
    Ok(match kind {
        DueKind::LapsedLease => 0,
        DueKind::Deadline => 1,
        DueKind::Answered => 2,
        DueKind::Inbox => 3,
        DueKind::OwedStop => 4,
        DueKind::Expired => 5,
        DueKind::ExpiringSoon => 6,
        other => {
            let reason = format!("this store does not know {other:?}; upgrade it");
            return Err(Failure::internal(reason));
        }
    })
}

/// The names of the indexes of sessions and pending calls.
pub(crate) struct Indexes<'a> {
    pub(crate) keys: &'a Keys,
    pub(crate) shard: Shard,
}

impl Indexes<'_> {
    fn key(&self, kind: &str, name: &str) -> String {
        self.keys.key(self.shard, kind, name)
    }

    pub(crate) fn sessions(&self) -> String {
        self.key("l", "all")
    }

    pub(crate) fn roots(&self) -> String {
        self.key("l", "roots")
    }

    pub(crate) fn user(&self, user: &str) -> String {
        self.key("l:user", user)
    }

    pub(crate) fn agent(&self, agent: &str) -> String {
        self.key("l:agent", agent)
    }

    pub(crate) fn status(&self, status: SessionStatus) -> String {
        self.key("l:status", &status_name(status))
    }

    pub(crate) fn parent(&self, parent: &SessionId) -> String {
        self.key("l:parent", parent.as_str())
    }

    pub(crate) fn tag(&self, tag: &str) -> String {
        self.key("l:tag", tag)
    }

    pub(crate) fn metadata(&self, key: &str, value: &str) -> String {
        self.key("l:meta", &format!("{}:{key}:{value}", key.len()))
    }

    pub(crate) fn pending(&self) -> String {
        self.key("w", "all")
    }

    pub(crate) fn pending_of_user(&self, user: &str) -> String {
        self.key("w:user", user)
    }

    pub(crate) fn pending_of_root(&self, root: &SessionId) -> String {
        self.key("w:root", root.as_str())
    }

    /// The beginning of the indexes of due work; the number of the kind, a colon and the agent follow.
    pub(crate) fn due(&self) -> String {
        self.key("q", "")
    }

    /// The set of agents that have or had due work.
    pub(crate) fn agents(&self) -> String {
        self.key("q", "agents")
    }

    /// The index of turns that have ended, by the time of their end.
    pub(crate) fn ended(&self) -> String {
        self.key("e", "turns")
    }

    /// The members that a session has in indexes.
    fn members(&self, head: Option<&Head>) -> Result<BTreeSet<(String, String)>> {
        let mut all = BTreeSet::new();
        let Some(Head { header, extra }) = head else {
            return Ok(all);
        };
        self.add_session(header, &mut all);
        self.add_due(header, &mut all)?;
        let session = &header.session;
        for (call, waiting) in extra.pending.iter().filter(|(_, call)| !call.is_answered) {
            let name = PendingMember(session.session_id.clone(), call.clone());
            let name = serde_json::to_string(&name)
                .map_err(|error| Failure::internal(error.to_string()))?;
            let member = format!("{}{name}", instant(waiting.since));
            if let Some(user) = &session.user_id {
                all.insert((self.pending_of_user(user.as_str()), member.clone()));
            }
            all.insert((self.pending_of_root(session.root()), member.clone()));
            all.insert((self.pending(), member));
        }
        Ok(all)
    }

    fn add_session(&self, header: &Header, all: &mut BTreeSet<(String, String)>) {
        let session = &header.session;
        let member = format!("{}{}", instant(session.created_at), session.session_id);
        let mut keys = vec![
            self.sessions(),
            self.agent(&session.agent_type),
            self.status(session.status),
        ];
        keys.extend(session.user_id.iter().map(|user| self.user(user.as_str())));
        match &session.parent_session_id {
            Some(parent) => keys.push(self.parent(parent)),
            None => keys.push(self.roots()),
        }
        keys.extend(session.tags.iter().map(|tag| self.tag(tag)));
        let metadata = session.metadata.iter();
        keys.extend(metadata.map(|(key, value)| self.metadata(key, value)));
        all.extend(keys.into_iter().map(|key| (key, member.clone())));
    }

    fn add_due(&self, header: &Header, all: &mut BTreeSet<(String, String)>) -> Result<()> {
        for (kind, since) in header.due_from() {
            let (number, agent) = (kind_number(kind)?, &header.session.agent_type);
            let key = format!("{}{number}:{agent}", self.due());
            let member = format!("{}{}", instant(since), header.session.session_id);
            all.insert((key, member));
        }
        Ok(())
    }

    /// Writes where the members of a session differ from what they were.
    pub(crate) fn update(
        &self,
        transaction: &mut Transaction,
        before: Option<&Head>,
        after: Option<&Head>,
    ) -> Result<()> {
        let (was, is) = (self.members(before)?, self.members(after)?);
        for (key, member) in was.difference(&is) {
            transaction.command(words!["ZREM", key.as_str(), member.as_str()]);
        }
        for (key, member) in is.difference(&was) {
            transaction.command(words!["ZADD", key.as_str(), "0", member.as_str()]);
        }
        let agent = |head: &Head| head.header.session.agent_type.clone();
        if let Some(agent) = after.map(agent)
            && before.is_none_or(|before| before.header.session.agent_type != agent)
        {
            transaction.command(words!["SADD", self.agents(), agent.as_str()]);
        }
        Ok(())
    }
}
