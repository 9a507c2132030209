//! Identities of values in tables that do not hold the values.

use std::fmt;
use std::hash::{BuildHasher as _, Hash, Hasher, RandomState};

use twox_hash::XxHash3_128;

/// Hash of a value, in 96 bits.
///
/// Equal digests count as equal values. Among N values two are equal by chance with a probability
/// of N^2 / 2^97: below 10^-17 for a million values, where 64 bits would give 10^-8. Nobody can
/// construct a collision, because the seed never leaves the process.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Digest([u8; 12]);

/// Hasher of values. Digests of two hashers are comparable if one is a clone of the other.
#[derive(Clone, Debug)]
pub(crate) struct Digester {
    seed: u64,
    /// Bytes of the value that is hashed.
    bytes: Bytes,
}

/// Bytes that a value feeds to a hasher.
#[derive(Clone, Debug, Default)]
struct Bytes(Vec<u8>);

impl Hasher for Bytes {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn finish(&self) -> u64 {
        0
    }
}

impl Default for Digester {
    fn default() -> Self {
        Self {
            seed: RandomState::new().hash_one(0),
            bytes: Bytes::default(),
        }
    }
}

impl Digester {
    /// Returns the digest of a value.
    pub(crate) fn digest(&mut self, value: &impl Hash) -> Digest {
        self.bytes.0.clear();
        value.hash(&mut self.bytes);
        let hash = XxHash3_128::oneshot_with_seed(self.seed, &self.bytes.0);
        let [digest @ .., _, _, _, _] = hash.to_be_bytes();
        Digest(digest)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("digest")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_depends_on_the_value_and_on_the_seed() {
        let mut digester = Digester::default();
        let one = digester.digest(&("a", 1));
        assert_eq!(one, digester.clone().digest(&("a", 1)));
        let others = [("a", 2), ("b", 1), ("", 1)].map(|other| digester.digest(&other));
        assert!(!others.contains(&one));
        assert_ne!(digester.digest(&("a", "bc")), digester.digest(&("ab", "c")));
        assert_ne!(one, Digester::default().digest(&("a", 1)));
    }
}
