//! A chain of models, in which the next takes over where one fails.

use std::sync::Arc;

use futures_util::{StreamExt, stream};
use helix_agents_core::model::{
    EventStream, Model, ModelError, ModelErrorKind, ModelEvent, ModelLimits, ModelRequest,
    TokenUsage,
};

/// A chain of models. Where an attempt fails before it has said anything, the next model is asked at once.
///
/// A reply in progress is never mixed: a model that fails in the middle of its reply fails the attempt, and
/// the loop begins again with the first model. By default the next model is asked when one is rate limited,
/// overloaded or cannot be reached ([`Fallback::on`] sets other kinds). What a failed model has used is
/// part of the usage.
///
/// Its limits are the smallest of the chain, and a reply costs what the dearest model would take for it: a
/// budget is never crossed by accident.
///
/// ```
/// use helix_agents_models::{Fallback, Script, ScriptedModel};
///
/// let script = Script::parse(r#"{ "default": [ { "text": "Hi" } ] }"#)?;
/// let stand_in = ScriptedModel::new(script.clone());
/// let model = Fallback::new(ScriptedModel::new(script)).then(stand_in);
/// # Ok::<(), helix_agents_models::ScriptError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Fallback {
    name: String,
    models: Vec<Arc<dyn Model>>,
    on: Vec<ModelErrorKind>,
}

impl Fallback {
    /// Begins a chain with the model that is asked first.
    #[must_use]
    pub fn new(first: impl Model + 'static) -> Self {
        Self {
            name: first.name().to_owned(),
            models: vec![Arc::new(first)],
            on: vec![
                ModelErrorKind::RateLimited,
                ModelErrorKind::Overloaded,
                ModelErrorKind::Transport,
            ],
        }
    }

    /// Adds the model that is asked when those before it have failed.
    #[must_use]
    pub fn then(mut self, next: impl Model + 'static) -> Self {
        self.name = format!("{}|{}", self.name, next.name());
        self.models.push(Arc::new(next));
        self
    }

    /// Sets the kinds of errors after which the next model is asked.
    #[must_use]
    pub fn on(mut self, kinds: impl IntoIterator<Item = ModelErrorKind>) -> Self {
        self.on = kinds.into_iter().collect();
        self
    }
}

/// An attempt: the model that is being asked, and what those before it have used.
struct Attempt<'a> {
    chain: &'a Fallback,
    request: ModelRequest<'a>,
    asked: usize,
    events: EventStream<'a>,
    has_said: bool,
    /// The tokens of the models that failed.
    spent: TokenUsage,
    /// The tokens of the model that is being asked.
    used: TokenUsage,
}

impl<'a> Attempt<'a> {
    async fn next(&mut self) -> Option<Result<ModelEvent, ModelError>> {
        loop {
            match self.events.next().await? {
                Ok(event) => return Some(Ok(self.passed(event))),
                Err(error) if self.has_said || !self.chain.on.contains(&error.kind) => {
                    return Some(Err(error));
                }
                Err(error) => {
                    self.asked += 1;
                    let Some(next) = self.chain.models.get(self.asked) else {
                        return Some(Err(error));
                    };
                    tracing::warn!(event = "model.fallback", to = next.name(), %error);
                    self.spent += std::mem::take(&mut self.used);
                    self.events = next.stream(self.request.clone());
                }
            }
        }
    }

    fn passed(&mut self, event: ModelEvent) -> ModelEvent {
        match event {
            ModelEvent::Usage(usage) => {
                self.used = usage;
                ModelEvent::Usage(self.total())
            }
            ModelEvent::Finished { stop_reason, usage } => {
                self.used = usage;
                ModelEvent::Finished {
                    stop_reason,
                    usage: self.total(),
                }
            }
            said => {
                self.has_said = true;
                said
            }
        }
    }

    fn total(&self) -> TokenUsage {
        let mut total = self.spent;
        total += self.used;
        total
    }
}

impl Model for Fallback {
    fn stream<'a>(&'a self, request: ModelRequest<'a>) -> EventStream<'a> {
        let Some(first) = self.models.first() else {
            return Box::pin(stream::empty());
        };
        let attempt = Box::new(Attempt {
            chain: self,
            events: first.stream(request.clone()),
            request,
            asked: 0,
            has_said: false,
            spent: TokenUsage::default(),
            used: TokenUsage::default(),
        });
        Box::pin(stream::unfold(attempt, |mut attempt| async {
            let event = attempt.next().await?;
            Some((event, attempt))
        }))
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn supports_native_output(&self) -> bool {
        self.models.iter().all(Model::supports_native_output)
    }

    fn limits(&self) -> ModelLimits {
        let smaller = |one: Option<u64>, other: Option<u64>| one.into_iter().chain(other).min();
        let mut limits = ModelLimits::default();
        for model in &self.models {
            let own = model.limits();
            limits.context_tokens = smaller(limits.context_tokens, own.context_tokens);
            limits.max_output_tokens = smaller(limits.max_output_tokens, own.max_output_tokens);
        }
        limits
    }

    fn cost(&self, tokens: &TokenUsage) -> Option<u64> {
        let costs: Option<Vec<u64>> = self.models.iter().map(|model| model.cost(tokens)).collect();
        costs?.into_iter().max()
    }
}
