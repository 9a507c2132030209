use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, SystemTime};

use causeway_certs::{Authority, Credentials, Leaf};
use causeway_tests::{SOON, eventually};

use crate::hub::{rotations, stage};

const HOUR: Duration = Duration::from_secs(3600);

fn leaf(authority: &Authority) -> Credentials {
    let leaf = Leaf {
        common_name: "causeway-webhook".to_owned(),
        addresses: vec![std::net::Ipv4Addr::LOCALHOST.into()],
        validity: HOUR,
        ..Leaf::default()
    };
    authority.issue(&leaf, SystemTime::now()).expect("a leaf")
}

/// Mounts a Secret of cert-manager as the kubelet does: a directory behind a link, swapped by a
/// rename.
fn mount(directory: &Path, name: &str, authority: &Authority, leaf: &Credentials) {
    let data = directory.join(name);
    std::fs::create_dir_all(&data).expect("a directory");
    let files = [
        ("ca.crt", authority.pem()),
        ("tls.crt", leaf.certificate.as_str()),
        ("tls.key", leaf.key.as_str()),
    ];
    for (file, text) in files {
        std::fs::write(data.join(file), text).expect("a file");
        let link = directory.join(file);
        if !link.is_symlink() {
            symlink(Path::new("..data").join(file), link).expect("a link");
        }
    }
    symlink(name, directory.join("..data_tmp")).expect("a link");
    std::fs::rename(directory.join("..data_tmp"), directory.join("..data")).expect("a swap");
}

#[tokio::test]
async fn mounted_certificates_of_cert_manager_are_served() {
    let (stage, _turn) = stage().await;
    let directory = stage.fleet.directory().join("mounted");
    std::fs::create_dir_all(&directory).expect("a directory");
    let mut authority = Authority::new("cert-manager", 9 * HOUR, SystemTime::now()).unwrap();
    mount(&directory, "..first", &authority, &leaf(&authority));
    let webhook = stage
        .installation
        .webhook_without_certificate(std::net::Ipv4Addr::LOCALHOST.into(), &directory)
        .arg(format!("--tls-dir={}", directory.display()))
        .start()
        .await;
    for (turn, new_authority) in [("..second", false), ("..third", true), ("..fourth", false)] {
        if new_authority {
            authority = Authority::new("cert-manager", 9 * HOUR, SystemTime::now()).unwrap();
        }
        let before = rotations(&webhook).await;
        let bundle = causeway_certs::Bundle::read(authority.pem().as_bytes());
        mount(&directory, turn, &authority, &leaf(&authority));
        eventually("the renewed certificate is taken up", SOON, || async {
            rotations(&webhook).await > before
        })
        .await;
        stage.call(&webhook, &bundle).await.unwrap();
    }
    // The old directory goes after the swap.
    std::fs::remove_dir_all(directory.join("..first")).expect("it is removed");
}

#[tokio::test]
async fn a_configuration_that_cert_manager_keeps_is_left_alone() {
    let (stage, _turn) = stage().await;
    let webhook = stage.launch().start().await;
    stage.register(&webhook).await;
    stage.settled(2).await;
    let kind = "validatingwebhookconfiguration";
    let injected = "cert-manager.io/inject-ca-from=causeway-system/causeway-webhook";
    let annotate = ["annotate", kind, "causeway", injected];
    stage.hub().kubectl(annotate).await.ok();
    stage.overwrite(kind, serde_json::json!("")).await;
    eventually("it is said", SOON, || async {
        webhook
            .process()
            .log_tail(50)
            .contains("has cert-manager's annotation")
    })
    .await;
    // The other one is kept, and that it was is seen after this one was looked at.
    stage
        .overwrite("mutatingwebhookconfiguration", serde_json::json!(""))
        .await;
    eventually("the other is put right", SOON, || async {
        let bundles = stage.bundles().await;
        !bundles[0].authorities.is_empty()
    })
    .await;
    assert!(stage.bundles().await[1].authorities.is_empty());
    let remove = [
        "annotate",
        kind,
        "causeway",
        "cert-manager.io/inject-ca-from-",
    ];
    stage.hub().kubectl(remove).await.ok();
    stage.settled(2).await;
}
