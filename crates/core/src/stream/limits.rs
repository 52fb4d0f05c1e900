//! The limits of a stream, and how a larger chunk is made to fit.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;

use super::{Chunk, ChunkPayload, StreamError};
use crate::bounds::up_to;
use crate::json::Json;
use crate::shared_str::SharedStr;
use crate::state::PatchOp;

/// The limits of a stream.
///
/// A store chooses them once: it returns them from [`StreamManager::limits`](super::StreamManager::limits)
/// and gives the same to [`plan`](crate::store::plan). Take the default, unless the database stores only
/// smaller values well in one row; then take that size, such as 1 MiB. Half of it is also the largest
/// result, event or state change that is accepted from a tool, up to [`MAX_BYTES`](crate::bounds::MAX_BYTES),
/// so a low limit is one that users notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamLimits {
    /// The maximum size of a chunk, in bytes of its JSON.
    pub max_chunk_bytes: usize,
}

impl Default for StreamLimits {
    /// Chunks of up to 16 MiB, as the stores in memory and in SQLite take them: browsers parse a JSON
    /// text of this size without trouble.
    fn default() -> Self {
        Self::new(16 * 1024 * 1024)
    }
}

impl StreamLimits {
    /// Creates limits with this maximum size of a chunk.
    #[must_use]
    pub fn new(max_chunk_bytes: usize) -> Self {
        Self { max_chunk_bytes }
    }

    /// The size of the pieces of a text that is too large for one chunk, in bytes.
    pub(crate) fn piece(&self) -> usize {
        // Escaping makes a text at most six times as long.
        (self.max_chunk_bytes / 8).max(64)
    }

    /// Checks that all of these chunks may be written.
    ///
    /// # Errors
    /// [`StreamError::ChunkTooLarge`] for the first chunk that is too large.
    pub fn check(&self, chunks: &[Chunk]) -> Result<(), StreamError> {
        let limit = self.max_chunk_bytes;
        for chunk in chunks {
            let bytes = self.bytes(chunk);
            if bytes > limit {
                return Err(StreamError::ChunkTooLarge { bytes, limit });
            }
        }
        Ok(())
    }

    /// Returns the size of a chunk; 0 for one that is small enough in any case.
    fn bytes(&self, chunk: &Chunk) -> usize {
        let enough = self.max_chunk_bytes / 8;
        // Escaping makes a text at most six times as long, and a chunk adds little to its content:
        // only a large one is serialized to measure it.
        if chunk.payload.content_bytes(enough) <= enough {
            return 0;
        }
        serde_json::to_string(chunk).map_or(usize::MAX, |text| text.len())
    }

    /// Shrinks a chunk to the limit. Its large parts are shortened: results, arguments, outputs,
    /// custom events, values in a state patch, texts. A note replaces what is left out, and the
    /// chunk keeps its type. A list that is too long becomes several chunks.
    ///
    /// A reader that needs the omitted part finds it in the store.
    ///
    /// A writer of a chunk that must not be refused, like the end of a run, makes it fit first.
    #[must_use]
    pub(crate) fn fit(&self, chunk: Chunk) -> Vec<Chunk> {
        self.fit_all(vec![chunk])
    }

    /// Shrinks many chunks. Nearly always they fit, and are returned unchanged.
    pub(crate) fn fit_all(&self, chunks: Vec<Chunk>) -> Vec<Chunk> {
        if chunks.iter().all(|chunk| self.fits(chunk)) {
            return chunks;
        }
        let fitted = chunks.into_iter().map(|chunk| match self.fits(&chunk) {
            true => vec![chunk],
            false => self.shortened(chunk),
        });
        fitted.flatten().collect()
    }

    pub(crate) fn fits(&self, chunk: &Chunk) -> bool {
        self.bytes(chunk) <= self.max_chunk_bytes
    }

    /// Shortens and splits a chunk that is too large.
    fn shortened(&self, mut chunk: Chunk) -> Vec<Chunk> {
        // A chunk has at most three texts or values that may be large, each at most six times
        // as long once escaped.
        shorten(&mut chunk.payload, self.max_chunk_bytes / 32);
        let mut fitting = Vec::new();
        let mut waiting = vec![chunk];
        while let Some(mut chunk) = waiting.pop() {
            let rest = match self.fits(&chunk) {
                true => None,
                false => second_half(&mut chunk.payload),
            };
            match rest {
                Some(rest) => {
                    let rest = Chunk::new(Arc::clone(&chunk.base), chunk.timestamp, rest);
                    waiting.extend([rest, chunk]);
                }
                None => fitting.push(chunk),
            }
        }
        fitting
    }
}

/// Splits off the second half of a list; `None` if it cannot be split.
fn second_half(payload: &mut ChunkPayload) -> Option<ChunkPayload> {
    fn half<T>(list: &mut Vec<T>) -> Option<Vec<T>> {
        (list.len() > 1).then(|| list.split_off(list.len() / 2))
    }
    Some(match payload {
        ChunkPayload::StatePatch { patches } => ChunkPayload::StatePatch {
            patches: half(patches)?,
        },
        ChunkPayload::StateConflict { conflicts } => ChunkPayload::StateConflict {
            conflicts: half(conflicts)?,
        },
        ChunkPayload::RunPaused {
            status,
            tool_call_ids,
        } => ChunkPayload::RunPaused {
            status: *status,
            tool_call_ids: half(tool_call_ids)?,
        },
        _ => return None,
    })
}

/// Shortens every part of a payload that is longer than `piece` bytes.
fn shorten(payload: &mut ChunkPayload, piece: usize) {
    match payload {
        ChunkPayload::TextDelta { delta } | ChunkPayload::ToolArgStreamDelta { delta, .. } => {
            text(delta, piece);
        }
        ChunkPayload::Thinking { content, .. } => text(content, piece),
        ChunkPayload::ToolArgStreamStart { tool_name, .. } => name(tool_name, piece),
        ChunkPayload::ToolStart {
            tool_name,
            arguments: content,
            ..
        }
        | ChunkPayload::ToolApprovalRequest {
            tool_name,
            input: content,
            ..
        } => {
            name(tool_name, piece);
            json(content, piece);
        }
        ChunkPayload::Custom { event_name, data } => {
            text(event_name, piece);
            value(data, piece);
        }
        ChunkPayload::ToolEnd {
            tool_name,
            result,
            error,
            ..
        } => {
            name(tool_name, piece);
            value(result, piece);
            error.iter_mut().for_each(|error| text(error, piece));
        }
        ChunkPayload::ToolError {
            tool_name, error, ..
        }
        | ChunkPayload::ToolOutputError {
            tool_name, error, ..
        } => {
            name(tool_name, piece);
            text(error, piece);
        }
        ChunkPayload::ToolInputError {
            tool_name,
            input,
            error,
            ..
        } => {
            name(tool_name, piece);
            json(input, piece);
            text(error, piece);
        }
        ChunkPayload::ToolApprovalResponse { reason, .. }
        | ChunkPayload::RunInterrupted { reason } => {
            reason.iter_mut().for_each(|reason| text(reason, piece));
        }
        ChunkPayload::SubagentStart { sub_agent_type, .. } => text(sub_agent_type, piece),
        ChunkPayload::SubagentEnd {
            sub_agent_type,
            result,
            ..
        } => {
            text(sub_agent_type, piece);
            result.iter_mut().for_each(|result| value(result, piece));
        }
        ChunkPayload::StatePatch { patches } => {
            for patch in patches {
                match patch {
                    PatchOp::Add { value: new, .. } | PatchOp::Replace { value: new, .. } => {
                        value(new, piece);
                    }
                    PatchOp::Remove { .. } => {}
                }
            }
        }
        ChunkPayload::Error { error, detail, .. } => {
            text(error, piece);
            detail.iter_mut().for_each(|detail| text(detail, piece));
        }
        ChunkPayload::Output { output } => value(output, piece),
        ChunkPayload::StepDiscarded { reason } | ChunkPayload::StreamResync { reason } => {
            text(reason, piece);
        }
        ChunkPayload::ToolArgStreamEnd { .. }
        | ChunkPayload::RunStarted { .. }
        | ChunkPayload::RunResumed {}
        | ChunkPayload::CheckpointCreated { .. }
        | ChunkPayload::StepCommitted { .. }
        | ChunkPayload::StateConflict { .. }
        | ChunkPayload::RunPaused { .. }
        | ChunkPayload::ExecutorSuperseded {} => {}
    }
}

/// Keeps the beginning of a text and appends a note about the omitted bytes.
fn text(text: &mut String, piece: usize) {
    let all = text.len();
    if all <= piece {
        return;
    }
    let end = up_to(text, piece).len();
    text.truncate(end);
    let left = all - end;
    text.push_str(&format!(
        "… [{left} bytes left out: too large for the stream]"
    ));
}

/// The same for a text that is shared.
fn name(shared: &mut SharedStr, piece: usize) {
    if shared.len() > piece {
        let mut own = String::from(&*shared);
        text(&mut own, piece);
        *shared = own.into();
    }
}

/// Replaces a value that is too large by the beginning of its text.
fn value(value: &mut Value, piece: usize) {
    let mut shown = match &*value {
        Value::String(text) => Cow::Borrowed(text.as_str()),
        other => Cow::Owned(other.to_string()),
    };
    if shown.len() > piece {
        text(shown.to_mut(), piece);
        *value = Value::String(shown.into_owned());
    }
}

/// The same for a value that is shared.
fn json(shared: &mut Json, piece: usize) {
    let mut own = Value::clone(shared);
    value(&mut own, piece);
    *shared = own.into();
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::id::{AgentId, CallId, RunId, SessionId};
    use crate::session::RunStatus;
    use crate::stored::decode;
    use crate::stream::ChunkOrigin;
    use crate::time::Timestamp;

    const LIMIT: usize = 4096;

    fn chunk(payload: ChunkPayload) -> Chunk {
        let base = ChunkOrigin::new(
            AgentId::new("a").unwrap(),
            "agent",
            SessionId::new("s").unwrap(),
            RunId::new("r").unwrap(),
            1,
        );
        Chunk::new(Arc::new(base), Timestamp::from_millis(1), payload)
    }

    /// Creates a payload of every type, from the golden samples, with enlarged texts, values and lists.
    fn grown() -> Vec<Chunk> {
        let samples = include_str!("../../tests/golden/chunk.v1.jsonl");
        let mut all = Vec::new();
        for line in samples.lines() {
            let mut json = serde_json::to_value(decode::<Chunk>(line).unwrap()).unwrap();
            // A control character is the worst case: six bytes for one when escaped.
            let long = "\u{1}ü".repeat(LIMIT);
            for (key, field) in json.as_object_mut().unwrap() {
                match key.as_str() {
                    "delta" | "content" | "error" | "detail" | "reason" | "toolName"
                    | "eventName" | "subAgentType" => *field = json!(long),
                    "arguments" | "input" | "result" | "data" | "output" => {
                        *field = json!({ "deep": [long] });
                    }
                    "patches" | "conflicts" | "toolCallIds" => {
                        let list = field.as_array_mut().unwrap();
                        let one = list.first().cloned();
                        list.extend(std::iter::repeat_n(one, LIMIT).flatten());
                    }
                    _ => {}
                }
            }
            all.push(serde_json::from_value(json).unwrap());
        }
        all
    }

    #[test]
    fn every_kind_of_chunk_can_be_made_to_fit() {
        let limits = StreamLimits::new(LIMIT);
        let mut shortened = 0;
        for large in grown() {
            let fits = limits.check(std::slice::from_ref(&large)).is_ok();
            let fitted = limits.fit(large.clone());
            assert!(!fitted.is_empty());
            for one in &fitted {
                let size = serde_json::to_string(one).unwrap().len();
                assert!(size <= LIMIT, "{size} bytes: {one:?}");
                assert_eq!(one.base, large.base);
                let (new, old) = (&one.payload, &large.payload);
                assert_eq!(std::mem::discriminant(new), std::mem::discriminant(old));
            }
            assert_eq!(fits, fitted == [large], "what fits is left alone");
            shortened += usize::from(!fits);
        }
        assert!(shortened > 15, "only {shortened} were too large");
    }

    #[test]
    fn a_long_list_becomes_several_chunks_in_order() {
        let ids = (0..LIMIT).map(|n| CallId::new(format!("call-{n}")).unwrap());
        let ids: Vec<_> = ids.collect();
        let fitted = StreamLimits::new(LIMIT).fit(chunk(ChunkPayload::RunPaused {
            status: RunStatus::SuspendedClientTool,
            tool_call_ids: ids.clone(),
        }));
        let ids_in_chunks = fitted.into_iter().flat_map(|chunk| match chunk.payload {
            ChunkPayload::RunPaused { tool_call_ids, .. } => tool_call_ids,
            other => panic!("a pause stays a pause: {other:?}"),
        });
        assert_eq!(ids_in_chunks.collect::<Vec<_>>(), ids);
    }

    #[test]
    fn a_shortened_text_ends_with_the_number_of_omitted_bytes() {
        let limits = StreamLimits::new(LIMIT);
        let output = json!({ "text": "x".repeat(LIMIT) });
        let fitted = limits.fit(chunk(ChunkPayload::Output { output }));
        let [one] = &fitted[..] else {
            panic!("one chunk stays one: {fitted:?}");
        };
        let ChunkPayload::Output { output } = &one.payload else {
            panic!("an output stays an output: {one:?}");
        };
        let text = output.as_str().unwrap();
        assert!(text.starts_with(r#"{"text":"xxx"#), "{text}");
        let left = LIMIT + r#"{"text":""}"#.len() - LIMIT / 32;
        assert!(text.ends_with(&format!(
            "… [{left} bytes left out: too large for the stream]"
        )));
    }
}
