//! The benchmarks; the library says how to run them.

use std::process::ExitCode;

fn main() -> ExitCode {
    helix_agents_benches::main()
}
