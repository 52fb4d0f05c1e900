//! `helix completions`: prints shell completions.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::exit::Exit;

/// Prints the completion script of a shell.
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The name of the shell
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        let mut text = Vec::new();
        let mut command = crate::args::Args::command();
        clap_complete::generate(self.shell, &mut command, "helix", &mut text);
        std::io::Write::write_all(&mut std::io::stdout(), &text)?;
        Ok(Exit::Done)
    }
}
