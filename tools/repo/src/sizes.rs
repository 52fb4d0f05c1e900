use std::collections::BTreeMap;

use crate::{
    Report,
    error::{Error, Result},
    source::lines_before_tests,
    tree::Tree,
};

/// From here on a file needs a reason in review.
const NOTED: usize = 500;
/// More than this fails.
const LIMIT: usize = 800;
const ALLOW_LIST: &str = "tools/repo/size-allow.txt";
/// File names that do not describe their content.
const NAMES: [(&str, &str); 3] = [
    (
        "mod.rs",
        "name it after the module, beside the module's folder",
    ),
    ("utils.rs", "name it after what it does"),
    ("common.rs", "name it after what it does"),
];

/// The judgement of one file.
#[derive(Debug, PartialEq, Eq)]
enum Finding {
    Note(String),
    Breach(String),
}

pub(crate) fn check(tree: &Tree) -> Result<Report> {
    let sources = tree.sources(|path| path.ends_with(".rs"))?;
    let files: Vec<(String, usize)> = sources
        .into_iter()
        .map(|(path, text)| {
            let lines = lines_before_tests(&text);
            (path, lines)
        })
        .collect();
    let allowed = allow_list(&tree.read(ALLOW_LIST)?)?;
    let mut breaches = Vec::new();
    for finding in judge(&files, &allowed) {
        match finding {
            Finding::Note(text) => println!("note: {text}"),
            Finding::Breach(text) => breaches.push(text),
        }
    }
    Ok(Report {
        summary: format!("sizes: {} files, {} breaches", files.len(), breaches.len()),
        breaches,
    })
}

/// Reads `path why` lines; the why is required.
fn allow_list(text: &str) -> Result<BTreeMap<String, String>> {
    text.lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(at, line)| match line.trim().split_once(' ') {
            Some((path, why)) => Ok((path.to_owned(), why.trim().to_owned())),
            None => Err(Error::malformed(
                format!("{ALLOW_LIST}:{}", at + 1),
                "write the path, a space and one line of why",
            )),
        })
        .collect()
}

fn judge(files: &[(String, usize)], allowed: &BTreeMap<String, String>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, lines) in files {
        let name = path.rsplit('/').next().unwrap_or(path);
        if let Some((_, advice)) = NAMES.iter().find(|(bad, _)| *bad == name) {
            findings.push(Finding::Breach(format!(
                "{path}: no file is called {name}; {advice}"
            )));
        }
        if is_test(path) {
            continue;
        }
        match allowed.get(path) {
            Some(why) if *lines > LIMIT => findings.push(Finding::Note(format!(
                "{path} has {lines} lines, allowed: {why}"
            ))),
            None if *lines > LIMIT => findings.push(Finding::Breach(format!(
                "{path} has {lines} lines without its tests, the limit is {LIMIT}; find the \
                 second concept in it and give it a file, or add the path and one line of why \
                 to {ALLOW_LIST}"
            ))),
            None if *lines > NOTED => findings.push(Finding::Note(format!(
                "{path} has {lines} lines; over {NOTED} wants a reason in review"
            ))),
            Some(_) | None => {}
        }
    }
    for path in allowed.keys() {
        if !files
            .iter()
            .any(|(file, lines)| file == path && *lines > LIMIT)
        {
            findings.push(Finding::Breach(format!(
                "{ALLOW_LIST}: {path} no longer needs its line; remove it"
            )));
        }
    }
    findings
}

/// Whether a whole file is test code.
pub(crate) fn is_test(path: &str) -> bool {
    path.starts_with("tests/") || path.contains("/tests/") || path.ends_with("/tests.rs")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn breaches(files: &[(&str, usize)], allowed: &str) -> Vec<String> {
        let files: Vec<_> = files.iter().map(|(p, n)| ((*p).to_owned(), *n)).collect();
        judge(&files, &allow_list(allowed).unwrap())
            .into_iter()
            .filter_map(|finding| match finding {
                Finding::Breach(text) => Some(text),
                Finding::Note(_) => None,
            })
            .collect()
    }

    #[test]
    fn a_file_over_the_limit_is_a_breach_unless_it_is_a_test() {
        let found = breaches(
            &[
                ("crates/core/src/a.rs", 801),
                ("crates/core/src/b.rs", 800),
                ("crates/core/tests/it/c.rs", 2000),
                ("crates/core/src/d/tests.rs", 2000),
            ],
            "",
        );
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("crates/core/src/a.rs has 801 lines"));
    }

    #[test]
    fn a_file_over_five_hundred_lines_is_noted() {
        let found = judge(&[("a.rs".to_owned(), 501)], &BTreeMap::new());
        assert!(matches!(found.as_slice(), [Finding::Note(_)]), "{found:?}");
        assert_eq!(judge(&[("a.rs".to_owned(), 500)], &BTreeMap::new()), []);
    }

    #[test]
    fn the_allow_list_excuses_and_must_be_current() {
        let list = "a.rs generated table\n\nb.rs short now\n";
        let found = breaches(&[("a.rs", 900), ("b.rs", 700)], list);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("b.rs no longer needs"));
        assert!(allow_list("a.rs\n").is_err(), "a line without a why");
    }

    #[test]
    fn meaningless_file_names_are_breaches_also_in_tests() {
        let files = [("a/mod.rs", 1), ("a/utils.rs", 1), ("tests/common.rs", 1)];
        assert_eq!(breaches(&files, "").len(), 3);
        assert!(breaches(&[("a/common_words.rs", 1)], "").is_empty());
    }
}
