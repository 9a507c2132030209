//! Limit by which some of a copy's ready endpoints are ready in its consumer.

use std::fmt;

/// Limit of the hashes of a copy's endpoints: those with a smaller hash are ready, the others are
/// standby endpoints. A copy records it, so that a restarted controller continues with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Cut {
    /// Whether it is for IPv6 endpoints, not for IPv4 endpoints.
    pub is_ipv6: bool,
    /// Smallest hash of a standby endpoint.
    pub below: u32,
}

const FAMILIES: [&str; 2] = ["IPv4", "IPv6"];
const BELOW: &str = " below ";

impl Cut {
    /// Reads the annotation of a copy.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (family, below) = text.split_once(BELOW)?;
        let family = FAMILIES.iter().position(|name| *name == family)?;
        Some(Self {
            is_ipv6: family == 1,
            below: u32::from_str_radix(below, 16).ok()?,
        })
    }
}

/// Writes `IPv4 below 1a2b3c4d`.
impl fmt::Display for Cut {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [ipv4, ipv6] = FAMILIES;
        let family = if self.is_ipv6 { ipv6 } else { ipv4 };
        write!(out, "{family}{BELOW}{:08x}", self.below)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_is_read_as_it_is_written() {
        for (cut, text) in [
            (
                Cut {
                    is_ipv6: false,
                    below: 0,
                },
                "IPv4 below 00000000",
            ),
            (
                Cut {
                    is_ipv6: true,
                    below: u32::MAX,
                },
                "IPv6 below ffffffff",
            ),
        ] {
            assert_eq!(cut.to_string(), text);
            assert_eq!(Cut::parse(text), Some(cut));
        }
        for text in [
            "",
            "IPv4",
            "IPv5 below 1",
            "IPv4 below x",
            "IPv4 below 100000000",
        ] {
            assert_eq!(Cut::parse(text), None, "{text}");
        }
    }
}
