//! Breaks the code on purpose, one small mistake at a time, and expects the named tests to
//! notice each.

use std::{collections::BTreeSet, env, path::PathBuf, time::Instant};

use crate::{
    Report,
    checklist::{self, Checklist},
    error::{Error, Result},
    mutant::Mutant,
    testrun::{Runner, Verdict},
    tree::Tree,
    workcopy::WorkCopy,
};

const FOLDER: &str = "tests/mutants/";
/// Those that are run only when all of them are.
const SOAK: &str = "tests/mutants/soak/";

/// The mutants to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Selection<'a> {
    /// The chosen few that stand in the folder itself.
    Few,
    /// Also those of the long run.
    All,
    /// Those of either kind whose file name or item contains this.
    Matching(&'a str),
}

impl Selection<'_> {
    fn takes(self, path: &str, mutant: &Mutant) -> bool {
        match self {
            Self::Few => !path.starts_with(SOAK),
            Self::All => true,
            Self::Matching(filter) => mutant.matches(filter),
        }
    }
}

pub(crate) fn run(tree: &Tree, which: Selection<'_>) -> Result<Report> {
    let all = read(tree)?;
    // Also those that are not run now have to fit the code.
    let mut breaches = stale(tree, &all)?;
    let wanted = all
        .into_iter()
        .filter(|(path, mutant)| which.takes(path, mutant));
    let mutants: Vec<Mutant> = wanted.map(|(_, mutant)| mutant).collect();
    if let (Selection::Matching(filter), true) = (which, mutants.is_empty()) {
        return Err(Error::Usage(format!("no mutant matches `{filter}`")));
    }
    if mutants.is_empty() || !breaches.is_empty() {
        return Ok(Report {
            summary: format!("mutants: {} read, none run", mutants.len()),
            breaches,
        });
    }
    let target = target(tree)?;
    let bench = Bench {
        copy: WorkCopy::new(tree, &target.join("mutants"))?,
        runner: Runner::new(target),
    };
    bench.check_unmutated(&mutants)?;
    let mut caught = 0;
    for (at, mutant) in mutants.iter().enumerate() {
        let started = Instant::now();
        let (verdict, output) = bench.try_mutant(mutant)?;
        let Mutant { name, item, .. } = mutant;
        let word = match verdict {
            Verdict::Failed => {
                caught += 1;
                "caught"
            }
            Verdict::Passed | Verdict::NoTests => {
                breaches.push(format!(
                    "mutant {name} ({item}) survived: `{}` does not notice that {}",
                    mutant.test.join(" "),
                    mutant.why
                ));
                "SURVIVED"
            }
            Verdict::Broken => {
                breaches.push(format!(
                    "mutant {name} ({item}) does not compile, so it proves nothing:\n{}",
                    tail(&output)
                ));
                "DOES NOT COMPILE"
            }
        };
        let (n, all) = (at + 1, mutants.len());
        let seconds = started.elapsed().as_secs_f32();
        println!("mutant {n}/{all} {item} {name} {word} ({seconds:.1} s)");
    }
    Ok(Report {
        summary: format!("mutants: {caught} of {} caught", mutants.len()),
        breaches,
    })
}

/// All mutants, with their paths.
fn read(tree: &Tree) -> Result<Vec<(String, Mutant)>> {
    tree.sources(|path| path.starts_with(FOLDER) && path.ends_with(".mutant"))?
        .into_iter()
        .map(|(path, text)| Mutant::parse(&path, &text).map(|mutant| (path, mutant)))
        .collect()
}

/// Mutants that no longer fit the code or the checklist.
fn stale(tree: &Tree, mutants: &[(String, Mutant)]) -> Result<Vec<String>> {
    let checklist = Checklist::parse(&tree.read(checklist::PATH)?)?;
    let mut breaches = Vec::new();
    for (path, mutant) in mutants {
        let applied = tree
            .read(&mutant.file)
            .map_err(|error| error.to_string())
            .and_then(|text| mutant.apply(&text));
        let wrong = mutant
            .unknown_item(&checklist)
            .into_iter()
            .chain(applied.err());
        breaches.extend(wrong.map(|wrong| format!("{path}: {wrong}")));
    }
    Ok(breaches)
}

/// Where mutants are built: where everything else is, so that the dependencies are there already. What is built of the
/// copy has other names than what is built of the tree itself.
fn target(tree: &Tree) -> Result<PathBuf> {
    let target =
        env::var_os("CARGO_TARGET_DIR").map_or_else(|| tree.root().join("target"), PathBuf::from);
    std::path::absolute(target).map_err(Error::io("find the target folder"))
}

struct Bench {
    copy: WorkCopy,
    runner: Runner,
}

impl Bench {
    /// The tests must pass before a failure can mean anything.
    fn check_unmutated(&self, mutants: &[Mutant]) -> Result<()> {
        let commands: BTreeSet<&[String]> = mutants.iter().map(|m| m.test.as_slice()).collect();
        let count = commands.len();
        println!("mutants: first without any, test runs: {count}");
        for test in commands {
            let (verdict, output) = self.runner.run(self.copy.root(), test)?;
            let detail = match verdict {
                Verdict::Passed => continue,
                Verdict::NoTests => "no test matches".to_owned(),
                Verdict::Failed | Verdict::Broken => {
                    format!("it must pass without a mutant:\n{}", tail(&output))
                }
            };
            return Err(Error::Command {
                command: test.join(" "),
                detail,
            });
        }
        Ok(())
    }

    fn try_mutant(&self, mutant: &Mutant) -> Result<(Verdict, String)> {
        let original = self.copy.read(&mutant.file)?;
        let mutated = mutant
            .apply(&original)
            .map_err(|wrong| Error::malformed(&mutant.name, wrong))?;
        self.copy.write(&mutant.file, &mutated)?;
        let outcome = self.runner.run(self.copy.root(), &mutant.test);
        self.copy.write(&mutant.file, &original)?;
        outcome
    }
}

/// The end of a program's output, where its errors are.
fn tail(output: &str) -> String {
    let lines: Vec<&str> = output.lines().collect();
    let skip = lines.len().saturating_sub(30);
    lines.into_iter().skip(skip).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_long_run_takes_all_and_a_filter_takes_either_kind() {
        let mutant = Mutant {
            name: "lost-appends".to_owned(),
            item: "STT-03".to_owned(),
            ..Mutant::default()
        };
        let (few, soak) = ("tests/mutants/a.mutant", "tests/mutants/soak/a.mutant");
        for (which, of_few, of_soak) in [
            (Selection::Few, true, false),
            (Selection::All, true, true),
            (Selection::Matching("STT"), true, true),
            (Selection::Matching("STR"), false, false),
        ] {
            let taken = (which.takes(few, &mutant), which.takes(soak, &mutant));
            assert_eq!(taken, (of_few, of_soak), "{which:?}");
        }
    }

    #[test]
    fn the_end_of_an_output_is_kept() {
        let output: String = (1..=40).map(|n| format!("{n}\n")).collect();
        assert!(tail(&output).starts_with("11\n") && tail(&output).ends_with("\n40"));
    }
}
