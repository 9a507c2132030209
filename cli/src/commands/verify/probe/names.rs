//! Names as the pod resolves them.

use std::net::IpAddr;

use hickory_resolver::TokioResolver;
use hickory_resolver::system_conf::read_system_conf;
use tokio::time::timeout;

use super::{CLUSTER_DOMAIN, CONNECT_WITHIN, Outcome, Path, ProbeError};

/// DNS configuration of a pod.
pub(super) struct Names {
    resolver: TokioResolver,
    /// Domain of the cluster, for example `cluster.local`.
    domain: String,
}

impl Names {
    /// Reads the resolver configuration of the pod (Kubernetes, "DNS for Services and Pods").
    pub(super) fn of_pod() -> Result<Self, ProbeError> {
        let (config, mut options) = read_system_conf().map_err(ProbeError::ResolvConf)?;
        let search = config.search().iter().map(ToString::to_string);
        let domain = cluster_domain(search);
        options.timeout = CONNECT_WITHIN;
        options.attempts = 1;
        // Each lookup must reach the nameserver.
        options.cache_size = 0;
        let resolver = TokioResolver::builder_with_config(config, Default::default());
        let resolver = resolver.with_options(options).build();
        Ok(Self {
            resolver: resolver.map_err(ProbeError::ResolvConf)?,
            domain,
        })
    }

    /// Replaces the placeholder of the cluster's domain in a name.
    pub(super) fn complete(&self, path: Path) -> Path {
        match path {
            Path::Name { name, expected } => Path::Name {
                name: name.replace(CLUSTER_DOMAIN, &self.domain),
                expected,
            },
            other => other,
        }
    }

    /// Resolves a name and compares its addresses with those of the service.
    pub(super) async fn look_up(&self, name: &str, expected: &[IpAddr]) -> Outcome {
        let found = match timeout(2 * CONNECT_WITHIN, self.resolver.lookup_ip(name)).await {
            Ok(found) => found,
            Err(_) => return Outcome::TimedOut,
        };
        let found: Vec<_> = match found {
            Ok(found) => found.iter().collect(),
            Err(error) if error.is_no_records_found() || error.is_nx_domain() => {
                return Outcome::NameNotFound;
            }
            Err(error) => {
                return Outcome::NameserverFailed {
                    error: error.to_string(),
                };
            }
        };
        compare(found, expected)
    }
}

/// Returns the domain of the cluster from the search path of its pods.
fn cluster_domain(search: impl Iterator<Item = String>) -> String {
    const DEFAULT: &str = "cluster.local";
    let mut search = search.map(|name| name.trim_end_matches('.').to_owned());
    let domain = search.find_map(|name| name.strip_prefix("svc.").map(ToOwned::to_owned));
    domain.unwrap_or_else(|| DEFAULT.to_owned())
}

/// Compares resolved addresses with those of the service. A subset is correct, because resolvers
/// query both address families and servers truncate answers.
fn compare(found: Vec<IpAddr>, expected: &[IpAddr]) -> Outcome {
    if found.is_empty() {
        Outcome::NameNotFound
    } else if found.iter().all(|address| expected.contains(address)) {
        Outcome::Works
    } else {
        Outcome::WrongAddress { found }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(all: &[&str]) -> Vec<IpAddr> {
        let all = all.iter();
        all.map(|one| one.parse().expect("an address")).collect()
    }

    #[test]
    fn names_are_compared_with_the_addresses_of_the_service() {
        for (found, expected, outcome) in [
            (&["10.0.0.1"][..], &["10.0.0.1"][..], Outcome::Works),
            (&["10.0.0.1"], &["10.0.0.1", "fd00::1"], Outcome::Works),
            (&[], &["10.0.0.1"], Outcome::NameNotFound),
            (
                &["10.0.0.1", "10.0.0.2"],
                &["10.0.0.1"],
                Outcome::WrongAddress {
                    found: addresses(&["10.0.0.1", "10.0.0.2"]),
                },
            ),
        ] {
            let compared = compare(addresses(found), &addresses(expected));
            assert_eq!(compared, outcome, "{found:?} {expected:?}");
        }
    }

    #[test]
    fn cluster_domain_is_read_from_the_search_path() {
        for (search, domain) in [
            (
                &[
                    "shop.svc.corp.example.",
                    "svc.corp.example.",
                    "corp.example.",
                ][..],
                "corp.example",
            ),
            (&["example.com."], "cluster.local"),
            (&[], "cluster.local"),
        ] {
            let search = search.iter().map(|one| (*one).to_owned());
            assert_eq!(cluster_domain(search), domain);
        }
    }
}
