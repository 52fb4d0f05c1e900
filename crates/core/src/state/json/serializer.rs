//! A serde serializer into JSON values that rejects floats that JSON cannot represent, with their path.
//!
//! Scalars are left to `serde_json`. Compound values are built here, so that an error collects the
//! keys and indices it passes on its way up; a success pays nothing for the path.

use std::fmt::{self, Display};

use serde::{Serialize, Serializer, ser};
use serde_json::{Value, value};

use super::compound::{Entries, Fields, List, tagged};

/// `serde_json` passes its own types through serde under names with this prefix; only it can read
/// them. Which of them occur depends on features that any crate in a build may enable.
const FOREIGN: &str = "$serde_json::private::";

/// The serializer, with the number of levels of arrays and objects still allowed.
#[derive(Clone, Copy)]
pub(super) struct Strict {
    pub(super) levels: usize,
}

impl Strict {
    /// Returns the serializer for the content of an array or object.
    fn inside(self) -> Result<Self> {
        match self.levels.checked_sub(1) {
            Some(levels) => Ok(Self { levels }),
            None => Err(Refusal::TooDeep),
        }
    }
}

/// Why a value was rejected.
#[derive(Debug)]
pub(super) enum Refusal {
    /// The value has too many levels.
    TooDeep,
    /// A part of the value has no JSON form.
    NotJson {
        /// Keys and indices from that part up to the root.
        path: Vec<String>,
        reason: String,
    },
}

impl Refusal {
    pub(super) fn below(mut self, segment: impl Display) -> Self {
        if let Self::NotJson { path, .. } = &mut self {
            path.push(segment.to_string());
        }
        self
    }
}

impl Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooDeep => f.write_str("it has too many levels"),
            Self::NotJson { reason, .. } => f.write_str(reason),
        }
    }
}

impl std::error::Error for Refusal {}

impl ser::Error for Refusal {
    fn custom<T: Display>(reason: T) -> Self {
        Self::NotJson {
            path: Vec::new(),
            reason: reason.to_string(),
        }
    }
}

impl From<serde_json::Error> for Refusal {
    fn from(error: serde_json::Error) -> Self {
        ser::Error::custom(error)
    }
}

pub(super) type Result<T, E = Refusal> = std::result::Result<T, E>;

macro_rules! scalars {
    ($($method:ident($ty:ty))*) => {$(
        fn $method(self, value: $ty) -> Result<Value> {
            Ok(value::Serializer.$method(value)?)
        }
    )*};
}

impl Serializer for Strict {
    type Ok = Value;
    type Error = Refusal;
    type SerializeSeq = List;
    type SerializeTuple = List;
    type SerializeTupleStruct = List;
    type SerializeTupleVariant = List;
    type SerializeMap = Entries;
    type SerializeStruct = Fields;
    type SerializeStructVariant = Fields;

    scalars! {
        serialize_bool(bool)
        serialize_i8(i8) serialize_i16(i16) serialize_i32(i32) serialize_i64(i64) serialize_i128(i128)
        serialize_u8(u8) serialize_u16(u16) serialize_u32(u32) serialize_u64(u64) serialize_u128(u128)
        serialize_char(char) serialize_str(&str) serialize_bytes(&[u8]) serialize_unit_struct(&'static str)
    }

    fn serialize_f32(self, value: f32) -> Result<Value> {
        if value.is_finite() {
            Ok(value::Serializer.serialize_f32(value)?)
        } else {
            Err(not_finite(value))
        }
    }

    fn serialize_f64(self, value: f64) -> Result<Value> {
        if value.is_finite() {
            Ok(value::Serializer.serialize_f64(value)?)
        } else {
            Err(not_finite(value))
        }
    }

    fn serialize_none(self) -> Result<Value> {
        Ok(Value::Null)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Value> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<Value> {
        Ok(Value::Null)
    }

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<Value> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<Value> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<Value> {
        let value = value
            .serialize(self.inside()?)
            .map_err(|refusal| refusal.below(variant))?;
        Ok(tagged(Some(variant), value))
    }

    fn serialize_seq(self, len: Option<usize>) -> Result<List> {
        Ok(List::new(self.inside()?, None, len.unwrap_or(0)))
    }

    fn serialize_tuple(self, len: usize) -> Result<List> {
        self.serialize_seq(Some(len))
    }

    fn serialize_tuple_struct(self, _: &'static str, len: usize) -> Result<List> {
        self.serialize_seq(Some(len))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        len: usize,
    ) -> Result<List> {
        Ok(List::new(self.inside()?.inside()?, Some(variant), len))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Entries> {
        Ok(Entries::new(self.inside()?))
    }

    fn serialize_struct(self, name: &'static str, len: usize) -> Result<Fields> {
        if name.starts_with(FOREIGN) {
            return Ok(Fields::Foreign(
                value::Serializer.serialize_struct(name, len)?,
            ));
        }
        Ok(Fields::own(self.inside()?, None))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Fields> {
        Ok(Fields::own(self.inside()?.inside()?, Some(variant)))
    }
}

fn not_finite(value: impl Display) -> Refusal {
    ser::Error::custom(format_args!("{value} is not a finite number"))
}
