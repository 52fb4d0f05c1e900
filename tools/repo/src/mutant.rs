use crate::{
    checklist::{self, Checklist},
    error::{Error, Result},
};

/// One deliberate mistake, and the tests that must notice it. `tests/mutants/README.md`
/// describes the format.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Mutant {
    /// The file's name without its ending.
    pub(crate) name: String,
    pub(crate) item: String,
    pub(crate) file: String,
    pub(crate) find: String,
    pub(crate) replace: String,
    /// Arguments for the test runner.
    pub(crate) test: Vec<String>,
    pub(crate) why: String,
}

const KEYS: [&str; 6] = ["item", "file", "find", "replace", "test", "why"];

impl Mutant {
    /// Reads a mutant. Every key is there exactly once; the text after `find:` and `replace:`
    /// may continue on the following lines, which are taken unchanged.
    pub(crate) fn parse(path: &str, text: &str) -> Result<Self> {
        let file_name = path.rsplit('/').next().unwrap_or(path);
        let values = values(path, text)?;
        let take = |key: &str| {
            values
                .iter()
                .find(|(name, _)| *name == key)
                .map(|(_, value)| value.trim_end().to_owned())
                .ok_or_else(|| Error::malformed(path, format!("`{key}:` is missing")))
        };
        let mutant = Self {
            name: file_name.trim_end_matches(".mutant").to_owned(),
            item: take("item")?,
            file: take("file")?,
            find: take("find")?,
            replace: take("replace")?,
            test: take("test")?
                .split_whitespace()
                .map(str::to_owned)
                .collect(),
            why: take("why")?,
        };
        let empty = [
            ("find", mutant.find.is_empty()),
            ("test", mutant.test.is_empty()),
            ("why", mutant.why.is_empty()),
        ];
        if let Some((key, _)) = empty.iter().find(|(_, empty)| *empty) {
            return Err(Error::malformed(path, format!("`{key}:` is empty")));
        }
        Ok(mutant)
    }

    /// The reason why the named items are unknown; `None` when the checklist has them all.
    pub(crate) fn unknown_item(&self, checklist: &Checklist) -> Option<String> {
        let known = checklist.ids();
        if checklist::is_group(&self.item) {
            let prefix = format!("{}-", self.item);
            let exists = known.iter().any(|id| id.starts_with(&prefix));
            return (!exists).then(|| format!("{} is not a group of the checklist", self.item));
        }
        match checklist::id_list(&self.item) {
            Ok(ids) => ids
                .iter()
                .find(|id| !known.contains(id.as_str()))
                .map(|id| format!("{id} is not in {}", checklist::PATH)),
            Err(error) => Some(error),
        }
    }

    /// The file's text with the mistake in it.
    pub(crate) fn apply(&self, text: &str) -> Result<String, String> {
        match text.matches(&self.find).count() {
            _ if self.find == self.replace => Err("`find:` and `replace:` are the same".to_owned()),
            1 => Ok(text.replacen(&self.find, &self.replace, 1)),
            0 => Err(format!(
                "`find:` does not occur in {}; follow the code or drop the mutant",
                self.file
            )),
            n => Err(format!(
                "`find:` occurs {n} times in {}; take more of the lines around it",
                self.file
            )),
        }
    }

    /// Whether it is one of those a filter asks for.
    pub(crate) fn matches(&self, filter: &str) -> bool {
        self.name.contains(filter) || self.item.contains(filter)
    }
}

/// The keys of a mutant with their values, each at most once.
fn values<'a>(path: &str, text: &'a str) -> Result<Vec<(&'a str, String)>> {
    let mut values: Vec<(&str, String)> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let refuse = |detail: String| Err(Error::malformed(format!("{path}:{}", at + 1), detail));
        if let Some((key, value)) = line.split_once(':').filter(|(key, _)| KEYS.contains(key)) {
            if values.iter().any(|(seen, _)| *seen == key) {
                return refuse(format!("`{key}:` occurs twice"));
            }
            values.push((key, value.trim().to_owned()));
        } else if let Some(("find" | "replace", block)) = values.last_mut() {
            if !block.is_empty() {
                block.push('\n');
            }
            block.push_str(line);
        } else if !line.trim().is_empty() {
            return refuse(format!("unknown line; begin it with one of {KEYS:?}"));
        }
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "item: STT-03\nfile: crates/core/src/a.rs\n\
        test: -p helix-agents-core --test it state::\nwhy: appends would be lost\n\n\
        find:\n    if a {\n        b\nreplace:\n    if !a {\n        b\n";

    fn mutant() -> Mutant {
        Mutant::parse("tests/mutants/lost-appends.mutant", TEXT).unwrap()
    }

    fn replaced(from: &str, to: &str) -> Result<Mutant> {
        Mutant::parse("a.mutant", &TEXT.replace(from, to))
    }

    #[test]
    fn a_mutant_is_read_with_its_blocks_as_they_are() {
        let expected = Mutant {
            name: "lost-appends".to_owned(),
            item: "STT-03".to_owned(),
            file: "crates/core/src/a.rs".to_owned(),
            find: "    if a {\n        b".to_owned(),
            replace: "    if !a {\n        b".to_owned(),
            test: ["-p", "helix-agents-core", "--test", "it", "state::"]
                .map(str::to_owned)
                .to_vec(),
            why: "appends would be lost".to_owned(),
        };
        assert_eq!(mutant(), expected);
    }

    #[test]
    fn one_line_is_enough_and_nothing_is_a_replacement() {
        let short = TEXT.split("find:").next().unwrap();
        let mutant = Mutant::parse("a.mutant", &format!("{short}find: x.sort();\nreplace:\n"));
        let mutant = mutant.unwrap();
        assert_eq!(
            (mutant.find.as_str(), mutant.replace.as_str()),
            ("x.sort();", "")
        );
        assert_eq!(mutant.apply("a\nx.sort();\nb").unwrap(), "a\n\nb");
    }

    #[test]
    fn missing_repeated_and_unknown_keys_are_refused() {
        for (from, to) in [
            ("why: appends would be lost\n", ""),
            ("why: appends would be lost\n", "why:\n"),
            ("file: ", "test: x\nfile: "),
            ("test: ", "item: STT-04\ntest: "),
            ("why: ", "note: "),
        ] {
            assert!(replaced(from, to).is_err(), "{to:?} for {from:?}");
        }
    }

    #[test]
    fn applying_wants_exactly_one_place() {
        let mutant = mutant();
        let once = "fn x() {\n    if a {\n        b\n    }\n}\n";
        assert_eq!(
            mutant.apply(once).unwrap(),
            "fn x() {\n    if !a {\n        b\n    }\n}\n"
        );
        assert!(
            mutant
                .apply("fn x() {}")
                .unwrap_err()
                .contains("does not occur")
        );
        assert!(
            mutant
                .apply(&once.repeat(2))
                .unwrap_err()
                .contains("2 times")
        );
        let same = Mutant {
            replace: mutant.find.clone(),
            ..mutant
        };
        assert!(same.apply(once).unwrap_err().contains("the same"));
    }

    #[test]
    fn items_are_ids_or_a_group_of_the_checklist() {
        let checklist = Checklist::parse("## STT\nSTT-03 a\nSTT-04 b\n").unwrap();
        for (item, known) in [
            ("STT-03", true),
            ("STT-03..04", true),
            ("STT", true),
            ("STT-05", false),
            ("SES", false),
            ("appends", false),
        ] {
            let unknown = replaced("STT-03", item).unwrap().unknown_item(&checklist);
            assert_eq!(unknown.is_none(), known, "{item}: {unknown:?}");
        }
    }
}
