//! Splits state changes into chunks that a stream accepts.

use serde_json::{Map, Value};

use super::json_bytes;
use crate::state::{PatchOp, Pointer};

/// Splits changes into groups, none of which has more JSON than `limit`.
///
/// The value of one change may be larger than anything that was ever written: an array that grew over a
/// thousand steps is replaced as a whole when parallel appends end up in another order. Such a value is
/// reassembled from its parts. A part that cannot be split was within the limits when it entered.
pub(super) fn in_chunks(patches: Vec<PatchOp>, limit: usize) -> Vec<Vec<PatchOp>> {
    if json_bytes(&patches) <= limit {
        return vec![patches];
    }
    let mut pieces = Vec::new();
    for patch in patches {
        split(patch, limit, &mut pieces);
    }
    let mut groups = Vec::new();
    let (mut group, mut size) = (Vec::new(), 2);
    for piece in pieces {
        let bytes = json_bytes(&piece) + 1;
        if size + bytes > limit && !group.is_empty() {
            groups.push(std::mem::take(&mut group));
            size = 2;
        }
        size += bytes;
        group.push(piece);
    }
    if !group.is_empty() {
        groups.push(group);
    }
    groups
}

/// Splits one change into several with the same effect, none of which is too large.
fn split(patch: PatchOp, limit: usize, pieces: &mut Vec<PatchOp>) {
    // A group of one is a pair of brackets longer.
    if json_bytes(&patch) + 2 <= limit {
        pieces.push(patch);
        return;
    }
    let (path, value, replaces) = match patch {
        // A second append to the end of an array would go to another index. An appended value was
        // made in this step, so it is within what one step may write.
        PatchOp::Add { path, value } if path.last().as_deref() != Some("-") => (path, value, false),
        PatchOp::Replace { path, value } => (path, value, true),
        whole => {
            pieces.push(whole);
            return;
        }
    };
    let with = |path: Pointer, value: Value| {
        if replaces {
            PatchOp::Replace { path, value }
        } else {
            PatchOp::Add { path, value }
        }
    };
    match value {
        Value::Array(items) => {
            pieces.push(with(path.clone(), Value::Array(Vec::new())));
            for (index, item) in items.into_iter().enumerate() {
                let path = path.join(&index.to_string());
                split(PatchOp::Add { path, value: item }, limit, pieces);
            }
        }
        Value::Object(map) => {
            pieces.push(with(path.clone(), Value::Object(Map::new())));
            for (key, value) in map {
                let path = path.join(&key);
                split(PatchOp::Add { path, value }, limit, pieces);
            }
        }
        whole => pieces.push(with(path, whole)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::state::apply_patch;

    fn patches(json: Value) -> Vec<PatchOp> {
        serde_json::from_value(json).unwrap()
    }

    /// Whatever the limit, the pieces have the effect of the whole, and only what cannot
    /// be split is larger.
    #[test]
    fn the_pieces_have_the_same_effect_as_the_whole_change() {
        let base = json!({ "log": ["old"], "gone": 1 });
        let rows: Vec<Value> = (0..40)
            .map(|n| json!({ "n": n, "~/": ["x".repeat(n)] }))
            .collect();
        let all = patches(json!([
            { "op": "replace", "path": "/log", "value": rows },
            { "op": "add", "path": "/log/-", "value": { "end": [1, 2, 3] } },
            { "op": "remove", "path": "/gone" },
            { "op": "add", "path": "/new", "value": { "deep": { "er": rows } } },
        ]));
        let mut expected = base.clone();
        apply_patch(&mut expected, &all).unwrap();
        assert_eq!(in_chunks(all.clone(), 100_000), vec![all.clone()]);
        for limit in [120, 200, 1000, 5000] {
            let groups = in_chunks(all.clone(), limit);
            let mut state = base.clone();
            for group in &groups {
                assert!(json_bytes(group) <= limit, "{limit}: {group:?}");
                apply_patch(&mut state, group).unwrap();
            }
            assert_eq!(state, expected, "in groups of {limit}");
        }
        let text = patches(json!([{ "op": "add", "path": "/text", "value": "x".repeat(500) }]));
        assert_eq!(in_chunks(text.clone(), 100), [text]);
    }
}
