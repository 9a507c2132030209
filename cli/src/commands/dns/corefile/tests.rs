use super::*;

const PATH: &str = "/etc/coredns/Corefile";

/// Corefile of kubeadm.
const KUBEADM: &str = ".:53 {
    errors
    health {
       lameduck 5s
    }
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
       pods insecure
       fallthrough in-addr.arpa ip6.arpa
       ttl 30
    }
    prometheus :9153
    forward . /etc/resolv.conf {
       max_concurrent 1000
    }
    cache 30 {
       disable success cluster.local
       disable denial cluster.local
    }
    loop
    reload
    loadbalance
}
";

/// Corefile of k3s, which also imports from a directory.
const K3S: &str = ".:53 {
    errors
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
      pods insecure
    }
    hosts /etc/coredns/NodeHosts {
      ttl 60
      fallthrough
    }
    forward . /etc/resolv.conf
    reload
    loadbalance
    import /etc/coredns/custom/*.override
}
import /etc/coredns/custom/*.server
";

/// Returns the directories of k3s, with these files of `/etc/coredns/custom`.
fn directories(custom: &[(&str, &str)]) -> Directories {
    let custom = custom
        .iter()
        .map(|(name, text)| ((*name).to_owned(), Some((*text).to_owned())));
    let of_corefile = ["Corefile", "custom"].map(|name| (name.to_owned(), None));
    Directories::from([
        ("/etc/coredns".to_owned(), of_corefile.into()),
        ("/etc/coredns/custom".to_owned(), custom.collect()),
    ])
}

fn read(text: &str) -> Result<Corefile, CorefileError> {
    Corefile::read(text, PATH, &directories(&[]))
}

#[track_caller]
fn state(text: &str) -> ZoneState {
    read(text)
        .unwrap_or_else(|error| panic!("{error}\n{text}"))
        .answer()
}

fn block(text: &str, form: Multicluster) -> Result<String, CorefileError> {
    read(text)?.block(form)
}

fn served(form: Multicluster, keys: &str) -> ZoneState {
    ZoneState::Served(form, keys.to_owned())
}

/// Returns the lines with their braces, indented by depth.
fn written(entries: &[Entry]) -> String {
    entries.iter().map(|entry| entry.written("")).collect()
}

#[test]
fn corefile_is_parsed_as_coredns_parses_it() {
    let text = "\u{feff}# all of it
example.org:1053, tls://Other.Example. { # two zones
  import custom/*.override
\tlog \"a b\"\r
  whoami   # nothing
  forward . 10.0.0.1 {

    max_fails 2
    deep {
      er
    }
    policy random
  }
}
import ./custom/*.server
";
    let imported = directories(&[
        ("a.override", "errors {\n  consolidate 5m .*\n}"),
        ("b.override", "cache 30"),
        ("c.server", ".:54 {\n}\n"),
        ("d", "}"),
    ]);
    let corefile = Corefile::read(text, PATH, &imported).expect("a Corefile");
    let expected = "example.org:1053, tls://Other.Example. {
    errors {
        consolidate 5m .*
    }
    cache 30
    log \"a b\"
    whoami
    forward . 10.0.0.1 {
        max_fails 2
        deep {
            er
        }
        policy random
    }
}
.:54
";
    assert_eq!(written(&corefile.blocks), expected);
    let imports = [("override", false), ("server", true)];
    let imports = imports.map(|(name, of)| (format!("/etc/coredns/custom/*.{name}"), of));
    assert_eq!(corefile.imports, imports);
    for (key, zone, port) in [
        ("Other.Example.:853,", "other.example", Some(853)),
        (".:53", "", Some(53)),
        ("dns://a", "a", None),
        ("a:b", "a:b", None),
    ] {
        assert_eq!(zone_and_port(key), Some((zone.to_owned(), port)), "{key}");
    }
    assert_eq!(zone_and_port("tls://a"), None);
}

#[test]
fn unfollowed_lines_and_imports_are_errors() {
    for text in [".:53 {\n    errors\n", ".:53 {\n    cache {\n}\n"] {
        assert_eq!(read(text).err(), Some(CorefileError::Open), "{text}");
    }
    for line in [
        "}",
        "errors",
        ".:53",
        "{",
        "(logs) {",
        "{$DOMAIN}:53 {",
        ".:53 { errors",
        ".:53 { errors }",
        ".:53 { }",
    ] {
        let expected = CorefileError::Line(line.to_owned());
        assert_eq!(read(&format!("{line}\n")).err(), Some(expected), "{line}");
    }
    for line in [
        "errors }",
        "log \"a",
        "log a#b",
        "log \"{\" a",
        "{",
        "log { class error",
    ] {
        let expected = CorefileError::Line(line.to_owned());
        let text = format!(".:53 {{\n    {line}\n}}\n");
        assert_eq!(read(&text).err(), Some(expected), "{line}");
    }
    for pattern in [
        "/elsewhere/*.server",
        "NodeHosts",
        "/etc/coredns/*",
        "custom/*.server*",
        "custom/[a-z]*",
        "custom/a?*",
        "custom/absent",
        "snippet",
        "{$IMPORT}",
    ] {
        for text in [
            format!("import {pattern}\n"),
            format!(".:53 {{\n    hosts {{\n        \"import\" {pattern}\n    }}\n}}\n"),
        ] {
            let expected = CorefileError::Import(pattern.to_owned());
            assert_eq!(read(&text).err(), Some(expected), "{text}");
        }
    }
    for line in ["import", "import a b", "import custom/*.server }"] {
        let expected = CorefileError::Import(line.to_owned());
        assert_eq!(read(line).err(), Some(expected), "{line}");
    }
    let nested = directories(&[("a.server", "import custom/*.override")]);
    let refused = Corefile::read(K3S, PATH, &nested).err();
    let nested = "import custom/*.override".to_owned();
    assert_eq!(refused, Some(CorefileError::Import(nested)));
}

#[test]
fn server_block_with_the_longest_zone_answers() {
    let option = "kubernetes clusterset.local {\n multicluster clusterset.local\n }";
    let both = KUBEADM.replace(
        "kubernetes cluster.local in-addr.arpa ip6.arpa {\n",
        "kubernetes cluster.local clusterset.local in-addr.arpa ip6.arpa {\n       multicluster clusterset.local\n",
    );
    let cases = [
        (KUBEADM.to_owned(), ZoneState::Nothing),
        (String::new(), ZoneState::Nothing),
        (both.clone(), served(Multicluster::Option, ".:53")),
        (
            both.replace("       multicluster clusterset.local\n", ""),
            ZoneState::WithoutOption(".:53".to_owned()),
        ),
        // CoreDNS rejects the option without the zone.
        (
            both.replace("cluster.local clusterset.local", "cluster.local"),
            ZoneState::Nothing,
        ),
        (
            format!("{KUBEADM}clusterset.local:53 {{\n {option}\n}}\n"),
            served(Multicluster::Option, "clusterset.local:53"),
        ),
        (
            "dns://ClusterSet.Local.:53 {\n kubernetes {\n  multicluster clusterset.local.\n }\n}\n".to_owned(),
            served(Multicluster::Option, "dns://ClusterSet.Local.:53"),
        ),
        (
            ".:53 {\n multicluster clusterset.local\n kubernetes cluster.local\n}\n".to_owned(),
            served(Multicluster::Plugin, ".:53"),
        ),
        (
            "clusterset.local {\n multicluster\n}\n".to_owned(),
            served(Multicluster::Plugin, "clusterset.local"),
        ),
        // Submariner's Lighthouse adds such a block.
        (
            format!("{both}clusterset.local:53 {{\n forward . 10.96.0.99\n}}\n"),
            ZoneState::Other("clusterset.local:53".to_owned()),
        ),
        (
            format!("{both}svc.clusterset.local:53 {{\n forward . 10.96.0.99\n}}\n"),
            ZoneState::Other("svc.clusterset.local:53".to_owned()),
        ),
        (
            format!("{both}notclusterset.local:53 {{\n forward . 10.96.0.99\n}}\n"),
            served(Multicluster::Option, ".:53"),
        ),
        (
            format!("{KUBEADM}local {{\n forward . 10.96.0.99\n}}\n"),
            ZoneState::Nothing,
        ),
        (
            format!("{KUBEADM}tls://clusterset.local {{\n forward . 10.96.0.99\n}}\n"),
            ZoneState::Nothing,
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(state(&text), expected, "{text}");
    }
    let imported = directories(&[(
        "clusterset.server",
        "clusterset.local:53 {\n multicluster clusterset.local\n}",
    )]);
    let corefile = Corefile::read(K3S, PATH, &imported).expect("a Corefile");
    assert_eq!(
        corefile.answer(),
        served(Multicluster::Plugin, "clusterset.local:53")
    );
    let overridden = directories(&[(
        "zone.override",
        "multicluster clusterset.local {\n noendpoints\n}",
    )]);
    let corefile = Corefile::read(K3S, PATH, &overridden).expect("a Corefile");
    assert_eq!(corefile.answer(), served(Multicluster::Plugin, ".:53"));
}

#[test]
fn block_of_the_zone_listens_and_logs_as_the_clusters_block() {
    let option = "clusterset.local:53 {
    errors
    prometheus :9153
    loadbalance
    kubernetes clusterset.local {
        multicluster clusterset.local
        ttl 30
    }
}
";
    assert_eq!(block(KUBEADM, Multicluster::Option).as_deref(), Ok(option));
    let plugin = "clusterset.local:53 {
    errors
    prometheus :9153
    loadbalance
    multicluster clusterset.local
}
";
    assert_eq!(block(KUBEADM, Multicluster::Plugin).as_deref(), Ok(plugin));
    for (form, block) in [
        (Multicluster::Option, option),
        (Multicluster::Plugin, plugin),
    ] {
        let whole = format!("{KUBEADM}{block}");
        assert_eq!(state(&whole), served(form, "clusterset.local:53"));
    }

    let elsewhere = "example.org {
    whoami
}
cluster.local:1053 in-addr.arpa:1053 tls://.:853 cluster.local {
    bind 127.0.0.1 # here
    errors {
        consolidate 5m \".*\"
    }
    log \"a b\"
    kubernetes {
        kubeconfig \"/a b\" member1
        ttl 1
        pods verified
    }
    cache 30
}";
    let expected = "clusterset.local clusterset.local:1053 {
    bind 127.0.0.1
    errors {
        consolidate 5m \".*\"
    }
    log \"a b\"
    kubernetes clusterset.local {
        multicluster clusterset.local
        kubeconfig \"/a b\" member1
        ttl 1
    }
}
";
    let added = block(elsewhere, Multicluster::Option);
    assert_eq!(added.as_deref(), Ok(expected));
    let added = block(elsewhere, Multicluster::Plugin).expect("a block");
    let of_plugin =
        "    multicluster clusterset.local {\n        kubeconfig \"/a b\" member1\n    }\n}\n";
    assert!(added.ends_with(of_plugin), "{added}");
    let ports = block(".:53 a b:53 {\n    kubernetes a\n}\n", Multicluster::Plugin);
    let expected = "clusterset.local:53 {\n    multicluster clusterset.local\n}\n";
    assert_eq!(ports.as_deref(), Ok(expected), "each port once");
}

#[test]
fn a_block_needs_a_kubernetes_plugin_that_answers_plain_dns() {
    for form in [Multicluster::Option, Multicluster::Plugin] {
        assert_eq!(
            block(".:53 {\n    whoami\n}\n", form),
            Err(CorefileError::NoKubernetes)
        );
        let refused = block("tls://. {\n    kubernetes cluster.local\n}\n", form);
        assert_eq!(refused, Err(CorefileError::NotPlain("tls://.".to_owned())));
    }
}
