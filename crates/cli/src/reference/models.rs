//! `[models.NAME]`.

use super::{Key, Rule, Shape, Table};

/// The keys that only models of providers have.
pub(crate) const OF_PROVIDERS: [&str; 19] = [
    "api_version",
    "temperature",
    "max_output_tokens",
    "top_p",
    "top_k",
    "presence_penalty",
    "frequency_penalty",
    "stop_sequences",
    "seed",
    "max_retries",
    "timeout_ms",
    "connect_timeout_ms",
    "idle_timeout_ms",
    "headers",
    "options",
    "context_tokens",
    "native_output",
    "strict_output",
    "price",
];

pub(super) static MODEL: Table = Table {
    title: "[models.NAME]",
    about: "A model that agents can use.",
    keys: &[
        Key::new(
            "provider",
            Shape::Choice(&[
                "openai",
                "openai-responses",
                "anthropic",
                "gemini",
                "scripted",
            ]),
            "The provider of the model: `openai` is Chat Completions, which many other servers speak, too.",
        )
        .required(),
        Key::new(
            "script",
            Shape::Text,
            "The script of a scripted model; see below.",
        ),
        Key::new(
            "model",
            Shape::Text,
            "The provider's name of the model; not used by `scripted`.",
        ),
        Key::new(
            "base_url",
            Shape::Matching("^https?://.+"),
            "Another address of the provider, as the provider's own SDK means it: with `/v1` for OpenAI, without a path for Anthropic and Gemini; not used by `scripted`.",
        ),
        Key::new(
            "api_key_env",
            Shape::Text,
            "The environment variable with the key. Default: `OPENAI_API_KEY`, `ANTHROPIC_API_KEY` or `GEMINI_API_KEY`; not used by `scripted`.",
        ),
        Key::new(
            "api_version",
            Shape::Text,
            "The version of the API of Anthropic or Gemini.",
        ),
        Key::new("temperature", Shape::Number, "The sampling temperature."),
        Key::new(
            "max_output_tokens",
            Shape::Count(0),
            "The maximum length of a reply, in tokens.",
        ),
        Key::new(
            "top_p",
            Shape::Number,
            "The probability mass of nucleus sampling.",
        ),
        Key::new(
            "top_k",
            Shape::Count(0),
            "The number of candidates to sample from.",
        ),
        Key::new(
            "presence_penalty",
            Shape::Number,
            "The penalty on tokens that occurred before.",
        ),
        Key::new(
            "frequency_penalty",
            Shape::Number,
            "The penalty on tokens that occurred often.",
        ),
        Key::new(
            "stop_sequences",
            Shape::Texts(""),
            "Texts at which the model stops.",
        )
        .default("[]"),
        Key::new(
            "seed",
            Shape::Count(0),
            "The seed for repeatable sampling.",
        ),
        Key::new(
            "max_retries",
            Shape::Count(0),
            "How many times a retryable failure is retried. Default: 3.",
        ),
        Key::new(
            "timeout_ms",
            Shape::Count(1),
            "The time limit of one attempt.",
        ),
        Key::new(
            "connect_timeout_ms",
            Shape::Count(1),
            "How long a connection may take to be made. Default: 10 seconds.",
        ),
        Key::new(
            "idle_timeout_ms",
            Shape::Count(1),
            "How long the provider may send nothing. Default: 5 minutes.",
        ),
        Key::new(
            "headers",
            Shape::Entries(&HEADER),
            "Additional headers of every request.",
        ),
        Key::new(
            "options",
            Shape::Object,
            "Fields of the provider's own, merged into the body of every request.",
        ),
        Key::new(
            "context_tokens",
            Shape::Count(1),
            "The maximum number of tokens of a prompt and its reply, in place of what is known about the model.",
        ),
        Key::new(
            "native_output",
            Shape::Flag,
            "Whether the provider can produce an output of a given schema without a tool, in place of what is known about the model.",
        ),
        Key::new(
            "strict_output",
            Shape::Flag,
            "Whether the provider enforces the output schema while the model writes, if it can.",
        )
        .default("false"),
        Key::new(
            "price",
            Shape::Table(&PRICE),
            "The price of the model, in place of the one that is known.",
        ),
    ],
    rules: &[
        Rule::Where {
            key: "provider",
            is: "scripted",
            needs: &["script"],
            lacks: &OF_PROVIDERS,
            excludes: &[],
        },
        of_provider("openai", &["script", "api_version"]),
        of_provider("openai-responses", &["script", "api_version"]),
        of_provider("anthropic", &["script"]),
        of_provider("gemini", &["script"]),
    ],
};

/// The keys of a model of a provider.
const fn of_provider(name: &'static str, lacks: &'static [&'static str]) -> Rule {
    Rule::Where {
        key: "provider",
        is: name,
        needs: &["model"],
        lacks,
        excludes: &[],
    }
}

static PRICE: Table = Table {
    title: "[models.NAME.price]",
    about: "The price of a model, in micro-dollars (millionths of a US dollar) per million tokens.",
    keys: &[
        Key::new("input", Shape::Count(0), "Input tokens.").required(),
        Key::new("output", Shape::Count(0), "Output tokens.").required(),
        Key::new(
            "cached",
            Shape::Count(0),
            "Input tokens that are read from the provider's cache. Default: `input`.",
        ),
        Key::new(
            "cache_write",
            Shape::Count(0),
            "Input tokens that are written to the provider's cache. Default: `input`.",
        ),
    ],
    rules: &[],
};

static HEADER: Table = Table {
    title: "[models.NAME.headers.HEADER]",
    about: "A header whose value is in the environment.",
    keys: &[Key::new(
        "env",
        Shape::Text,
        "The environment variable that holds the value.",
    )
    .required()],
    rules: &[],
};
