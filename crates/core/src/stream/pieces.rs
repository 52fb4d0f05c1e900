//! Splits a text that is too large for a chunk.

use super::ChunkPayload;
use crate::bounds::up_to;

/// Gives a payload, or one for each piece of a text that is longer than one.
pub(crate) fn split(payload: ChunkPayload, piece: usize, mut give: impl FnMut(ChunkPayload)) {
    match payload {
        ChunkPayload::TextDelta { delta } if delta.len() > piece => pieces(&delta, piece)
            .map(|delta| ChunkPayload::TextDelta { delta })
            .for_each(give),
        ChunkPayload::Thinking {
            content,
            is_complete,
        } if content.len() > piece => pieces(&content, piece)
            .map(|content| ChunkPayload::Thinking {
                content,
                is_complete,
            })
            .for_each(give),
        ChunkPayload::ToolArgStreamDelta {
            tool_call_id,
            delta,
        } if delta.len() > piece => pieces(&delta, piece)
            .map(|delta| ChunkPayload::ToolArgStreamDelta {
                tool_call_id: tool_call_id.clone(),
                delta,
            })
            .for_each(give),
        small => give(small),
    }
}

/// A text in pieces of at most so many bytes.
fn pieces(text: &str, size: usize) -> impl Iterator<Item = String> + '_ {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = Some(up_to(rest, size).len()).filter(|end| *end > 0);
        let (piece, after) = rest.split_at(end.unwrap_or(rest.len()));
        rest = after;
        Some(piece.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_delta_is_split_between_characters() {
        let text = "äöü€x".repeat(100);
        let all: Vec<_> = pieces(&text, 64).collect();
        assert!(all.iter().all(|piece| piece.len() <= 64));
        assert_eq!(all.concat(), text);
    }
}
