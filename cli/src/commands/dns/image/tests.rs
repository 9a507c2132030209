use super::*;

/// Images, a line each, with the expected support.
const IMAGES: &str = "\
registry.k8s.io/coredns/coredns:v1.13.1 has 1.13.1
registry.k8s.io/coredns/coredns:v1.12.1 lacks 1.12.1
coredns/coredns:1.12.2 has 1.12.2
rancher/mirrored-coredns-coredns:1.12.3 has 1.12.3
rancher/hardened-coredns:v1.14.0-build20260101 has 1.14.0
1.dkr.ecr.eu-west-1.amazonaws.com/eks/coredns:v1.11.4-eksbuild.2 lacks 1.11.4
mcr.microsoft.com/oss/v2/kubernetes/coredns:v1.12.1-2 lacks 1.12.1
localhost:5000/coredns:2.0.0@sha256:abc has 2.0.0
coredns/coredns@sha256:abc unknown
coredns/coredns:latest unknown
coredns/coredns:1.13 unknown
coredns/coredns:1.13.1.2 unknown
localhost:5000/coredns unknown
somebody/dns:1.13.1 unknown
 unknown
";

#[test]
fn tag_shows_the_version_of_coredns() {
    for line in IMAGES.lines() {
        let (name, expected) = line.split_once(' ').expect("two columns");
        let support = match Image::of(name) {
            Image::Has(version) => format!("has {version}"),
            Image::Lacks(version) => format!("lacks {version}"),
            Image::Unknown => "unknown".to_owned(),
        };
        assert_eq!(support, expected, "{name}");
    }
}
