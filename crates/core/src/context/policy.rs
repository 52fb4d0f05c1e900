//! The choice of an agent.

use crate::agent::{AnyAgent, ModelRef};
use crate::budget::CallEstimate;
use crate::error::{Coded, ErrorCode};
use crate::model::{Model, ModelConfig};

/// The number of turns that a summary leaves as they are, unless the agent says another.
const DEFAULT_KEPT_TURNS: u32 = 2;

/// The share of a model's context from which on a conversation is too long, in percent. The rest is room
/// for the reply, and for what an estimate misses.
const NEAR_PERCENT: u64 = 80;

/// Chooses what happens when a conversation comes near the context limit of its model.
///
/// Only whole turns are left out, and never the current one: a call is not parted from its result. What
/// is left out of the prompt stays in the history.
///
/// ```
/// use helix_agents::prelude::*;
/// use helix_agents::ContextPolicy;
///
/// let support = Agent::builder("support")
///     .model("anthropic/claude-sonnet-4-5")
///     .context(ContextPolicy::keep_turns(4).summarized_by("openai/gpt-5-mini"))
///     .build()?;
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct ContextPolicy {
    at_tokens: Option<u64>,
    /// How many turns are kept; `None`: nothing is left out.
    kept: Option<u32>,
    summary: Option<SummaryWriter>,
}

/// The model that writes summaries, and its settings.
#[derive(Debug, Clone)]
pub(crate) struct SummaryWriter {
    pub(crate) model: ModelRef,
    pub(crate) config: ModelConfig,
}

impl ContextPolicy {
    /// Fails the run with `provider_context_length` when the conversation is too long. The default.
    #[must_use]
    pub fn fail() -> Self {
        Self::default()
    }

    /// Leaves earlier turns out of the prompt, and keeps at most the last `turns`, the current one included.
    /// Fewer are kept if they would fill more than half of the room that the system prompt and the tools leave.
    #[must_use]
    pub fn keep_turns(turns: u32) -> Self {
        Self {
            kept: Some(turns),
            ..Self::default()
        }
    }

    /// Replaces the turns that are left out by a summary, which this model writes. If nothing else is said,
    /// the last 2 turns are kept.
    #[must_use]
    pub fn summarized_by(self, model: impl Into<ModelRef>) -> Self {
        self.summarized_with(model, ModelConfig::default())
    }

    /// As [`summarized_by`](Self::summarized_by), with settings for that model. The settings of the agent's own
    /// model do not apply to it, but for the time limit.
    #[must_use]
    pub fn summarized_with(mut self, model: impl Into<ModelRef>, config: ModelConfig) -> Self {
        self.kept.get_or_insert(DEFAULT_KEPT_TURNS);
        let model = model.into();
        self.summary = Some(SummaryWriter { model, config });
        self
    }

    /// Sets the number of tokens from which on a conversation is too long. If it is not set, this is 80 % of
    /// the context of the model, or what its longest reply leaves of it, if that is less.
    #[must_use]
    pub fn at_tokens(mut self, tokens: u64) -> Self {
        self.at_tokens = Some(tokens);
        self
    }

    /// Returns how many turns are kept; `None` if nothing is left out.
    #[must_use]
    pub fn kept_turns(&self) -> Option<u32> {
        self.kept
    }

    /// Returns the model that writes summaries.
    #[must_use]
    pub fn summary_model(&self) -> Option<&ModelRef> {
        self.summary.as_ref().map(|writer| &writer.model)
    }

    pub(crate) fn summary_writer(&self) -> Option<&SummaryWriter> {
        self.summary.as_ref()
    }

    /// Returns the first number that is zero.
    pub(crate) fn zero_limit(&self) -> Option<&'static str> {
        if self.kept == Some(0) {
            return Some("keep_turns");
        }
        (self.at_tokens == Some(0)).then_some("at_tokens")
    }

    /// Returns the limit for calls of this model.
    ///
    /// # Errors
    /// [`UnknownContextLimit`] if turns are to be left out near a limit that is not known.
    pub(crate) fn limit(
        &self,
        agent: &AnyAgent,
        model: &dyn Model,
    ) -> Result<ContextLimit, UnknownContextLimit> {
        let known = model.limits();
        let output = CallEstimate::new(agent, model).max_output();
        let near = known.context_tokens.map(|context| {
            let share = context / 100 * NEAR_PERCENT + context % 100 * NEAR_PERCENT / 100;
            // A model whose replies may fill its whole context has prompts all the same.
            share.min(context.saturating_sub(output)).max(context / 2)
        });
        let near = match (self.at_tokens, near) {
            (Some(set), Some(near)) => Some(set.min(near)),
            (one, other) => one.or(other),
        };
        if near.is_none() && self.kept.is_some() {
            return Err(UnknownContextLimit {
                agent: agent.name().to_owned(),
                model: agent.model().name().to_owned(),
            });
        }
        let most = match self.kept {
            Some(_) => known.context_tokens,
            None => self.at_tokens.or(known.context_tokens),
        };
        Ok(ContextLimit { near, most })
    }
}

/// The limit for the calls of one model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ContextLimit {
    /// The size from which on a prompt is to be reduced.
    pub(crate) near: Option<u64>,
    /// The size above which no call is made.
    pub(crate) most: Option<u64>,
}

/// An agent leaves turns out near the context limit of its model, and that limit is not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "agent {agent} is to leave out turns near the context limit of its model {model:?}, which is not known; \
     give the model its limit (`context_tokens`), or the agent a number of tokens (`at_tokens`)"
)]
#[non_exhaustive]
pub struct UnknownContextLimit {
    /// The name of the agent that leaves turns out.
    pub agent: String,
    /// The name of its model, whose limit is not known.
    pub model: String,
}

impl Coded for UnknownContextLimit {
    fn code(&self) -> ErrorCode {
        ErrorCode::DefinitionInvalid
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::Agent;
    use crate::model::{EventStream, ModelLimits, ModelRequest};

    #[derive(Debug)]
    struct Sized(ModelLimits);

    impl Model for Sized {
        fn stream<'a>(&'a self, _: ModelRequest<'a>) -> EventStream<'a> {
            Box::pin(futures_util::stream::empty())
        }

        fn name(&self) -> &str {
            "sized"
        }

        fn limits(&self) -> ModelLimits {
            self.0
        }
    }

    fn limit(
        policy: &ContextPolicy,
        limits: ModelLimits,
        output: Option<u32>,
    ) -> Result<ContextLimit, UnknownContextLimit> {
        let config = ModelConfig {
            max_output_tokens: output,
            ..ModelConfig::default()
        };
        let model = Sized(limits);
        let agent = Agent::builder("a").model("sized").model_config(config);
        policy.limit(&agent.build().unwrap().erase(), &model)
    }

    #[test]
    fn a_prompt_is_near_the_limit_at_its_share_or_where_the_reply_begins() {
        let policy = ContextPolicy::keep_turns(2);
        let near = |limits, output| limit(&policy, limits, output).unwrap().near;
        assert_eq!(near(ModelLimits::new(1000, 100), None), Some(800));
        assert_eq!(near(ModelLimits::new(1000, 300), None), Some(700));
        assert_eq!(near(ModelLimits::new(1000, 300), Some(250)), Some(750));
        assert_eq!(near(ModelLimits::new(1000, 1000), None), Some(500));
        assert_eq!(
            near(ModelLimits::new(u64::MAX, 1), None),
            Some(u64::MAX / 100 * 80 + 12)
        );
    }

    #[test]
    fn a_number_of_tokens_counts_as_far_as_the_model_can_read_them() {
        let policy = ContextPolicy::keep_turns(2).at_tokens(300);
        let found = limit(&policy, ModelLimits::new(1000, 100), None).unwrap();
        assert_eq!((found.near, found.most), (Some(300), Some(1000)));
        let small = limit(&policy, ModelLimits::new(200, 10), None).unwrap();
        assert_eq!(small.near, Some(160));
        let unknown = limit(&policy, ModelLimits::default(), None).unwrap();
        assert_eq!((unknown.near, unknown.most), (Some(300), None));
        let failing = limit(
            &ContextPolicy::fail().at_tokens(300),
            ModelLimits::default(),
            None,
        );
        assert_eq!(failing.unwrap().most, Some(300));
    }

    #[test]
    fn an_unknown_limit_is_refused_where_turns_are_to_be_left_out() {
        let unknown = ModelLimits::default();
        let refused = limit(&ContextPolicy::keep_turns(2), unknown, None).unwrap_err();
        assert!(refused.to_string().contains("context_tokens"), "{refused}");
        assert!(limit(&ContextPolicy::fail(), unknown, None).is_ok());
    }
}
