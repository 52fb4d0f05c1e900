//! A loop of your own, made of the public pure functions.
//!
//! ```sh
//! cargo run -p custom-loop
//! ```
//!
//! A scripted model, so no key is needed. It looks an order up, refunds it, and ends its turn with a
//! typed output; you see each step, and at the end the transcript, in which every call has its
//! result, and the state that the tools left behind. The loop keeps everything in memory and loses
//! it when it is killed: it shows what the framework's own loop is made of, not what it guarantees.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::Arc;

use helix_agents::core::id::IdSourceExt;
use helix_agents::core::message::{Message, UserMessage};
use helix_agents::core::model::{ModelExt, ModelRequest, ToolChoice};
use helix_agents::core::shared_state::SharedState;
use helix_agents::core::state::{Writer, apply_writes, merge_writes};
use helix_agents::core::step::{
    NextAction, PlanOptions, SUBAGENT_TOOL_PREFIX, StepResult, ToolResultInput,
    build_messages_for_llm, correction_message, create_tool_result_message, next_action,
    plan_step_processing, synthesize_not_executed_result,
};
use helix_agents::core::time::Timestamp;
use helix_agents::core::transcript::{PairedStep, Transcript};
use helix_agents::models::{Script, ScriptedModel};
use helix_agents::{Agent, ToolCx, ToolError, ToolResult, toolset};
use helix_agents_testkit::{SequentialIds, VirtualClock, block_on};
use serde::{Deserialize, Serialize};
use serde_json::Value;

const SCRIPT: &str = r#"{ "rules": [ { "match": "broken", "steps": [
    { "thinking": "what was paid?", "tool_calls": [ { "id": "c1", "name": "find_order", "arguments": { "order_id": "42" } } ] },
    { "tool_calls": [ { "id": "c2", "name": "refund", "arguments": { "order_id": "42", "cents": 1999 } },
                      { "id": "c3", "name": "refund", "arguments": { "order_id": "42", "cents": "all" } } ] },
    { "text": "The refund is on its way.", "finish": { "summary": "{{tool_result:c2}}", "refunded_cents": 1999 } } ] } ] }"#;

struct Shop;

#[derive(Serialize)]
struct Order {
    id: String,
    paid_cents: u64,
}

#[toolset]
impl Shop {
    /// Look up an order by its id.
    #[tool(read_only)]
    async fn find_order(&self, order_id: String) -> ToolResult<Order> {
        if order_id != "42" {
            return Err(ToolError::tell_model("order ids look like `42`"));
        }
        Ok(Order {
            id: order_id,
            paid_cents: 1999,
        })
    }

    /// Refund part or all of an order.
    #[tool(idempotent)]
    async fn refund(
        &self,
        cx: &ToolCx,
        order_id: String,
        /// Amount in cents, never more than was paid.
        cents: u64,
    ) -> ToolResult<String> {
        cx.edit_state(|draft| {
            draft.increment("/refunded_cents", cents)?;
            draft.push("/log", format!("order {order_id}"))
        })?;
        Ok(format!("refunded {cents} cents of order {order_id}"))
    }
}

#[derive(Debug, Deserialize, schemars::JsonSchema)]
struct Resolution {
    summary: String,
    refunded_cents: u64,
}

fn main() -> anyhow::Result<()> {
    let model = Arc::new(ScriptedModel::new(Script::parse(SCRIPT)?));
    let support = Agent::builder("support")
        .model(Arc::clone(&model))
        .system_prompt("Resolve the complaint. Refund only what the order shows was paid.")
        .tools(Shop)
        .output::<Resolution>()
        .max_steps(8)
        .initial_state(serde_json::json!({ "refunded_cents": 0, "log": [] }))
        .build()?;

    let (ids, clock) = (
        SequentialIds::new(),
        VirtualClock::new(Timestamp::from_millis(0)),
    );
    let (session, run) = (ids.session_id()?, ids.run_id()?);
    let mut state = Value::clone(support.initial_state());
    let mut transcript = Transcript::new();
    transcript.push_user(UserMessage::new("Order 42 arrived broken."));

    let (mut step, mut corrections) = (1, 0);
    let output = loop {
        let prompt = build_messages_for_llm(&transcript, support.system_prompt(), &state);
        let request = ModelRequest {
            prompt,
            config: support.model_config(),
            state: &state,
            agent_type: support.name(),
            session_id: &session,
            clock: &clock,
            tools: support.effective_tools(),
            tool_choice: ToolChoice::Auto,
            native_output: None,
            attempt: 1,
        };
        let reply = StepResult::from_reply(block_on(model.reply(request, &ids))?);
        let plan = plan_step_processing(&reply, PlanOptions::new(support.output_schema()));
        let next = next_action(&plan, &reply, step, support.stop_config());
        let Some(message) = plan.assistant_message else {
            anyhow::bail!("the model gave no reply: {next:?}");
        };

        // Every tool sees the committed state; what they write is merged in the model's order.
        let base = Arc::new(state.clone());
        let mut results = plan.settled_results;
        let (mut writers, mut fatal) = (Vec::new(), None);
        for (order, call) in plan.pending_tool_calls.into_iter().enumerate() {
            let view = SharedState::new(Arc::clone(&base))?;
            let cx = ToolCx::builder(session.clone(), run.clone(), call.id.clone())
                .state(view.clone())
                .build();
            let result = match support.tool(&call.name) {
                Some(tool) => block_on(tool.call(call.arguments.into_value(), cx)),
                None => Err(ToolError::tell_model(format!(
                    "there is no tool {}",
                    call.name
                ))),
            };
            println!("step {step}: {} -> {result:?}", call.name);
            if let Err(error) = &result
                && error.is_fatal()
            {
                fatal = Some(error.to_string());
            }
            writers.push(Writer {
                order,
                name: call.id.as_str().to_owned(),
                writes: view.writes()?,
            });
            results.push(create_tool_result_message(ToolResultInput {
                tool_call_id: call.id,
                tool_name: call.name,
                result: result.map_err(|error| error.model_text().to_owned()),
            }));
        }
        // Every call needs a result, also one that this loop has no use for.
        results.extend(plan.pending_sub_agent_calls.iter().map(|call| {
            let tool = format!("{SUBAGENT_TOOL_PREFIX}{}", call.agent_type);
            synthesize_not_executed_result(&call.id, &tool, "there are no sub-agents.")
        }));
        apply_writes(&mut state, &merge_writes(&base, writers).writes)?;
        transcript.push_step(PairedStep::new(message, results)?)?;

        if let Some(error) = fatal {
            anyhow::bail!("a tool ended the run: {error}");
        }
        match next {
            NextAction::Continue => step += 1,
            NextAction::Complete => break plan.output,
            NextAction::Correct(correction) if corrections < support.max_completion_retries() => {
                corrections += 1;
                transcript.push_user(correction_message(&correction));
            }
            NextAction::Correct(why) => {
                anyhow::bail!("no output after {corrections} corrections: {why:?}")
            }
            NextAction::Fail(error) => return Err(error.into()),
            other => anyhow::bail!("this loop does not know {other:?}"),
        }
    };

    println!("\ntranscript:");
    for message in transcript.iter() {
        let line = match message {
            Message::User(user) => format!("user       {}", user.content),
            Message::Assistant(said) => {
                let calls: Vec<_> = said.tool_calls().map(|call| call.id.as_str()).collect();
                format!(
                    "assistant  {} {calls:?}",
                    said.content().unwrap_or_default()
                )
            }
            Message::Tool(result) => {
                format!("tool       {} {}", result.tool_call_id, result.content)
            }
            _ => continue,
        };
        println!("  {line}");
    }
    println!("state: {state}");
    let resolution: Resolution = serde_json::from_value(output.unwrap_or_default())?;
    println!(
        "output: {} ({} cents)",
        resolution.summary, resolution.refunded_cents
    );
    Ok(())
}
