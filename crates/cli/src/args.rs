//! The command line arguments.

use std::ffi::OsString;
use std::io::{ErrorKind, Write};
use std::time::Duration;

use clap::{Parser, Subcommand};

use crate::commands::{
    abort, completions, dev, doctor, example_tools, init, interrupt, migrate, pending, resume, run,
    schema, serve, sessions, submit, worker,
};
use crate::exit::{Exit, of_error};
use crate::logging::{self, DefaultLevel};
use crate::visible::escaped;

/// How long the process waits at its end for tasks that still hold the store.
const PARTING: Duration = Duration::from_millis(500);

/// The command line of `helix`.
#[derive(Debug, Parser)]
#[command(name = "helix", version, about, arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write a starter configuration
    Init(init::Init),
    /// Serve agents on this machine only, for development
    Dev(dev::Dev),
    /// Serve agents over HTTP
    Serve(serve::Serve),
    /// Run one turn of an agent in this terminal
    Run(run::Run),
    /// Resume a session: after its calls were answered, an interruption, or a crash
    Resume(resume::Resume),
    /// Answer a pending call
    Submit(submit::Submit),
    /// List all pending calls
    Pending(pending::Pending),
    /// List, show, move and delete stored sessions
    #[command(subcommand)]
    Sessions(sessions::Sessions),
    /// Stop the run of a session; it can be resumed
    Interrupt(interrupt::Interrupt),
    /// Stop the run of a session and mark it as failed
    Abort(abort::Abort),
    /// Check the configuration, its dependencies, and stored sessions
    Doctor(doctor::Doctor),
    /// Bring the store's schema up to date
    Migrate(migrate::Migrate),
    /// Serve example tools on this machine, for agents that call a service
    ExampleTools(example_tools::ExampleTools),
    /// Print the JSON Schema of helix.toml, for editors
    Schema(schema::Schema),
    /// Print the completion script of a shell
    Completions(completions::Completions),
    /// Host agents on the configured engine
    #[command(hide = true)]
    Worker(worker::Worker),
}

impl Command {
    fn default_log_level(&self) -> DefaultLevel {
        match self {
            Self::Dev(_) | Self::Serve(_) | Self::Worker(_) => DefaultLevel::Operation,
            _ => DefaultLevel::Errors,
        }
    }

    async fn run(self) -> anyhow::Result<Exit> {
        match self {
            Self::Init(command) => command.run(),
            Self::Dev(command) => command.run().await,
            Self::Serve(command) => command.run().await,
            Self::Run(command) => command.run().await,
            Self::Resume(command) => command.run().await,
            Self::Submit(command) => command.run().await,
            Self::Pending(command) => command.run().await,
            Self::Sessions(command) => command.run().await,
            Self::Interrupt(command) => command.run().await,
            Self::Abort(command) => command.run().await,
            Self::Doctor(command) => command.run().await,
            Self::Migrate(command) => command.run().await,
            Self::ExampleTools(command) => command.run().await,
            Self::Schema(command) => command.run(),
            Self::Completions(command) => command.run(),
            Self::Worker(command) => command.run(),
        }
    }
}

/// Runs the command that the arguments name.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> Exit {
    let args = match Args::try_parse_from(arguments) {
        Ok(args) => args,
        Err(error) => {
            // The output may be closed.
            let _ = error.print();
            return if error.use_stderr() {
                Exit::Usage
            } else {
                Exit::Done
            };
        }
    };
    if let Err(error) = logging::begin(args.command.default_log_level()) {
        return print_error(&error.into());
    }
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return print_error(&anyhow::Error::new(error)),
    };
    let result = runtime.block_on(args.command.run());
    // Dropping the tokio runtime drops what is left of runs and with it the store, which then
    // tidies its file. A call that does not end does not keep the process alive.
    runtime.shutdown_timeout(PARTING);
    match result {
        Ok(exit) => exit,
        Err(error) => print_error(&error),
    }
}

/// Prints an error and returns the exit code.
fn print_error(error: &anyhow::Error) -> Exit {
    let gone = error.chain().any(|cause| {
        let io = cause.downcast_ref::<std::io::Error>();
        io.is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
    });
    if gone {
        return Exit::Done;
    }
    let mut text = error.to_string();
    for cause in error.chain().skip(1) {
        let more = cause.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
    }
    let _ = writeln!(std::io::stderr(), "helix: {}", escaped(&text));
    of_error(error)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_argument_definitions_are_valid() {
        Args::command().debug_assert();
    }
}
