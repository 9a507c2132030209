//! Seals that prove that only the hub can have written a text, wherever the text is stored.

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ring::hmac;

/// Key that seals texts (HMAC-SHA256, RFC 2104).
#[derive(Clone)]
pub struct Seal(hmac::Key);

impl Seal {
    /// Returns the seal with that key.
    pub fn new(key: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, key))
    }

    /// Returns the seal of a text, in base64.
    pub(crate) fn put_on(&self, text: &str) -> String {
        BASE64_STANDARD.encode(hmac::sign(&self.0, text.as_bytes()))
    }

    /// Whether `found` is the seal of a text.
    pub fn is_on(&self, text: &str, found: &str) -> bool {
        let found = BASE64_STANDARD.decode(found);
        found.is_ok_and(|found| hmac::verify(&self.0, text.as_bytes(), &found).is_ok())
    }
}

/// Never prints the key.
impl fmt::Debug for Seal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Seal")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_is_of_one_key_and_one_text() {
        let seal = Seal::new(b"a");
        let on_it = seal.put_on("text");
        assert!(seal.is_on("text", &on_it));
        for (seal, text, found) in [
            (&seal, "texts", &*on_it),
            (&Seal::new(b"b"), "text", &on_it),
            (&seal, "text", ""),
            (&seal, "text", "no base64"),
            (&seal, "text", &on_it[..40]),
        ] {
            assert!(!seal.is_on(text, found), "{text}: {found}");
        }
    }
}
