//! A prompt is built, and a step appended, at the same cost whatever the length of the history.

use helix_agents_core::Transcript;
use helix_agents_core::message::{AssistantMessage, UserMessage};
use helix_agents_core::step::{SystemPrompt, build_messages_for_llm};
use helix_agents_core::transcript::PairedStep;
use serde_json::Value;

use crate::measure::{Report, Subject};

fn history(messages: usize) -> Transcript {
    let mut transcript = Transcript::new();
    while transcript.len() < messages {
        transcript.push_user(UserMessage::new("and then?"));
        append_step(&mut transcript);
    }
    transcript
}

fn append_step(transcript: &mut Transcript) {
    let step = PairedStep::new(AssistantMessage::text("a reply of some length"), []);
    if let Ok(step) = step {
        let _ = transcript.push_step(step);
    }
}

pub(crate) fn run(report: &mut Report) {
    let [short, long] = [history(10), history(10_000)];
    let system = SystemPrompt::from("You are helpful.");
    let build = |history: &Transcript| {
        let prompt = build_messages_for_llm(history, &system, &Value::Null);
        (
            prompt.system().len(),
            prompt.history().len(),
            prompt.history().assistant_messages_since_user(),
        )
    };
    report.compare(
        Subject::new("prompt, 10 messages", || build(&short)),
        Subject::new("prompt, 10,000 messages", || build(&long)),
        2.0,
    );
    report.compare(
        Subject::new("clone the history, 10 messages", || short.clone()),
        Subject::new("clone the history, 10,000 messages", || long.clone()),
        2.0,
    );
    let (mut short, mut long) = (short, long);
    report.compare(
        Subject::new("append a step after 10 messages", || {
            append_step(&mut short);
        }),
        Subject::new("append a step after 10,000 messages", || {
            append_step(&mut long);
        }),
        2.0,
    );
}
