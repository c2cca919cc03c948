//! Maps and JSON objects that keep the order of the file, by which `transformers` numbers tokens.

use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;

/// A map in the order in which its keys were first inserted, like Python's `dict`.
#[derive(Clone, Debug)]
pub(super) struct Ordered<V> {
    entries: Vec<(String, V)>,
    places: HashMap<String, usize>,
}

impl<V> Default for Ordered<V> {
    fn default() -> Self {
        Ordered { entries: Vec::new(), places: HashMap::new() }
    }
}

impl<V> Ordered<V> {
    /// Inserts a value, or replaces the key's value.
    pub(super) fn insert(&mut self, key: String, value: V) {
        match self.places.get(&key) {
            Some(&at) => self.entries[at].1 = value,
            None => {
                self.places.insert(key.clone(), self.entries.len());
                self.entries.push((key, value));
            }
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<&V> {
        self.places.get(key).map(|&at| &self.entries[at].1)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &V)> {
        self.entries.iter().map(|(key, value)| (key.as_str(), value))
    }

    pub(super) fn into_entries(self) -> Vec<(String, V)> {
        self.entries
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// A JSON object.
pub(super) type Object = Ordered<Field>;

/// The value of a field.
#[derive(Clone, Debug)]
pub(super) enum Field {
    Object(Object),
    Other(Value),
}

impl Field {
    pub(super) fn is_null(&self) -> bool {
        matches!(self, Field::Other(Value::Null))
    }

    pub(super) fn as_str(&self) -> Option<&str> {
        match self {
            Field::Other(value) => value.as_str(),
            Field::Object(_) => None,
        }
    }

    pub(super) fn as_object(&self) -> Option<&Object> {
        match self {
            Field::Object(object) => Some(object),
            Field::Other(_) => None,
        }
    }

    /// Returns the value, whose objects have lost their order.
    pub(super) fn to_value(&self) -> Value {
        match self {
            Field::Object(object) => object.iter().map(|(key, field)| (key.to_owned(), field.to_value())).collect(),
            Field::Other(value) => value.clone(),
        }
    }
}

impl From<Value> for Field {
    fn from(value: Value) -> Self {
        let Value::Object(fields) = value else { return Field::Other(value) };
        let mut object = Object::default();
        for (key, value) in fields {
            object.insert(key, value.into());
        }
        Field::Object(object)
    }
}

impl<'de> Deserialize<'de> for Field {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(serde::Deserialize)]
        #[serde(untagged)]
        enum Any {
            Object(Object),
            Other(Value),
        }
        Ok(match Any::deserialize(deserializer)? {
            Any::Object(object) => Field::Object(object),
            Any::Other(value) => Field::Other(value),
        })
    }
}

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Ordered<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<V>(PhantomData<V>);
        impl<'de, V: Deserialize<'de>> Visitor<'de> for Entries<V> {
            type Value = Ordered<V>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut ordered = Ordered::default();
                while let Some((key, value)) = map.next_entry()? {
                    ordered.insert(key, value);
                }
                Ok(ordered)
            }
        }
        deserializer.deserialize_map(Entries(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For a key that occurs twice, Python keeps the first place and the last value.
    #[test]
    fn object_keys_keep_their_order() {
        let object: Object =
            serde_json::from_str(r#"{"z": {"b": 1, "a": [{"c": 2}]}, "y": 1e30, "z": {"d": null, "c": "x"}}"#).unwrap();
        let keys = |object: &Object| object.iter().map(|(key, _)| key.to_owned()).collect::<Vec<_>>();
        let z = object.get("z").unwrap().as_object().unwrap();
        assert_eq!((keys(&object), keys(z)), (vec!["z".into(), "y".into()], vec!["d".into(), "c".into()]));
        assert_eq!((z.get("d").unwrap().is_null(), z.get("c").unwrap().as_str()), (true, Some("x")));
        assert_eq!(object.get("y").unwrap().to_value(), serde_json::json!(1e30));
        assert!(serde_json::from_str::<Object>("[1]").unwrap_err().to_string().contains("expected an object"));
    }
}
