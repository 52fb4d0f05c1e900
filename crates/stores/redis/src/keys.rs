//! The names of keys: which shard a root belongs to, and where everything of a session is stored.

use helix_agents_core::SessionId;
use helix_agents_core::id::RunId;

/// A part of the store. All keys of a shard are in one slot of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Shard(pub(crate) u16);

/// Makes the names of keys.
#[derive(Debug)]
pub(crate) struct Keys {
    /// The beginning of the keys of each shard, with the braces that choose the slot.
    tags: Vec<String>,
    channel: String,
}

/// The keys of one session.
#[derive(Debug)]
pub(crate) struct SessionKeys {
    /// Hash: the header `d`, its generation `g`, and what this store keeps beside it `x`.
    pub(crate) head: String,
    /// Hash: the documents of runs, checkpoints, children, pending and answered calls, versions of the state.
    pub(crate) documents: String,
    /// Sorted set: the messages of a step, by the position of the first.
    pub(crate) messages: String,
    /// Hash: the open step, and its calls that were written since.
    pub(crate) open: String,
    /// Sorted sets of ids, in the order in which lists have them.
    pub(crate) runs: String,
    pub(crate) checkpoints: String,
    pub(crate) children: String,
    pub(crate) answered: String,
    /// List: usage entries.
    pub(crate) usage: String,
    /// Set: call ids that are not used again.
    pub(crate) retired: String,
}

impl SessionKeys {
    /// Everything beside the header.
    pub(crate) fn content(&self) -> [&str; 9] {
        [
            &self.documents,
            &self.messages,
            &self.open,
            &self.runs,
            &self.checkpoints,
            &self.children,
            &self.answered,
            &self.usage,
            &self.retired,
        ]
    }
}

/// The keys of the stream of a root.
#[derive(Debug)]
pub(crate) struct StreamKeys {
    /// Hash: incarnation, status, bounds, and a number `e` that each removal raises.
    pub(crate) info: String,
    /// Stream: batches of chunks; the id of an entry is the sequence of its last chunk.
    pub(crate) entries: String,
    /// Hash: what is left of entries of which a part was removed.
    pub(crate) rests: String,
}

impl Keys {
    pub(crate) fn new(prefix: &str, shards: u16) -> Self {
        Self {
            tags: (0..shards)
                .map(|at| format!("{{{prefix}:{at:02}}}"))
                .collect(),
            channel: format!("{prefix}:changes"),
        }
    }

    pub(crate) fn shards(&self) -> impl Iterator<Item = Shard> + use<> {
        let count = u16::try_from(self.tags.len()).unwrap_or(u16::MAX);
        (0..count).map(Shard)
    }

    /// The channel on which changes are published.
    pub(crate) fn channel(&self) -> &str {
        &self.channel
    }

    /// The shard of a name.
    pub(crate) fn shard(&self, name: &str) -> Shard {
        // FNV-1a: stable for ever, because it says where data is.
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let count = self.tags.len().max(1) as u64;
        Shard(u16::try_from((hash ^ (hash >> 32)) % count).unwrap_or_default())
    }

    pub(crate) fn tag(&self, shard: Shard) -> &str {
        self.tags
            .get(usize::from(shard.0))
            .map_or("", String::as_str)
    }

    /// A key of a shard.
    pub(crate) fn key(&self, shard: Shard, kind: &str, name: &str) -> String {
        format!("{}:{kind}:{name}", self.tag(shard))
    }

    /// The hash with the floor of a shard.
    pub(crate) fn meta(&self, shard: Shard) -> String {
        format!("{}:meta", self.tag(shard))
    }

    /// A key of a shard that never exists. A script that names it is refused before it begins while a cluster moves
    /// the shard to another node. Otherwise the server would refuse the first command about a key that is not there
    /// (any more), in the middle of the script, and would keep what the commands before it have written.
    pub(crate) fn never(&self, shard: Shard) -> String {
        format!("{}:never", self.tag(shard))
    }

    pub(crate) fn head(&self, shard: Shard, session: &SessionId) -> String {
        self.key(shard, "h", session.as_str())
    }

    pub(crate) fn session(&self, shard: Shard, session: &SessionId) -> SessionKeys {
        let key = |kind| self.key(shard, kind, session.as_str());
        SessionKeys {
            head: key("h"),
            documents: key("d"),
            messages: key("m"),
            open: key("o"),
            runs: key("r"),
            checkpoints: key("c"),
            children: key("k"),
            answered: key("a"),
            usage: key("u"),
            retired: key("x"),
        }
    }

    pub(crate) fn stream(&self, shard: Shard, root: &SessionId) -> StreamKeys {
        let key = |kind| self.key(shard, kind, root.as_str());
        StreamKeys {
            info: key("i"),
            entries: key("t"),
            rests: key("v"),
        }
    }

    /// The hash that says under which root a child is, in the shard of the child's own id.
    pub(crate) fn directory(&self, session: &SessionId) -> (Shard, String) {
        let shard = self.shard(session.as_str());
        (shard, self.key(shard, "dir", session.as_str()))
    }
}

/// The name of a document in the hash of its session.
pub(crate) fn run(id: &RunId) -> String {
    format!("r:{id}")
}

/// The slot of a cluster that a key belongs to.
pub(crate) fn slot(key: &str) -> u16 {
    let hashed = key
        .split_once('{')
        .and_then(|(_, rest)| rest.split_once('}'))
        .map(|(tag, _)| tag)
        .filter(|tag| !tag.is_empty());
    let crc = hashed.unwrap_or(key).bytes().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| match crc & 0x8000 {
            0 => crc << 1,
            _ => (crc << 1) ^ 0x1021,
        })
    });
    crc % 16384
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_redis() {
        // From the specification of Redis clusters.
        assert_eq!(slot("123456789"), 0x31c3);
        assert_eq!(slot("a{user1000}.b"), slot("user1000"));
        assert_eq!(slot("foo{}{bar}"), slot("foo{}{bar}"));
    }

    #[test]
    fn the_keys_of_a_root_are_in_one_slot() {
        let keys = Keys::new("helix", 64);
        let root = SessionId::new("chat-7").unwrap();
        let shard = keys.shard(root.as_str());
        let (session, stream) = (keys.session(shard, &root), keys.stream(shard, &root));
        for key in [
            &session.head,
            &session.messages,
            &stream.entries,
            &keys.meta(shard),
        ] {
            assert_eq!(slot(key), slot(keys.tag(shard)));
        }
        // Where data is never changes.
        assert_eq!(session.head, "{helix:28}:h:chat-7");
    }
}
