//! Makes removed deltas again, from the messages.
//!
//! Condensing a stream removes the deltas of past turns and keeps all other chunks. The deltas of a
//! step stood before the first chunk that was written with its reply: there a reader puts the text, the
//! thinking and the arguments of the reply, as whole pieces. The pieces take the numbers of chunks that
//! were removed at that place. Where there are fewer of those, as between chunks of several sessions,
//! the last pieces repeat the number before them.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::{
    Chunk, ChunkOrigin, ChunkPayload, Sequence, StoredChunk, StreamError, StreamManager, split,
};
use crate::id::{RunId, SessionId};
use crate::message::{AssistantMessage, AssistantPart, Message};
use crate::step::FINISH_TOOL;
use crate::store::{Page, SessionKey, SessionStore};

/// The number of chunks that are read at once to find a place in the stream.
const CHUNKS: usize = 256;
/// The number of messages that are read at once to find a reply.
const MESSAGES: usize = 16;

/// Knows which replies a reader has, and makes the missing ones.
#[derive(Debug)]
pub(super) struct Replay {
    store: Arc<dyn SessionStore>,
    sessions: HashMap<SessionId, Progress>,
    /// Whether the reader began at the start of the stream.
    from_start: bool,
}

/// How far a reader is with one session of the stream.
#[derive(Debug, Default)]
struct Progress {
    /// Whether the reader has the reply of a step that is not committed yet.
    has_reply: bool,
    /// The last step that was committed.
    committed: Option<(RunId, u32)>,
    /// Whether the reader can have no part of the next reply.
    is_between: bool,
}

impl Progress {
    fn note(&mut self, chunk: &Chunk) {
        let base = &chunk.base;
        match &chunk.payload {
            ChunkPayload::StepCommitted { .. } => {
                self.has_reply = false;
                self.is_between = true;
                self.committed = Some((base.run_id.clone(), base.step));
            }
            ChunkPayload::RunStarted { .. } => self.is_between = true,
            // The session was rewound: what the reader had of a reply is gone.
            ChunkPayload::StreamResync { .. } => {
                self.has_reply = false;
                self.committed = None;
                self.is_between = true;
            }
            payload if payload.follows_reply() => self.has_reply = true,
            _ => {}
        }
    }

    fn has_committed(&self, step: &ChunkOrigin) -> bool {
        let committed = self.committed.as_ref();
        committed.is_some_and(|(run, number)| *run == step.run_id && *number == step.step)
    }
}

impl Replay {
    pub(super) fn new(store: Arc<dyn SessionStore>) -> Self {
        Self {
            store,
            sessions: HashMap::new(),
            from_start: false,
        }
    }

    /// Notes which replies came before the place at which a reader begins.
    pub(super) async fn begin(
        &mut self,
        streams: &dyn StreamManager,
        root: &SessionId,
        place: Sequence,
    ) -> Result<(), StreamError> {
        let mut sessions: HashMap<_, Progress> = HashMap::new();
        for stored in turn_before(streams, root, place).await? {
            let session = stored.chunk.base.session_id.clone();
            let progress = sessions.entry(session).or_default();
            progress.note(&stored.chunk);
            // Deltas that follow it were read already, unless the reader stopped right here.
            progress.is_between = stored.sequence == place;
        }
        self.sessions = sessions;
        self.from_start = place.is_start();
        Ok(())
    }

    /// Notes a chunk that the reader has.
    pub(super) fn note(&mut self, chunk: &Chunk) {
        let session = chunk.base.session_id.clone();
        self.sessions.entry(session).or_default().note(chunk);
    }

    /// Whether the reply of a chunk's step has to be given before it.
    pub(super) fn is_missing(&self, chunk: &Chunk) -> bool {
        let base = &chunk.base;
        let progress = self.sessions.get(&base.session_id);
        let has_it = progress.is_some_and(|one| one.has_reply || one.has_committed(base));
        base.step > 0 && chunk.payload.follows_reply() && !has_it
    }

    /// Whether the reader may have a part of the reply that comes next in a session.
    fn may_have_part(&self, session: &SessionId) -> bool {
        let progress = self.sessions.get(session);
        !self.from_start && !progress.is_some_and(|progress| progress.is_between)
    }

    /// Makes the chunks of the reply that belong before the first of the `fetched` ones, for a reader that
    /// has everything up to `cursor`.
    pub(super) async fn reply(
        &self,
        streams: &dyn StreamManager,
        root: &SessionId,
        cursor: Sequence,
        fetched: &VecDeque<StoredChunk>,
    ) -> Result<Vec<StoredChunk>, StreamError> {
        let Some(next) = fetched.front() else {
            return Ok(Vec::new());
        };
        let Chunk {
            base, timestamp, ..
        } = &next.chunk;
        let count = messages_after(streams, root, &base.session_id, fetched).await?;
        let key = SessionKey::new(root, &base.session_id);
        let reply = match count {
            Some(count) => reply_before(&*self.store, key, count).await?,
            None => None,
        };
        let mut payloads = reply.map(|reply| reply_deltas(&reply)).unwrap_or_default();
        if payloads.is_empty() {
            return Ok(Vec::new());
        }
        // The reader may have a part of this reply.
        if self.may_have_part(&base.session_id) {
            let reason = "the reply is given again as a whole".to_owned();
            payloads.insert(0, ChunkPayload::StreamResync { reason });
        }
        let mut made = Vec::new();
        let piece = streams.limits().piece();
        let last_free = Sequence(next.sequence.0.saturating_sub(1)).max(cursor);
        let mut sequence = cursor;
        for payload in payloads {
            split(payload, piece, |payload| {
                sequence = sequence.next().min(last_free);
                let chunk = Chunk::new(Arc::clone(base), *timestamp, payload);
                made.push(StoredChunk::new(sequence, chunk));
            });
        }
        Ok(made)
    }
}

/// Reads the chunks of the turn in which a place lies, up to that place.
async fn turn_before(
    streams: &dyn StreamManager,
    root: &SessionId,
    place: Sequence,
) -> Result<Vec<StoredChunk>, StreamError> {
    if place.is_start() {
        return Ok(Vec::new());
    }
    let mut window = CHUNKS;
    loop {
        let distance = u64::try_from(window).unwrap_or(u64::MAX);
        let after = Sequence(place.0.saturating_sub(distance));
        let mut chunks = streams.read(root, after, window).await?;
        chunks.retain(|StoredChunk { sequence, chunk }| {
            *sequence <= place && !chunk.payload.is_in_messages()
        });
        let is_start = |stored: &StoredChunk| {
            let base = &stored.chunk.base;
            base.session_id == *root
                && matches!(stored.chunk.payload, ChunkPayload::RunStarted { .. })
        };
        if after.is_start() || chunks.iter().any(is_start) {
            return Ok(chunks);
        }
        window = window.saturating_mul(4);
    }
}

/// Finds out how many messages there were when the step of the first fetched chunk was committed. A
/// session is at one step at a time, so its next committed step is this one, also if another run completed
/// it.
async fn messages_after(
    streams: &dyn StreamManager,
    root: &SessionId,
    session: &SessionId,
    fetched: &VecDeque<StoredChunk>,
) -> Result<Option<usize>, StreamError> {
    let count = |stored: &StoredChunk| match stored.chunk.payload {
        ChunkPayload::StepCommitted { message_count } => {
            let is_own = stored.chunk.base.session_id == *session;
            is_own.then_some(message_count)
        }
        _ => None,
    };
    let mut found = fetched.iter().find_map(count);
    let mut cursor = fetched.back().map(|last| last.sequence);
    while let (None, Some(after)) = (found, cursor) {
        let chunks = streams.read(root, after, CHUNKS).await?;
        found = chunks.iter().find_map(count);
        cursor = chunks.last().map(|last| last.sequence);
    }
    Ok(found)
}

/// Finds the last reply among the first `count` messages.
async fn reply_before(
    store: &dyn SessionStore,
    session: SessionKey<'_>,
    count: usize,
) -> Result<Option<AssistantMessage>, StreamError> {
    let mut end = count;
    while end > 0 {
        let start = end.saturating_sub(MESSAGES);
        let page = store.messages(session, Page::new(start, end - start));
        let messages = page.await?.items;
        let reply = messages
            .into_iter()
            .rev()
            .find_map(|message| match message {
                Message::Assistant(reply) => Some(reply),
                _ => None,
            });
        if reply.is_some() {
            return Ok(reply);
        }
        end = start;
    }
    Ok(None)
}

/// The deltas of a reply, each part as one piece.
pub(crate) fn reply_deltas(reply: &AssistantMessage) -> Vec<ChunkPayload> {
    let mut payloads = Vec::new();
    for part in reply.parts.iter() {
        match part {
            AssistantPart::Text { text, .. } if !text.is_empty() => {
                payloads.push(ChunkPayload::TextDelta {
                    delta: text.clone(),
                });
            }
            AssistantPart::Thinking(thinking) if !thinking.text.is_empty() => {
                let block = |content: &str, is_complete| ChunkPayload::Thinking {
                    content: content.to_owned(),
                    is_complete,
                };
                payloads.extend([block(&thinking.text, false), block("", true)]);
            }
            // Its arguments are shown as the output.
            AssistantPart::ToolCall(call) if call.name == FINISH_TOOL => {}
            AssistantPart::ToolCall(call) => payloads.extend([
                ChunkPayload::ToolArgStreamStart {
                    tool_call_id: call.id.clone(),
                    tool_name: call.name.clone(),
                },
                ChunkPayload::ToolArgStreamDelta {
                    tool_call_id: call.id.clone(),
                    delta: call.arguments.to_string(),
                },
                ChunkPayload::ToolArgStreamEnd {
                    tool_call_id: call.id.clone(),
                },
            ]),
            _ => {}
        }
    }
    payloads
}
