//! What can be asked of the program.

use std::ffi::OsString;
use std::io::{ErrorKind, Write};
use std::time::Duration;

use clap::{Parser, Subcommand};

use crate::commands::{
    abort, completions, dev, doctor, example_tools, init, interrupt, migrate, pending, resume, run,
    schema, serve, sessions, submit, worker,
};
use crate::exit::{Exit, of_error};
use crate::logging::{self, Usual};
use crate::visible::escaped;

/// How long the process waits at its end for what still holds the store.
const PARTING: Duration = Duration::from_millis(500);

/// Agents that do not lose work.
#[derive(Debug, Parser)]
#[command(name = "helix", version, about, arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write a configuration to begin with
    Init(init::Init),
    /// Serve agents to this machine, for trying out
    Dev(dev::Dev),
    /// Serve agents over HTTP
    Serve(serve::Serve),
    /// Run one turn of an agent in this terminal
    Run(run::Run),
    /// Go on with a session: after its calls were answered, an interruption, or a crash
    Resume(resume::Resume),
    /// Answer a call that waits
    Submit(submit::Submit),
    /// List everything that waits for a person
    Pending(pending::Pending),
    /// Look after stored sessions
    #[command(subcommand)]
    Sessions(sessions::Sessions),
    /// Stop the run of a session; it can be resumed
    Interrupt(interrupt::Interrupt),
    /// Stop the run of a session for good: it fails
    Abort(abort::Abort),
    /// Check the configuration, what it needs, and what is stored
    Doctor(doctor::Doctor),
    /// Bring the store's schema up to date
    Migrate(migrate::Migrate),
    /// Serve tools to this machine, for trying out agents that call a service
    ExampleTools(example_tools::ExampleTools),
    /// Print the JSON Schema of helix.toml, for editors
    Schema(schema::Schema),
    /// Print what a shell needs to complete commands
    Completions(completions::Completions),
    /// Host agents on the configured engine
    #[command(hide = true)]
    Worker(worker::Worker),
}

impl Command {
    fn usual_log(&self) -> Usual {
        match self {
            Self::Dev(_) | Self::Serve(_) | Self::Worker(_) => Usual::Operation,
            _ => Usual::Errors,
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

/// Does what the arguments say.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> Exit {
    let args = match Args::try_parse_from(arguments) {
        Ok(args) => args,
        Err(error) => {
            // Nobody may be reading any more.
            let _ = error.print();
            return if error.use_stderr() {
                Exit::Usage
            } else {
                Exit::Done
            };
        }
    };
    if let Err(error) = logging::begin(args.command.usual_log()) {
        return complain(&error.into());
    }
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return complain(&anyhow::Error::new(error)),
    };
    let result = runtime.block_on(args.command.run());
    // What is left of runs goes, and the store with it, which then brings its file in order. A call
    // that does not end does not keep the process.
    runtime.shutdown_timeout(PARTING);
    match result {
        Ok(exit) => exit,
        Err(error) => complain(&error),
    }
}

/// Says what went wrong.
fn complain(error: &anyhow::Error) -> Exit {
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
    fn the_arguments_are_in_order() {
        Args::command().debug_assert();
    }
}
