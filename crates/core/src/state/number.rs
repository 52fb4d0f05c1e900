//! Sums of JSON numbers.

use serde_json::Number;

/// A number by which a number in a state can be incremented: any integer up to 64 bits, a float,
/// or a JSON [`Number`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no number that a JSON number can be incremented by"
)]
pub trait IntoNumber {
    /// Converts to a JSON number; `None` for NaN and the infinities, which JSON cannot represent.
    fn into_number(self) -> Option<Number>;
}

impl IntoNumber for Number {
    fn into_number(self) -> Option<Number> {
        Some(self)
    }
}

impl IntoNumber for f64 {
    fn into_number(self) -> Option<Number> {
        Number::from_f64(self)
    }
}

impl IntoNumber for f32 {
    fn into_number(self) -> Option<Number> {
        Number::from_f64(self.into())
    }
}

macro_rules! integers {
    ($($integer:ty)*) => {$(
        impl IntoNumber for $integer {
            fn into_number(self) -> Option<Number> {
                Some(self.into())
            }
        }
    )*};
}

integers!(i8 i16 i32 i64 isize u8 u16 u32 u64 usize);

/// Adds two numbers; `None` if the sum does not fit a JSON number.
///
/// Integers stay integers. With a float on either side the sum is a float.
pub(super) fn checked_add(a: &Number, b: &Number) -> Option<Number> {
    match (integer(a), integer(b)) {
        (Some(a), Some(b)) => {
            let sum = a + b;
            let signed = i64::try_from(sum).map(Number::from);
            signed
                .or_else(|_| u64::try_from(sum).map(Number::from))
                .ok()
        }
        _ => Number::from_f64(a.as_f64()? + b.as_f64()?),
    }
}

/// A JSON integer lies between `i64::MIN` and `u64::MAX`, so the sum of two fits 128 bits.
fn integer(number: &Number) -> Option<i128> {
    number
        .as_i64()
        .map(i128::from)
        .or_else(|| number.as_u64().map(i128::from))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// An increment is exact for integers and never wraps.
    ///
    /// proves: STT-07
    #[test]
    fn sums_of_integers_stay_integers_and_never_wrap() {
        for (a, b, sum) in [
            (json!(1), json!(2), json!(3)),
            (json!(1), json!(-2), json!(-1)),
            (json!(1), json!(0.5), json!(1.5)),
            (json!(-1), json!(u64::MAX), json!(u64::MAX - 1)),
            (json!(i64::MAX), json!(1), json!(1_u64 << 63)),
            (json!(i64::MIN), json!(u64::MAX), json!(i64::MAX)),
            (json!(u64::MAX), json!(1), Value::Null),
            (json!(i64::MIN), json!(-1), Value::Null),
            (json!(f64::MAX), json!(f64::MAX), Value::Null),
        ] {
            let (Value::Number(x), Value::Number(y)) = (&a, &b) else {
                panic!("two numbers")
            };
            let found = checked_add(x, y).map_or(Value::Null, Value::Number);
            assert_eq!(found, sum, "{a} + {b}");
            assert_eq!(
                found,
                checked_add(y, x).map_or(Value::Null, Value::Number),
                "{b} + {a}"
            );
        }
    }
}
