//! The `helix` binary; see `helix --help`.

use std::process::ExitCode;

/// glibc keeps most of what a program has freed, and a server that answered a lot once stays large.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    helix_agents_cli::main(std::env::args_os()).into()
}
