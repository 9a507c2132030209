//! SHA-256 of secrets that are random, and their comparison in constant time.

use std::hint::black_box;

use ring::digest::{SHA256, SHA256_OUTPUT_LEN, digest};

/// SHA-256 of a secret.
#[derive(Clone, Copy, Debug)]
pub struct Digest([u8; SHA256_OUTPUT_LEN]);

impl Digest {
    /// Returns the digest of a secret.
    pub fn of(secret: &[u8]) -> Self {
        let mut made = [0; SHA256_OUTPUT_LEN];
        made.copy_from_slice(digest(&SHA256, secret).as_ref());
        Self(made)
    }

    /// Reads hexadecimal digits.
    pub fn parse(hex: &str) -> Option<Self> {
        let mut digest = [0; SHA256_OUTPUT_LEN];
        if hex.len() != 2 * digest.len() || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        for (byte, pair) in digest.iter_mut().zip(hex.as_bytes().chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(Self(digest))
    }

    /// Returns it as hexadecimal digits.
    pub fn hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Compares in a time that depends on neither digest.
impl PartialEq for Digest {
    fn eq(&self, other: &Self) -> bool {
        let pairs = self.0.iter().zip(&other.0);
        pairs.fold(0, |found, (one, other)| black_box(found | (one ^ other))) == 0
    }
}

impl Eq for Digest {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_is_read_as_it_is_printed() {
        // FIPS 180-2, appendix B.1.
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let digest = Digest::of(b"abc");
        assert_eq!(digest.hex(), abc);
        assert_eq!(Digest::parse(abc), Some(digest));
        assert_ne!(Digest::parse(&abc.replace('a', "b")), Some(digest));
        for text in ["", &abc[1..], &abc.replace('a', "g"), &format!("{abc}0")] {
            assert_eq!(Digest::parse(text), None, "{text}");
        }
    }
}
