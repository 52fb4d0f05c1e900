//! The powers of adapters. What an adapter lacks it leaves out of its request without a word, so it is refused
//! here.

use ::genai::adapter::AdapterKind;
use helix_agents_core::message::FilePart;
use helix_agents_core::model::{ModelError, ModelErrorKind};

use crate::provider::files::{FileSource, unsupported};

/// The powers of one adapter, as of the version of `genai` that this crate depends on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Support {
    adapter: AdapterKind,
    pub(super) tools: bool,
    /// Whether a tool can be forced or forbidden.
    pub(super) tool_choice: bool,
    pub(super) seed: bool,
    /// Whether options are merged into the body.
    pub(super) options: bool,
    /// Whether an output of a given schema can be asked for.
    pub(super) native_output: bool,
    files: Files,
}

/// The files that an adapter sends.
#[derive(Debug, Clone, Copy)]
enum Files {
    None,
    /// Files by their content only.
    Content,
    /// Images and videos by address, too.
    OpenAi,
    /// Documents by address, too.
    Anthropic,
    /// Everything by address, too.
    Gemini,
}

impl Support {
    pub(super) fn of(adapter: AdapterKind) -> Self {
        let all = Self {
            adapter,
            tools: true,
            tool_choice: true,
            seed: true,
            options: true,
            native_output: true,
            files: Files::OpenAi,
        };
        match adapter {
            AdapterKind::Cohere => Self {
                tools: false,
                tool_choice: false,
                seed: false,
                options: false,
                native_output: false,
                files: Files::None,
                ..all
            },
            AdapterKind::Ollama | AdapterKind::OllamaCloud => Self {
                tool_choice: false,
                options: false,
                files: Files::None,
                ..all
            },
            AdapterKind::BedrockApi | AdapterKind::Vertex | AdapterKind::OpenCodeGo => Self {
                tool_choice: false,
                seed: false,
                options: false,
                native_output: false,
                files: Files::Content,
                ..all
            },
            AdapterKind::Anthropic | AdapterKind::MiniMax => Self {
                seed: false,
                files: Files::Anthropic,
                ..all
            },
            AdapterKind::Gemini | AdapterKind::GeminiIx => Self {
                files: Files::Gemini,
                ..all
            },
            _ => all,
        }
    }

    /// Refuses something that the adapter lacks.
    pub(super) fn require(self, has: bool, what: &str, remedy: &str) -> Result<(), ModelError> {
        if has {
            return Ok(());
        }
        let adapter = self.adapter.as_lower_str();
        let detail = format!("genai's adapter {adapter} has no {what}; {remedy}");
        Err(ModelError::new(ModelErrorKind::Invalid, detail))
    }

    /// Refuses a file that the adapter would leave out.
    pub(super) fn require_file(self, file: &FilePart) -> Result<(), ModelError> {
        let is = |kind: &str| file.media_type.starts_with(kind);
        let by_address = match self.files {
            Files::None => {
                let remedy = "send a text instead";
                return Err(unsupported(self.adapter.as_lower_str(), file, remedy));
            }
            Files::Content => false,
            Files::OpenAi => is("image/") || is("video/"),
            Files::Anthropic => !is("image/"),
            Files::Gemini => true,
        };
        match FileSource::of(file) {
            FileSource::Url(_) if !by_address => {
                let remedy = "send its content instead of its address";
                Err(unsupported(self.adapter.as_lower_str(), file, remedy))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_would_be_left_out_are_refused() {
        let image = FilePart::new("https://a.b/c.png", "image/png");
        let pdf = FilePart::new("https://a.b/c.pdf", "application/pdf");
        let here = FilePart::new("aGk=", "application/pdf");
        let takes = |adapter, file| Support::of(adapter).require_file(file).is_ok();
        for (adapter, expected) in [
            (AdapterKind::Groq, [true, false, true]),
            (AdapterKind::Anthropic, [false, true, true]),
            (AdapterKind::Gemini, [true, true, true]),
            (AdapterKind::BedrockApi, [false, false, true]),
            (AdapterKind::Ollama, [false, false, false]),
        ] {
            let takes = [&image, &pdf, &here].map(|file| takes(adapter, file));
            assert_eq!(takes, expected, "{adapter}");
        }
    }
}
