//! What a loop by hand writes of a step, whatever the database.

use helix_agents_core::message::{AssistantMessage, AssistantPart, ToolMessage};
use serde_json::{Value, json};

use crate::sqlite::Outcome;

/// The texts of a step, as they are written to any database.
#[derive(Debug)]
pub(crate) struct StepRows {
    pub(crate) open_step: String,
    pub(crate) reply_chunks: String,
    pub(crate) session: String,
    /// The reply and its results.
    pub(crate) entry: String,
    pub(crate) checkpoint: String,
    pub(crate) usage: &'static str,
    pub(crate) run: String,
    pub(crate) result_chunks: String,
}

impl StepRows {
    /// The rows of step `n`.
    pub(crate) fn of(
        n: usize,
        message: &AssistantMessage,
        results: &[ToolMessage],
    ) -> Outcome<Self> {
        let session = json!({ "status": "active", "agent": "adder", "version": 2 * n, "steps": n });
        let run = json!({ "id": "run-1", "status": "running", "steps": n, "host": "bare" });
        Ok(Self {
            open_step: serde_json::to_string(message)?,
            reply_chunks: serde_json::to_string(&reply_chunks(message))?,
            session: session.to_string(),
            entry: serde_json::to_string(&(message, results))?,
            checkpoint: format!("cp-{n}"),
            usage: r#"[{"tokens":[12,3]},{"tool":"add","ms":1}]"#,
            run: run.to_string(),
            result_chunks: serde_json::to_string(&result_chunks(results, n))?,
        })
    }
}

/// The stream chunks of a reply.
fn reply_chunks(message: &AssistantMessage) -> Vec<Value> {
    let mut all = Vec::new();
    for part in message.parts.iter() {
        match part {
            AssistantPart::Text { text, .. } => all.push(json!({ "type": "text", "delta": text })),
            AssistantPart::ToolCall(call) => {
                let id = &call.id;
                all.extend([
                    json!({ "type": "input_start", "id": id, "name": call.name }),
                    json!({ "type": "input", "id": id, "delta": call.arguments.to_string() }),
                    json!({ "type": "input_end", "id": id }),
                    json!({ "type": "call", "id": id, "name": call.name, "arguments": call.arguments }),
                ]);
            }
            _ => {}
        }
    }
    all
}

/// The stream chunks of the results of step `n`.
fn result_chunks(results: &[ToolMessage], n: usize) -> Vec<Value> {
    let results = results.iter().map(
        |result| json!({ "type": "result", "id": result.tool_call_id, "result": result.value() }),
    );
    let ends = [
        json!({ "type": "step", "messages": 2 * n }),
        json!({ "type": "checkpoint", "id": format!("cp-{n}") }),
    ];
    results.chain(ends).collect()
}
