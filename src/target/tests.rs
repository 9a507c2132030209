use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use kube::api::ObjectMeta;

use super::*;
use crate::api::ClusterSpec;

const CA: &str = "-----BEGIN CERTIFICATE-----
MIIBhjCCAS2gAwIBAgIUbLvo7hFFWYoreN4fPW2Bgjz6YH0wCgYIKoZIzj0EAwIw
GDEWMBQGA1UEAwwNY2F1c2V3YXktdGVzdDAgFw0yNjExMjEwNTQ0NDRaGA8yMTI2
MTAyODA1NDQ0NFowGDEWMBQGA1UEAwwNY2F1c2V3YXktdGVzdDBZMBMGByqGSM49
AgEGCCqGSM49AwEHA0IABOW4iVaqf/v+M3eQ42XRR7YsIeWrswxSLCOt50I359q0
iAXX1w6zvSQVsZFOerVuxfACChVQYj6EkltGvz8Y96ujUzBRMB0GA1UdDgQWBBRR
WrnrDS1uOHX9Pz4fkO1ksGYEWTAfBgNVHSMEGDAWgBRRWrnrDS1uOHX9Pz4fkO1k
sGYEWTAPBgNVHRMBAf8EBTADAQH/MAoGCCqGSM49BAMCA0cAMEQCIEjn9PbUGPpS
74gxEgNqwARl2q0Lwhm1ZQg0C3SNpRyLAiA3yJzqVS79pyLmz2rYzPUpM4XFykbo
X7wf5Wlm0CR3og==
-----END CERTIFICATE-----
";

fn cluster(endpoint: &str) -> Cluster {
    Cluster::new(
        "member1",
        ClusterSpec {
            api_endpoint: Some(endpoint.to_owned()),
            ..ClusterSpec::default()
        },
    )
}

fn secret(entries: &[(&str, &str)]) -> Secret {
    let entries = entries
        .iter()
        .map(|(key, value)| ((*key).to_owned(), ByteString(value.as_bytes().to_vec())));
    Secret {
        metadata: ObjectMeta {
            namespace: Some("causeway-system".to_owned()),
            name: Some("member1".to_owned()),
            ..ObjectMeta::default()
        },
        data: Some(entries.collect::<BTreeMap<_, _>>()),
        ..Secret::default()
    }
}

fn good() -> Secret {
    secret(&[("token", "abc\n"), ("caBundle", CA)])
}

#[test]
fn an_endpoint_may_be_a_url_a_host_or_an_address_with_or_without_a_port() {
    let cases = [
        ("https://10.0.0.1:6443", "https://10.0.0.1:6443/"),
        ("10.0.0.1:6443", "https://10.0.0.1:6443/"),
        ("10.0.0.1", "https://10.0.0.1/"),
        ("api.example.org", "https://api.example.org/"),
        ("api.example.org:6443", "https://api.example.org:6443/"),
        ("fd00::1", "https://[fd00::1]/"),
        ("[fd00::1]:6443", "https://[fd00::1]:6443/"),
        (
            " https://rancher.example.org/k8s/clusters/c-1 ",
            "https://rancher.example.org/k8s/clusters/c-1",
        ),
    ];
    for (endpoint, url) in cases {
        let (target, _) = Target::read(&cluster(endpoint), &good(), false).unwrap();
        assert_eq!(target.url.to_string(), url, "{endpoint}");
    }
}

#[test]
fn what_is_wrong_is_named_with_what_to_do() {
    let cases = [
        (cluster(""), good(), "spec.apiEndpoint is empty; set it to"),
        (
            cluster("ftp://x"),
            good(),
            "\"ftp://x\" is no address of an API server: it is neither",
        ),
        (
            cluster("https://"),
            good(),
            "is no address of an API server",
        ),
        (
            cluster("https://a:secret@x"),
            good(),
            "\"https://...@x\" is no address of an API server: it holds a user",
        ),
        (
            cluster("http://x"),
            good(),
            "spec.apiEndpoint is http://, and no token is sent over unverified TLS",
        ),
        (
            cluster("x"),
            secret(&[("caBundle", CA)]),
            "Secret causeway-system/member1 has no key token",
        ),
        (
            cluster("x"),
            secret(&[("token", "a b")]),
            "the key token of Secret causeway-system/member1 is no bearer token",
        ),
        (
            cluster("x"),
            secret(&[("token", "a"), ("caBundle", "hello")]),
            "the key caBundle of Secret",
        ),
    ];
    for (cluster, secret, message) in cases {
        let error = Target::read(&cluster, &secret, false)
            .unwrap_err()
            .to_string();
        assert!(error.contains(message), "{error:?} has no {message:?}");
    }
}

#[test]
fn an_unverified_member_is_refused_unless_the_process_allows_it() {
    let mut unverified = cluster("x");
    unverified.spec.insecure_skip_tls_verification = Some(true);
    let error = Target::read(&unverified, &good(), false)
        .unwrap_err()
        .to_string();
    assert!(error.contains("--allow-insecure-members"), "{error}");
    for cluster in [unverified, cluster("http://x")] {
        assert!(Target::read(&cluster, &good(), true).is_ok());
    }
}

#[test]
fn renewed_token_makes_no_other_target_and_another_ca_or_address_does() {
    let read = |cluster: &Cluster, secret: &Secret| Target::read(cluster, secret, false).unwrap();
    let (target, token) = read(&cluster("x"), &good());
    let mut relabelled = cluster("x");
    relabelled.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into());
    assert_eq!(read(&relabelled, &good()), (target.clone(), token.clone()));
    let renewed = secret(&[("token", "def"), ("caBundle", CA)]);
    let (same, renewed) = read(&cluster("x"), &renewed);
    assert_eq!(same, target);
    assert_ne!(renewed, token);
    assert_eq!(renewed.header(), "Bearer def");
    assert_ne!(read(&cluster("y"), &good()).0, target);
    let without_ca = secret(&[("token", "abc")]);
    assert_ne!(read(&cluster("x"), &without_ca).0, target);
}

#[test]
fn neither_the_token_nor_a_proxy_password_is_printed() {
    let mut through_proxy = cluster("x");
    through_proxy.spec.proxy_url = Some("http://user:hunter2@proxy:3128".to_owned());
    let token = secret(&[("token", "s3cr3t"), ("caBundle", CA)]);
    let target = Target::read(&through_proxy, &token, false).unwrap();
    let printed = format!("{target:?}");
    assert!(
        !printed.contains("s3cr3t") && !printed.contains("hunter2"),
        "{printed}"
    );
    through_proxy.spec.proxy_url = Some("ftp://user:hunter2@proxy:3128".to_owned());
    let error = Target::read(&through_proxy, &token, false)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("...@proxy:3128") && !error.contains("hunter2"),
        "{error}"
    );
}

#[test]
fn proxy_settings_that_cannot_be_used_are_refused() {
    let read = |url: &str, headers: &[(&str, &str)], bundle: &str| {
        let mut through = cluster("x");
        through.spec.proxy_url = Some(url.to_owned());
        let headers = headers.iter();
        let headers = headers.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        through.spec.proxy_header = headers.collect();
        let secret = secret(&[
            ("token", "abc"),
            ("caBundle", CA),
            ("proxyCaBundle", bundle),
        ]);
        Target::read(&through, &secret, false).map_err(|error| error.to_string())
    };
    let long = "x".repeat(9000);
    let many = (0..33).map(|_| "v").collect::<Vec<_>>().join(",");
    for (url, headers, bundle, why) in [
        ("proxy:3128", &[][..], "", "is no address of a proxy"),
        ("http://", &[], "", "is no address of a proxy"),
        ("https4://proxy", &[], "", "http://, https:// or socks5://"),
        ("http://p", &[("a b", "c")], "", "\"a b\" is no header"),
        (
            "http://p",
            &[("a", "hunter2\nx")],
            "",
            "the value of \"a\" cannot be sent",
        ),
        (
            "http://p",
            &[("a", &long)],
            "",
            "it has 9001 bytes, and 8192 are allowed",
        ),
        (
            "http://p",
            &[("a", &many)],
            "",
            "it has 33 values, and 32 are allowed",
        ),
        ("https://p", &[], "x", "the key proxyCaBundle of Secret"),
    ] {
        let error = read(url, headers, bundle).expect_err(url);
        assert!(error.contains(why) && !error.contains("hunter2"), "{error}");
    }
    for url in ["http://p", "https://p:3129", "socks5://p", "http://[::1]:1"] {
        assert!(read(url, &[("a", "b")], CA).is_ok(), "{url}");
    }
    let [one, other] = [&[("a", "b")], &[("a", "c")]].map(|headers| read("http://p", headers, ""));
    assert_ne!(one.unwrap().0, other.unwrap().0, "it connects again");
}

#[test]
fn a_secret_serves_the_cluster_that_it_is_labelled_or_named_for() {
    let asked = |cluster: &str, name: &str, label: Option<&str>, kind: Option<&str>| {
        let cluster = Cluster::new(
            cluster,
            ClusterSpec {
                api_endpoint: Some("10.0.0.1".to_owned()),
                ..ClusterSpec::default()
            },
        );
        let mut secret = good();
        secret.metadata.name = Some(name.to_owned());
        secret.metadata.labels =
            label.map(|label| [(labels::CLUSTER.to_owned(), label.to_owned())].into());
        secret.type_ = kind.map(ToOwned::to_owned);
        Target::read(&cluster, &secret, false).map_err(|error| error.to_string())
    };
    let account = Some("kubernetes.io/service-account-token");
    let karmadas = "a-impersonator";
    for (cluster, name, label, kind, said) in [
        ("a", "a", None, None, None),
        ("a", "a", None, Some("Opaque"), None),
        ("a", "any", Some("a"), None, None),
        ("a", "any", Some("a"), account, None),
        ("a", "b", None, None, Some("neither bears its name")),
        ("a", "b", Some("b"), None, Some("labelled for \"b\"")),
        ("a", "a", Some("b"), None, Some("labelled for \"b\"")),
        ("a", "a", Some(""), None, Some("labelled for \"\"")),
        ("a", "a", None, account, Some("an account of the hub")),
        (
            karmadas,
            karmadas,
            None,
            None,
            Some("Karmada keeps others' tokens"),
        ),
        (karmadas, karmadas, Some(karmadas), None, None),
    ] {
        let outcome = asked(cluster, name, label, kind);
        let what = format!("{cluster} {name} {label:?} {kind:?}: {outcome:?}");
        match (said, &outcome) {
            (None, Ok(_)) => {}
            (Some(said), Err(error)) => {
                assert!(error.contains(said), "{what}");
                let remedy = format!("label it mcs.causeway.dev/cluster={cluster}");
                assert!(error.contains(&remedy), "{what}");
            }
            _ => panic!("{what}"),
        }
    }
}

#[test]
fn address_of_an_agent_is_verified_and_goes_through_the_tunnel() {
    let front: TunnelFront = "http://127.0.0.1:7080".parse().expect("a front");
    let name = || ClusterName::try_from("member1").expect("a name");
    let read = |server: &str, authorities: &str| {
        let read = Target::of_agent(name(), &front, server, authorities);
        read.map_err(|error| error.to_string())
    };
    let ca = STANDARD.encode(CA);
    let target = read("https://10.96.0.1:443", &ca).expect("an address");
    assert_eq!(target.url, "https://10.96.0.1:443");
    assert!(!target.insecure && target.certificates.len() == 1);
    assert!(target.proxy == Some(Proxy::tunnel(&front, &name())));
    for (server, authorities, why) in [
        ("http://10.96.0.1", ca.as_str(), "it is not https://"),
        ("", ca.as_str(), "cannot be used"),
        ("https://a@b", ca.as_str(), "it holds a user"),
        ("https://10.96.0.1", "", "no certificate authority"),
        ("https://10.96.0.1", "!", "cannot be used"),
        ("https://10.96.0.1", "bm9uZQ==", "it holds no certificate"),
    ] {
        let error = read(server, authorities).expect_err(why);
        assert!(error.contains(why), "{error}");
        assert!(error.starts_with("its agent gave an address"), "{error}");
    }
}
