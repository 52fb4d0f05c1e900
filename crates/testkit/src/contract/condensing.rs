//! Condensed streams: the deltas of past turns are gone, and readers get them from the messages.

use std::sync::Arc;

use helix_agents_core::SessionId;
use helix_agents_core::message::{
    AssistantMessage, AssistantPart, Thinking, ToolCall, UserMessage,
};
use helix_agents_core::session::RunTrigger;
use helix_agents_core::store::Change;
use helix_agents_core::stream::{
    Chunk, ChunkOrigin, ChunkPayload, Sequence, StoredChunk, StreamItem, StreamStatus, StreamWriter,
};
use helix_agents_core::transcript::PairedStep;
use serde_json::json;

use super::Subject;
use super::builders::{accepted, call, child_of, chunk, commit, event, result, run, running};
use super::everything::chunks;
use super::streaming::{next, reader, rest, streaming};

/// Condensing removes the deltas whose content is in the messages, and nothing else.
///
/// proves: STR-01
pub async fn condensing_removes_what_the_messages_hold_and_nothing_else(on: &Subject) {
    let (root, writer) = streaming(on, "s").await;
    turn(on, &writer, &root, 1).await;
    let all = chunks(on, &root).await;
    let end = all.last().unwrap().sequence;
    on.streams.condense(&root, end).await.unwrap();
    let (_, kept): (Vec<_>, Vec<_>) = { all }
        .into_iter()
        .partition(|stored| stored.chunk.payload.is_in_messages());
    assert!(kept.iter().any(is_custom), "events of tools stay");
    for on in [on, on.elsewhere()] {
        assert_eq!(chunks(on, &root).await, kept);
        let info = on.streams.info(&root).await.unwrap().unwrap();
        assert_eq!((info.condensed, info.last), (end, end));
        assert_eq!(info.trimmed, Sequence::START);
    }
    // The next turn begins after it, and has its deltas.
    accepted(on, commit(on, &root).stream(StreamStatus::Active)).await;
    turn(on, &writer, &root, 2).await;
    let (found, next_turn) = (chunks(on, &root).await, end.next());
    let later = found.iter().filter(|one| one.sequence > end);
    let deltas = later.filter(|one| one.chunk.payload.is_in_messages());
    assert_eq!(deltas.count(), 9);
    assert!(found.iter().any(|one| one.sequence == next_turn));
    // More than there is takes what there is, and a second time takes nothing back.
    on.streams.condense(&root, Sequence(999)).await.unwrap();
    on.streams.condense(&root, end).await.unwrap();
    let info = on.streams.info(&root).await.unwrap().unwrap();
    assert_eq!(info.condensed, info.last);
    let found = chunks(on, &root).await;
    assert!(!found.iter().any(|one| one.chunk.payload.is_in_messages()));
}

/// A reader of a condensed stream gets the same texts, thinking and arguments, each as a whole and in its
/// place, and every other chunk with the same sequence.
///
/// proves: STR-01
pub async fn a_condensed_stream_is_read_like_before(on: &Subject) {
    let (root, writer) = streaming(on, "s").await;
    for step in 1..=3 {
        turn(on, &writer, &root, step).await;
    }
    let (before, _) = rest(&mut reader(on, &root, Sequence::START)).await;
    let end = before.last().unwrap().sequence;
    on.streams.condense(&root, end).await.unwrap();
    let (after, status) = rest(&mut reader(on.elsewhere(), &root, Sequence::START)).await;
    assert_eq!(status, StreamStatus::Ended);
    assert_eq!(others(&after), others(&before));
    assert_eq!(Client::of(&after), Client::of(&before));
    let grows = |two: &[StoredChunk]| two[0].sequence < two[1].sequence;
    assert!(after.windows(2).all(grows), "each has a number of its own");
    let whole = after
        .iter()
        .filter(|one| one.chunk.payload.is_in_messages());
    assert_eq!(whole.count(), 3 * 6, "each part is one piece: {after:?}");
}

/// A reader that resumes in a condensed stream misses nothing and has nothing twice, wherever it stopped,
/// before the stream was condensed or after.
///
/// proves: STR-01
pub async fn a_reader_resumes_in_a_condensed_stream(on: &Subject) {
    let (root, writer) = streaming(on, "s").await;
    for step in 1..=2 {
        turn(on, &writer, &root, step).await;
    }
    let (before, _) = rest(&mut reader(on, &root, Sequence::START)).await;
    let wanted = Client::of(&before);
    let end = before.last().unwrap().sequence;
    let mut slow = Vec::new();
    for count in 0..=before.len() {
        let mut one = reader(on, &root, Sequence::START);
        let mut client = Client::default();
        for _ in 0..count {
            client.take(next(&mut one).await);
        }
        slow.push((one, client));
    }
    on.streams.condense(&root, end).await.unwrap();
    for (one, client) in &mut slow {
        let (cursor, mut resumed) = (one.cursor(), client.clone());
        // One that was reading all the time, and one that comes back.
        resumed.read(rest(&mut reader(on, &root, cursor)).await.0);
        assert_eq!(resumed, wanted, "from {cursor}");
        client.read(rest(one).await.0);
        assert_eq!(*client, wanted, "read up to {cursor}");
    }
    let (after, _) = rest(&mut reader(on, &root, Sequence::START)).await;
    for count in 0..after.len() {
        let mut client = Client::of(&after[..count]);
        let cursor = after[..count].last().map(|one| one.sequence);
        let cursor = cursor.unwrap_or_default();
        client.read(rest(&mut reader(on, &root, cursor)).await.0);
        assert_eq!(client, wanted, "from {cursor}, of the condensed stream");
    }
}

/// The replies of several sessions in one stream are given to readers where they belong.
///
/// proves: STR-01
pub async fn replies_of_several_sessions_are_made_from_their_messages(on: &Subject) {
    let (root, writer) = streaming(on, "s").await;
    let child = child_of(on, &root, &root, "child").await;
    let (_, fence) = running(on, &child, "run").await;
    let helper = StreamWriter::new(root.clone(), child.clone(), fence);
    // The deltas of both stand before the first chunk that stays.
    for writer in [&writer, &helper] {
        stream_reply(on, writer, 1).await;
    }
    for writer in [&writer, &helper] {
        call_tool(on, writer, 1).await;
    }
    for writer in [&helper, &writer] {
        settle(on, writer, 1, "run").await;
    }
    accepted(on, commit(on, &root).stream(StreamStatus::Ended)).await;
    let (before, _) = rest(&mut reader(on, &root, Sequence::START)).await;
    let end = before.last().unwrap().sequence;
    on.streams.condense(&root, end).await.unwrap();
    let (after, _) = rest(&mut reader(on, &root, Sequence::START)).await;
    assert_eq!(others(&after), others(&before));
    for session in [&root, &child] {
        let of = |all: &[StoredChunk]| {
            let all = all
                .iter()
                .filter(|one| one.chunk.base.session_id == *session);
            Client::of(&all.cloned().collect::<Vec<_>>())
        };
        assert_eq!(of(&after), of(&before), "{session}");
    }
    let falls = |two: &[StoredChunk]| two[0].sequence > two[1].sequence;
    assert!(!after.windows(2).any(falls), "numbers never fall");
}

/// A step that one run began and another completed is given once.
pub async fn a_step_of_two_runs_is_given_once(on: &Subject) {
    let (root, writer) = streaming(on, "s").await;
    stream_reply(on, &writer, 1).await;
    call_tool(on, &writer, 1).await;
    let again = RunTrigger::Continue;
    let resumed = ChunkPayload::RunStarted {
        trigger: again,
        turn: 1,
    };
    let resumed = of_step(chunk(on, &root, resumed), 0, "next");
    accepted(on, commit(on, &root).say(resumed)).await;
    settle(on, &writer, 1, "next").await;
    accepted(on, commit(on, &root).stream(StreamStatus::Ended)).await;
    let (before, _) = rest(&mut reader(on, &root, Sequence::START)).await;
    let end = before.last().unwrap().sequence;
    on.streams.condense(&root, end).await.unwrap();
    for cursor in [Sequence::START].into_iter().chain(others_numbers(&before)) {
        let seen = before.iter().filter(|one| one.sequence <= cursor);
        let mut client = Client::of(&seen.cloned().collect::<Vec<_>>());
        client.read(rest(&mut reader(on, &root, cursor)).await.0);
        assert_eq!(client, Client::of(&before), "from {cursor}");
    }
}

/// A reply is found, and given once, also in a step with more events than are read at once.
pub async fn a_reply_before_many_events_is_given_once(on: &Subject) {
    let (root, writer) = streaming(on, "s").await;
    stream_reply(on, &writer, 1).await;
    call_tool(on, &writer, 1).await;
    for batch in 0..6 {
        let events = (0..100).map(|number| event(on, &root, &format!("{batch}-{number}")));
        let events = events.map(|said| of_step(said, 1, "run")).collect();
        on.streams.append_deltas(&writer, events).await.unwrap();
    }
    settle(on, &writer, 1, "run").await;
    accepted(on, commit(on, &root).stream(StreamStatus::Ended)).await;
    let (before, _) = rest(&mut reader(on, &root, Sequence::START)).await;
    let end = before.last().unwrap().sequence;
    on.streams.condense(&root, end).await.unwrap();
    for cursor in [0, 5, 12, 300, 590].map(Sequence) {
        let seen = before.iter().filter(|one| one.sequence <= cursor);
        let mut client = Client::of(&seen.cloned().collect::<Vec<_>>());
        client.read(rest(&mut reader(on, &root, cursor)).await.0);
        assert_eq!(client, Client::of(&before), "from {cursor}");
    }
}

/// The reply of a step that is followed by a notice, in the same commit, is found; so is that of the next
/// step.
pub async fn a_reply_before_a_notice_is_found(on: &Subject) {
    let (root, writer) = streaming(on, "s").await;
    for step in 1..=2 {
        stream_reply(on, &writer, step).await;
        call_tool(on, &writer, step).await;
        for text in ["one", "two"] {
            let notice = Change::Notice(UserMessage::hidden(text));
            accepted(on, commit(on, &root).then(notice)).await;
        }
        settle(on, &writer, step, "run").await;
    }
    accepted(on, commit(on, &root).stream(StreamStatus::Ended)).await;
    let (before, _) = rest(&mut reader(on, &root, Sequence::START)).await;
    let end = before.last().unwrap().sequence;
    on.streams.condense(&root, end).await.unwrap();
    let (after, _) = rest(&mut reader(on.elsewhere(), &root, Sequence::START)).await;
    assert_eq!(others(&after), others(&before));
    assert_eq!(Client::of(&after), Client::of(&before));
    let counts = after.iter().filter_map(|one| match one.chunk.payload {
        ChunkPayload::StepCommitted { message_count } => Some(message_count),
        _ => None,
    });
    assert_eq!(counts.collect::<Vec<_>>(), [4, 8]);
}

/// Writes a turn of one step with everything that a step can stream.
async fn turn(on: &Subject, writer: &StreamWriter, root: &SessionId, step: u32) {
    stream_reply(on, writer, step).await;
    call_tool(on, writer, step).await;
    settle(on, writer, step, "run").await;
    accepted(on, commit(on, root).stream(StreamStatus::Ended)).await;
}

/// The name of the call of a step.
fn name_of(writer: &StreamWriter, step: u32) -> String {
    format!("{}-{step}", writer.session)
}

fn reply(writer: &StreamWriter, step: u32) -> AssistantMessage {
    let name = name_of(writer, step);
    let text = format!("Step {step} of {}.", writer.session);
    AssistantMessage::new(vec![
        AssistantPart::Thinking(Thinking::new(format!("Think of {step}."))),
        AssistantPart::text(text),
        AssistantPart::ToolCall(ToolCall::new(call(&name), "t", json!({ "of": name }))),
    ])
}

fn of_step(mut chunk: Chunk, step: u32, by: &str) -> Chunk {
    let ChunkOrigin {
        agent_id,
        agent_type,
        session_id,
        ..
    } = ChunkOrigin::clone(&chunk.base);
    let base = ChunkOrigin::new(agent_id, agent_type, session_id, run(by), step);
    chunk.base = Arc::new(base);
    chunk
}

/// Streams a reply in small pieces: nine deltas.
async fn stream_reply(on: &Subject, writer: &StreamWriter, step: u32) {
    let id = call(&name_of(writer, step));
    let text = format!("Step {step} of {}.", writer.session);
    let arguments = json!({ "of": id }).to_string();
    let halves = |text: &str| {
        let (one, other) = text.split_at(text.len() / 2);
        [one.to_owned(), other.to_owned()]
    };
    let think = |content: String, is_complete| ChunkPayload::Thinking {
        content,
        is_complete,
    };
    let [first, second] = halves(&format!("Think of {step}."));
    let mut deltas = vec![
        think(first, false),
        think(second, false),
        think(String::new(), true),
    ];
    deltas.extend(halves(&text).map(|delta| ChunkPayload::TextDelta { delta }));
    deltas.push(ChunkPayload::ToolArgStreamStart {
        tool_call_id: id.clone(),
        tool_name: "t".into(),
    });
    deltas.extend(
        halves(&arguments).map(|delta| ChunkPayload::ToolArgStreamDelta {
            tool_call_id: id.clone(),
            delta,
        }),
    );
    deltas.push(ChunkPayload::ToolArgStreamEnd { tool_call_id: id });
    for batch in deltas.chunks(4) {
        let chunk = |payload: &ChunkPayload| {
            of_step(chunk(on, &writer.session, payload.clone()), step, "run")
        };
        let batch = batch.iter().map(chunk).collect();
        on.streams.append_deltas(writer, batch).await.unwrap();
    }
}

/// Commits the start of the call, and streams an event of the tool.
async fn call_tool(on: &Subject, writer: &StreamWriter, step: u32) {
    let name = name_of(writer, step);
    let start = ChunkPayload::ToolStart {
        tool_call_id: call(&name),
        tool_name: "t".into(),
        arguments: json!({ "of": name }).into(),
    };
    let start = of_step(chunk(on, &writer.session, start), step, "run");
    accepted(on, commit(on, &writer.root).say(start)).await;
    let said = of_step(event(on, &writer.session, &name), step, "run");
    on.streams.append_deltas(writer, vec![said]).await.unwrap();
}

/// Commits the step.
async fn settle(on: &Subject, writer: &StreamWriter, step: u32, by: &str) {
    let name = name_of(writer, step);
    let step_of = PairedStep::new(reply(writer, step), [result(&name)]).unwrap();
    let end = ChunkPayload::ToolEnd {
        tool_call_id: call(&name),
        tool_name: "t".into(),
        result: json!({ "of": name }),
        success: true,
        error: None,
    };
    let settled = ChunkPayload::StepCommitted { message_count: 0 };
    let say = |payload| of_step(chunk(on, &writer.session, payload), step, by);
    let settles = commit(on, &writer.root)
        .then_in(writer.session.clone(), Change::AppendStep(step_of))
        .say(say(end))
        .say(say(settled));
    accepted(on, settles).await;
}

fn is_custom(stored: &StoredChunk) -> bool {
    matches!(stored.chunk.payload, ChunkPayload::Custom { .. })
}

/// The chunks that a condensed stream keeps.
fn others(all: &[StoredChunk]) -> Vec<&StoredChunk> {
    all.iter()
        .filter(|one| !one.chunk.payload.is_in_messages())
        .collect()
}

fn others_numbers(all: &[StoredChunk]) -> impl Iterator<Item = Sequence> {
    others(all).into_iter().map(|one| one.sequence)
}

/// A page that shows a stream.
#[derive(Debug, Default, Clone, PartialEq)]
struct Client {
    /// The texts, thoughts and arguments, in their order.
    shown: String,
    /// How much of it is of committed steps.
    committed: usize,
    /// The other chunks.
    events: Vec<(Sequence, ChunkPayload)>,
}

impl Client {
    fn of(chunks: &[StoredChunk]) -> Self {
        let mut client = Self::default();
        client.read(chunks.to_vec());
        client
    }

    fn take(&mut self, item: Option<StreamItem>) {
        match item {
            Some(StreamItem::Chunk(stored)) => self.read(vec![stored]),
            other => panic!("a chunk, not {other:?}"),
        }
    }

    fn read(&mut self, chunks: Vec<StoredChunk>) {
        for StoredChunk {
            sequence, chunk, ..
        } in chunks
        {
            match chunk.payload {
                ChunkPayload::TextDelta { delta }
                | ChunkPayload::ToolArgStreamDelta { delta, .. } => self.shown.push_str(&delta),
                ChunkPayload::Thinking {
                    content,
                    is_complete,
                } => {
                    self.shown.push_str(&content);
                    self.shown.push_str(if is_complete { "|" } else { "" });
                }
                ChunkPayload::ToolArgStreamStart { tool_call_id, .. } => {
                    self.shown.push_str(&format!("<{tool_call_id}>"));
                }
                ChunkPayload::ToolArgStreamEnd { tool_call_id } => {
                    self.shown.push_str(&format!("</{tool_call_id}>"));
                }
                ChunkPayload::StreamResync { .. } => self.shown.truncate(self.committed),
                payload => {
                    if matches!(payload, ChunkPayload::StepCommitted { .. }) {
                        self.committed = self.shown.len();
                    }
                    self.events.push((sequence, payload));
                }
            }
        }
    }
}
