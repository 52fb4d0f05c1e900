//! `[agents.NAME]`: the agents of a file.

use std::sync::Arc;

use helix_agents_core::agent::{Agent, AnyAgent};
use helix_agents_core::step::FINISH_TOOL;
use helix_agents_core::tool::{PersistentAgent, Tool};
use helix_agents_models::Script;

use super::models::Models;
use super::suggest::remedy;
use super::tools::Tools;
use super::{At, ConfigError, Section, budget, context};
use crate::prompt::Prompt;

/// Reads an agent. `agents` has those that it uses.
pub(super) fn read(
    name: &str,
    section: &Section<'_>,
    models: &mut Models,
    tools: &Tools,
    agents: &[AnyAgent],
) -> Result<AnyAgent, ConfigError> {
    let mut builder = Agent::builder(name);
    if let Some(text) = section.text("description")? {
        builder = builder.description(text.value);
    }
    if let Some(At { value, at }) = section.text("system_prompt")? {
        let prompt =
            Prompt::parse(&value).map_err(|error| section.error(&at, error.to_string()))?;
        builder = builder.system_prompt(prompt.into_system_prompt());
    }
    let model = section.required("model", "\"NAME\"")?;
    let Some(found) = models.get(&model.value, section.line()) else {
        let wanted = &model.value;
        let remedy = remedy(wanted, models.names());
        let message =
            format!("agent {name} uses the model `{wanted}`, which is not defined; {remedy}");
        return Err(section.error(&model.at, message));
    };
    let examples = section.texts("examples")?;
    builder = builder.examples(examples.into_iter().map(|example| example.value));
    let used = Arc::clone(&found.model);
    builder = builder.model(found.model).model_config(found.config);
    builder = builder.context(context::read(section, models)?);
    let mut listed: Vec<String> = Vec::new();
    for At { value, at } in section.texts("tools")? {
        if listed.contains(&value) {
            let message = format!("agent {name} uses the tool `{value}` twice; list it once");
            return Err(section.error(&at, message));
        }
        let tool = tools.get(&value).ok_or_else(|| {
            let remedy = remedy(&value, tools.names());
            let message =
                format!("agent {name} uses the tool `{value}`, which is not defined; {remedy}");
            section.error(&at, message)
        })?;
        builder = builder.tools(tool);
        listed.push(value);
    }
    for At { value, .. } in section.texts("sub_agents")? {
        let child = agents.iter().find(|agent| agent.name() == value);
        builder = match child {
            Some(child) => builder.tools(Tool::sub_agent(child)),
            None => builder,
        };
    }
    for line in persistent(section)? {
        let child = agents.iter().find(|known| known.name() == line.agent.value);
        let child = child.map(|child| match line.blocking {
            true => PersistentAgent::blocking(child),
            false => PersistentAgent::non_blocking(child),
        });
        let child = child.map(|child| match line.description {
            Some(text) => child.description(text),
            None => child,
        });
        builder = builder.persistent_agents(child);
    }
    if let Some(steps) = section.count("max_steps", 1)? {
        builder = builder.max_steps(u32::try_from(steps.value).unwrap_or(u32::MAX));
    }
    builder = builder.budget(budget::read(section)?);
    if let Some(state) = section.object("initial_state")? {
        builder = builder.initial_state(state.value);
    }
    let built = match section.object("output_schema")? {
        Some(schema) => builder.output_schema(schema.value).build(),
        None => builder.build().map(|agent| agent.erase()),
    };
    section.finish()?;
    let cannot = |error: &dyn std::error::Error| {
        section.wrong(format_args!("cannot be used: {}", chain(error)))
    };
    let agent = built.map_err(|error| cannot(&error))?;
    agent
        .check_context(used.as_ref())
        .map_err(|error| cannot(&error))?;
    Ok(agent)
}

/// Whether an agent must give an output but its script never does: neither with `finish`, nor by
/// calling a tool whose result is the output.
pub(super) fn never_finishes(agent: &AnyAgent, script: &Script) -> bool {
    let tools = agent
        .tools()
        .iter()
        .filter(|tool| tool.spec().options.finish_with);
    let names = tools.map(|tool| tool.schema().name);
    agent.output_schema().is_some()
        && !script.calls(FINISH_TOOL)
        && !names.into_iter().any(|name| script.calls(&name))
}

/// The agents in an order in which those that others use come first, as places in the list.
///
/// # Errors
/// When an agent uses one that is not defined, one twice, or itself.
pub(super) fn in_order(named: &[(String, Section<'_>)]) -> Result<Vec<usize>, ConfigError> {
    let mut order = Vec::new();
    for place in 0..named.len() {
        visit(named, place, &mut Vec::new(), &mut order)?;
    }
    Ok(order)
}

/// Adds an agent and those that it uses. `path` leads to it.
fn visit(
    named: &[(String, Section<'_>)],
    place: usize,
    path: &mut Vec<usize>,
    order: &mut Vec<usize>,
) -> Result<(), ConfigError> {
    let Some((name, section)) = named.get(place).filter(|_| !order.contains(&place)) else {
        return Ok(());
    };
    path.push(place);
    let mut listed: Vec<(&str, String)> = Vec::new();
    let sub_agents = section.texts("sub_agents")?.into_iter();
    let sub_agents = sub_agents.map(|name| ("sub_agents", name));
    let persistent = persistent(section)?.into_iter();
    let persistent = persistent.map(|line| ("persistent_agents", line.agent));
    for (key, At { value, at }) in sub_agents.chain(persistent) {
        let Some(child) = named.iter().position(|(other, _)| *other == value) else {
            let names = named.iter().map(|(name, _)| name.as_str());
            let remedy = remedy(&value, names);
            let message =
                format!("agent {name} uses the agent `{value}`, which is not defined; {remedy}");
            return Err(section.error(&at, message));
        };
        if listed.contains(&(key, value.clone())) {
            let message = format!("agent {name} uses the agent `{value}` twice; list it once");
            return Err(section.error(&at, message));
        }
        if let Some(from) = path.iter().position(|above| *above == child) {
            let circle = path.iter().skip(from).chain([&child]);
            let circle = circle.filter_map(|place| named.get(*place));
            let circle: Vec<_> = circle.map(|(name, _)| name.as_str()).collect();
            let message = format!(
                "agents cannot use each other in a circle ({}); leave one of them out of `{key}`",
                circle.join(" uses ")
            );
            return Err(section.error(&at, message));
        }
        visit(named, child, path, order)?;
        listed.push((key, value));
    }
    path.pop();
    order.push(place);
    Ok(())
}

/// A line of `persistent_agents`.
struct PersistentUse {
    agent: At<String>,
    blocking: bool,
    description: Option<String>,
}

/// The modes of persistent agents.
const MODES: [&str; 2] = ["blocking", "non-blocking"];

/// Reads the persistent agents of an agent.
fn persistent(section: &Section<'_>) -> Result<Vec<PersistentUse>, ConfigError> {
    let mut all = Vec::new();
    for line in section.list("persistent_agents")? {
        let agent = line.required("agent", "\"NAME\"")?;
        let mode = line.required("mode", "\"blocking\"")?;
        if !MODES.contains(&mode.value.as_str()) {
            let remedy = remedy(&mode.value, MODES);
            let message = format!("there is no mode `{}`; {remedy}", mode.value);
            return Err(section.error(&mode.at, message));
        }
        let description = line.text("description")?.map(|text| text.value);
        line.finish()?;
        all.push(PersistentUse {
            description,
            agent,
            blocking: mode.value == "blocking",
        });
    }
    Ok(all)
}

/// Formats an error with its causes.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    text
}
