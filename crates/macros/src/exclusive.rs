//! Options that exclude each other, reported at their place.

use crate::errors::Errors;
use crate::exclusive_options::{DEADLINE_REMEDY, exclusive_options};
use crate::options::{Given, Options};

/// Reports the first pair that excludes each other, at the option that was written second.
pub(crate) fn check(tool: &str, options: &Options, errors: &mut Errors) {
    if let Some(pair) = exclusive_options(|option| options.get(option).is_some()) {
        let (first, second) = (pair.first, pair.second);
        if let Some(place) = later(options, first, second) {
            errors.at(
                &place.token,
                format!(
                    "tool {tool}: `{first}` and `{second}` exclude each other; {}",
                    pair.remedy
                ),
            );
        }
        return;
    }
    // The value of `on_unknown` is checked when the tool is built.
    let somebody_answers = ["client", "approval", "on_unknown"]
        .into_iter()
        .find_map(|name| find(options, name));
    if let (None, Some((_, deadline))) = (somebody_answers, find(options, "deadline")) {
        errors.at(
            &deadline.token,
            format!(
                "tool {tool}: `deadline` has no effect on a call nobody is asked about; {DEADLINE_REMEDY}"
            ),
        );
    }
}

/// Returns the later of two options if both were given.
fn later<'a>(options: &'a Options, first: &str, second: &str) -> Option<&'a Given> {
    let (one, first) = find(options, first)?;
    let (two, second) = find(options, second)?;
    (one != two).then_some(if one > two { first } else { second })
}

/// Returns an option and its position. `approval_if` counts as `approval`.
fn find<'a>(options: &'a Options, key: &str) -> Option<(usize, &'a Given)> {
    let exactly = |key: &str| {
        options
            .iter()
            .enumerate()
            .find(|(_, given)| given.key == key)
    };
    exactly(key).or_else(|| exactly("approval_if").filter(|_| key == "approval"))
}
