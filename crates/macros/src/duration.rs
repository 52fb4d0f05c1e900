//! Durations in options, such as `"30s"`, checked at compile time.

use syn::LitStr;

const FORM: &str =
    "write a whole number and a unit (ms, s, m, h, d), such as \"500ms\", \"30s\" or \"10m\"";

/// Parses a text such as `"10m"` into milliseconds.
///
/// # Errors
/// At the text, if it is not a duration, is zero, or exceeds the range of `u64`.
pub(crate) fn millis(text: &LitStr) -> syn::Result<u64> {
    parse(&text.value()).map_err(|why| syn::Error::new(text.span(), why))
}

fn parse(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = text.strip_prefix(digits).unwrap_or_default();
    let scale = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(format!("{text:?} is not a duration; {FORM}")),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("{text:?} is not a duration; {FORM}"));
    }
    let millis = digits
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(scale));
    match millis {
        None => Err(format!(
            "{text:?} is too long; leave the option out for no limit"
        )),
        Some(0) => Err(format!("{text:?} is no time at all; use a longer duration")),
        Some(millis) => Ok(millis),
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn a_number_and_a_unit_is_a_time() {
        let times = ["7ms", "30s", "10m", "2h", "1d", "007s"].map(|text| parse(text).unwrap());
        assert_eq!(times, [7, 30_000, 600_000, 7_200_000, 86_400_000, 7_000]);
    }

    #[test]
    fn everything_else_is_refused() {
        for text in [
            "", "s", "10", "10 m", "1.5h", "-1s", "10min", "m10", "1h30m", "١s",
        ] {
            let why = parse(text).unwrap_err();
            assert!(why.contains("is not a duration"), "{text:?}: {why}");
        }
        assert!(parse("0s").unwrap_err().contains("no time at all"));
        for text in ["99999999999999999999s", "18446744073709551615s"] {
            assert!(parse(text).unwrap_err().contains("too long"), "{text:?}");
        }
    }
}
