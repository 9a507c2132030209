//! The root certificates of an image: those of Mozilla, as `Cargo.lock` names their version.
//!
//! A member whose Secret has no CA bundle is verified against the system's authorities, and an
//! image from scratch has none of its own.

use pem::{EncodeConfig, LineEnding, Pem};

/// The package that they are from.
pub(crate) const PACKAGE: &str = "webpki-root-certs";

/// Path at which programs look for them.
pub(crate) const PATH: &str = "etc/ssl/certs/ca-certificates.crt";

/// All of them, one after the other, as PEM.
pub(crate) fn bundle() -> String {
    let certificates = webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter();
    let blocks: Vec<Pem> = certificates
        .map(|certificate| Pem::new("CERTIFICATE", certificate.as_ref()))
        .collect();
    pem::encode_many_config(&blocks, EncodeConfig::new().set_line_ending(LineEnding::LF))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bundle_reads_back_as_the_certificates() {
        let blocks = pem::parse_many(bundle()).expect("PEM");
        let expected = webpki_root_certs::TLS_SERVER_ROOT_CERTS;
        assert!(expected.len() > 50, "{}", expected.len());
        assert_eq!(blocks.len(), expected.len());
        for (block, certificate) in blocks.iter().zip(expected) {
            assert_eq!(block.contents(), certificate.as_ref());
        }
    }
}
