//! Just enough reading of Rust source to tell code, comments and literals apart, and to find
//! where a file's inline tests begin.

/// Rust source taken apart. Both texts have the lines of the original, so that line numbers
/// agree; the contents of string and character literals are in neither.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Split {
    pub(crate) code: String,
    pub(crate) comments: String,
}

enum Piece {
    Code,
    Comment,
    Literal,
}

/// Takes Rust source apart. Source that does not lex is taken as far as it makes sense: what
/// is never closed runs to the end.
pub(crate) fn split(source: &str) -> Split {
    let mut split = Split::default();
    let mut rest = source;
    while !rest.is_empty() {
        let (piece, length) = next_piece(rest);
        let (text, after) = rest.split_at(length);
        let newlines = text.chars().filter(|c| *c == '\n');
        match piece {
            Piece::Code => {
                split.code.push_str(text);
                split.comments.extend(newlines);
            }
            Piece::Comment => {
                split.comments.push_str(text);
                split.code.extend(newlines);
            }
            Piece::Literal => {
                split.code.push('"');
                split.code.extend(newlines.clone());
                split.code.push('"');
                split.comments.extend(newlines);
            }
        }
        rest = after;
    }
    split
}

fn next_piece(rest: &str) -> (Piece, usize) {
    if rest.starts_with("//") {
        let length = rest.find('\n').unwrap_or(rest.len());
        return (Piece::Comment, length);
    }
    if rest.starts_with("/*") {
        return (Piece::Comment, block_comment(rest));
    }
    if let Some(length) = raw_string(rest)
        .or_else(|| string(rest))
        .or_else(|| character(rest))
    {
        return (Piece::Literal, length);
    }
    // A whole word at a time, so that the `r` at the end of `bar` starts no raw string.
    let word = rest
        .find(|c: char| !(c.is_alphanumeric() || c == '_'))
        .unwrap_or(rest.len());
    let one = rest.chars().next().map_or(0, char::len_utf8);
    (Piece::Code, word.max(one))
}

fn block_comment(rest: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some((_, tail)) = rest.split_at_checked(at) {
        if tail.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if tail.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else if let Some(c) = tail.chars().next() {
            at += c.len_utf8();
        } else {
            break;
        }
    }
    rest.len()
}

fn raw_string(rest: &str) -> Option<usize> {
    let body = ["r", "br", "cr"]
        .iter()
        .find_map(|prefix| rest.strip_prefix(prefix))?;
    let inner = body.trim_start_matches('#');
    let hashes = body.len() - inner.len();
    let inner = inner.strip_prefix('"')?;
    let close = format!("\"{}", "#".repeat(hashes));
    let before = rest.len() - inner.len();
    let end = inner.find(&close).map(|at| before + at + close.len());
    Some(end.unwrap_or(rest.len()))
}

fn string(rest: &str) -> Option<usize> {
    let inner = rest.strip_prefix('"')?;
    let mut escaped = false;
    for (at, c) in inner.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return Some(at + 2),
            _ => {}
        }
    }
    Some(rest.len())
}

/// A character literal; a lifetime is none.
fn character(rest: &str) -> Option<usize> {
    let inner = rest.strip_prefix('\'')?;
    if let Some(escape) = inner.strip_prefix('\\') {
        let first = escape.chars().next()?.len_utf8();
        let (_, tail) = escape.split_at_checked(first)?;
        return tail.find('\'').map(|at| 2 + first + at + 1);
    }
    let first = inner.chars().next()?.len_utf8();
    let (_, tail) = inner.split_at_checked(first)?;
    tail.starts_with('\'').then_some(first + 2)
}

/// How many lines of `source` come before its inline tests: a module under `#[cfg(test)]` that
/// is the last thing in the file. Without one, all of them.
pub(crate) fn lines_before_tests(source: &str) -> usize {
    let code = split(source).code;
    let lines: Vec<&str> = code.lines().collect();
    lines
        .iter()
        .enumerate()
        .find(|(at, line)| **line == "#[cfg(test)]" && is_last_module(lines.iter().skip(at + 1)))
        .map_or(lines.len(), |(at, _)| at)
}

fn is_last_module<'a>(lines: impl Iterator<Item = &'a &'a str>) -> bool {
    let mut lines = lines.skip_while(|line| line.starts_with("#["));
    let opens = lines
        .next()
        .is_some_and(|line| line.starts_with("mod ") && line.ends_with('{'));
    opens && lines.any(|line| *line == "}") && lines.all(|line| line.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_comments_and_literals_are_told_apart_line_by_line() {
        let source =
            "let a = \"// not a comment\"; // one\n/* two\n/* deep */ */ b('\\'', '\"');\n";
        let Split { code, comments } = split(source);
        assert_eq!(code, "let a = \"\"; \n\n b(\"\", \"\");\n");
        assert_eq!(comments, "// one\n/* two\n/* deep */ */\n");
    }

    #[test]
    fn raw_strings_and_lifetimes_hide_nothing_that_follows() {
        let source = "bar(r#\"\n\" // x\n\"#); fn f<'a>(x: &'a str) {} // y\nr#type // z";
        let Split { code, comments } = split(source);
        assert_eq!(code, "bar(\"\n\n\"); fn f<'a>(x: &'a str) {} \nr#type ");
        assert_eq!(comments, "\n\n// y\n// z");
    }

    #[test]
    fn an_unclosed_literal_extends_to_the_end() {
        for source in ["a \"b // c", "a /* b", "a r#\"b\" // c"] {
            let Split { code, .. } = split(source);
            assert!(!code.contains(['b', 'c']), "{source}: {code}");
        }
    }

    #[test]
    fn inline_tests_at_the_end_are_cut() {
        let cut = "a\nb\n#[cfg(test)]\n#[expect(x)]\nmod tests {\n    c\n}\n\n";
        assert_eq!(lines_before_tests(cut), 2);
        let quoted = "a\n#[cfg(test)]\nmod tests {\n    r\"\n}\n\"\n}\n";
        assert_eq!(lines_before_tests(quoted), 1);
        let helper = "a\n#[cfg(test)]\nfn b() {\n}\n#[cfg(test)]\nmod tests {\n    c\n}\n";
        assert_eq!(lines_before_tests(helper), 4);
    }

    #[test]
    fn tests_in_the_middle_or_elsewhere_are_not_cut() {
        let middle = "#[cfg(test)]\nmod tests {\n    c\n}\nfn after() {}\n";
        assert_eq!(lines_before_tests(middle), 5);
        let elsewhere = "a\n#[cfg(test)]\nmod tests;\n";
        assert_eq!(lines_before_tests(elsewhere), 3);
    }
}
