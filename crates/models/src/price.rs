//! Prices of models.

use helix_agents_core::model::TokenUsage;

/// The price of a model, in micro-dollars (millionths of a US dollar) per million tokens.
///
/// ```
/// use helix_agents_core::model::TokenUsage;
/// use helix_agents_models::Price;
///
/// // 3 dollars per million input tokens, 15 per million output tokens.
/// let price = Price::new(3_000_000, 15_000_000);
/// assert_eq!(price.of(&TokenUsage::new(1_000, 200)), 6_000);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Price {
    /// Input tokens that are neither read from a cache nor written to one.
    pub input: u64,
    /// Input tokens that are read from the provider's cache.
    pub cached: u64,
    /// Input tokens that are written to the provider's cache.
    pub cache_write: u64,
    /// Output tokens, those of reasoning included.
    pub output: u64,
}

impl Price {
    /// Creates the price of a model whose cache costs as much as its input.
    #[must_use]
    pub const fn new(input: u64, output: u64) -> Self {
        Self {
            input,
            cached: input,
            cache_write: input,
            output,
        }
    }

    /// Sets the price of input tokens that are read from a cache.
    #[must_use]
    pub const fn cached(mut self, price: u64) -> Self {
        self.cached = price;
        self
    }

    /// Sets the price of input tokens that are written to a cache.
    #[must_use]
    pub const fn cache_write(mut self, price: u64) -> Self {
        self.cache_write = price;
        self
    }

    /// Returns the cost of these tokens in micro-dollars, rounded up.
    #[must_use]
    pub fn of(&self, tokens: &TokenUsage) -> u64 {
        let cached = tokens.cached.unwrap_or(0);
        let written = tokens.cache_write.unwrap_or(0);
        let fresh = tokens.input.saturating_sub(cached).saturating_sub(written);
        let parts = [
            (fresh, self.input),
            (cached, self.cached),
            (written, self.cache_write),
            (tokens.output, self.output),
        ];
        let sum = parts.iter().fold(0_u128, |sum, (tokens, price)| {
            sum + u128::from(*tokens) * u128::from(*price)
        });
        u64::try_from(sum.div_ceil(1_000_000)).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_of_the_cache_have_prices_of_their_own() {
        let price = Price::new(3_000_000, 15_000_000)
            .cached(300_000)
            .cache_write(3_750_000);
        let mut tokens = TokenUsage::new(1_000, 0);
        tokens.cached = Some(600);
        tokens.cache_write = Some(100);
        assert_eq!(price.of(&tokens), 300 * 3 + 600 * 3 / 10 + 375);
        assert_eq!(price.of(&TokenUsage::new(u64::MAX, u64::MAX)), u64::MAX);
        assert_eq!(Price::new(1, 1).of(&TokenUsage::new(1, 0)), 1, "rounded up");
    }
}
