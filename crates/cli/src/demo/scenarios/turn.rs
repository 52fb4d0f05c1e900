//! What the model reads of the turn that it answers.

use helix_agents_core::message::{Message, ResultStatus, ToolMessage};
use helix_agents_core::model::ModelRequest;
use helix_agents_core::transcript::Transcript;
use serde_json::Value;

use super::scenario::Scenario;

/// The turn so far: the scenario, how many steps it has, and the results of its calls in the order of the calls.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    pub(super) scenario: Scenario,
    /// The number of the turn, which is the number of user messages.
    pub(super) number: usize,
    pub(super) steps: usize,
    results: Vec<&'a ToolMessage>,
}

impl<'a> Turn<'a> {
    pub(super) fn new(request: &ModelRequest<'a>) -> Self {
        Self::of(request.prompt.history())
    }

    pub(super) fn of(history: &'a Transcript) -> Self {
        let user = history.last_visible_user();
        let (at, message) = user.map_or((0, ""), |(at, user)| (at, user.content.as_str()));
        let results = history.iter_from(at).filter_map(|message| match message {
            Message::Tool(result) => Some(result),
            _ => None,
        });
        Self {
            scenario: Scenario::parse(message),
            number: history.visible_user_messages(),
            steps: history.assistant_messages_since_user(),
            results: results.collect(),
        }
    }

    /// The results of a tool in this turn.
    pub(super) fn results_of(&self, tool: &str) -> impl Iterator<Item = &'a ToolMessage> {
        let results = self.results.iter().copied();
        results.filter(move |result| result.tool_name.as_str() == tool)
    }

    /// The first result of a tool in this turn: its value, or the text of its failure.
    pub(super) fn outcome_of(&self, tool: &str) -> Result<Value, String> {
        match self.results_of(tool).next() {
            Some(result) => outcome(result),
            None => Err("there is no result".to_owned()),
        }
    }
}

/// The value of a result, or the text of its failure; of a denial, the reason that the person gave.
pub(super) fn outcome(result: &ToolMessage) -> Result<Value, String> {
    match result.status {
        ResultStatus::Success => Ok(result.value()),
        ResultStatus::Denied => Err(reason(&result.error_text()).to_owned()),
        _ => Err(result.error_text()),
    }
}

/// The reason in the text of a denial. The text before it is the framework's, so the first mark ends that.
fn reason(denial: &str) -> &str {
    match denial.split_once("Reason: ") {
        Some((_, reason)) => reason,
        None => "no reason given",
    }
}
