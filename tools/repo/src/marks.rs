//! `proves:` marks: a comment at a test that names the checklist items the test proves, or with
//! `proves in part:` shows a part of.

use crate::{checklist::id_list, source};

const WORD: &str = "proves:";
const WORD_IN_PART: &str = "proves in part:";
/// Where the cases of contracts are, which macros make tests of.
const CONTRACTS: &str = "crates/testkit/src/contract";

/// One `proves:` mark in a source file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) path: String,
    pub(crate) line: usize,
    pub(crate) ids: Vec<String>,
    /// Whether the test shows only a part of the items.
    pub(crate) in_part: bool,
    /// The test it belongs to; none when it speaks for the whole file.
    pub(crate) test: Option<String>,
}

/// Whether a file may hold marks.
pub(crate) fn may_hold(path: &str) -> bool {
    [".rs", ".ts", ".tsx", ".mjs", ".sh"]
        .iter()
        .any(|ending| path.ends_with(ending))
}

/// The marks of one file, and what is wrong with those that cannot be read or prove nothing.
///
/// A mark belongs to the next test after it. One inside of a function's body belongs to that
/// function; one in `//!`, or with no test after it, to the file. In Rust, what it belongs to must
/// be run by `cargo test`: see [`File::is_run`]. A `proves:` in backticks is talk about marks, and
/// in a string it is a string.
pub(crate) fn find(path: &str, text: &str) -> (Vec<Mark>, Vec<String>) {
    let (code, comments) = if path.ends_with(".rs") {
        let split = source::split(text);
        (split.code, split.comments)
    } else {
        (text.to_owned(), comment_lines(text))
    };
    let file = File {
        path,
        text: text.lines().collect(),
        names: code.lines().map(|line| name(path, line)).collect(),
        code: code.lines().collect(),
    };
    let mut marks = Vec::new();
    let mut errors = Vec::new();
    for (at, comment) in comments.lines().enumerate() {
        let Some((list, in_part)) = list_after_mark(comment) else {
            continue;
        };
        let line = at + 1;
        let of_file = comment.trim_start().starts_with("//!");
        let test = if of_file { None } else { file.test_of(at) };
        if let Err(error) = file.is_run(test) {
            errors.push(format!("{path}:{line}: {error}"));
        }
        match id_list(list) {
            Ok(ids) => marks.push(Mark {
                path: path.to_owned(),
                line,
                ids,
                in_part,
                test: test.and_then(|at| file.names.get(at).cloned().flatten()),
            }),
            Err(error) => errors.push(format!("{path}:{line}: {error}")),
        }
    }
    (marks, errors)
}

/// The text after the mark in a comment, and whether the mark is `proves in part`.
fn list_after_mark(comment: &str) -> Option<(&str, bool)> {
    [(WORD, false), (WORD_IN_PART, true)]
        .iter()
        .find_map(|(word, in_part)| {
            let (before, list) = comment.split_once(word)?;
            let quoted = before.ends_with(|c: char| c == '`' || c == '_' || c.is_alphanumeric());
            (!quoted).then_some((list, *in_part))
        })
}

/// Of a script: the lines that are comments, the others empty.
fn comment_lines(text: &str) -> String {
    text.lines()
        .flat_map(|line| {
            let starts = line.trim_start().starts_with(['/', '*', '#']);
            [if starts { line } else { "" }, "\n"]
        })
        .collect()
}

struct File<'a> {
    path: &'a str,
    text: Vec<&'a str>,
    code: Vec<&'a str>,
    /// Per line, the test or function that begins there.
    names: Vec<Option<String>>,
}

impl File<'_> {
    /// The line where the test begins that a mark on this line belongs to.
    fn test_of(&self, at: usize) -> Option<usize> {
        let depth = self.text.get(at).map_or(0, |line| indent(line));
        let lines = self.names.iter().zip(&self.text).enumerate().skip(at);
        for (here, (name, line)) in lines {
            let closes = line.trim_start().starts_with('}') && indent(line) < depth;
            if closes {
                return self.names.iter().take(at).rposition(Option::is_some);
            }
            if name.is_some() {
                return Some(here);
            }
        }
        None
    }

    /// Whether what a mark belongs to is run, or why it is not: a function has to be a test that is
    /// not ignored, or a contract's case; a file has to hold tests or call a contract's macro.
    fn is_run(&self, test: Option<usize>) -> Result<(), String> {
        if !self.path.ends_with(".rs") {
            return Ok(());
        }
        let Some(at) = test else {
            let runs = |line: &str| line.contains("contract!");
            let any = self.code.iter().any(|line| runs(line))
                || (0..self.code.len()).any(|at| is_test(&self.attributes(at)));
            return any
                .then_some(())
                .ok_or_else(|| "there is no test in this file; move the mark to one".to_owned());
        };
        let name = self.names.get(at).and_then(Option::as_deref);
        let name = name.unwrap_or_default();
        let attributes = self.attributes(at);
        let is_case = self.path.starts_with(CONTRACTS)
            && self.code.get(at).is_some_and(|line| {
                line.trim_start().starts_with("pub async fn ") && !is_test(&attributes)
            });
        if is_case {
            return Ok(());
        }
        if !is_test(&attributes) {
            return Err(format!("{name} is not a test; move the mark to one"));
        }
        if is_ignored(&attributes) {
            return Err(format!("{name} is ignored and proves nothing; let it run"));
        }
        Ok(())
    }

    /// The attributes of the function that begins on this line, without white space.
    fn attributes(&self, at: usize) -> String {
        let own = self.code.get(at).and_then(|line| line.split("fn ").next());
        let above = self.code.iter().take(at).rev();
        let above = above.take_while(|line| !line.trim_end().ends_with(['{', '}', ';']));
        let lines: Vec<&str> = above.copied().collect();
        let all = lines.into_iter().rev().chain(own);
        all.flat_map(str::split_whitespace).collect()
    }
}

fn is_test(attributes: &str) -> bool {
    ["#[test]", "#[tokio::test]", "#[tokio::test("]
        .iter()
        .any(|test| attributes.contains(test))
}

fn is_ignored(attributes: &str) -> bool {
    ["#[ignore]", "#[ignore="]
        .iter()
        .any(|ignore| attributes.contains(ignore))
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// The name of the test or function that begins on a line.
fn name(path: &str, line: &str) -> Option<String> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let word_after = |key: &str| {
        let (before, after) = line.split_once(key)?;
        let name: String = after.chars().take_while(|c| is_name(*c)).collect();
        (!before.ends_with(is_name) && !name.is_empty()).then_some(name)
    };
    if path.ends_with(".rs") {
        return word_after("fn ");
    }
    if path.ends_with(".sh") {
        let (name, _) = line.split_once("()")?;
        return (!name.is_empty() && name.chars().all(is_name)).then(|| name.to_owned());
    }
    quoted_title(line).or_else(|| word_after("function "))
}

/// The title in `test("title", ..)` or `it("title", ..)`.
fn quoted_title(line: &str) -> Option<String> {
    let call = line.trim_start();
    let arguments = ["test(", "it("].iter().find_map(|k| call.strip_prefix(k))?;
    let quote = arguments.chars().next().filter(|c| "\"'`".contains(*c))?;
    let title = arguments.strip_prefix(quote)?.split(quote).next()?;
    Some(title.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<(usize, String, String)> {
        let (marks, errors) = find(path, text);
        assert_eq!(errors, [""; 0]);
        marks
            .into_iter()
            .map(|mark| {
                let test = mark.test.unwrap_or_else(|| "-".to_owned());
                (mark.line, mark.ids.join(" "), test)
            })
            .collect()
    }

    fn row(line: usize, ids: &str, test: &str) -> (usize, String, String) {
        (line, ids.to_owned(), test.to_owned())
    }

    fn errors(path: &str, text: &str) -> Vec<String> {
        find(path, text).1
    }

    #[test]
    fn a_mark_belongs_to_the_next_function() {
        let text = "fn helper() {}\n\n/// Appends. (proves: STT-03, STT-05..06)\n#[test]\n\
                    fn appends() {\n}\n\n// proves: SES-01\n#[test] fn other() { // proves: SES-02\n}\n";
        assert_eq!(
            found("a.rs", text),
            [
                row(3, "STT-03 STT-05 STT-06", "appends"),
                row(8, "SES-01", "other"),
                row(9, "SES-02", "other"),
            ]
        );
    }

    #[test]
    fn a_mark_inside_of_a_body_belongs_to_that_function() {
        let text = "mod tests {\n    #[test]\n    fn one() {\n        // proves: SES-01\n\
                    \x20       if x {\n        }\n    }\n    #[test]\n    fn two() {}\n}\n";
        assert_eq!(found("a.rs", text), [row(4, "SES-01", "one")]);
    }

    #[test]
    fn a_mark_of_the_file_belongs_to_the_file() {
        let text = "//! proves: SES-01\n\nfn a() {}\n// proves: SES-02\nstore_contract!(x);\n";
        assert_eq!(
            found("a.rs", text),
            [row(1, "SES-01", "-"), row(4, "SES-02", "-")]
        );
        let text = "//! proves: SES-01\n#[test]\nfn a() {}\n";
        assert_eq!(found("a.rs", text), [row(1, "SES-01", "-")]);
        assert_eq!(
            errors("a.rs", "//! proves: SES-01\n// #[test]\nfn a() {}\n"),
            ["a.rs:1: there is no test in this file; move the mark to one"]
        );
    }

    #[test]
    fn every_kind_of_test_may_be_marked() {
        for attributes in [
            "#[test]",
            "#[tokio::test]",
            "#[tokio::test(start_paused = true)]",
            "#[test]\n#[expect(\n    clippy::x,\n    reason = \"{\"\n)]",
            "#[expect(x)]\n#[test]\n// Why.",
            "#[test]\n#[should_panic]",
        ] {
            let text = format!("fn a() {{}}\n// proves: SES-01\n{attributes}\nfn b() {{}}\n");
            assert_eq!(found("a.rs", &text), [row(2, "SES-01", "b")]);
        }
        let property = "proptest! {\n    #![proptest_config(c)]\n    /// proves: SES-01\n    \
                        #[test]\n    fn b(x in 0..9) {}\n}\n";
        assert_eq!(found("a.rs", property), [row(3, "SES-01", "b")]);
    }

    #[test]
    fn a_function_that_is_no_test_proves_nothing() {
        for text in [
            "#[test]\nfn a() {}\n// proves: SES-01\nfn b() {}\n",
            "// proves: SES-01\n// #[test]\nfn b() {}\n",
            "struct X;\n// proves: SES-01\npub async fn b() {}\n",
            "proptest! {\n    // proves: SES-01\n    fn b(x in 0..9) {}\n}\n",
        ] {
            let errors = errors("crates/testkit/src/mock.rs", text);
            let line = 1 + text.lines().position(|l| l.contains("proves")).unwrap();
            let expected =
                format!("crates/testkit/src/mock.rs:{line}: b is not a test; move the mark to one");
            assert_eq!(errors, [expected]);
        }
    }

    #[test]
    fn an_ignored_test_proves_nothing() {
        for ignore in ["#[ignore]", "#[ignore = \"slow\"]"] {
            let text = format!("// proves: SES-01\n#[test]\n{ignore}\nfn b() {{}}\n");
            assert_eq!(
                errors("a.rs", &text),
                ["a.rs:1: b is ignored and proves nothing; let it run"]
            );
        }
    }

    #[test]
    fn a_case_of_a_contract_may_be_marked() {
        let case = "// proves: SES-01\npub async fn b(on: &Subject) {}\n";
        for path in ["contract.rs", "contract/creating.rs", "contracts/a.rs"] {
            let path = format!("crates/testkit/src/{path}");
            assert_eq!(found(&path, case), [row(1, "SES-01", "b")]);
            assert_eq!(errors(&path, &case.replace("pub ", "")).len(), 1);
            assert_eq!(errors(&path, &case.replace("async ", "")).len(), 1);
        }
    }

    #[test]
    fn a_mark_may_be_one_in_part() {
        let text = "// proves: SES-01\n// proves in part: SES-02, SES-04\n#[test]\nfn a() {}\n\
                    // Say `proves in part: SES-03`.\n";
        let (marks, errors) = find("a.rs", text);
        assert_eq!(errors, [""; 0]);
        let parts: Vec<_> = marks.iter().map(|mark| (mark.line, mark.in_part)).collect();
        assert_eq!(parts, [(1, false), (2, true)]);
        assert_eq!(marks[1].ids, ["SES-02", "SES-04"]);
    }

    #[test]
    fn strings_and_backticks_hold_no_marks() {
        let text =
            "// A `proves: XXX` mark; it disproves: much.\nlet a = r#\"\n// proves: SES-01\n\"#;\n";
        assert_eq!(found("a.rs", text), []);
    }

    #[test]
    fn scripts_have_marks_too() {
        let ts = "// proves: RCT-01\ntest('sends a request', async () => {});\n\
                  const s = 'proves: nothing';\n/** proves: RCT-02 */\nfunction hook() {}\n";
        assert_eq!(
            found("packages/ai-sdk/tests/a.ts", ts),
            [
                row(1, "RCT-01", "sends a request"),
                row(4, "RCT-02", "hook")
            ]
        );
        let sh = "#!/bin/sh\n# proves: RUN-01\nrun_it() {\n}\n";
        assert_eq!(found("a.sh", sh), [row(2, "RUN-01", "run_it")]);
    }

    #[test]
    fn a_mark_that_cannot_be_read_is_an_error_with_its_place() {
        let text = "// proves: that it works\n#[test]\nfn a() {}\n";
        let (marks, errors) = find("a.rs", text);
        assert_eq!(marks, []);
        assert!(errors[0].starts_with("a.rs:1: `that`"), "{errors:?}");
    }
}
