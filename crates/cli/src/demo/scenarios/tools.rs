//! The tools of the demo agent.

use std::time::Duration;

use helix_agents_core::id::CallId;
use helix_agents_core::tool::{Tool, ToolBuilder, ToolCx, ToolError, ToolResult};
use serde_json::{Value, json};

pub(super) const GET_WEATHER: &str = "get_weather";
pub(super) const EXPLODE: &str = "explode";
pub(super) const PICK_COLOR: &str = "pick_color";
pub(super) const DELETE_FILE: &str = "delete_file";
pub(super) const UPDATE_STATE: &str = "update_state";

/// All tools. Those that run on the server may be run again: they do the same.
pub(super) fn all() -> [ToolBuilder; 5] {
    let object_of = |name: &str| json!({ "type": "object", "required": [name], "properties": { name: { "type": "string" } } });
    let get_weather = Tool::raw(
        GET_WEATHER,
        "Tells the temperature in a city.",
        object_of("city"),
        async |_: Value, _| Ok(json!({ "tempC": 21 })),
    )
    .read_only();
    let explode = Tool::raw(
        EXPLODE,
        "Always fails.",
        json!({ "type": "object", "properties": {} }),
        async |_: Value, _| Err::<Value, _>(ToolError::tell_model("boom: this tool always fails")),
    )
    .read_only();
    let pick_color = Tool::client_raw(
        PICK_COLOR,
        "Asks the user for a color.",
        object_of("prompt"),
    )
    .output_schema(object_of("color"));
    let delete_file = Tool::raw(
        DELETE_FILE,
        "Pretends to delete a file. A person has to approve.",
        object_of("path"),
        delete_file,
    )
    .approval()
    .idempotent();
    let update_state = Tool::raw(
        UPDATE_STATE,
        "Sets the counter in the state, and adds an item.",
        json!({
            "type": "object",
            "required": ["counter", "item"],
            "properties": { "counter": { "type": "integer" }, "item": { "type": "string" } },
        }),
        update_state,
    )
    .idempotent();
    [get_weather, explode, pick_color, delete_file, update_state]
}

async fn update_state(input: Value, cx: ToolCx) -> ToolResult<Value> {
    let field = |name| input.get(name).cloned().unwrap_or_default();
    cx.edit_state(|draft| {
        draft.set("/counter", field("counter"))?;
        draft.push("/items", field("item"))
    })?;
    Ok(json!({ "updated": true }))
}

async fn delete_file(_: Value, cx: ToolCx) -> ToolResult<Value> {
    tokio::select! {
        () = tokio::time::sleep(duration_of(cx.call_id())) => Ok(json!({ "deleted": true })),
        () = cx.abort_signal().aborted() => Err(ToolError::tell_model("stopped before it was deleted")),
    }
}

/// The id of a call that takes this long. How long is not in the arguments, which are the same for every scenario.
pub(super) fn delete_call_id(id: &str, takes: Duration) -> String {
    match takes.as_millis() {
        0 => id.to_owned(),
        ms => format!("{id}-{ms}ms"),
    }
}

/// Reads how long a call takes from its id, to which the session may have added a number.
fn duration_of(id: &CallId) -> Duration {
    let takes = || {
        let (_, last) = id.as_str().rsplit_once('-')?;
        let (ms, _) = last.split_once("ms")?;
        ms.parse().ok().map(Duration::from_millis)
    };
    takes().unwrap_or_default()
}
