//! The scripts that a model name selects.

use std::str::FromStr;

/// The longest script: more steps or deltas are refused, because replies are kept in memory.
const LONGEST: usize = 100_000;

/// The replies of a model, chosen by its name.
///
/// ```
/// use helix_agents_mock_llm::Script;
///
/// assert_eq!("steps-5".parse(), Ok(Script::Steps(5)));
/// assert!("gpt-5".parse::<Script>().is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Script {
    /// `text`: one short text.
    Text,
    /// `steps-N`: this many calls of the tool `add`, one a reply, and then a text.
    Steps(usize),
    /// `deltas-N`: a text that is streamed in this many deltas.
    Deltas(usize),
}

impl FromStr for Script {
    type Err = String;

    fn from_str(model: &str) -> Result<Self, String> {
        let count = |text: &str| match text.parse() {
            Ok(count @ 1..=LONGEST) => Ok(count),
            _ => Err(format!(
                "the number in the model {model:?} must be from 1 to {LONGEST}"
            )),
        };
        match model.split_once('-') {
            None if model == "text" => Ok(Self::Text),
            Some(("steps", steps)) => Ok(Self::Steps(count(steps)?)),
            Some(("deltas", deltas)) => Ok(Self::Deltas(count(deltas)?)),
            _ => Err(format!(
                "the model {model:?} is not known; use text, steps-N or deltas-N"
            )),
        }
    }
}
