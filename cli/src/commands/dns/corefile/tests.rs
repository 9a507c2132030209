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

fn files(all: &[(&str, &str)]) -> Files {
    let directories = ["/etc/coredns/", "/etc/coredns/custom/"].map(|path| (path, ""));
    let all = directories.iter().chain(all);
    all.map(|(path, text)| ((*path).to_owned(), (*text).to_owned()))
        .collect()
}

fn read(text: &str) -> Result<Corefile, CorefileError> {
    Corefile::read(text, PATH, &files(&[]))
}

#[track_caller]
fn state(text: &str) -> ZoneState {
    read(text)
        .unwrap_or_else(|error| panic!("{error}\n{text}"))
        .answer()
}

fn completed(text: &str, form: Multicluster) -> Result<Option<String>, CorefileError> {
    read(text)?.completed(text, PATH, &files(&[]), form)
}

fn served(form: Multicluster, keys: &str) -> ZoneState {
    ZoneState::Served(form, keys.to_owned())
}

#[test]
fn a_corefile_is_read_as_coredns_reads_it() {
    let text = "\u{feff}# all of it
(logs) { # a snippet
    log \"a b\"
    errors
}
example.org:1053,
tls://Other.Example. {
    import logs
    whoami   # nothing
    forward .
    {
        to \"say \\\"hello\\\" \\n\"
        max_fails {
            deep er
        }
        policy random
    }
    text \"of two
lines\" behind
    root#is a comment
}
";
    let corefile = read(text).expect("a Corefile");
    let [block] = corefile.blocks.as_slice() else {
        panic!("{corefile:#?}");
    };
    assert_eq!(block.keys, ["example.org:1053", "tls://Other.Example."]);
    let plugins: Vec<_> = block
        .plugins
        .iter()
        .map(|one| {
            (
                &*one.name,
                one.args.join("|"),
                one.options
                    .iter()
                    .map(|line| line.join("|"))
                    .collect::<Vec<_>>(),
            )
        })
        .collect();
    let none = Vec::<String>::new;
    assert_eq!(
        plugins,
        [
            ("log", "a b".to_owned(), none()),
            ("errors", String::new(), none()),
            ("whoami", String::new(), none()),
            (
                "forward",
                ".".to_owned(),
                ["to|say \"hello\" \\n", "max_fails", "policy|random"]
                    .map(str::to_owned)
                    .to_vec()
            ),
            ("text", "of two\nlines|behind".to_owned(), none()),
            // CoreDNS reads `#` inside a word as a comment that ends at the next space.
            ("root", "a|comment".to_owned(), none()),
        ]
    );
    let key = Key::read("tls://Other.Example.:853");
    assert_eq!(
        (key.scheme.as_deref(), &*key.zone, &*key.port),
        (Some("tls"), "other.example", ":853")
    );
    assert_eq!(Key::read(".:53").zone, "");
}

#[test]
fn what_coredns_does_not_start_with_or_what_cannot_be_followed_is_an_error() {
    for (text, expected) in [
        (".:53 {\n    errors\n", CorefileError::Open(1)),
        (".:53 {\n    cache {\n}\n", CorefileError::Open(1)),
        (".:53 {\n    errors }\n", CorefileError::Close(2)),
        (".:53 {\n    log \"a\n}\n", CorefileError::Quote(2)),
        (".:53\nerrors\n", CorefileError::Braces(1)),
        ("}\n", CorefileError::Braces(1)),
        (".:53 {\n    import\n}\n", CorefileError::Import(2)),
        (".:53 {\n    import a b\n}\n", CorefileError::Import(2)),
        (
            "import /elsewhere/*.server\n",
            CorefileError::Unknown("/elsewhere/*.server".to_owned()),
        ),
        (
            "import NodeHosts\n",
            CorefileError::Unknown("NodeHosts".to_owned()),
        ),
        (
            "{$DOMAIN}:53 {\n}\n",
            CorefileError::Variable(1, "{$DOMAIN}:53".to_owned()),
        ),
    ] {
        assert_eq!(
            read(text).map(|corefile| corefile.blocks.len()),
            Err(expected),
            "{text}"
        );
    }
    let endless = files(&[(
        "/etc/coredns/custom/a.server",
        "import /etc/coredns/custom/*.server",
    )]);
    let read = Corefile::read(K3S, PATH, &endless);
    assert_eq!(
        read.map(|corefile| corefile.blocks.len()),
        Err(CorefileError::Endless)
    );
}

#[test]
fn the_server_block_whose_zone_is_the_longest_answers_for_the_zone() {
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
            ZoneState::Other("clusterset.local:53".to_owned(), "forward".to_owned()),
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
    let imported = files(&[(
        "/etc/coredns/custom/clusterset.server",
        "clusterset.local:53 {\n multicluster clusterset.local\n}",
    )]);
    let corefile = Corefile::read(K3S, PATH, &imported).expect("a Corefile");
    assert_eq!(
        corefile.answer(),
        served(Multicluster::Plugin, "clusterset.local:53")
    );
    assert_eq!(corefile.imports, ["/etc/coredns/custom/*.server"]);
    let overridden = files(&[(
        "/etc/coredns/custom/zone.override",
        "multicluster clusterset.local {\n noendpoints\n}",
    )]);
    let corefile = Corefile::read(K3S, PATH, &overridden).expect("a Corefile");
    assert_eq!(corefile.answer(), served(Multicluster::Plugin, ".:53"));
}

#[test]
fn the_zone_gets_a_server_block_that_listens_and_logs_as_the_clusters() {
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
    let added = completed(KUBEADM, Multicluster::Option).expect("a Corefile");
    assert_eq!(added, Some(format!("{KUBEADM}{option}")));
    let plugin = "clusterset.local:53 {
    errors
    prometheus :9153
    loadbalance
    multicluster clusterset.local
}
";
    let added = completed(KUBEADM, Multicluster::Plugin).expect("a Corefile");
    assert_eq!(added, Some(format!("{KUBEADM}{plugin}")));

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
}";
    let added = completed(elsewhere, Multicluster::Option).expect("a Corefile");
    let expected = "clusterset.local:1053 clusterset.local {
    bind 127.0.0.1
    errors {
        consolidate 5m .*
    }
    log \"a b\"
    kubernetes clusterset.local {
        multicluster clusterset.local
        kubeconfig \"/a b\" member1
        ttl 1
    }
}
";
    assert_eq!(added, Some(format!("{elsewhere}\n{expected}")));
    let added = completed(elsewhere, Multicluster::Plugin).expect("a Corefile");
    let of_plugin =
        "    multicluster clusterset.local {\n        kubeconfig \"/a b\" member1\n    }\n}\n";
    assert!(added.is_some_and(|text| text.ends_with(of_plugin)));
}

#[test]
fn options_of_shared_plugins_are_repeated_or_nothing_is_written() {
    let with = |plugin: &str| KUBEADM.replace("    prometheus :9153\n", plugin);
    let log = "    log . \"{combined} {/metadata/a}\" {\n        class denial error\n    }\n";
    let added = completed(&with(log), Multicluster::Option).expect("a Corefile");
    let added = added.expect("a change");
    let (_, block) = added.split_once("clusterset.local:53 {").expect("a block");
    assert!(block.contains(log), "{block}");
    for plugin in [
        "    errors {\n        deep {\n            er\n        }\n    }\n",
        "    log \"a b\\\\\"\n",
    ] {
        let refused = completed(&with(plugin), Multicluster::Option);
        let is_refused = matches!(refused, Err(CorefileError::Unrepeatable(_)));
        assert!(is_refused || plugin.contains("log"), "{plugin}{refused:?}");
    }
}

#[test]
fn relative_imports_start_at_the_directory_of_the_corefile() {
    for import in [
        "custom/*.server",
        "./custom/*.server",
        "/etc/coredns/custom/*.server",
    ] {
        let text = K3S.replace(
            "import /etc/coredns/custom/*.server",
            &format!("import {import}"),
        );
        let corefile = read(&text).expect("a Corefile");
        assert_eq!(
            corefile.imports,
            ["/etc/coredns/custom/*.server"],
            "{import}"
        );
    }
}

#[test]
fn a_corefile_that_lacks_the_option_alone_gets_its_line_and_keeps_the_rest() {
    let line = "       multicluster clusterset.local\n";
    let zone = "kubernetes cluster.local clusterset.local {\n";
    let begins = ".:53 {\r\n    errors # all\r\n    ";
    for (before, after) in [
        (
            format!("{begins}{zone}       # pods\n       pods insecure\n    }}\n}}"),
            format!("{begins}{zone}       # pods\n{line}       pods insecure\n    }}\n}}"),
        ),
        (
            format!("{begins}kubernetes cluster.local clusterset.local # the zones\r\n}}\r\n"),
            format!(
                "{begins}kubernetes cluster.local clusterset.local {{\n        multicluster clusterset.local\n    }} # the zones\r\n}}\r\n"
            ),
        ),
    ] {
        let found = completed(&before, Multicluster::Option).expect("a Corefile");
        assert_eq!(found.as_deref(), Some(&*after));
        assert_eq!(
            completed(&after, Multicluster::Option),
            Ok(None),
            "it is there now"
        );
        let refused = completed(&before, Multicluster::Plugin);
        assert!(
            matches!(refused, Err(CorefileError::Incomplete { .. })),
            "{refused:?}"
        );
    }
    for text in [
        ".:53 {\n    kubernetes clusterset.local { pods insecure\n    }\n}\n",
        ".:53 {\n    kubernetes clusterset.local {\n    }\n}\n",
        "(k) {\n    kubernetes clusterset.local\n}\n.:53 {\n    import k\n}\n",
    ] {
        let refused = completed(text, Multicluster::Option);
        assert!(
            matches!(refused, Err(CorefileError::Incomplete { .. })),
            "{text}{refused:?}"
        );
    }
}

#[test]
fn what_is_there_already_is_not_written_and_what_another_serves_is_left() {
    for form in [Multicluster::Option, Multicluster::Plugin] {
        let once = completed(KUBEADM, form)
            .expect("a Corefile")
            .expect("a change");
        for form in [Multicluster::Option, Multicluster::Plugin] {
            assert_eq!(completed(&once, form), Ok(None));
        }
        let taken = format!("{KUBEADM}clusterset.local {{\n    forward . 10.0.0.1\n}}\n");
        let error = completed(&taken, form).expect_err("refused").to_string();
        assert!(
            error.contains("clusterset.local without multicluster: it has forward"),
            "{error}"
        );
        assert_eq!(
            completed(".:53 {\n    whoami\n}\n", form),
            Err(CorefileError::NoKubernetes)
        );
        let refused = completed("tls://. {\n    kubernetes cluster.local\n}\n", form);
        assert_eq!(refused, Err(CorefileError::NotPlain("tls://.".to_owned())));
    }
}
