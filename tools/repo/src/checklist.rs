use std::collections::BTreeSet;

use crate::error::{Error, Result};

/// Where the checklist lives.
pub(crate) const PATH: &str = "docs/checklist.md";

/// The checklist: everything the product promises, one observable behaviour per item.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Checklist {
    pub(crate) groups: Vec<Group>,
}

/// Items that belong together, under their heading.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) title: String,
    pub(crate) items: Vec<Item>,
}

/// One item of the checklist: an observable behaviour with its id.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) id: String,
    pub(crate) text: String,
}

impl Checklist {
    /// Reads the checklist: `## ` opens a group; a line that starts with an id is an item, or
    /// several items with two spaces between them.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let mut groups: Vec<Group> = Vec::new();
        let mut seen = BTreeSet::new();
        for (at, line) in text.lines().enumerate() {
            if let Some(title) = line.strip_prefix("## ") {
                groups.push(Group {
                    title: title.trim().to_owned(),
                    items: Vec::new(),
                });
            }
            for item in items(line) {
                let place = || format!("{PATH}:{}", at + 1);
                if !seen.insert(item.id.clone()) {
                    let detail = format!("{} occurs twice; give one a new id", item.id);
                    return Err(Error::malformed(place(), detail));
                }
                let Some(group) = groups.last_mut() else {
                    let detail = format!("{} comes before the first `## ` heading", item.id);
                    return Err(Error::malformed(place(), detail));
                };
                group.items.push(item);
            }
        }
        groups.retain(|group| !group.items.is_empty());
        Ok(Self { groups })
    }

    /// The ids of all items.
    pub(crate) fn ids(&self) -> BTreeSet<&str> {
        self.groups
            .iter()
            .flat_map(|group| &group.items)
            .map(|item| item.id.as_str())
            .collect()
    }
}

fn items(line: &str) -> Vec<Item> {
    let mut items: Vec<Item> = Vec::new();
    for piece in line.split("  ") {
        let (word, text) = piece.split_once(' ').unwrap_or((piece, ""));
        if is_id(word) {
            items.push(Item {
                id: word.to_owned(),
                text: text.trim().to_owned(),
            });
        } else if let Some(last) = items.last_mut() {
            last.text.push_str("  ");
            last.text.push_str(piece);
        } else {
            break;
        }
    }
    items
}

/// Whether a word is an item's id: `STT-03`.
pub(crate) fn is_id(word: &str) -> bool {
    word.split_once('-').is_some_and(|(group, number)| {
        is_group(group) && number.len() == 2 && number.chars().all(|c| c.is_ascii_digit())
    })
}

/// Whether a word is the short name of a group: `STT`.
pub(crate) fn is_group(word: &str) -> bool {
    word.len() == 3 && word.chars().all(|c| c.is_ascii_uppercase())
}

/// Reads a list of ids, `STT-03, STT-05..07`, to the end of the line.
pub(crate) fn id_list(list: &str) -> Result<Vec<String>, String> {
    let mut ids = Vec::new();
    let list = list.trim().trim_end_matches("*/").trim_end();
    let list = list.trim_end_matches(['.', ')', ';']);
    for word in list.split([',', ' ']).filter(|word| !word.is_empty()) {
        let (first, last) = word
            .split_once("..")
            .map_or((word, None), |(first, last)| (first, Some(last)));
        if !is_id(first) {
            return Err(format!(
                "`{word}` is not an id; write ids like STT-03 or STT-05..07"
            ));
        }
        let Some(last) = last else {
            ids.push(first.to_owned());
            continue;
        };
        let range = first.split_once('-').and_then(|(group, from)| {
            let from: u8 = from.parse().ok()?;
            let to: u8 = last.parse().ok()?;
            (last.len() == 2 && from < to).then_some((group, from..=to))
        });
        let Some((group, numbers)) = range else {
            return Err(format!(
                "`{word}` is not a range; write ranges like STT-05..07"
            ));
        };
        ids.extend(numbers.map(|number| format!("{group}-{number:02}")));
    }
    if ids.is_empty() {
        return Err("no id follows; write ids like STT-03 on the same line".to_owned());
    }
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(id: &str, text: &str) -> Item {
        Item {
            id: id.to_owned(),
            text: text.to_owned(),
        }
    }

    #[test]
    fn groups_and_items_are_read_also_several_on_a_line() {
        let text = "# Title\nAn id like STT-03 in prose.\n\n## SES sessions (003)\n\
                    SES-01 a session\nSES-02 (fix) create\n\n## CHT chat\n\
                    CHT-01 fresh  CHT-02 continuing, with X-Id  CHT-03 resume\n## Empty\n";
        let expected = [
            Group {
                title: "SES sessions (003)".to_owned(),
                items: vec![item("SES-01", "a session"), item("SES-02", "(fix) create")],
            },
            Group {
                title: "CHT chat".to_owned(),
                items: vec![
                    item("CHT-01", "fresh"),
                    item("CHT-02", "continuing, with X-Id"),
                    item("CHT-03", "resume"),
                ],
            },
        ];
        assert_eq!(Checklist::parse(text).unwrap().groups, expected);
    }

    #[test]
    fn an_id_that_is_there_twice_is_refused() {
        let error = Checklist::parse("## A\nSES-01 a\nSES-01 b\n").unwrap_err();
        assert!(error.to_string().contains("docs/checklist.md:3"), "{error}");
    }

    #[test]
    fn id_lists_hold_single_ids_and_ranges() {
        let ids = id_list(" STT-01, SES-02..04 STP-10).").unwrap();
        assert_eq!(ids, ["STT-01", "SES-02", "SES-03", "SES-04", "STP-10"]);
    }

    #[test]
    fn lists_that_cannot_be_read_are_refused() {
        for list in [
            "",
            "stt-01",
            "STT-1",
            "STT-01 for arrays",
            "STT-05..7",
            "STT-07..05",
        ] {
            assert!(id_list(list).is_err(), "{list}");
        }
    }
}
