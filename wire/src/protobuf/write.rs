//! Encoder of messages.

/// First bytes of an encoded object.
pub(crate) const MAGIC: &[u8] = b"k8s\0";

/// Adds fields to a message.
pub trait Message {
    /// Adds a number, or a truth value.
    fn number(&mut self, field: u32, number: u64);

    /// Adds a text, bytes, or a message that is encoded already.
    fn bytes(&mut self, field: u32, bytes: &[u8]);

    /// Adds a message, which `fill` writes.
    fn message(&mut self, field: u32, fill: impl FnOnce(&mut Self));
}

impl Message for Vec<u8> {
    #[inline]
    fn number(&mut self, field: u32, number: u64) {
        push_pair(self, u64::from(field) << 3, number);
    }

    #[inline]
    fn bytes(&mut self, field: u32, bytes: &[u8]) {
        push_pair(self, u64::from(field) << 3 | 2, bytes.len() as u64);
        self.extend_from_slice(bytes);
    }

    #[inline]
    fn message(&mut self, field: u32, fill: impl FnOnce(&mut Self)) {
        // Most messages are so short that their length is one byte.
        push_pair(self, u64::from(field) << 3 | 2, 0);
        let at = self.len() - 1;
        fill(self);
        let length = self.len() - at - 1;
        match u8::try_from(length) {
            Ok(short) if short < 0x80 => self[at] = short,
            _ => {
                let mut long = Vec::new();
                push_varint(&mut long, length as u64);
                self.splice(at..=at, long);
            }
        }
    }
}

/// Adds two numbers. Hardly any takes more than a byte.
#[inline]
fn push_pair(out: &mut Vec<u8>, first: u64, second: u64) {
    match (u8::try_from(first), u8::try_from(second)) {
        (Ok(first @ ..0x80), Ok(second @ ..0x80)) => out.extend_from_slice(&[first, second]),
        _ => {
            push_varint(out, first);
            push_varint(out, second);
        }
    }
}

fn push_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Returns an object as it is in a request or an answer: its message in a `runtime.Unknown`, after
/// four bytes.
pub fn enveloped(api_version: &str, kind: &str, message: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(message.len() + 64);
    out.extend_from_slice(MAGIC);
    out.message(1, |meta| {
        meta.bytes(1, api_version.as_bytes());
        meta.bytes(2, kind.as_bytes());
    });
    out.bytes(2, message);
    out.bytes(3, b"");
    out.bytes(4, b"");
    out
}

#[cfg(test)]
mod tests {
    use super::super::read::{Fields, Value, object};
    use super::*;

    #[test]
    fn written_field_of_any_length_is_read_back() {
        for length in [0, 1, 127, 128, 129, 16_383, 16_384, 70_000] {
            let bytes = vec![7; length];
            let mut message = Vec::new();
            message.number(1, length as u64);
            message.message(2, |inner| {
                inner.bytes(3, &bytes);
                inner.message(4, |_| {});
            });
            message.number(500, u64::MAX);
            let [first, inner, last] = *Fields::of(&message).flatten().collect::<Vec<_>>() else {
                panic!("three fields: {length}");
            };
            assert_eq!(first, (1, Value::Number(length as u64)));
            assert_eq!(last, (500, Value::Number(u64::MAX)));
            let inner: Vec<_> = Fields::of(inner.1.bytes()).collect();
            let expected = [Ok((3, Value::Bytes(&bytes))), Ok((4, Value::Bytes(b"")))];
            assert_eq!(inner, expected, "{length}");
            assert_eq!(object(&enveloped("v1", "Pod", &message)), Ok(&*message));
        }
    }
}
