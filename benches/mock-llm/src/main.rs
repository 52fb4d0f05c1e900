//! Serves the mock on a port of the loopback interface until it is stopped.
//!
//! ```sh
//! mock-llm          # a free port, which is printed
//! mock-llm 8099
//! ```

#![expect(clippy::print_stdout, reason = "a command-line tool")]

use std::process::ExitCode;

use helix_agents_mock_llm::MockLlm;

fn main() -> ExitCode {
    let port = std::env::args().nth(1).map_or(Ok(0), |port| port.parse());
    let Ok(port) = port else {
        println!("usage: mock-llm [PORT]");
        return ExitCode::from(2);
    };
    match MockLlm::spawn_on(port) {
        Ok(server) => {
            println!("{}", server.base_url());
            loop {
                std::thread::park();
            }
        }
        Err(error) => {
            println!("cannot listen on port {port}: {error}");
            ExitCode::FAILURE
        }
    }
}
