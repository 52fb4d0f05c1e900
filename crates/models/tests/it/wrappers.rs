//! Models around models.

use std::sync::Arc;

use futures_util::{FutureExt, StreamExt};
use helix_agents_core::message::UserMessage;
use helix_agents_core::model::{
    EventStream, Model, ModelConfig, ModelError, ModelErrorKind, ModelEvent, ModelLimits,
    ModelReply, ModelRequest, ReplyBuilder, TokenUsage, ToolChoice,
};
use helix_agents_core::step::{SystemPrompt, build_messages_for_llm};
use helix_agents_core::time::{Clock, Timestamp};
use helix_agents_core::{SessionId, Transcript};
use helix_agents_models::{Fallback, Limited, Limiter, Price, Priced, Recorder};
use helix_agents_testkit::{MockModel, MockReply, SequentialIds, VirtualClock, block_on};
use serde_json::json;

/// A question to a model.
struct Question {
    history: Transcript,
    system: SystemPrompt,
    session: SessionId,
    config: ModelConfig,
    state: serde_json::Value,
    clock: VirtualClock,
}

/// The text and the output tokens of a reply, or the kind of an error and the output tokens that were used.
type Answer = Result<(String, u64), (ModelErrorKind, u64)>;

impl Question {
    fn new(text: &str) -> Self {
        let mut history = Transcript::new();
        history.push_user(UserMessage::new(text));
        Self {
            history,
            system: SystemPrompt::from("Be brief."),
            session: SessionId::new("s").unwrap(),
            config: ModelConfig::default(),
            state: json!({}),
            clock: VirtualClock::new(Timestamp::from_millis(0)).auto_advance(),
        }
    }

    fn request(&self) -> ModelRequest<'_> {
        ModelRequest {
            prompt: build_messages_for_llm(&self.history, &self.system, &self.state),
            tools: &[],
            tool_choice: ToolChoice::Auto,
            native_output: None,
            config: &self.config,
            state: &self.state,
            agent_type: "a",
            session_id: &self.session,
            attempt: 1,
            clock: &self.clock,
        }
    }

    fn ask(&self, model: &dyn Model) -> Answer {
        let ids = SequentialIds::new();
        let mut builder = ReplyBuilder::new(&self.history);
        for event in block_on(model.stream(self.request()).collect::<Vec<_>>()) {
            let pushed = event.and_then(|event| builder.push(event, &ids));
            if let Err(error) = pushed {
                let used = builder.usage().unwrap_or_default();
                return Err((error.kind, used.output));
            }
        }
        let ModelReply { message, usage, .. } = builder.finish().unwrap();
        Ok((message.content().unwrap_or_default(), usage.output))
    }
}

fn ask(model: &dyn Model) -> Answer {
    Question::new("hi").ask(model)
}

fn failing(kind: ModelErrorKind, output: u64) -> MockModel {
    MockModel::replies([MockReply::error(kind).with_usage(TokenUsage::new(0, output))])
}

fn saying(text: &str, output: u64) -> MockModel {
    MockModel::replies([MockReply::text(text).with_usage(TokenUsage::new(0, output))])
}

#[test]
fn the_next_model_is_asked_and_the_failed_one_is_paid() {
    let first = failing(ModelErrorKind::Overloaded, 2);
    let second = failing(ModelErrorKind::RateLimited, 3);
    let chain = Fallback::new(first).then(second).then(saying("hello", 4));
    assert_eq!(ask(&chain), Ok(("hello".to_owned(), 9)));
    assert_eq!(chain.name(), "test/mock|test/mock|test/mock");
}

#[test]
fn a_reply_in_progress_is_never_mixed() {
    let gone = ModelError::new(ModelErrorKind::Transport, "gone");
    let broken = MockReply::text("he")
        .with_usage(TokenUsage::new(0, 2))
        .then_fail(gone);
    let stand_in = Arc::new(saying("other", 1));
    let chain = Fallback::new(MockModel::replies([broken])).then(Arc::clone(&stand_in));
    assert_eq!(ask(&chain), Err((ModelErrorKind::Transport, 2)));
    assert_eq!(stand_in.replies_left(), 1, "nobody asked it");
}

#[test]
fn only_chosen_errors_lead_to_the_next_model() {
    let chain = |kind| Fallback::new(failing(kind, 0)).then(saying("hello", 1));
    assert_eq!(
        ask(&chain(ModelErrorKind::Auth)),
        Err((ModelErrorKind::Auth, 0))
    );
    let chosen = chain(ModelErrorKind::Auth).on([ModelErrorKind::Auth]);
    assert!(ask(&chosen).is_ok());
    let both = Fallback::new(failing(ModelErrorKind::Overloaded, 1))
        .then(failing(ModelErrorKind::RateLimited, 1));
    assert_eq!(
        ask(&both),
        Err((ModelErrorKind::RateLimited, 2)),
        "the last error is told"
    );
}

/// A model with limits and a price.
struct Sized(u64);

impl Model for Sized {
    fn stream<'a>(&'a self, _: ModelRequest<'a>) -> EventStream<'a> {
        Box::pin(futures_util::stream::empty())
    }

    fn limits(&self) -> ModelLimits {
        ModelLimits::new(self.0, 100 - self.0)
    }

    fn cost(&self, tokens: &TokenUsage) -> Option<u64> {
        Some(tokens.total() * self.0)
    }
}

#[test]
fn a_chain_has_the_smallest_limits_and_the_highest_price() {
    let chain = Fallback::new(Sized(10)).then(Sized(20));
    assert_eq!(chain.limits(), ModelLimits::new(10, 80));
    assert_eq!(chain.cost(&TokenUsage::new(1, 1)), Some(40));
    let unknown = chain.then(saying("x", 0));
    assert_eq!(
        unknown.cost(&TokenUsage::new(1, 1)),
        None,
        "one price is not known"
    );
    let priced = Priced::new(saying("x", 0), Price::new(1_000_000, 2_000_000));
    assert_eq!(priced.cost(&TokenUsage::new(3, 4)), Some(11));
}

#[test]
fn calls_beyond_a_limit_of_requests_wait() {
    let limiter = Limiter::new().requests_per_minute(2);
    let replies = ["a", "b", "c", "d"].map(MockReply::text);
    let model = Limited::new(MockModel::replies(replies), &limiter);
    let question = Question::new("hi");
    let mut begun = Vec::new();
    for _ in 0..4 {
        question.ask(&model).unwrap();
        begun.push(question.clock.now().as_millis());
    }
    assert_eq!(begun, [0, 0, 60_000, 60_000]);
}

/// The second call still fits, as far as is known; the third waits for both to leave the window. A call that
/// is too large alone is made all the same, and the next one waits for it.
#[test]
fn calls_beyond_a_limit_of_tokens_wait_and_models_share_it() {
    let limiter = Limiter::new().tokens_per_minute(100);
    let model = |tokens| {
        let reply = MockReply::text("a").with_usage(TokenUsage::new(tokens, 0));
        Limited::new(MockModel::replies([reply]), &limiter)
    };
    let question = Question::new("hi");
    let mut begun = Vec::new();
    for tokens in [40, 50, 50, 500, 1] {
        question.ask(&model(tokens)).unwrap();
        begun.push(question.clock.now().as_millis());
    }
    assert_eq!(begun, [0, 0, 60_000, 60_000, 120_000]);
}

#[test]
fn calls_beyond_a_limit_at_once_wait_for_the_end_of_another() {
    let limiter = Limiter::new().concurrent(1);
    let one = Limited::new(saying("one", 1), &limiter);
    let two = Limited::new(saying("two", 1), &limiter);
    let question = Question::new("hi");
    let mut first = one.stream(question.request());
    assert!(first.next().now_or_never().is_some());
    let mut second = two.stream(question.request());
    assert!(
        second.next().now_or_never().is_none(),
        "the first is not over"
    );
    drop(first);
    assert!(matches!(
        second.next().now_or_never(),
        Some(Some(Ok(ModelEvent::Text(text)))) if text == "two"
    ));
}

#[test]
fn a_recorded_call_is_played_without_a_model() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cassettes/chat.jsonl");
    let question = Question::new("hi");
    let model = MockModel::replies([
        MockReply::calls([("c1", "look", json!({ "id": 7 }))]).with_usage(TokenUsage::new(0, 5)),
        MockReply::text("two"),
    ])
    .with_native_output();
    let recorder = Recorder::new(&path, model).unwrap();
    let events = |model: &dyn Model| {
        let events: Vec<_> = block_on(model.stream(question.request()).collect());
        format!("{events:?}")
    };
    let recorded = events(&recorder);
    assert_eq!(
        events(&recorder),
        recorded,
        "the second time it is not asked"
    );

    let replay = Recorder::replay(&path).unwrap();
    assert_eq!(events(&replay), recorded);
    assert_eq!(
        (replay.name(), replay.supports_native_output()),
        ("test/mock", true)
    );
    let other = Question::new("another question").ask(&replay);
    assert_eq!(other, Err((ModelErrorKind::Invalid, 0)));
    // A call that is missing is added.
    let more = Recorder::new(&path, saying("added", 1)).unwrap();
    Question::new("another question").ask(&more).unwrap();
    assert_eq!(events(&more), recorded);
    let replay = Recorder::replay(&path).unwrap();
    let added = Question::new("another question").ask(&replay);
    assert_eq!(added, Ok(("added".to_owned(), 1)));
}

#[test]
fn a_failed_call_is_not_recorded_and_a_broken_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chat.jsonl");
    let recorder = Recorder::new(&path, failing(ModelErrorKind::Overloaded, 1)).unwrap();
    assert!(ask(&recorder).is_err());
    assert!(!path.exists());
    let missing = Recorder::replay(&path).unwrap_err().to_string();
    assert!(missing.contains("cannot be used"), "{missing}");
    std::fs::write(
        &path,
        "{\"model\":\"m\",\"nativeOutput\":false}\nnonsense\n",
    )
    .unwrap();
    let broken = Recorder::replay(&path).unwrap_err().to_string();
    assert!(broken.starts_with("line 2 of the cassette"), "{broken}");
}

/// A model whose limits are known.
#[derive(Debug)]
struct Known(MockModel);

impl Model for Known {
    fn stream<'a>(&'a self, request: ModelRequest<'a>) -> EventStream<'a> {
        self.0.stream(request)
    }

    fn limits(&self) -> ModelLimits {
        ModelLimits::new(1_000, 100)
    }
}

/// Without them an agent that leaves turns out near the limit could be recorded, and not played.
#[test]
fn a_cassette_has_the_limits_of_its_model() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chat.jsonl");
    let recorder = Recorder::new(&path, Known(saying("hi", 1))).unwrap();
    ask(&recorder).unwrap();
    let replay = Recorder::replay(&path).unwrap();
    assert_eq!(replay.limits(), ModelLimits::new(1_000, 100));
}
