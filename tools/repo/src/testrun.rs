use std::path::{Path, PathBuf};

use crate::{
    error::{Error, Result},
    tree::cargo,
};

/// Runs tests, through nextest where it is installed.
#[derive(Debug)]
pub(crate) struct Runner {
    target: PathBuf,
    nextest: bool,
}

/// The result of a test run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Passed,
    Failed,
    NoTests,
    /// It did not compile, or the runner itself failed.
    Broken,
}

impl Runner {
    /// A runner that builds in `target`.
    pub(crate) fn new(target: PathBuf) -> Self {
        let nextest = cargo()
            .args(["nextest", "--version"])
            .output()
            .is_ok_and(|output| output.status.success());
        Self { target, nextest }
    }

    /// Runs the tests that `args` pick in the workspace at `root`, and returns what was written.
    pub(crate) fn run(&self, root: &Path, args: &[String]) -> Result<(Verdict, String)> {
        // nextest runs no doctests.
        let nextest = self.nextest && !args.iter().any(|arg| arg == "--doc");
        let mut command = cargo();
        if nextest {
            command.args(["nextest", "run", "--locked", "--fail-fast"]);
            command.arg("--no-tests=fail");
        } else {
            command.args(["test", "--locked"]);
        }
        let output = command
            .args(args)
            .current_dir(root)
            .env("CARGO_TARGET_DIR", &self.target)
            .env("CARGO_TERM_COLOR", "never")
            // One crate is built again and again with little changed.
            .env("CARGO_INCREMENTAL", "1")
            // A snapshot that differs must fail, not write a new one.
            .env("INSTA_UPDATE", "no")
            .output()
            .map_err(Error::io("start cargo"))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        let code = output.status.code();
        let verdict = if nextest {
            nextest_verdict(code)
        } else {
            cargo_verdict(code, &text)
        };
        Ok((verdict, text))
    }
}

fn nextest_verdict(code: Option<i32>) -> Verdict {
    match code {
        Some(0) => Verdict::Passed,
        Some(4) => Verdict::NoTests,
        Some(100) => Verdict::Failed,
        _ => Verdict::Broken,
    }
}

/// `cargo test` ends with 101 for a failed test and for a failed build alike.
fn cargo_verdict(code: Option<i32>, output: &str) -> Verdict {
    let failed = [
        "test result: FAILED",
        "error: test failed",
        "error: doctest failed",
    ];
    match code {
        Some(0) if any_test_ran(output) => Verdict::Passed,
        Some(0) => Verdict::NoTests,
        Some(101) if failed.iter().any(|text| output.contains(text)) => Verdict::Failed,
        _ => Verdict::Broken,
    }
}

fn any_test_ran(output: &str) -> bool {
    output
        .lines()
        .filter_map(|line| line.strip_prefix("test result: ok. "))
        .any(|counts| !counts.starts_with("0 passed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nextest_tells_a_failed_test_from_a_failed_build() {
        assert_eq!(nextest_verdict(Some(0)), Verdict::Passed);
        assert_eq!(nextest_verdict(Some(4)), Verdict::NoTests);
        assert_eq!(nextest_verdict(Some(100)), Verdict::Failed);
        assert_eq!(nextest_verdict(Some(101)), Verdict::Broken);
        assert_eq!(nextest_verdict(None), Verdict::Broken);
    }

    #[test]
    fn the_output_of_cargo_tells_a_failed_test_from_a_failed_build() {
        let none = "test result: ok. 0 passed; 0 failed; 3 filtered out\n";
        let ran = "test result: ok. 3 passed; 0 failed; 0 filtered out\n";
        let failed = "test result: FAILED. 1 passed; 1 failed\n";
        let aborted = "error: test failed, to rerun pass `--lib`\n(signal: 6, SIGABRT)\n";
        let build = "error: could not compile `a` (lib) due to 1 previous error\n";
        for (code, output, expected) in [
            (0, none.to_owned(), Verdict::NoTests),
            (0, format!("{none}{ran}"), Verdict::Passed),
            (101, format!("{ran}{failed}"), Verdict::Failed),
            (101, aborted.to_owned(), Verdict::Failed),
            (101, build.to_owned(), Verdict::Broken),
        ] {
            assert_eq!(cargo_verdict(Some(code), &output), expected, "{output}");
        }
    }
}
