//! Which backends run which contract case.
//!
//! A case proves its item on every backend that runs its suite. The suites are listed in the test
//! kit; a backend runs one by a line like `store_contract!(..)`.

use std::collections::{BTreeMap, BTreeSet};

/// Where the cases and the lists of them are.
const CASES: &str = "crates/testkit/src/contract";

/// The suites, their cases, and who runs them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Suites {
    suite_of: BTreeMap<String, String>,
    run_by: BTreeMap<String, BTreeSet<String>>,
}

impl Suites {
    /// Reads the list of cases, and finds who runs the suites.
    pub(crate) fn find(sources: &[(String, String)], place: impl Fn(&str) -> &str) -> Self {
        let mut suites = Self::default();
        for (path, text) in sources {
            if path.starts_with(CASES) {
                suites.suite_of.extend(cases(text));
            }
        }
        let names: BTreeSet<String> = suites.suite_of.values().cloned().collect();
        for (path, text) in sources {
            // Documentation and this tool only talk about the lines.
            if path.starts_with(CASES) || path.starts_with("tools/") {
                continue;
            }
            for suite in &names {
                if text.contains(&format!("{suite}_contract!(")) {
                    let backend = match place(path) {
                        "core" => "memory",
                        other => other,
                    };
                    let run_by = suites.run_by.entry(suite.clone()).or_default();
                    run_by.insert(backend.to_owned());
                }
            }
        }
        suites
    }

    /// The backends that run a case; `None` when the file holds no cases.
    pub(crate) fn backends(&self, path: &str, case: Option<&str>) -> Option<Vec<&str>> {
        if !path.starts_with(CASES) {
            return None;
        }
        let suite = case.and_then(|case| self.suite_of.get(case));
        let run_by = suite.and_then(|suite| self.run_by.get(suite));
        Some(run_by.into_iter().flatten().map(String::as_str).collect())
    }
}

/// The suite of each case, as the list has them: `mod store(..);` and then names with commas.
fn cases(list: &str) -> BTreeMap<String, String> {
    let mut cases = BTreeMap::new();
    let mut suite = None;
    for line in list.lines().map(str::trim) {
        if let Some((name, _)) = line
            .strip_prefix("mod ")
            .and_then(|rest| rest.split_once('('))
        {
            suite = Some(name.to_owned());
        }
        let is_name = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if let (Some(suite), Some(case)) = (&suite, line.strip_suffix(','))
            && !case.is_empty()
            && is_name(case)
        {
            cases.insert(case.to_owned(), suite.clone());
        }
    }
    cases
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{marks, parity, tree::Tree};

    /// proves: STR-05
    /// proves in part: STO-11
    #[test]
    fn every_store_of_ours_runs_every_suite() {
        let sources = Tree::find().unwrap().sources(marks::may_hold).unwrap();
        let suites = Suites::find(&sources, parity::place);
        for suite in ["store", "clock", "stream", "lock", "runtime"] {
            for store in ["memory", "sqlite", "postgres", "redis", "mixed"] {
                // Only streams are elsewhere there: its locks are those of PostgreSQL.
                if (suite, store) != ("lock", "mixed") {
                    assert!(suites.run_by[suite].contains(store), "{suite} on {store}");
                }
            }
        }
    }

    #[test]
    fn a_case_runs_wherever_its_suite_does() {
        let source = |path: &str, text: &str| (path.to_owned(), text.to_owned());
        let list = "mod creating;\nsuite! { ($)\n    mod store(Subject);\n    creating {\n        \
                    one_wins,\n    }\n}\nsuite! { ($)\n    mod lock(LockSubject);\n    locking {\n        \
                    second_refused,\n    }\n}\n";
        let of_runtimes = "suite! { ($)\n    mod runtime(RuntimeSubject) here;\n    pausing {\n        \
                           it_pauses,\n    }\n}\n";
        let sources = [
            source("crates/testkit/src/contract.rs", list),
            source("crates/testkit/src/contract/runtime.rs", of_runtimes),
            source("core", "store_contract!(x); lock_contract!(y);"),
            source(
                "sqlite",
                "testkit::store_contract!(x); runtime_contract!(z);",
            ),
            source("tools/repo/src/suites.rs", "lock_contract!(y)"),
        ];
        let suites = Suites::find(&sources, |path| path);
        let in_creating = "crates/testkit/src/contract/creating.rs";
        let backends = |case| suites.backends(in_creating, Some(case));
        assert_eq!(backends("one_wins"), Some(vec!["memory", "sqlite"]));
        assert_eq!(backends("second_refused"), Some(vec!["memory"]));
        assert_eq!(backends("it_pauses"), Some(vec!["sqlite"]));
        assert_eq!(backends("unlisted"), Some(vec![]));
        assert_eq!(
            suites.backends("crates/core/tests/it/a.rs", Some("one_wins")),
            None
        );
    }
}
