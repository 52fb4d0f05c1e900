//! Estimates the most that a model call may use.

use super::{BudgetAmount, BudgetUnit, Budgets};
use crate::agent::{Agent, AnyAgent};
use crate::error::{Coded, ErrorCode};
use crate::message::UserMessage;
use crate::model::{Model, ModelConfig, TokenUsage};
use crate::step::SystemPrompt;

/// The number of output tokens that is reserved for a call where neither the settings of the model nor the
/// model itself say how long a reply may become.
pub const DEFAULT_MAX_OUTPUT_TOKENS: u64 = 4096;

/// The number of bytes that count as one token in a prompt whose size is not known.
const BYTES_PER_TOKEN: usize = 4;

/// Estimates the tokens of a text of this many bytes.
pub(crate) fn text_tokens(bytes: usize) -> u64 {
    u64::try_from(bytes.div_ceil(BYTES_PER_TOKEN)).unwrap_or(u64::MAX)
}

/// A micro-dollar limit on a model whose prices are not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "agent {agent} has a budget in micro-dollars, and the prices of its model {model:?} are not known; give \
     the model its prices, or limit tokens instead"
)]
#[non_exhaustive]
pub struct UnpricedModel {
    /// The agent.
    pub agent: String,
    /// The name of the model.
    pub model: String,
}

impl Coded for UnpricedModel {
    fn code(&self) -> ErrorCode {
        ErrorCode::DefinitionInvalid
    }
}

/// Estimates calls of one model with the settings of one agent.
#[derive(Clone, Copy)]
pub(crate) struct CallEstimate<'a> {
    model: &'a dyn Model,
    max_output: u64,
}

impl<'a> CallEstimate<'a> {
    pub(crate) fn new(agent: &AnyAgent, model: &'a dyn Model) -> Self {
        Self::of_config(agent.model_config(), model)
    }

    /// Estimates calls of a model with these settings.
    pub(crate) fn of_config(config: &ModelConfig, model: &'a dyn Model) -> Self {
        let set = config.max_output_tokens.map(u64::from);
        let max_output = set
            .or(model.limits().max_output_tokens)
            .unwrap_or(DEFAULT_MAX_OUTPUT_TOKENS);
        Self { model, max_output }
    }

    /// Returns the longest reply that a call may give, in tokens.
    pub(crate) fn max_output(self) -> u64 {
        self.max_output
    }

    /// Returns what a call with a prompt of this size may use at most.
    pub(crate) fn of_prompt(self, tokens: u64) -> BudgetAmount {
        let usage = TokenUsage::new(tokens, self.max_output);
        BudgetAmount {
            steps: 1,
            tokens: usage.total(),
            micro_dollars: self.price(&usage).unwrap_or_default(),
            ..BudgetAmount::default()
        }
    }

    /// Returns the price of a call, if it is known.
    pub(crate) fn price(self, usage: &TokenUsage) -> Option<u64> {
        self.model.cost(usage)
    }

    /// Refuses a limit in micro-dollars that could not be counted.
    ///
    /// # Errors
    /// [`UnpricedModel`].
    pub(crate) fn check_priced(
        self,
        agent: &AnyAgent,
        is_limited: bool,
    ) -> Result<(), UnpricedModel> {
        self.check_priced_as(agent.name(), agent.model().name(), is_limited)
    }

    /// Refuses a limit in micro-dollars that could not be counted for a model of this name.
    ///
    /// # Errors
    /// [`UnpricedModel`].
    pub(crate) fn check_priced_as(
        self,
        agent: &str,
        model: &str,
        is_limited: bool,
    ) -> Result<(), UnpricedModel> {
        if !is_limited || self.price(&TokenUsage::new(1, 1)).is_some() {
            return Ok(());
        }
        Err(UnpricedModel {
            agent: agent.to_owned(),
            model: model.to_owned(),
        })
    }
}

/// The limits of an agent, and what its first model call may use, as a request carries them to an entry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum BudgetTerms {
    /// The entry does not know the agent. A session keeps the limits that it has.
    #[default]
    Unknown,
    /// Neither the agent nor the request limits anything.
    Unlimited,
    /// There are limits.
    Limited {
        /// The limits of the agent.
        agent: Box<Budgets>,
        /// The most that the first model call of a new session may use.
        first: Option<Box<BudgetAmount>>,
    },
}

impl BudgetTerms {
    /// Creates the terms for a run of this agent that begins with these messages, under the limits that the
    /// request sets.
    ///
    /// # Errors
    /// [`UnpricedModel`].
    pub(crate) fn of(
        agent: &AnyAgent,
        model: &dyn Model,
        messages: &[UserMessage],
        requested: Option<&Budgets>,
    ) -> Result<Self, UnpricedModel> {
        let limits = match requested {
            Some(requested) => agent.budgets().overlaid(requested),
            None => *agent.budgets(),
        };
        if limits.is_empty() {
            return Ok(Self::Unlimited);
        }
        let estimate = CallEstimate::new(agent, model);
        estimate.check_priced(agent, limits.limits_unit(BudgetUnit::MicroDollars))?;
        // A prompt that is made from the state is made in the effect alone.
        let first = match agent.system_prompt() {
            SystemPrompt::Static(system) => {
                let said = messages.iter().map(|one| one.content.len());
                let bytes = said.sum::<usize>().saturating_add(system.len());
                Some(Box::new(estimate.of_prompt(text_tokens(bytes))))
            }
            SystemPrompt::Dynamic(_) => None,
        };
        Ok(Self::Limited {
            agent: Box::new(*agent.budgets()),
            first,
        })
    }

    /// Creates the terms for a session that exists: what its next model call may use is known there.
    #[must_use]
    pub(crate) fn of_agent<Out>(agent: &Agent<Out>) -> Self {
        let agent = *agent.budgets();
        if agent.is_empty() {
            return Self::Unlimited;
        }
        Self::Limited {
            agent: Box::new(agent),
            first: None,
        }
    }

    /// Returns the limits of the agent, where they are known.
    #[must_use]
    pub(crate) fn agent(&self) -> Option<Budgets> {
        match self {
            Self::Unknown => None,
            Self::Unlimited => Some(Budgets::new()),
            Self::Limited { agent, .. } => Some(**agent),
        }
    }

    /// Returns what the first model call of a new session may use at most, where it is known.
    #[must_use]
    pub(crate) fn first(&self) -> Option<BudgetAmount> {
        match self {
            Self::Limited { first, .. } => first.as_deref().copied(),
            Self::Unknown | Self::Unlimited => None,
        }
    }
}
