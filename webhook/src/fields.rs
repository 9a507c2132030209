//! JSON objects and nothing else: serde's derive also reads a list as the fields of a struct in
//! their order, which no API server does.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

/// Value that decodes from a JSON object alone.
pub(crate) struct Fields<T>(pub(crate) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Fields<T> {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        struct Object<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Object<T> {
            type Value = Fields<T>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Fields<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Fields)
            }
        }

        input.deserialize_map(Object(PhantomData))
    }
}

/// Decodes an object. For `deserialize_with`.
pub(crate) fn fields<'de, T, D>(input: D) -> Result<T, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    Fields::deserialize(input).map(|Fields(read)| read)
}

/// Decodes an object or null. For `deserialize_with`.
pub(crate) fn optional_fields<'de, T, D>(input: D) -> Result<Option<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    let read = Option::<Fields<T>>::deserialize(input)?;
    Ok(read.map(|Fields(read)| read))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, serde::Deserialize)]
    struct Port {
        port: u16,
    }

    #[test]
    fn list_does_not_decode_as_an_object() {
        let read = |text| serde_json::from_str::<Fields<Port>>(text).map(|Fields(port)| port);
        assert_eq!(read(r#"{"port": 80}"#).ok(), Some(Port { port: 80 }));
        let error = read("[80]").expect_err("a list");
        assert_eq!(
            error.to_string(),
            "invalid type: sequence, expected an object at line 1 column 0"
        );
        assert!(read("null").is_err());
    }
}
