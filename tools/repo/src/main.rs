//! `repo` holds the rules of this repository that no compiler holds: how long a file may be,
//! which crate may depend on which, which checklist items have a test, and whether those tests
//! notice when the code is broken on purpose.
//!
//! Each subcommand reads the working tree (tracked files, and new files that are not ignored),
//! prints what it found and exits with 0 (holds), 1 (does not hold) or 2 (could not be checked).

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool speaks through its output"
)]

mod arrows;
mod checklist;
mod error;
mod marks;
mod metadata;
mod mutant;
mod mutants;
mod parity;
mod purity;
mod sizes;
mod source;
mod suites;
mod testrun;
mod tree;
mod workcopy;

use std::process::ExitCode;

use error::{Error, Result};
use mutants::Selection;
use tree::Tree;

const USAGE: &str = "\
usage: cargo run -p helix-agents-repo -- COMMAND

  sizes             every source file is short enough and well named
  arrows            every crate depends only on what the map allows; core stays pure
  parity [--check]  write docs/parity.md from the checklist and the `proves:` marks,
                    or with --check only compare
  mutants [--all | FILTER]
                    break the code on purpose and expect the named tests to fail: a chosen
                    few, with --all also those of the long run (tests/mutants/soak);
                    FILTER is a part of a file name or of a checklist id, of either kind
";

/// The result of a check: the lines that name the breaches, and one line that sums up.
struct Report {
    breaches: Vec<String>,
    summary: String,
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match run(&args) {
        Ok(report) if report.breaches.is_empty() => {
            println!("{}", report.summary);
            ExitCode::SUCCESS
        }
        Ok(report) => {
            for breach in &report.breaches {
                eprintln!("error: {breach}");
            }
            eprintln!("{}", report.summary);
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(args: &[&str]) -> Result<Report> {
    match *args {
        ["sizes"] => sizes::check(&Tree::find()?),
        ["arrows"] => arrows::check(&Tree::find()?),
        ["parity"] => parity::write(&Tree::find()?),
        ["parity", "--check"] => parity::check(&Tree::find()?),
        ["mutants"] => mutants::run(&Tree::find()?, Selection::Few),
        ["mutants", "--all"] => mutants::run(&Tree::find()?, Selection::All),
        ["mutants", filter] if !filter.starts_with('-') => {
            mutants::run(&Tree::find()?, Selection::Matching(filter))
        }
        ["help" | "--help" | "-h"] => Ok(Report {
            breaches: Vec::new(),
            summary: USAGE.trim_end().to_owned(),
        }),
        _ => Err(Error::Usage(format!(
            "cannot read the arguments `{}`\n\n{USAGE}",
            args.join(" ")
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_arguments_are_refused_with_the_usage() {
        for args in [
            &["size"][..],
            &[],
            &["parity", "--chek"],
            &["mutants", "-x"],
        ] {
            let Err(error) = run(args) else {
                panic!("{args:?} was accepted");
            };
            assert!(error.to_string().contains("usage:"), "{args:?}: {error}");
        }
    }
}
