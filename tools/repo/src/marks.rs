//! `proves:` marks: a comment in a test that names the checklist items the test proves.

use crate::{checklist::id_list, source};

const WORD: &str = "proves:";

/// One mark.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) path: String,
    pub(crate) line: usize,
    pub(crate) ids: Vec<String>,
    /// The test it belongs to; none when it speaks for the whole file.
    pub(crate) test: Option<String>,
}

/// Whether a file may hold marks.
pub(crate) fn may_hold(path: &str) -> bool {
    [".rs", ".ts", ".tsx", ".mjs", ".sh"]
        .iter()
        .any(|ending| path.ends_with(ending))
}

/// The marks of one file, and what is wrong with those that cannot be read.
///
/// A mark belongs to the next test after it. One inside of a function's body belongs to that
/// function; one in `//!`, or with no test after it, to the file. A `proves:` in backticks is
/// talk about marks, and in a string it is a string.
pub(crate) fn find(path: &str, text: &str) -> (Vec<Mark>, Vec<String>) {
    let (code, comments) = if path.ends_with(".rs") {
        let split = source::split(text);
        (split.code, split.comments)
    } else {
        (text.to_owned(), comment_lines(text))
    };
    let file = File {
        text: text.lines().collect(),
        names: code.lines().map(|line| name(path, line)).collect(),
    };
    let mut marks = Vec::new();
    let mut errors = Vec::new();
    for (at, comment) in comments.lines().enumerate() {
        let Some(list) = list_after_mark(comment) else {
            continue;
        };
        let line = at + 1;
        match id_list(list) {
            Ok(ids) => marks.push(Mark {
                path: path.to_owned(),
                line,
                ids,
                test: (!comment.trim_start().starts_with("//!"))
                    .then(|| file.test_of(at))
                    .flatten(),
            }),
            Err(error) => errors.push(format!("{path}:{line}: {error}")),
        }
    }
    (marks, errors)
}

fn list_after_mark(comment: &str) -> Option<&str> {
    let (before, list) = comment.split_once(WORD)?;
    let quoted = before.ends_with(|c: char| c == '`' || c == '_' || c.is_alphanumeric());
    (!quoted).then_some(list)
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
    text: Vec<&'a str>,
    /// Per line, the test or function that begins there.
    names: Vec<Option<String>>,
}

impl File<'_> {
    fn test_of(&self, at: usize) -> Option<String> {
        let depth = self.text.get(at).map_or(0, |line| indent(line));
        let lines = self.names.iter().zip(&self.text).skip(at);
        for (name, line) in lines {
            let closes = line.trim_start().starts_with('}') && indent(line) < depth;
            if closes {
                return self.names.iter().take(at).rev().flatten().next().cloned();
            }
            if name.is_some() {
                return name.clone();
            }
        }
        None
    }
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

    #[test]
    fn a_mark_belongs_to_the_next_function() {
        let text = "fn helper() {}\n\n/// Appends. (proves: STT-03, STT-05..06)\n#[test]\n\
                    async fn appends() {\n}\n\n// proves: SES-01\nfn other() { // proves: SES-02\n}\n";
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
        let text = "//! proves: SES-01\n\nfn a() {}\n// proves: SES-02\ncontract!(x);\n";
        assert_eq!(
            found("a.rs", text),
            [row(1, "SES-01", "-"), row(4, "SES-02", "-")]
        );
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
        let (marks, errors) = find("a.rs", "fn a() {}\n// proves: that it works\n");
        assert_eq!(marks, []);
        assert!(errors[0].starts_with("a.rs:2: `that`"), "{errors:?}");
    }
}
