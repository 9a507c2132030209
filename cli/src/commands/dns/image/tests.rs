use super::*;

#[test]
fn tag_shows_the_version_of_coredns() {
    let has = Image::Has;
    for (name, expected) in [
        (
            "registry.k8s.io/coredns/coredns:v1.13.1",
            has(CoreDnsVersion(1, 13, 1)),
        ),
        (
            "registry.k8s.io/coredns/coredns:v1.12.1",
            Image::Lacks(CoreDnsVersion(1, 12, 1)),
        ),
        ("coredns/coredns:1.12.2", has(CoreDnsVersion(1, 12, 2))),
        (
            "rancher/mirrored-coredns-coredns:1.12.3",
            has(CoreDnsVersion(1, 12, 3)),
        ),
        (
            "rancher/hardened-coredns:v1.14.0-build20260101",
            has(CoreDnsVersion(1, 14, 0)),
        ),
        (
            "1.dkr.ecr.eu-west-1.amazonaws.com/eks/coredns:v1.11.4-eksbuild.2",
            Image::Lacks(CoreDnsVersion(1, 11, 4)),
        ),
        (
            "mcr.microsoft.com/oss/v2/kubernetes/coredns:v1.12.1-2",
            Image::Lacks(CoreDnsVersion(1, 12, 1)),
        ),
        (
            "localhost:5000/coredns:2.0.0@sha256:abc",
            has(CoreDnsVersion(2, 0, 0)),
        ),
        ("coredns/coredns@sha256:abc", Image::Unknown),
        ("coredns/coredns:latest", Image::Unknown),
        ("coredns/coredns:1.13", Image::Unknown),
        ("coredns/coredns:1.13.1.2", Image::Unknown),
        ("localhost:5000/coredns", Image::Unknown),
        ("somebody/dns:1.13.1", Image::Unknown),
        ("", Image::Unknown),
    ] {
        assert_eq!(Image::of(name), expected, "{name}");
    }
}
