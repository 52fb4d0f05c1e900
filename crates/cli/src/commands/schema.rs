//! `helix schema`: prints the JSON Schema of `helix.toml`.

use clap::Args;

use crate::exit::Exit;
use crate::reference;
use crate::screen::Screen;

/// Prints the JSON Schema of helix.toml, with which editors complete and check it.
#[derive(Debug, Args)]
pub(crate) struct Schema {}

impl Schema {
    #[expect(clippy::unused_self, reason = "every command is run like this")]
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        Screen::of_process().print_line(serde_json::to_string_pretty(&reference::schema())?)?;
        Ok(Exit::Done)
    }
}
