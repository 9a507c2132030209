//! Flags of self-managed certificates.

use std::net::IpAddr;

use causeway::domain::{dns1123_label, is_subdomain};
use causeway::process::args::Checks;
use causeway_certs::{Lifetimes, Names};

const FLAG: &str = "--self-managed-certs";
const CLUSTER_DOMAIN: &str = "svc.cluster.local";
const SERVICE: &str = "causeway-webhook";
/// Default Secret of the authority.
const CA_SECRET: &str = "causeway-webhook-ca";

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Serving")]
pub(crate) struct CertificateArgs {
    /// Secret of the hub in which the replicas issue and renew their serving certificate. They also
    /// write the caBundle of causeway's webhook configurations
    #[arg(
        long,
        env = "CAUSEWAY_SELF_MANAGED_CERTS",
        value_name = "NAMESPACE/NAME",
        conflicts_with = "tls_dir"
    )]
    pub(crate) self_managed_certs: Option<String>,
    /// Secret of the certificate authority and its key, in the namespace of the serving Secret
    #[arg(
        long,
        env = "CAUSEWAY_CA_SECRET",
        value_name = "NAME",
        default_value = CA_SECRET
    )]
    ca_secret: String,
    /// Name or IP address of the webhook in a self-managed certificate. Repeatable. If not given:
    /// causeway-webhook.NAMESPACE.svc and causeway-webhook.NAMESPACE.svc.cluster.local
    #[arg(
        long,
        env = "CAUSEWAY_CERTIFICATE_NAME",
        value_name = "NAME|IP",
        value_delimiter = ','
    )]
    certificate_name: Vec<String>,
    /// Validity of the self-managed certificate authority; it is replaced in time
    #[arg(
        long,
        env = "CAUSEWAY_CA_VALIDITY",
        value_name = "DURATION",
        default_value = "87600h"
    )]
    ca_validity: String,
    /// Validity of a self-managed serving certificate; it is renewed after two thirds
    #[arg(
        long,
        env = "CAUSEWAY_LEAF_VALIDITY",
        value_name = "DURATION",
        default_value = "2160h"
    )]
    leaf_validity: String,
}

/// Secrets of self-managed certificates, and the form of the certificates.
#[derive(Clone, Debug)]
pub struct SelfManaged {
    /// The namespace of both Secrets: causeway's own.
    pub namespace: String,
    /// The name of the serving Secret.
    pub secret: String,
    /// The name of the Secret of the authority.
    pub ca_secret: String,
    /// Names by which the hub calls the webhook.
    pub names: Names,
    /// Validity of the certificates.
    pub lifetimes: Lifetimes,
}

impl CertificateArgs {
    /// Checks the flags, given the value of the first.
    pub(crate) fn check(&self, secret: &str, checks: &mut Checks) -> Option<SelfManaged> {
        let secret = read_secret(secret, checks);
        let names = self.names(secret.as_ref().map(|(namespace, _)| namespace), checks);
        let lifetimes = self.lifetimes(checks);
        let ca_secret = self.ca_secret(secret.as_ref().map(|(_, name)| name), checks);
        let (namespace, secret) = secret?;
        Some(SelfManaged {
            namespace,
            secret,
            ca_secret: ca_secret?,
            names: names?,
            lifetimes: lifetimes?,
        })
    }

    fn ca_secret(&self, serving: Option<&String>, checks: &mut Checks) -> Option<String> {
        let name = &self.ca_secret;
        let is_another = serving != Some(name);
        let good = is_another && is_subdomain(name);
        if !good {
            let why =
                "must be the name of a Secret, and another than that of the serving certificate";
            checks.wrong("--ca-secret", format_args!("{name:?}"), why);
        }
        good.then(|| name.clone())
    }

    fn names(&self, namespace: Option<&String>, checks: &mut Checks) -> Option<Names> {
        let mut all = Names::default();
        let mut good = true;
        for name in &self.certificate_name {
            let name = name.trim().to_ascii_lowercase();
            if let Ok(address) = name.parse::<IpAddr>() {
                all.addresses.push(address);
            } else if is_subdomain(&name) {
                all.names.push(name);
            } else {
                let why = "must be a DNS name or an IP address, without scheme and port";
                checks.wrong("--certificate-name", format_args!("{name:?}"), why);
                good = false;
            }
        }
        if self.certificate_name.is_empty() {
            let service = format!("{SERVICE}.{}", namespace?);
            all.names = vec![
                format!("{service}.svc"),
                format!("{service}.{CLUSTER_DOMAIN}"),
            ];
        }
        good.then_some(all)
    }

    fn lifetimes(&self, checks: &mut Checks) -> Option<Lifetimes> {
        let authority = checks.duration("--ca-validity", &self.ca_validity);
        let leaf = checks.duration("--leaf-validity", &self.leaf_validity);
        let given = format!(
            "{} with --leaf-validity {}",
            self.ca_validity, self.leaf_validity
        );
        Lifetimes::new(authority?, leaf?)
            .map_err(|error| checks.wrong("--ca-validity", given, error))
            .ok()
    }
}

fn read_secret(text: &str, checks: &mut Checks) -> Option<(String, String)> {
    let parts = text.split_once('/');
    let good =
        parts.filter(|(namespace, name)| dns1123_label(namespace).is_ok() && is_subdomain(name));
    if good.is_none() {
        let why =
            "must be the NAMESPACE/NAME of a Secret, such as causeway-system/causeway-webhook-tls";
        checks.wrong(FLAG, format_args!("{text:?}"), why);
    }
    good.map(|(namespace, name)| (namespace.to_owned(), name.to_owned()))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct All {
        #[command(flatten)]
        certificates: CertificateArgs,
        #[arg(long)]
        tls_dir: Option<String>,
    }

    fn check(args: &[&str]) -> Result<SelfManaged, String> {
        let all = All::try_parse_from([&["webhook"], args].concat())
            .map_err(|error| error.to_string())?;
        let secret = all.certificates.self_managed_certs.clone();
        let mut checks = Checks::default();
        let checked = all
            .certificates
            .check(&secret.unwrap_or_default(), &mut checks);
        checks.finish(|| checked).map_err(|error| error.to_string())
    }

    #[test]
    fn certificate_is_for_the_service_unless_names_are_given() {
        let managed = check(&["--self-managed-certs=ns/tls"]).expect("good flags");
        assert_eq!(
            (managed.namespace.as_str(), managed.secret.as_str()),
            ("ns", "tls")
        );
        assert_eq!(managed.ca_secret, "causeway-webhook-ca");
        let expected = [
            "causeway-webhook.ns.svc",
            "causeway-webhook.ns.svc.cluster.local",
        ];
        assert_eq!(managed.names.names, expected);
        assert_eq!(
            managed.lifetimes.leaf(),
            std::time::Duration::from_secs(90 * 24 * 3600)
        );
        let named = check(&[
            "--self-managed-certs=ns/tls",
            "--certificate-name=Hook.Example,192.0.2.1",
            "--certificate-name=2001:db8::1",
        ]);
        let names = named.expect("good flags").names;
        assert_eq!(names.names, ["hook.example"]);
        assert_eq!(names.addresses.len(), 2);
    }

    #[test]
    fn invalid_flags_are_refused_with_a_remedy() {
        let secret = "must be the NAMESPACE/NAME of a Secret";
        let duration = "write a duration as whole hours, minutes and seconds";
        let another = "another than that of the serving certificate";
        let longer = "at least 3 times as long as what it signs";
        let address = "--certificate-name=https://hook.example";
        let good = "--self-managed-certs=ns/tls";
        for (args, why) in [
            (&["--self-managed-certs=tls"][..], secret),
            (&["--self-managed-certs=Ns/tls"], secret),
            (&["--self-managed-certs=ns/"], secret),
            (&[good, address], "without scheme and port"),
            (&[good, "--leaf-validity=soon"], duration),
            (&[good, "--leaf-validity=1s"], "ten seconds at least"),
            (&[good, "--ca-secret=tls"], another),
            (&[good, "--ca-validity=24h"], longer),
            (&[good, "--tls-dir=tls"], "cannot be used with"),
        ] {
            let error = check(args).expect_err("it is wrong");
            assert!(error.contains(why), "{args:?}: {error}");
        }
    }
}
