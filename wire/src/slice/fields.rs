//! Decoder of slices: the fields of `k8s.io/api/discovery/v1/generated.proto`, by their numbers.

use k8s_openapi::api::discovery::v1::EndpointPort;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

use super::encode::ENDPOINTS;
use super::endpoint::{HINTS_MAX, WireEndpoint, add};
use super::parts::{LISTED_MAX, Metadata, Parts};
use crate::protobuf::{Fields, Malformed};

/// Reads a slice without its endpoints, which are read later.
pub(super) fn slice(message: &[u8]) -> Result<Parts<'_>, Malformed> {
    let mut slice = Parts {
        message: Some(message),
        ..Parts::default()
    };
    for field in Fields::of(message) {
        match field? {
            (1, value) => slice.metadata = metadata(value.bytes())?,
            (3, value) => add(&mut slice.ports, LISTED_MAX, port(value.bytes())?),
            (4, value) => slice.address_type = value.text()?,
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

fn metadata(message: &[u8]) -> Result<Metadata<'_>, Malformed> {
    let mut meta = Metadata::default();
    for field in Fields::of(message) {
        match field? {
            (1, value) => meta.name = Some(value.text()?),
            (3, value) => meta.namespace = Some(value.text()?),
            (5, value) => meta.uid = Some(value.text()?),
            (6, value) => meta.resource_version = Some(value.text()?),
            (9, value) => meta.deletion_timestamp = Some(time(value.bytes())?),
            (11, value) => meta.labels.add(entry(value.bytes())?)?,
            (12, value) => meta.annotations.add(entry(value.bytes())?)?,
            (13, value) => add(&mut meta.owners, LISTED_MAX, text(value.bytes(), 4)?),
            _ => {}
        }
    }
    Ok(meta)
}

/// Reads an entry of a map of texts.
fn entry(message: &[u8]) -> Result<(&str, &str), Malformed> {
    let (mut name, mut content) = ("", "");
    for field in Fields::of(message) {
        match field? {
            (1, value) => name = value.text()?,
            (2, value) => content = value.text()?,
            _ => {}
        }
    }
    Ok((name, content))
}

/// Reads the text in a field of a message; empty if the message lacks the field.
fn text(message: &[u8], number: u32) -> Result<&str, Malformed> {
    let mut text = "";
    for field in Fields::of(message) {
        let (found, value) = field?;
        if found == number {
            text = value.text()?;
        }
    }
    Ok(text)
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
            (1, value) => endpoint.addresses.push(value.text()?),
            (2, value) => endpoint.conditions = conditions(value.bytes())?,
            (3, value) => endpoint.hostname = Some(value.text()?),
            (4 | 5, _) => endpoint.has_more = true,
            (6, value) => endpoint.node_name = Some(value.text()?),
            (7, value) => endpoint.zone = Some(value.text()?),
            (8, value) => endpoint.hints = Some(hints(value.bytes())?),
            _ => {}
        }
    }
    Ok(())
}

fn conditions(message: &[u8]) -> Result<[Option<bool>; 3], Malformed> {
    let [mut ready, mut serving, mut terminating] = [None; 3];
    for field in Fields::of(message) {
        match field? {
            (1, value) => ready = Some(value.is_true()),
            (2, value) => serving = Some(value.is_true()),
            (3, value) => terminating = Some(value.is_true()),
            _ => {}
        }
    }
    Ok([ready, serving, terminating])
}

fn hints(message: &[u8]) -> Result<[Vec<&str>; 2], Malformed> {
    let (mut zones, mut nodes) = (Vec::new(), Vec::new());
    for field in Fields::of(message) {
        match field? {
            (1, value) => add(&mut zones, HINTS_MAX, text(value.bytes(), 1)?),
            (2, value) => add(&mut nodes, HINTS_MAX, text(value.bytes(), 1)?),
            _ => {}
        }
    }
    Ok([zones, nodes])
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
