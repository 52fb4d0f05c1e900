//! Suggestions for misspelt names.

/// Returns `did you mean X?`, or the list of known names.
pub(crate) fn remedy<'a>(wrote: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    if let Some(meant) = nearest(wrote, &known) {
        return format!("did you mean `{meant}`?");
    }
    match known.as_slice() {
        [] => "there are none; define one first".to_owned(),
        all => format!("use one of: {}", all.join(", ")),
    }
}

/// Returns the nearest name, if it is near enough.
fn nearest<'a>(wrote: &str, known: &[&'a str]) -> Option<&'a str> {
    let distances = known.iter().map(|name| (distance(wrote, name), *name));
    let (_, name) = distances.min_by_key(|(distance, _)| *distance)?;
    is_near(wrote, name).then_some(name)
}

/// Whether one name may have been meant by the other.
pub(crate) fn is_near(wrote: &str, name: &str) -> bool {
    distance(wrote, name) <= wrote.chars().count().div_ceil(3).max(1)
}

/// Returns the number of letters to add, remove or replace to turn one name into the other.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.to_lowercase().chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (above, letter) in one.to_lowercase().chars().enumerate() {
        let mut next = vec![above + 1];
        let corners = row.iter().zip(row.iter().skip(1));
        for ((corner, up), there) in corners.zip(&other) {
            let left = next.last().copied().unwrap_or_default();
            let replaced = corner + usize::from(letter != *there);
            next.push(replaced.min(left + 1).min(up + 1));
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_suggested_and_far_ones_listed() {
        let known = ["model", "tools", "max_steps"];
        assert_eq!(remedy("modle", known), "did you mean `model`?");
        assert_eq!(remedy("maxSteps", known), "did you mean `max_steps`?");
        assert_eq!(
            remedy("zebra", known),
            "use one of: model, tools, max_steps"
        );
        assert_eq!(remedy("x", []), "there are none; define one first");
    }
}
