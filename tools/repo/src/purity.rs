//! Core has no clock, no randomness, no environment and no I/O: not through a dependency, and
//! not through the standard library.

use std::collections::BTreeSet;

use crate::{
    arrows::{Kind, Package},
    metadata::Branch,
    sizes::is_test,
    source,
};

/// Where core lives.
pub(crate) const CORE: &str = "crates/core";

/// Crates that bring a clock, randomness or I/O; core may not name them.
const NOT_DIRECTLY: [&str; 12] = [
    "tokio",
    "rand",
    "getrandom",
    "uuid",
    "chrono",
    "jiff",
    "time",
    "reqwest",
    "hyper",
    "rusqlite",
    "async-std",
    "futures-timer",
];

/// Crates that core may not have anywhere below it either.
const NOT_AT_ALL: [&str; 5] = ["tokio", "mio", "hyper", "reqwest", "socket2"];

/// Modules of `std` that reach outside.
const STD_MODULES: [&str; 4] = ["fs", "net", "env", "process"];

/// Other ways to reach outside, as they stand in code.
/// To know on which thread one is reaches nowhere; to start or stop one does.
const WORDS: [&str; 8] = [
    "SystemTime",
    "Instant::now",
    "tokio::",
    "thread::spawn",
    "thread::scope",
    "thread::sleep",
    "thread::park",
    "thread::Builder",
];

/// Direct dependencies of core that it may not have.
pub(crate) fn direct_breaches(core: &Package) -> Vec<String> {
    core.needs
        .iter()
        .filter(|need| need.kind == Kind::Normal && NOT_DIRECTLY.contains(&need.name.as_str()))
        .map(|need| {
            format!(
                "{CORE}/Cargo.toml depends on {}; time, randomness and I/O come to core through \
                 its ports",
                need.name
            )
        })
        .collect()
}

/// Forbidden crates in the tree of core's dependencies, each once, with the first way that leads
/// to it.
pub(crate) fn tree_breaches(tree: &[Branch]) -> Vec<String> {
    let mut breaches = Vec::new();
    let mut seen = BTreeSet::new();
    let mut way: Vec<&str> = Vec::new();
    for (depth, name) in tree {
        way.truncate(*depth);
        way.push(name);
        if NOT_AT_ALL.contains(&name.as_str()) && seen.insert(name) {
            breaches.push(format!(
                "core reaches {name} by {}; leave out the feature or the dependency that brings it",
                way.join(" -> ")
            ));
        }
    }
    breaches
}

/// Whether a file is code that must stay pure.
pub(crate) fn is_pure_source(path: &str) -> bool {
    path.starts_with("crates/core/src/") && path.ends_with(".rs") && !is_test(path)
}

/// Lines of core's source that reach outside. Comments, literals and inline tests do not count.
pub(crate) fn source_breaches(sources: &[(String, String)]) -> Vec<String> {
    let mut breaches = Vec::new();
    for (path, text) in sources {
        let end = source::lines_before_tests(text);
        let code = source::split(text).code;
        let code: String = code
            .lines()
            .take(end)
            .flat_map(|line| [line, "\n"])
            .collect();
        for (line, what) in reaches(&code) {
            breaches.push(format!(
                "{path}:{line} uses {what}; core decides and runtimes do, so let it arrive in an \
                 event or through a port"
            ));
        }
    }
    breaches
}

/// The forbidden things in a piece of code, each with its line.
fn reaches(code: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut note = |at: usize, what: String| {
        let line = before(code, at).matches('\n').count() + 1;
        found.push((line, what));
    };
    for word in WORDS {
        for at in occurrences(code, word) {
            note(at, word.trim_end_matches("::").to_owned());
        }
    }
    for at in occurrences(code, "std::") {
        let Some((_, tail)) = code.split_at_checked(at + "std::".len()) else {
            continue;
        };
        for module in first_segments(tail) {
            if STD_MODULES.contains(&module) {
                note(at, format!("std::{module}"));
            }
        }
    }
    found.sort();
    found
}

fn before(code: &str, at: usize) -> &str {
    code.split_at_checked(at).map_or("", |(before, _)| before)
}

/// Where a word stands in the code as a word of its own.
fn occurrences<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let in_word = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word)
        .filter(move |(at, _)| {
            let opens = !before(code, *at).ends_with(in_word);
            let after = code.split_at_checked(at + word.len());
            let closes =
                word.ends_with(':') || !after.is_some_and(|(_, tail)| tail.starts_with(in_word));
            opens && closes
        })
        .map(|(at, _)| at)
}

/// The names that directly follow `std::`: one, or those of a `{..}` group.
fn first_segments(tail: &str) -> Vec<&str> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let Some(group) = tail.trim_start().strip_prefix('{') else {
        return tail.split(|c| !is_name(c)).take(1).collect();
    };
    let mut depth = 0_usize;
    let end = group.find(|c| {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => return true,
            '}' => depth -= 1,
            _ => {}
        }
        false
    });
    let (group, _) = group.split_at(end.unwrap_or(group.len()));
    group
        .split(|c| {
            match c {
                '{' => depth += 1,
                '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            c == ',' && depth == 0
        })
        .filter_map(|part| part.trim().split(|c| !is_name(c)).next())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrows::Need;

    fn source_findings(text: &str) -> Vec<String> {
        source_breaches(&[("crates/core/src/a.rs".to_owned(), text.to_owned())])
    }

    #[test]
    fn each_forbidden_direct_dependency_is_found() {
        for name in NOT_DIRECTLY {
            let core = |kind| Package {
                name: "helix-agents-core".to_owned(),
                folder: CORE.to_owned(),
                needs: vec![Need {
                    name: name.to_owned(),
                    kind,
                }],
            };
            assert_eq!(direct_breaches(&core(Kind::Normal)).len(), 1, "{name}");
            assert!(direct_breaches(&core(Kind::Dev)).is_empty(), "{name}");
        }
    }

    #[test]
    fn a_forbidden_crate_deep_in_the_tree_is_found_with_its_way() {
        for name in NOT_AT_ALL {
            let branches = [
                (0, "core"),
                (1, "sha2"),
                (2, "digest"),
                (1, "web"),
                (2, name),
                (1, name),
            ];
            let tree = branches.map(|(depth, name)| (depth, name.to_owned()));
            let found = tree_breaches(&tree);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(
                found[0].contains(&format!("core -> web -> {name};")),
                "{found:?}"
            );
        }
    }

    #[test]
    fn each_way_to_reach_outside_is_found_at_its_line() {
        let uses = [
            "use std::fs;",
            "let x = std::net::TcpStream::connect(y);",
            "std::env::var(x)",
            "std::process::id()",
            "::std::thread::spawn(f)",
            "use std::time::SystemTime;",
            "let now = std::time::Instant::now();",
            "tokio::spawn(f)",
            "thread::sleep(a_while);",
            "use std::{sync::Arc, env};",
            "use std::{\n    sync::{Arc, Mutex},\n    fs::{self, File},\n};",
        ];
        for code in uses {
            let found = source_findings(&format!("fn a() {{}}\n{code}\n"));
            assert_eq!(found.len(), 1, "{code}: {found:?}");
            assert!(
                found[0].starts_with("crates/core/src/a.rs:2 uses "),
                "{found:?}"
            );
        }
    }

    #[test]
    fn words_that_only_look_alike_are_fine() {
        let fine = [
            "// std::fs is not used",
            "/// See `tokio::spawn`.",
            "let s = \"SystemTime\";",
            "struct SystemTimeSource;",
            "my_tokio::spawn(f)",
            "let me = std::thread::current().id();",
            "use std::{sync::Arc, collections::{thread_map, net}};",
            "use core::fmt; fn envelope() {}",
            "#[cfg(test)]\nmod tests {\n    use std::thread;\n}",
        ];
        for code in fine {
            assert_eq!(source_findings(code), [""; 0], "{code}");
        }
    }
}
