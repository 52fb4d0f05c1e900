//! `[agents.NAME.context]`: what happens near the context limit.

use helix_agents_core::context::ContextPolicy;

use super::models::Models;
use super::suggest::remedy;
use super::{At, ConfigError, Section};

const CHOICES: [&str; 3] = ["fail", "keep_turns", "summarize"];

/// Reads the choice of an agent.
pub(super) fn read(agent: &Section<'_>, models: &mut Models) -> Result<ContextPolicy, ConfigError> {
    let Some(section) = agent.section("context")? else {
        return Ok(ContextPolicy::fail());
    };
    let choice = section.required("near_limit", "\"summarize\"")?;
    let turns = section.count("keep_turns", 1)?;
    let model = section.text("model")?;
    let at_tokens = section.count("at_tokens", 1)?;
    section.finish()?;
    let chosen = choice.value.as_str();
    if !CHOICES.contains(&chosen) {
        let message = format!(
            "`near_limit` cannot be `{chosen}`; {}",
            remedy(chosen, CHOICES)
        );
        return Err(section.error(&choice.at, message));
    }
    if let (Some(turns), "fail") = (&turns, chosen) {
        let message = "`keep_turns` has no effect where the run fails near the limit; set \
                       `near_limit = \"keep_turns\"`, or remove it";
        return Err(section.error(&turns.at, message.to_owned()));
    }
    if let (Some(model), true) = (&model, chosen != "summarize") {
        let message = "`model` has no effect without a summary; set `near_limit = \"summarize\"`, or \
                       remove it";
        return Err(section.error(&model.at, message.to_owned()));
    }
    let kept = turns.map(|turns| u32::try_from(turns.value).unwrap_or(u32::MAX));
    let mut policy = match (kept, chosen) {
        (None, "keep_turns") => {
            return Err(section.wrong("needs the number of turns to keep; write `keep_turns = 10`"));
        }
        (Some(kept), _) => ContextPolicy::keep_turns(kept),
        (None, _) => ContextPolicy::fail(),
    };
    if chosen == "summarize" {
        let Some(At { value, at }) = model else {
            return Err(section.wrong("needs a model for its summaries; write `model = \"NAME\"`"));
        };
        let Some(found) = models.get(&value, section.line()) else {
            let remedy = remedy(&value, models.names());
            let message = format!("the model `{value}` is not defined; {remedy}");
            return Err(section.error(&at, message));
        };
        policy = policy.summarized_with(found.model, found.config);
    }
    if let Some(tokens) = at_tokens {
        policy = policy.at_tokens(tokens.value);
    }
    Ok(policy)
}
