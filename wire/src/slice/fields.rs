//! Decoder of slices: the fields of `k8s.io/api/discovery/v1/generated.proto`, by their numbers.

use std::borrow::Cow;

use k8s_openapi::api::discovery::v1::EndpointPort;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde::de::IgnoredAny;

use super::bounded;
use super::encode::ENDPOINTS;
use super::endpoint::{HINTS_MAX, Text, WireConditions, WireEndpoint, WireHints, WireTarget};
use super::parts::{Endpoints, LISTED_MAX, Metadata, Owner, Parts};
use crate::protobuf::{Fields, Malformed, Value};

/// Reads a slice without its endpoints, which are read later.
pub(super) fn slice(message: &[u8]) -> Result<Parts<'_>, Malformed> {
    let mut slice = Parts {
        endpoints: Endpoints::Protobuf(message),
        ..Parts::default()
    };
    for field in Fields::of(message) {
        match field? {
            (1, value) => slice.metadata = metadata(value.bytes())?,
            (3, value) => {
                bounded::add::<LISTED_MAX, _>(slice.ports.to_mut(), port(value.bytes())?);
            }
            (4, value) => slice.address_type = Some(text(value)?),
            _ => {}
        }
    }
    Ok(slice)
}

/// Reads the metadata of a slice, whatever else it contains.
pub(super) fn metadata_of(message: &[u8]) -> Result<Metadata<'_>, Malformed> {
    for field in Fields::of(message) {
        if let (1, value) = field? {
            return metadata(value.bytes());
        }
    }
    Err(Malformed::Cut)
}

/// Reads the endpoints of a slice one by one.
pub(super) fn each_endpoint<'a>(
    message: &'a [u8],
    mut take: impl FnMut(&WireEndpoint<'a>),
) -> Result<(), Malformed> {
    let mut endpoint = WireEndpoint::default();
    for field in Fields::of(message) {
        if let (ENDPOINTS, value) = field? {
            endpoint.clear();
            read_endpoint(value.bytes(), &mut endpoint)?;
            take(&endpoint);
        }
    }
    Ok(())
}

fn text(value: Value<'_>) -> Result<Text<'_>, Malformed> {
    Ok(Text(Cow::Borrowed(value.text()?)))
}

fn owned(value: Value<'_>) -> Result<Option<String>, Malformed> {
    Ok(Some(value.text()?.to_owned()))
}

fn metadata(message: &[u8]) -> Result<Metadata<'_>, Malformed> {
    let mut meta = Metadata::default();
    for field in Fields::of(message) {
        match field? {
            (1, value) => meta.name = owned(value)?,
            (3, value) => meta.namespace = owned(value)?,
            (5, value) => meta.uid = owned(value)?,
            (6, value) => meta.resource_version = owned(value)?,
            (9, value) => meta.deletion_timestamp = Some(time(value.bytes())?),
            (11, value) => {
                let (name, value) = entry(value.bytes())?;
                meta.labels.add(name, value)?;
            }
            (12, value) => {
                let (name, value) = entry(value.bytes())?;
                meta.annotations.add(name, value)?;
            }
            (13, value) => {
                let owner = owner(value.bytes())?;
                bounded::add::<LISTED_MAX, _>(&mut meta.owner_references, owner);
            }
            _ => {}
        }
    }
    Ok(meta)
}

/// Reads an entry of a map of texts.
fn entry(message: &[u8]) -> Result<(Text<'_>, Text<'_>), Malformed> {
    let empty = || Text(Cow::Borrowed(""));
    let (mut name, mut content) = (empty(), empty());
    for field in Fields::of(message) {
        match field? {
            (1, value) => name = text(value)?,
            (2, value) => content = text(value)?,
            _ => {}
        }
    }
    Ok((name, content))
}

/// Reads seconds of Unix time. A time that cannot be represented is [`Timestamp::MAX`].
fn time(message: &[u8]) -> Result<Time, Malformed> {
    let mut seconds = 0;
    for field in Fields::of(message) {
        if let (1, value) = field? {
            seconds = value.number().unwrap_or_default().cast_signed();
        }
    }
    Ok(Time(
        Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX),
    ))
}

fn owner(message: &[u8]) -> Result<Owner<'_>, Malformed> {
    let mut uid = None;
    for field in Fields::of(message) {
        if let (4, value) = field? {
            uid = Some(text(value)?);
        }
    }
    Ok(Owner { uid })
}

fn port(message: &[u8]) -> Result<EndpointPort, Malformed> {
    let mut port = EndpointPort::default();
    for field in Fields::of(message) {
        match field? {
            (1, value) => port.name = Some(value.text()?.to_owned()),
            (2, value) => port.protocol = Some(value.text()?.to_owned()),
            (3, value) => {
                let number = value.number().map(u64::cast_signed);
                let number = number.and_then(|number| i32::try_from(number).ok());
                // A port without a number stands for every port.
                port.port = Some(number.ok_or(Malformed::Field)?);
            }
            (4, value) => port.app_protocol = Some(value.text()?.to_owned()),
            _ => {}
        }
    }
    Ok(port)
}

fn read_endpoint<'a>(message: &'a [u8], endpoint: &mut WireEndpoint<'a>) -> Result<(), Malformed> {
    for field in Fields::of(message) {
        match field? {
            (1, value) => endpoint.addresses.push(text(value)?),
            (2, value) => endpoint.conditions = Some(conditions(value.bytes())?),
            (3, value) => endpoint.hostname = Some(text(value)?),
            (4, _) => endpoint.target_ref = Some(IgnoredAny),
            (5, _) => endpoint.deprecated_topology = Some(IgnoredAny),
            (6, value) => endpoint.node_name = Some(text(value)?),
            (7, value) => endpoint.zone = Some(text(value)?),
            (8, value) => endpoint.hints = Some(hints(value.bytes())?),
            _ => {}
        }
    }
    Ok(())
}

fn conditions(message: &[u8]) -> Result<WireConditions, Malformed> {
    let mut conditions = WireConditions::default();
    for field in Fields::of(message) {
        match field? {
            (1, value) => conditions.ready = Some(value.is_true()),
            (2, value) => conditions.serving = Some(value.is_true()),
            (3, value) => conditions.terminating = Some(value.is_true()),
            _ => {}
        }
    }
    Ok(conditions)
}

fn hints(message: &[u8]) -> Result<WireHints<'_>, Malformed> {
    let mut hints = WireHints::default();
    for field in Fields::of(message) {
        let (targets, value) = match field? {
            (1, value) => (&mut hints.for_zones, value),
            (2, value) => (&mut hints.for_nodes, value),
            _ => continue,
        };
        bounded::add::<HINTS_MAX, _>(targets, target(value.bytes())?);
    }
    Ok(hints)
}

fn target(message: &[u8]) -> Result<WireTarget<'_>, Malformed> {
    let mut name = None;
    for field in Fields::of(message) {
        if let (1, value) = field? {
            name = Some(text(value)?);
        }
    }
    Ok(WireTarget { name })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protobuf::Message as _;

    #[test]
    fn port_number_beyond_32_bits_is_malformed() {
        for (number, expected) in [
            (8080, Ok(Some(8080))),
            (u64::from(u32::MAX), Err(Malformed::Field)),
            (1 << 40, Err(Malformed::Field)),
        ] {
            let mut message = Vec::new();
            message.number(3, number);
            assert_eq!(port(&message).map(|port| port.port), expected, "{number}");
        }
        assert_eq!(port(&[]).map(|port| port.port), Ok(None));
    }
}
