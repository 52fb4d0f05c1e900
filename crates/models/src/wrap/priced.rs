//! A model with a price of the user's choice.

use helix_agents_core::model::{EventStream, Model, ModelLimits, ModelRequest, TokenUsage};

use crate::price::Price;

/// A model whose price is set by hand: one that no table has, or one with a contract of its own.
///
/// ```
/// use helix_agents_core::model::{Model, TokenUsage};
/// use helix_agents_models::{Price, Priced, Script, ScriptedModel};
///
/// let script = Script::parse(r#"{ "default": [ { "text": "Hi" } ] }"#)?;
/// let model = Priced::new(ScriptedModel::new(script), Price::new(3_000_000, 15_000_000));
/// assert_eq!(model.cost(&TokenUsage::new(1_000, 0)), Some(3_000));
/// # Ok::<(), helix_agents_models::ScriptError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Priced<M> {
    model: M,
    price: Price,
}

impl<M: Model> Priced<M> {
    /// Gives a model a price.
    #[must_use]
    pub fn new(model: M, price: Price) -> Self {
        Self { model, price }
    }
}

impl<M: Model> Model for Priced<M> {
    fn stream<'a>(&'a self, request: ModelRequest<'a>) -> EventStream<'a> {
        self.model.stream(request)
    }

    fn name(&self) -> &str {
        self.model.name()
    }

    fn supports_native_output(&self) -> bool {
        self.model.supports_native_output()
    }

    fn limits(&self) -> ModelLimits {
        self.model.limits()
    }

    fn cost(&self, tokens: &TokenUsage) -> Option<u64> {
        Some(self.price.of(tokens))
    }
}
