//! Messages, writes and usage.

use helix_agents_core::message::{
    AssistantMessage, AssistantPart, FilePart, Message, ResultStatus, Thinking, UserMessage,
};
use helix_agents_core::model::TokenUsage;
use helix_agents_core::state::{StateOp, StepWrites};
use helix_agents_core::usage::{CustomUsage, UsageEntry, UsageKind};
use helix_agents_core::{MessageId, UsageId};
use serde_json::json;

use super::records::{at, run};
use crate::make::{call, result};

const RESULT_STATUSES: [ResultStatus; 6] = [
    ResultStatus::Success,
    ResultStatus::Error,
    ResultStatus::Denied,
    ResultStatus::TimedOut,
    ResultStatus::NotExecuted,
    ResultStatus::Unknown,
];

fn user() -> UserMessage {
    UserMessage::new("hello")
        .with_id(MessageId::new("m1").unwrap())
        .with_file(FilePart::new("data:text/plain,hi", "text/plain").named("hi.txt"))
        .with_metadata("source", "web")
}

pub(super) fn assistant() -> AssistantMessage {
    let mut gated = call("c2", "refund", json!({"cents": 5}));
    gated.provider_metadata = Some(json!({"thoughtSignature": "x"}));
    AssistantMessage::new(vec![
        AssistantPart::Thinking(Thinking::new("check first").signed("sig")),
        AssistantPart::text("One moment."),
        AssistantPart::ToolCall(call("c1", "lookup", json!({"id": 7}))),
        AssistantPart::ToolCall(gated),
    ])
}

/// Reasoning that only the provider can read, beside reasoning without a signature.
fn redacted() -> AssistantMessage {
    let mut redacted = Thinking::default();
    redacted.redacted = Some("b64".to_owned());
    redacted.provider_metadata = Some(json!({"itemId": "rs_1"}));
    let thinking = [redacted, Thinking::new("aloud")];
    let mut message = AssistantMessage::new(thinking.map(AssistantPart::Thinking).into());
    message.metadata.insert("hidden".to_owned(), json!(true));
    message
}

/// A text with data that the provider expects back.
fn signed() -> AssistantMessage {
    AssistantMessage::new(vec![AssistantPart::Text {
        text: "Hi".to_owned(),
        provider_metadata: Some(json!({"thoughtSignature": "y"})),
    }])
}

pub(super) fn messages() -> Vec<Message> {
    let file = FilePart::new("data:text/plain,hi", "text/plain");
    let mut samples = vec![
        Message::User(user()),
        Message::User(UserMessage::new("hello").with_file(file)),
        Message::User(UserMessage::hidden("go on")),
        Message::Assistant(assistant()),
        Message::Assistant(redacted()),
        Message::Assistant(signed()),
        Message::Assistant(AssistantMessage::new(vec![])),
    ];
    for verbatim in [false, true] {
        samples.extend(RESULT_STATUSES.map(|status| {
            let mut result = result("c1");
            result.status = status;
            result.verbatim = verbatim;
            Message::Tool(result)
        }));
    }
    samples
}

pub(super) fn writes() -> StepWrites {
    let path = |text: &str| text.parse().unwrap();
    StepWrites::from(vec![
        StateOp::Append {
            path: path("/notes"),
            value: json!("b"),
        },
        StateOp::Replace {
            path: path("/a~1b"),
            value: json!({"x": null}),
        },
        StateOp::Delete { path: path("/old") },
        StateOp::Increment {
            path: path("/count"),
            by: 2.into(),
        },
    ])
}

pub(super) fn usage() -> Vec<UsageEntry> {
    let tokens = TokenUsage::new(12, 3);
    let mut all_tokens = tokens;
    all_tokens.cached = Some(4);
    all_tokens.reasoning = Some(2);
    let mut written = tokens;
    written.cache_write = Some(9);
    let name = || "refund".to_owned();
    let model = || "scripted/a".to_owned();
    let tool = |success| UsageKind::Tool {
        name: name().into(),
        success,
        duration_ms: 40,
    };
    let mut described = CustomUsage::new("search_requests", 1.5);
    described.data = Some(json!({"engine": "e"}));
    let kinds = [
        UsageKind::Tokens {
            model: model().into(),
            tokens,
            micro_dollars: None,
        },
        UsageKind::Tokens {
            model: model().into(),
            tokens: all_tokens,
            micro_dollars: None,
        },
        tool(true),
        tool(false),
        UsageKind::ClientToolWaitMs {
            name: name().into(),
            wait_ms: 900,
        },
        UsageKind::Subagent {
            name: "writer".to_owned(),
            tokens,
            micro_dollars: None,
        },
        UsageKind::Subagent {
            name: "writer".to_owned(),
            tokens,
            micro_dollars: Some(90),
        },
        UsageKind::Custom(described),
        UsageKind::Custom(CustomUsage::new("pages", 2.0)),
        UsageKind::Tokens {
            model: model().into(),
            tokens: written,
            micro_dollars: None,
        },
        UsageKind::Tokens {
            model: model().into(),
            tokens,
            micro_dollars: Some(1_250),
        },
    ];
    let entry = |kind| UsageEntry {
        id: UsageId::new("u1").unwrap(),
        run_id: run(),
        step: 2,
        timestamp: at(5),
        kind,
    };
    kinds.map(entry).into()
}
