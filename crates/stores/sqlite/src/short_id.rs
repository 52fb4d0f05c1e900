//! The short form of a generated id.
//!
//! Runtimes make ids of a prefix and a UUID of version 7, which begins with the time. Beside a time
//! such an id is stored as `~`, the 74 bits that are neither time nor fixed, in 13 characters, and
//! the milliseconds by which the UUID differs from that time, if it does. `~` occurs in no id, so
//! any other id is stored as it is.

use std::borrow::Cow;
use std::fmt::Write;

use rusqlite::ToSql;
use rusqlite::types::{ToSqlOutput, ValueRef};

const MARK: char = '~';
const ALPHABET: &[u8; 64] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz-";
/// The characters of the bits that are neither time nor fixed, six bits each.
const DIGITS: usize = 13;
/// The characters of a UUID.
const HEX: usize = 32;
/// The version and the variant of a UUID, and where they are.
const FIXED: u128 = 7 << 76 | 2 << 62;
const FIXED_BITS: u128 = 0xf << 76 | 3 << 62;
/// The bits of a UUID below its variant.
const LOW: u128 = (1 << 62) - 1;
/// The largest difference that is written, in milliseconds.
const FAR: i64 = 1_000_000;

/// The form in which an id is stored beside a time. `prefix` is that of generated ids of its kind.
pub(crate) fn pack<'a>(id: &'a str, prefix: &str, millis: u64) -> Cow<'a, str> {
    shortened(id, prefix, millis).map_or(Cow::Borrowed(id), Cow::Owned)
}

/// The UUID of a generated id.
pub(crate) fn uuid(id: &str, prefix: &str) -> Option<u128> {
    let hex = id.strip_prefix(prefix)?.strip_prefix('-')?;
    let is_lower_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if hex.len() != HEX || !hex.bytes().all(is_lower_hex) {
        return None;
    }
    let uuid = u128::from_str_radix(hex, 16).ok()?;
    (uuid & FIXED_BITS == FIXED).then_some(uuid)
}

/// The bits of a generated id that are neither time nor fixed, and its milliseconds after a time.
fn parts(id: &str, prefix: &str, millis: u64) -> Option<(u128, i64)> {
    let uuid = uuid(id, prefix)?;
    let time = i64::try_from(uuid >> 80).ok()?;
    let later = time.checked_sub(i64::try_from(millis).ok()?)?;
    Some(((uuid >> 64 & 0xfff) << 62 | uuid & LOW, later))
}

/// The id of these parts.
fn whole(prefix: &str, millis: u64, (bits, later): (u128, i64)) -> Option<String> {
    let time = u128::from(millis.checked_add_signed(later)?);
    let uuid = time << 80 | (bits >> 62 & 0xfff) << 64 | FIXED | bits & LOW;
    let mut id = String::with_capacity(prefix.len() + 1 + HEX);
    // Writing to a string does not fail.
    let _ = write!(id, "{prefix}-{uuid:032x}");
    Some(id)
}

fn shortened(id: &str, prefix: &str, millis: u64) -> Option<String> {
    let (bits, later) = parts(id, prefix, millis)?;
    if !(-FAR..=FAR).contains(&later) {
        return None;
    }
    let mut short = String::with_capacity(DIGITS + 8);
    short.push(MARK);
    for digit in (0..DIGITS).rev() {
        let six = usize::try_from(bits >> (6 * digit) & 63).unwrap_or_default();
        short.push(char::from(*ALPHABET.get(six)?));
    }
    if later != 0 {
        // Writing to a string does not fail.
        let _ = write!(short, "{later}");
    }
    Some(short)
}

/// The id that is stored in this form beside a time; `None` if the form is broken.
pub(crate) fn unpack<'a>(stored: &'a str, prefix: &str, millis: u64) -> Option<Cow<'a, str>> {
    let Some(short) = stored.strip_prefix(MARK) else {
        return Some(Cow::Borrowed(stored));
    };
    let (digits, later) = short.split_at_checked(DIGITS)?;
    let mut bits = 0_u128;
    for digit in digits.bytes() {
        bits = bits << 6 | u128::from(value(digit)?);
    }
    let later: i64 = if later.is_empty() {
        0
    } else {
        later.parse().ok()?
    };
    whole(prefix, millis, (bits, later)).map(Cow::Owned)
}

fn value(digit: u8) -> Option<u8> {
    Some(match digit {
        b'0'..=b'9' => digit - b'0',
        b'A'..=b'Z' => digit - b'A' + 10,
        b'_' => 36,
        b'a'..=b'z' => digit - b'a' + 37,
        b'-' => 63,
        _ => return None,
    })
}

/// An id in a column beside a time: ten bytes, the 74 bits below a difference of up to 32 milliseconds, or
/// the id as it is.
#[derive(Debug, PartialEq)]
pub(crate) enum IdCell<'a> {
    Short([u8; 10]),
    Long(&'a str),
}

impl<'a> IdCell<'a> {
    pub(crate) fn pack(id: &'a str, prefix: &str, millis: u64) -> Self {
        let short = parts(id, prefix, millis).and_then(|(bits, later)| {
            let later = u128::try_from(later.checked_add(32)?).ok()?;
            let bytes = (later << 74 | bits).to_be_bytes();
            let (rest, short) = bytes.split_last_chunk()?;
            rest.iter().all(|byte| *byte == 0).then_some(*short)
        });
        short.map_or(Self::Long(id), Self::Short)
    }

    /// The id in a column; `None` if it is broken.
    pub(crate) fn unpack(cell: ValueRef<'a>, prefix: &str, millis: u64) -> Option<Cow<'a, str>> {
        let ValueRef::Blob(short) = cell else {
            return cell.as_str().ok().map(Cow::Borrowed);
        };
        let short: [u8; 10] = short.try_into().ok()?;
        let bytes = short.iter();
        let all = bytes.fold(0, |all: u128, byte| all << 8 | u128::from(*byte));
        let later = i64::try_from(all >> 74).ok()?.checked_sub(32)?;
        let bits = all & ((1 << 74) - 1);
        whole(prefix, millis, (bits, later)).map(Cow::Owned)
    }
}

impl ToSql for IdCell<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Short(bytes) => ValueRef::Blob(bytes),
            Self::Long(id) => ValueRef::Text(id.as_bytes()),
        }))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TIME: u64 = 0x01a1_e2dc_7e61;

    #[test]
    fn a_generated_id_is_short_beside_its_time() {
        let id = "cp-01a1e2dc7e617486a0672d26c8bef820";
        for (millis, stored) in [
            (TIME, "~18Q1cBIR8kkWW"),
            (TIME + 3, "~18Q1cBIR8kkWW-3"),
            (TIME - 10, "~18Q1cBIR8kkWW10"),
        ] {
            assert_eq!(pack(id, "cp", millis), stored);
            assert_eq!(unpack(stored, "cp", millis).unwrap(), id);
        }
    }

    #[test]
    fn a_generated_id_is_ten_bytes_in_a_column_beside_its_time() {
        let id = "cp-01a1e2dc7e617486a0672d26c8bef820";
        let short = |later: u64| (later << 10 | 0x121).to_be_bytes();
        for (millis, later) in [(TIME, 32), (TIME + 32, 0), (TIME - 31, 63)] {
            let cell = IdCell::pack(id, "cp", millis);
            let IdCell::Short(bytes) = cell else {
                panic!("{cell:?}");
            };
            assert_eq!(bytes[..2], short(later)[6..]);
            let cell = ValueRef::Blob(&bytes);
            assert_eq!(IdCell::unpack(cell, "cp", millis).unwrap(), id);
        }
        for (id, millis) in [
            (id, TIME + 33),
            (id, TIME - 32),
            ("cp-1", TIME),
            (id, u64::MAX),
        ] {
            assert_eq!(IdCell::pack(id, "cp", millis), IdCell::Long(id));
            let cell = ValueRef::Text(id.as_bytes());
            assert_eq!(IdCell::unpack(cell, "cp", millis).unwrap(), id);
        }
        for broken in [ValueRef::Blob(b"short"), ValueRef::Null] {
            assert_eq!(IdCell::unpack(broken, "cp", TIME), None);
        }
    }

    #[test]
    fn any_other_id_is_stored_as_it_is() {
        for id in [
            "cp",
            "cp-1",
            "usage-01a1e2dc7e617486a0672d26c8bef820",
            "cp-01A1e2dc7e617486a0672d26c8bef820",
            "cp-01a1e2dc7e614486a0672d26c8bef820",
            "cp-01a1e2dc7e6174866067d26c8bef8201",
            "cp-+1a1e2dc7e617486a0672d26c8bef820",
            "cp-ffffffffffff7486a0672d26c8bef820",
        ] {
            assert_eq!(pack(id, "cp", TIME), id);
            assert_eq!(unpack(id, "cp", TIME).unwrap(), id);
        }
        let id = "cp-01a1e2dc7e617486a0672d26c8bef820";
        for far in [0, TIME + 1_000_001, u64::MAX] {
            assert_eq!(pack(id, "cp", far), id);
        }
    }

    #[test]
    fn a_broken_form_is_no_id() {
        for broken in ["~", "~18Q1cBIR8kkW", "~18Q1cBIR8kkW!", "~18Q1cBIR8kkWWx"] {
            assert_eq!(unpack(broken, "cp", TIME), None);
        }
    }

    proptest! {
        #[test]
        fn every_id_is_read_back(uuid: u128, later in -2_000_000_i64..2_000_000) {
            for uuid in [uuid, uuid & !FIXED_BITS | FIXED] {
                let id = format!("cp-{uuid:032x}");
                let time = u64::try_from(uuid >> 80).unwrap().saturating_add_signed(later);
                let stored = pack(&id, "cp", time);
                prop_assert_eq!(unpack(&stored, "cp", time).unwrap(), id.as_str());
                for time in [time, u64::try_from(uuid >> 80).unwrap()] {
                    let cell = IdCell::pack(&id, "cp", time);
                    let cell = match &cell {
                        IdCell::Short(bytes) => ValueRef::Blob(bytes),
                        IdCell::Long(id) => ValueRef::Text(id.as_bytes()),
                    };
                    prop_assert_eq!(IdCell::unpack(cell, "cp", time).unwrap(), id.as_str());
                }
            }
        }
    }
}
