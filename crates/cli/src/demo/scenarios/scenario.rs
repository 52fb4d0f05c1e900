//! What a message asks the demo agent to play.

use std::time::Duration;

/// A scenario, as a user's message names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scenario {
    Text,
    Count,
    Reasoning,
    ServerTool,
    ToolError,
    /// One client tool; then a slow text, or a sentence about the color.
    ClientTool {
        then: Option<Words>,
    },
    ClientToolTwo,
    /// One call that needs an approval, and how long the tool takes.
    Approval {
        takes: Duration,
    },
    Mixed,
    StatePatch,
    Slow(Words),
    Error,
    /// The message names no scenario.
    Unknown,
}

/// A text of this many words, with a wait between two of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Words {
    pub(super) count: u64,
    pub(super) apart: Duration,
}

/// What the agent says when it is asked for anything else.
pub(super) const HELP: &str = "Say one of: scenario:text, scenario:count, scenario:reasoning, scenario:server-tool, \
    scenario:tool-error, scenario:client-tool, scenario:client-tool-two, scenario:client-tool-slow n=10 ms=100, \
    scenario:approval, scenario:approval-slow ms=1000, scenario:mixed, scenario:state-patch, \
    scenario:slow n=10 ms=100, scenario:error";

const DEFAULT_WORDS: u64 = 10;
const DEFAULT_MILLISECONDS: u64 = 100;

/// More words would not fit into a reply.
const MOST_WORDS: u64 = 1_000_000;

impl Scenario {
    /// Reads `scenario:NAME` with optional ` key=number` pairs. Other words after the name mean nothing.
    pub(super) fn parse(message: &str) -> Self {
        let mut words = message.split_whitespace();
        let named = words.next().and_then(|word| word.strip_prefix("scenario:"));
        let Some(name) = named else {
            return Self::Unknown;
        };
        let (mut n, mut ms) = (None, None);
        for (key, value) in words.filter_map(|word| word.split_once('=')) {
            let number = value.parse::<u64>().ok();
            match key {
                "n" => n = number,
                "ms" => ms = number,
                _ => {}
            }
        }
        let wait = Duration::from_millis(ms.unwrap_or(DEFAULT_MILLISECONDS));
        let slow = Words {
            count: n.unwrap_or(DEFAULT_WORDS).min(MOST_WORDS),
            apart: wait,
        };
        match name {
            "text" => Self::Text,
            "count" => Self::Count,
            "reasoning" => Self::Reasoning,
            "server-tool" => Self::ServerTool,
            "tool-error" => Self::ToolError,
            "client-tool" => Self::ClientTool { then: None },
            "client-tool-slow" => Self::ClientTool { then: Some(slow) },
            "client-tool-two" => Self::ClientToolTwo,
            "approval" => Self::Approval {
                takes: Duration::ZERO,
            },
            "approval-slow" => Self::Approval { takes: wait },
            "mixed" => Self::Mixed,
            "state-patch" => Self::StatePatch,
            "slow" => Self::Slow(slow),
            "error" => Self::Error,
            _ => Self::Unknown,
        }
    }
}
