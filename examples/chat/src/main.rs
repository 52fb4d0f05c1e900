//! A chat in the terminal with a model of any provider.
//!
//! ```sh
//! cargo run -p chat                                                  # a scripted model, no key needed
//! ANTHROPIC_API_KEY=... cargo run -p chat                            # the provider whose key is there
//! OPENAI_BASE_URL=http://127.0.0.1:11434/v1 HELIX_MODEL=openai/qwen3 cargo run -p chat
//! ```
//!
//! Each line that you type is a turn of one session, and the reply is printed while it comes. The tool
//! `dice` shows that the model can call one. An empty line ends the chat.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::io::{BufRead, Write};
use std::time::Duration;

use helix_agents::TextEvent;
use helix_agents::models::{Provider, Script, ScriptedModel};
use helix_agents::prelude::*;

const SCRIPT: &str = r#"{ "rules": [
    { "match": "dice", "steps": [
      { "tool_calls": [ { "name": "dice", "arguments": { "sides": 6 } } ] },
      { "text": "It shows {{last_tool_result}}." } ] } ],
  "default": [ { "text": "I am a scripted model. Set a key to talk to a real one, or ask me for dice. You said: {{last_user}}" } ] }"#;

struct Games;

#[toolset]
impl Games {
    /// Throw a die, and return what it shows.
    #[tool]
    async fn dice(&self, cx: &ToolCx, sides: u32) -> ToolResult<u32> {
        let key = cx.idempotency_key().bytes();
        let thrown = key.fold(7_u32, |sum, byte| {
            sum.wrapping_mul(31).wrapping_add(byte.into())
        });
        Ok(thrown % sides.clamp(2, 100) + 1)
    }
}

/// The model that the environment asks for, by its name.
fn model_of_environment() -> Option<String> {
    if let Ok(name) = std::env::var("HELIX_MODEL") {
        return Some(name);
    }
    let usual = [
        (Provider::Anthropic, "claude-sonnet-4-5"),
        (Provider::OpenAiResponses, "gpt-5-mini"),
        (Provider::Gemini, "gemini-2.5-flash"),
    ];
    let found = usual.into_iter().find(|(provider, _)| provider.has_key());
    found.map(|(provider, model)| format!("{provider}/{model}"))
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let agent = Agent::builder("chat")
        .system_prompt("You are a friendly companion. Be brief.")
        .tools(Games);
    let agent = match model_of_environment() {
        Some(name) => {
            println!("(talking to {name})");
            agent.model(name).build()?
        }
        None => agent
            .model(ScriptedModel::new(Script::parse(SCRIPT)?))
            .build()?,
    };
    let runtime = LocalRuntime::new(MemoryStore::new());
    let session = SessionId::new("chat")?;
    let mut turns = 0;
    while let Some(line) = next_line(turns)? {
        println!("you: {line}");
        let run = match turns {
            0 => {
                runtime
                    .execute(&agent, Turn::new(line).session(session.clone()))
                    .await?
            }
            _ => runtime.send(&agent, &session, line).await?,
        };
        turns += 1;
        print!("agent: ");
        let mut events = run.text_events();
        while let Some(event) = events.next().await {
            match event {
                Ok(TextEvent::Delta(piece)) => print!("{piece}"),
                // The model call failed, and its reply begins again.
                Ok(TextEvent::Truncate(_)) => print!("\nagent: "),
                Err(error) => print!("({error})"),
            }
            std::io::stdout().flush()?;
        }
        println!();
    }
    runtime.shutdown(Duration::from_secs(10)).await;
    Ok(())
}

/// The next line that somebody typed. Without any there is one turn, so that the example shows something.
fn next_line(turns: usize) -> std::io::Result<Option<String>> {
    let mut line = String::new();
    if std::io::stdin().lock().read_line(&mut line)? == 0 && turns == 0 {
        return Ok(Some("Hello! Throw the dice, please.".to_owned()));
    }
    let line = line.trim();
    Ok((!line.is_empty()).then(|| line.to_owned()))
}
