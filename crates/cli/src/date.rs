//! Instants in a readable form.

use helix_agents_core::time::Timestamp;

/// Formats an instant in UTC, to the second: `2026-11-15T08:30:00Z`.
pub(crate) fn utc(at: Timestamp) -> String {
    let seconds = at.as_millis() / 1_000;
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
    let (year, month, day) = civil(days);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Formats the age of an instant in its largest unit: `5m ago`.
pub(crate) fn ago(at: Timestamp, now: Timestamp) -> String {
    let seconds = now.as_millis().saturating_sub(at.as_millis()) / 1_000;
    match seconds {
        0..60 => format!("{seconds}s ago"),
        60..3_600 => format!("{}m ago", seconds / 60),
        3_600..86_400 => format!("{}h ago", seconds / 3_600),
        _ => format!("{}d ago", seconds / 86_400),
    }
}

/// Converts days since 1970-01-01 to year, month and day of the Gregorian calendar.
fn civil(days: u64) -> (u64, u64, u64) {
    // Years begin in March here, so that the leap day is the last of its year.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_formatted_as_utc_dates() {
        let table = [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400_000, "2000-02-29T00:00:00Z"),
            (1_794_731_405_123, "2026-11-15T08:30:05Z"),
            (4_102_444_799_999, "2099-12-31T23:59:59Z"),
        ];
        for (millis, text) in table {
            assert_eq!(utc(Timestamp::from_millis(millis)), text);
        }
    }

    #[test]
    fn ages_are_shown_in_their_largest_unit() {
        let table = [
            (0, "0s ago"),
            (59, "59s ago"),
            (3_599, "59m ago"),
            (3_600, "1h ago"),
            (200_000, "2d ago"),
        ];
        for (seconds, text) in table {
            let at = Timestamp::from_millis(1_000_000);
            let now = Timestamp::from_millis(1_000_000 + seconds * 1_000);
            assert_eq!(ago(at, now), text);
        }
        let (early, late) = (Timestamp::from_millis(1), Timestamp::from_millis(2_000));
        assert_eq!(ago(late, early), "0s ago", "clocks differ");
    }
}
