//! Notes in the session's state, under `/notes`.

use helix_agents_core::tool::{ToolCx, ToolError, ToolResult};
use serde_json::{Value, json};

use super::builtin::text_of;

/// The location of the notes in the state.
const NOTES: &str = "/notes";

pub(super) fn schema() -> Value {
    json!({
        "type": "object",
        "required": ["action"],
        "properties": {
            "action": { "enum": ["add", "list", "remove"] },
            "text": { "type": "string", "description": "The note to add." },
            "number": { "type": "integer", "minimum": 1, "description": "Which note to remove, from 1." },
        },
        "additionalProperties": false,
    })
}

pub(super) async fn run(input: Value, cx: ToolCx) -> ToolResult<Value> {
    match text_of(&input, "action").as_str() {
        "add" => {
            let text = text_of(&input, "text");
            if text.is_empty() {
                return Err(ToolError::tell_model("give the `text` of the note to add"));
            }
            // Appended, so that notes of parallel calls are all kept.
            cx.edit_state(|draft| draft.push(NOTES, text))?;
        }
        "remove" => {
            let count = notes(&cx)?.len();
            let number = input.get("number").and_then(Value::as_u64).unwrap_or(0);
            let index = usize::try_from(number)
                .ok()
                .and_then(|number| number.checked_sub(1));
            let Some(index) = index.filter(|index| *index < count) else {
                let message = format!("note {number} not found; there are {count}");
                return Err(ToolError::tell_model(message));
            };
            cx.edit_state(|draft| draft.remove(format!("{NOTES}/{index}").as_str()).map(drop))?;
        }
        _ => {}
    }
    Ok(json!({ "notes": notes(&cx)? }))
}

fn notes(cx: &ToolCx) -> ToolResult<Vec<Value>> {
    let state = cx.state().get()?;
    let notes = state.pointer(NOTES).and_then(Value::as_array);
    Ok(notes.cloned().unwrap_or_default())
}
