//! Known models: their limits, powers and prices.
//!
//! A model that is not listed works all the same; whoever needs its limits or its price sets them
//! ([`ProviderModelBuilder`](super::ProviderModelBuilder)). Prices are in micro-dollars
//! per million tokens, for prompts of usual length, as far as they were known in November 2026: from the providers'
//! pages, and some from others who quote them. Whoever pays by them checks them first.

use helix_agents_core::model::ModelLimits;

use super::Provider;
use crate::price::Price;

/// The facts about a model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) limits: ModelLimits,
    pub(super) native_output: bool,
    pub(super) price: Option<Price>,
}

struct Family {
    provider: Provider,
    /// The beginning of the names of its models.
    prefix: &'static str,
    context: u64,
    output: u64,
    native_output: bool,
    price: Price,
}

const fn price(input: u64, cached: u64, cache_write: u64, output: u64) -> Price {
    Price {
        input,
        cached,
        cache_write,
        output,
    }
}

const fn openai(prefix: &'static str, context: u64, output: u64, price: Price) -> Family {
    Family {
        provider: Provider::OpenAi,
        prefix,
        context,
        output,
        native_output: true,
        price,
    }
}

const fn anthropic(
    prefix: &'static str,
    (context, output): (u64, u64),
    native_output: bool,
    price: Price,
) -> Family {
    Family {
        provider: Provider::Anthropic,
        prefix,
        context,
        output,
        native_output,
        price,
    }
}

/// The models before Gemini 3 take no schema of an output beside functions.
const fn gemini(prefix: &'static str, native_output: bool, price: Price) -> Family {
    Family {
        provider: Provider::Gemini,
        prefix,
        context: 1_048_576,
        output: 65_536,
        native_output,
        price,
    }
}

/// The context and the longest reply of the larger models of Anthropic.
const LARGE: (u64, u64) = (1_000_000, 128_000);

/// A longer prefix stands before a shorter one that it begins with.
const FAMILIES: &[Family] = &[
    openai(
        "gpt-5-nano",
        400_000,
        128_000,
        price(50_000, 5_000, 50_000, 400_000),
    ),
    openai(
        "gpt-5-mini",
        400_000,
        128_000,
        price(250_000, 25_000, 250_000, 2_000_000),
    ),
    openai(
        "gpt-5-codex",
        400_000,
        128_000,
        price(1_250_000, 125_000, 1_250_000, 10_000_000),
    ),
    openai(
        "gpt-5.2",
        400_000,
        128_000,
        price(1_750_000, 175_000, 1_750_000, 14_000_000),
    ),
    openai(
        "gpt-5.1",
        400_000,
        128_000,
        price(1_250_000, 125_000, 1_250_000, 10_000_000),
    ),
    openai(
        "gpt-5",
        400_000,
        128_000,
        price(1_250_000, 125_000, 1_250_000, 10_000_000),
    ),
    openai(
        "gpt-4.1-mini",
        1_047_576,
        32_768,
        price(400_000, 100_000, 400_000, 1_600_000),
    ),
    openai(
        "gpt-4.1",
        1_047_576,
        32_768,
        price(2_000_000, 500_000, 2_000_000, 8_000_000),
    ),
    openai(
        "gpt-4o-mini",
        128_000,
        16_384,
        price(150_000, 75_000, 150_000, 600_000),
    ),
    openai(
        "gpt-4o",
        128_000,
        16_384,
        price(2_500_000, 1_250_000, 2_500_000, 10_000_000),
    ),
    openai(
        "o4-mini",
        200_000,
        100_000,
        price(1_100_000, 275_000, 1_100_000, 4_400_000),
    ),
    openai(
        "o3",
        200_000,
        100_000,
        price(2_000_000, 500_000, 2_000_000, 8_000_000),
    ),
    anthropic(
        "claude-fable-5-1",
        LARGE,
        true,
        price(10_000_000, 250_000, 12_500_000, 50_000_000),
    ),
    anthropic(
        "claude-mythos-5-1",
        LARGE,
        true,
        price(10_000_000, 250_000, 12_500_000, 50_000_000),
    ),
    anthropic(
        "claude-fable-5",
        LARGE,
        true,
        price(10_000_000, 1_000_000, 12_500_000, 50_000_000),
    ),
    anthropic(
        "claude-mythos-5",
        LARGE,
        true,
        price(10_000_000, 1_000_000, 12_500_000, 50_000_000),
    ),
    anthropic(
        "claude-opus-5-5",
        LARGE,
        true,
        price(4_000_000, 200_000, 5_000_000, 20_000_000),
    ),
    anthropic(
        "claude-opus-5",
        LARGE,
        true,
        price(5_000_000, 500_000, 6_250_000, 25_000_000),
    ),
    anthropic(
        "claude-opus-4-8",
        LARGE,
        true,
        price(5_000_000, 500_000, 6_250_000, 25_000_000),
    ),
    anthropic(
        "claude-opus-4-7",
        LARGE,
        true,
        price(5_000_000, 500_000, 6_250_000, 25_000_000),
    ),
    anthropic(
        "claude-opus-4-6",
        LARGE,
        true,
        price(5_000_000, 500_000, 6_250_000, 25_000_000),
    ),
    anthropic(
        "claude-opus-4-5",
        (200_000, 64_000),
        true,
        price(5_000_000, 500_000, 6_250_000, 25_000_000),
    ),
    anthropic(
        "claude-opus-4-1",
        (200_000, 32_000),
        true,
        price(15_000_000, 1_500_000, 18_750_000, 75_000_000),
    ),
    anthropic(
        "claude-opus-4",
        (200_000, 32_000),
        false,
        price(15_000_000, 1_500_000, 18_750_000, 75_000_000),
    ),
    anthropic(
        "claude-sonnet-5-5",
        LARGE,
        true,
        price(2_000_000, 100_000, 2_500_000, 10_000_000),
    ),
    anthropic(
        "claude-sonnet-5",
        LARGE,
        true,
        price(2_000_000, 200_000, 2_500_000, 10_000_000),
    ),
    anthropic(
        "claude-sonnet-4-6",
        (1_000_000, 64_000),
        true,
        price(3_000_000, 300_000, 3_750_000, 15_000_000),
    ),
    anthropic(
        "claude-sonnet-4-5",
        (200_000, 64_000),
        true,
        price(3_000_000, 300_000, 3_750_000, 15_000_000),
    ),
    anthropic(
        "claude-sonnet-4",
        (200_000, 64_000),
        false,
        price(3_000_000, 300_000, 3_750_000, 15_000_000),
    ),
    anthropic(
        "claude-haiku-5-5",
        LARGE,
        true,
        price(100_000, 10_000, 125_000, 500_000),
    ),
    anthropic(
        "claude-haiku-4-5",
        (200_000, 64_000),
        true,
        price(1_000_000, 100_000, 1_250_000, 5_000_000),
    ),
    gemini(
        "gemini-3.5-flash-lite",
        true,
        price(300_000, 30_000, 300_000, 2_500_000),
    ),
    gemini(
        "gemini-3.5-flash",
        true,
        price(1_500_000, 150_000, 1_500_000, 9_000_000),
    ),
    gemini(
        "gemini-3.1-flash-lite",
        true,
        price(250_000, 25_000, 250_000, 1_500_000),
    ),
    gemini(
        "gemini-3.1-pro",
        true,
        price(2_000_000, 200_000, 2_000_000, 12_000_000),
    ),
    gemini(
        "gemini-3-flash",
        true,
        price(500_000, 50_000, 500_000, 3_000_000),
    ),
    gemini(
        "gemini-3-pro",
        true,
        price(2_000_000, 200_000, 2_000_000, 12_000_000),
    ),
    gemini(
        "gemini-2.5-flash-lite",
        false,
        price(100_000, 10_000, 100_000, 400_000),
    ),
    gemini(
        "gemini-2.5-flash",
        false,
        price(300_000, 30_000, 300_000, 2_500_000),
    ),
    gemini(
        "gemini-2.5-pro",
        false,
        price(1_250_000, 125_000, 1_250_000, 10_000_000),
    ),
];

/// Whether the end of a name is a version of the same model: nothing, `-latest`, a date, or a number of three
/// digits or more, each also behind `-preview`. `gpt-5.1`, `gpt-5-pro` and `claude-opus-4-5` are other models than
/// `gpt-5` and `claude-opus-4`.
fn is_version(rest: &str) -> bool {
    let rest = rest.strip_prefix("-preview").unwrap_or(rest);
    let number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let mut parts = rest.strip_prefix('-').unwrap_or_default().split('-');
    let is_number = parts
        .next()
        .is_some_and(|first| first.len() > 2 && number(first))
        && parts.all(number);
    rest.is_empty() || rest == "-latest" || is_number
}

impl Known {
    /// Returns the facts about a model; none if it is not listed.
    pub(super) fn of(provider: Provider, model: &str) -> Self {
        let provider = match provider {
            Provider::OpenAiResponses => Provider::OpenAi,
            other => other,
        };
        let is_it = |family: &&Family| {
            let rest = model.strip_prefix(family.prefix);
            family.provider == provider && rest.is_some_and(is_version)
        };
        let Some(family) = FAMILIES.iter().find(is_it) else {
            return Self::default();
        };
        Self {
            limits: ModelLimits::new(family.context, family.output),
            native_output: family.native_output,
            price: Some(family.price),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_known_by_the_beginning_of_its_name() {
        let output = |provider, model| Known::of(provider, model).limits.max_output_tokens;
        assert_eq!(
            output(Provider::OpenAi, "gpt-4o-mini-2024-07-18"),
            Some(16_384)
        );
        assert_eq!(output(Provider::OpenAiResponses, "gpt-5"), Some(128_000));
        assert_eq!(
            output(Provider::Anthropic, "claude-sonnet-4-5-20250929"),
            Some(64_000)
        );
        for other in ["gpt-5.9", "gpt-5-pro", "gpt-5-chat-latest", "o3-pro"] {
            assert_eq!(output(Provider::OpenAi, other), None, "{other}");
        }
        assert_eq!(output(Provider::Anthropic, "claude-opus-5-9"), None);
        assert_eq!(output(Provider::Gemini, "gpt-5"), None);
        assert_eq!(
            output(Provider::Gemini, "gemini-3.1-pro-preview"),
            Some(65_536)
        );
        assert_eq!(output(Provider::Gemini, "gemini-2.5-flash-image"), None);
        assert_eq!(
            output(Provider::Gemini, "gemini-2.5-flash-preview-tts"),
            None
        );
    }

    #[test]
    fn a_longer_prefix_comes_first() {
        for (at, family) in FAMILIES.iter().enumerate() {
            let found = Known::of(family.provider, family.prefix);
            assert_eq!(found.price, Some(family.price), "{} at {at}", family.prefix);
        }
    }
}
