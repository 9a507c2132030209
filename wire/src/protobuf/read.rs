//! Decoder of messages.

use thiserror::Error;

use super::write::MAGIC;

/// Error of a message that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Malformed {
    /// The message ends within a field.
    #[error("the message ends within a field")]
    Cut,
    /// A field has no number, or a type that is not used.
    #[error("a field has a number or a type that no message of Kubernetes has")]
    Field,
    /// A text is not UTF-8.
    #[error("a text is not UTF-8")]
    Text,
    /// The message does not begin as an object does.
    #[error("no object of Kubernetes begins so")]
    Magic,
    /// A map has more entries than are stored.
    #[error("a map has too many entries")]
    Entries,
}

/// Value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// Number, or a truth value.
    Number(u64),
    /// Text, bytes, or a message.
    Bytes(&'a [u8]),
}

/// Iterator over the fields of a message, in their order; it ends after the first that is
/// malformed.
#[derive(Clone, Debug)]
pub struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// Returns the fields of that message.
    pub fn of(message: &'a [u8]) -> Self {
        Self(message)
    }

    /// Returns the bytes that have not been read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.0
    }

    #[inline(always)]
    fn field(&mut self) -> Result<(u32, Value<'a>), Malformed> {
        let key = self.varint()?;
        let number = u32::try_from(key >> 3).map_err(|_| Malformed::Field)?;
        let value = match key & 7 {
            _ if number == 0 => return Err(Malformed::Field),
            0 => Value::Number(self.varint()?),
            1 => Value::Bytes(self.bytes(8)?),
            2 => {
                let length = self.varint()?;
                Value::Bytes(self.bytes(length)?)
            }
            5 => Value::Bytes(self.bytes(4)?),
            _ => return Err(Malformed::Field),
        };
        Ok((number, value))
    }

    #[inline]
    fn varint(&mut self) -> Result<u64, Malformed> {
        // Hardly any key or length takes more than a byte.
        match self.0 {
            [byte, rest @ ..] if *byte < 0x80 => {
                self.0 = rest;
                Ok(u64::from(*byte))
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Result<u64, Malformed> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first().ok_or(Malformed::Cut)?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Malformed::Field)
    }

    #[inline]
    fn bytes(&mut self, length: u64) -> Result<&'a [u8], Malformed> {
        let length = usize::try_from(length).map_err(|_| Malformed::Cut)?;
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(Malformed::Cut)?;
        self.0 = rest;
        Ok(bytes)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Value<'a>), Malformed>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}

impl<'a> Value<'a> {
    /// Returns the bytes; empty if it is a number.
    pub fn bytes(self) -> &'a [u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Number(_) => &[],
        }
    }

    /// Returns the text; empty if it is a number.
    ///
    /// # Errors
    /// The text is not UTF-8.
    pub fn text(self) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.bytes()).map_err(|_| Malformed::Text)
    }

    /// Returns the number; `None` if it is not a number.
    pub fn number(self) -> Option<u64> {
        match self {
            Self::Number(number) => Some(number),
            Self::Bytes(_) => None,
        }
    }

    /// Whether the truth value is true.
    pub fn is_true(self) -> bool {
        self.number().is_some_and(|number| number != 0)
    }
}

/// Returns the message of an object from an answer: a `runtime.Unknown` after four bytes.
///
/// # Errors
/// The answer begins otherwise, or breaks off.
pub fn object(encoded: &[u8]) -> Result<&[u8], Malformed> {
    const RAW: u32 = 2;
    let unknown = encoded.strip_prefix(MAGIC).ok_or(Malformed::Magic)?;
    let mut object: &[u8] = &[];
    for field in Fields::of(unknown) {
        if let (RAW, value) = field? {
            object = value.bytes();
        }
    }
    Ok(object)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Field<'a> = Result<(u32, Value<'a>), Malformed>;

    #[test]
    fn fields_are_read_in_order_until_one_is_malformed() {
        let cases: [(&[u8], Vec<Field<'_>>); 12] = [
            (b"", vec![]),
            (&[0x08, 0x96, 0x01], vec![Ok((1, Value::Number(150)))]),
            (
                &[0x12, 2, b'h', b'i', 0x18, 1],
                vec![Ok((2, Value::Bytes(b"hi"))), Ok((3, Value::Number(1)))],
            ),
            (
                &[0x0d, 1, 2, 3, 4],
                vec![Ok((1, Value::Bytes(&[1, 2, 3, 4])))],
            ),
            (
                &[0x09, 1, 2, 3, 4, 5, 6, 7, 8],
                vec![Ok((1, Value::Bytes(&[1, 2, 3, 4, 5, 6, 7, 8])))],
            ),
            (&[0x08], vec![Err(Malformed::Cut)]),
            (&[0x08, 0x80], vec![Err(Malformed::Cut)]),
            (&[0x12, 3, b'h', b'i'], vec![Err(Malformed::Cut)]),
            (
                &[
                    0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01,
                ],
                vec![Err(Malformed::Cut)],
            ),
            (&[0x0b], vec![Err(Malformed::Field)]),
            (&[0x00, 0x00], vec![Err(Malformed::Field)]),
            (&[0xff; 11], vec![Err(Malformed::Field)]),
        ];
        for (message, expected) in cases {
            let fields: Vec<Field<'_>> = Fields::of(message).collect();
            assert_eq!(fields, expected, "{message:?}");
        }
    }

    #[test]
    fn object_is_read_from_its_envelope() {
        let envelope = b"k8s\0\x0a\x02\x0a\x00\x12\x02hi\x1a\x00\x22\x00";
        assert_eq!(object(envelope), Ok(&b"hi"[..]));
        assert_eq!(object(b"{}"), Err(Malformed::Magic));
        assert_eq!(object(b"k8s\0\x12\x09hi"), Err(Malformed::Cut));
    }
}
