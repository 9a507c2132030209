//! Verifies the webhook's certificate as the API server does: by the caBundle, for the name, at the
//! time.

use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use k8s_openapi::api::admissionregistration::v1::WebhookClientConfig;
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};

/// Minimum remaining validity of a certificate. The renewal of a shorter one is overdue.
const LEFT: Duration = Duration::from_secs(3600);

/// Returns the problem of a PEM certificate chain for a registered webhook. Returns `None` if the
/// API server accepts the chain now and in one hour.
pub(super) fn problem(chain: &[u8], client: &WebhookClientConfig, now: Duration) -> Option<String> {
    match verify(chain, client, now) {
        Err(why) => Some(why),
        Ok(()) => verify(chain, client, now + LEFT)
            .err()
            .map(|why| format!("in an hour: {why}")),
    }
}

fn verify(chain: &[u8], client: &WebhookClientConfig, at: Duration) -> Result<(), String> {
    let certificates =
        |pem: &[u8]| CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    let chain = certificates(chain).map_err(|error| format!("tls.crt: {error}"))?;
    let (leaf, intermediates) = chain.split_first().ok_or("tls.crt holds no certificate")?;
    let bundle = client.ca_bundle.as_ref().map(|bundle| bundle.0.as_slice());
    let bundle = certificates(bundle.unwrap_or_default());
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(bundle.map_err(|error| format!("caBundle: {error}"))?);
    let provider = Arc::new(ring::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|error| format!("caBundle: {error}"))?;
    let name = name(client).ok_or("the webhook is registered without an address")?;
    let at = UnixTime::since_unix_epoch(at);
    let verified = verifier.verify_server_cert(leaf, intermediates, &name, &[], at);
    verified.map(drop).map_err(|error| error.to_string())
}

/// Returns the server name that the API server expects of the webhook.
fn name(client: &WebhookClientConfig) -> Option<ServerName<'static>> {
    let host = match (&client.service, &client.url) {
        (Some(service), _) => format!("{}.{}.svc", service.name, service.namespace),
        (None, Some(url)) => {
            let url: Uri = url.parse().ok()?;
            url.host()?.trim_matches(['[', ']']).to_owned()
        }
        (None, None) => return None,
    };
    ServerName::try_from(host).ok()
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
    use serde_json::json;

    use super::*;

    fn authority() -> Issuer<'static, KeyPair> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Issuer::new(params, KeyPair::generate().expect("a key"))
    }

    fn pem(authority: &Issuer<'static, KeyPair>) -> String {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let signed = params.signed_by(authority.key(), authority);
        signed.expect("a certificate").pem()
    }

    fn leaf(authority: &Issuer<'static, KeyPair>, name: &str) -> String {
        let mut params = CertificateParams::new([name.to_owned()]).expect("a name");
        params.not_before = date_time_ymd(2026, 11, 1);
        params.not_after = date_time_ymd(2026, 12, 1);
        let key = KeyPair::generate().expect("a key");
        let signed = params.signed_by(&key, authority);
        signed.expect("a certificate").pem()
    }

    #[test]
    fn a_certificate_is_verified_as_the_api_server_does() {
        use base64::Engine as _;
        let (own, other) = (authority(), authority());
        let client = |bundle: &str| -> WebhookClientConfig {
            let bundle = base64::engine::general_purpose::STANDARD.encode(bundle);
            let service = json!({ "namespace": "causeway-system", "name": "causeway-webhook" });
            serde_json::from_value(json!({ "caBundle": bundle, "service": service })).expect("it")
        };
        let name = "causeway-webhook.causeway-system.svc";
        let day = |day: u64| Duration::from_secs(1_793_491_200 + day * 86_400);
        let (good, of_other) = (leaf(&own, name), leaf(&own, "else.svc"));
        let (trusted, untrusted) = (client(&pem(&own)), client(&pem(&other)));
        for (chain, client, now, said) in [
            (&*good, &trusted, day(10), None),
            (&*good, &untrusted, day(10), Some("BadSignature")),
            (&*of_other, &trusted, day(10), Some("not valid for name")),
            (&*good, &trusted, day(40), Some("expired")),
            (
                &*good,
                &trusted,
                day(30) - Duration::from_secs(60),
                Some("in an hour: "),
            ),
            ("", &trusted, day(10), Some("no certificate")),
            (&*good, &client(""), day(10), Some("caBundle")),
        ] {
            let problem = problem(chain.as_bytes(), client, now);
            match said {
                None => assert_eq!(problem, None),
                Some(said) => {
                    let problem = problem.expect(said);
                    assert!(problem.contains(said), "{said}: {problem}");
                }
            }
        }
    }
}
