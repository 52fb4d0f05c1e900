//! One side of the group `cold`.

use std::process::ExitCode;

fn main() -> ExitCode {
    helix_agents_benches::cold()
}
