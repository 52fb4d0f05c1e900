//! Builders of arrays and objects for the strict serializer.

use serde::{Serialize, Serializer, ser};
use serde_json::{Map, Value, value};

use super::serializer::{Refusal, Result, Strict};

/// Wraps the content of an enum variant the way serde tags enums by default.
pub(super) fn tagged(variant: Option<&str>, content: Value) -> Value {
    match variant {
        None => content,
        Some(variant) => Value::Object(Map::from_iter([(variant.to_owned(), content)])),
    }
}

/// An array under construction.
pub(super) struct List {
    inside: Strict,
    variant: Option<&'static str>,
    items: Vec<Value>,
}

impl List {
    pub(super) fn new(inside: Strict, variant: Option<&'static str>, len: usize) -> Self {
        let items = Vec::with_capacity(len);
        Self {
            inside,
            variant,
            items,
        }
    }

    fn add<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        let item = value.serialize(self.inside).map_err(|refusal| {
            let refusal = refusal.below(self.items.len());
            self.variant.into_iter().fold(refusal, Refusal::below)
        })?;
        self.items.push(item);
        Ok(())
    }

    fn finish(self) -> Value {
        tagged(self.variant, Value::Array(self.items))
    }
}

macro_rules! list {
    ($($kind:ident::$method:ident)*) => {$(
        impl ser::$kind for List {
            type Ok = Value;
            type Error = Refusal;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
                self.add(value)
            }

            fn end(self) -> Result<Value> {
                Ok(self.finish())
            }
        }
    )*};
}

list! {
    SerializeSeq::serialize_element
    SerializeTuple::serialize_element
    SerializeTupleStruct::serialize_field
    SerializeTupleVariant::serialize_field
}

/// An object under construction, from a map.
pub(super) struct Entries {
    inside: Strict,
    key: Option<String>,
    map: Map<String, Value>,
}

impl Entries {
    pub(super) fn new(inside: Strict) -> Self {
        Self {
            inside,
            key: None,
            map: Map::new(),
        }
    }
}

impl ser::SerializeMap for Entries {
    type Ok = Value;
    type Error = Refusal;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<()> {
        self.key = Some(match key.serialize(self.inside)? {
            Value::String(key) => key,
            Value::Number(key) => key.to_string(),
            Value::Bool(key) => key.to_string(),
            other => {
                return Err(ser::Error::custom(format_args!(
                    "the map key {other} is not a string"
                )));
            }
        });
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        let Some(key) = self.key.take() else {
            return Err(ser::Error::custom("a map value comes before its key"));
        };
        match value.serialize(self.inside) {
            Ok(value) => self.map.insert(key, value),
            Err(refusal) => return Err(refusal.below(key)),
        };
        Ok(())
    }

    fn end(self) -> Result<Value> {
        Ok(Value::Object(self.map))
    }
}

/// An object under construction, from a struct.
pub(super) enum Fields {
    Own {
        inside: Strict,
        variant: Option<&'static str>,
        map: Map<String, Value>,
    },
    Foreign(<value::Serializer as Serializer>::SerializeStruct),
}

impl Fields {
    pub(super) fn own(inside: Strict, variant: Option<&'static str>) -> Self {
        Self::Own {
            inside,
            variant,
            map: Map::new(),
        }
    }

    fn add<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<()> {
        match self {
            Self::Own {
                inside,
                variant,
                map,
            } => {
                let value = value.serialize(*inside).map_err(|refusal| {
                    let refusal = refusal.below(key);
                    variant.iter().fold(refusal, Refusal::below)
                })?;
                map.insert(key.to_owned(), value);
                Ok(())
            }
            Self::Foreign(inner) => Ok(ser::SerializeStruct::serialize_field(inner, key, value)?),
        }
    }

    fn finish(self) -> Result<Value> {
        match self {
            Self::Own { variant, map, .. } => Ok(tagged(variant, Value::Object(map))),
            Self::Foreign(inner) => Ok(ser::SerializeStruct::end(inner)?),
        }
    }
}

macro_rules! fields {
    ($($kind:ident)*) => {$(
        impl ser::$kind for Fields {
            type Ok = Value;
            type Error = Refusal;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<()> {
                self.add(key, value)
            }

            fn end(self) -> Result<Value> {
                self.finish()
            }
        }
    )*};
}

fields! { SerializeStruct SerializeStructVariant }
