//! The `helix` binary; see `helix --help`.

use std::process::ExitCode;

fn main() -> ExitCode {
    helix_agents_cli::main(std::env::args_os()).into()
}
