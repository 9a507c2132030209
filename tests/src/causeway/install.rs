//! Steps of a user who installs causeway on a hub and joins members.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use causeway::api::{ClusterSpec, SecretReference, SyncMode};
use causeway_certs::{Authority, Credentials, Leaf};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{ObjectMeta, PostParams};

use crate::binaries;
use crate::causeway::running::{Launch, Running};
use crate::fleet::Logs;
use crate::kubectl::{Command, Output};
use crate::reaper::{Program, Reaper};
use crate::{Cluster, Fleet, LONG, Release, ports};

pub use causeway::domain::protected::{DEFAULT_NAMESPACE as NAMESPACE, MEMBERS_NAMESPACE};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The definitions and rights of causeway on a hub. Nothing runs yet.
#[derive(Clone)]
pub struct Installation {
    release: Release,
    reaper: Arc<Reaper>,
    directory: PathBuf,
    hub_kubeconfig: PathBuf,
    authority: Arc<Authority>,
    logs: Logs,
}

impl Installation {
    /// Applies the project's own manifests to the hub: definitions, namespace, accounts and roles.
    pub async fn new(fleet: &Fleet) -> Self {
        let hub = fleet.hub();
        let crds = manifest("crds/hub");
        hub.kubectl(["apply", "-f", &crds]).await.ok();
        let established = ["wait", "--for=condition=Established", "--timeout=60s", "-f"];
        hub.kubectl(established.into_iter().chain([crds.as_str()]))
            .await
            .ok();
        hub.kubectl(["apply", "-f", &manifest("hub/rbac.yaml")])
            .await
            .ok();
        Self::applied(fleet).await
    }

    /// Uses manifests that are applied already: reads the tokens of their accounts.
    pub async fn applied(fleet: &Fleet) -> Self {
        let hub = fleet.hub();
        for account in ["causeway-webhook", "causeway-controller"] {
            hub.kubeconfig_as(NAMESPACE, account).await;
        }
        let directory = fleet.directory().join("causeway");
        std::fs::create_dir_all(&directory).expect("a directory for causeway");
        let authority = Authority::new("causeway test CA", 30 * DAY, SystemTime::now())
            .expect("a certificate authority");
        std::fs::write(directory.join("ca.crt"), authority.pem()).expect("the authority's file");
        Self {
            release: Release::This,
            authority: Arc::new(authority),
            reaper: Arc::clone(fleet.reaper()),
            directory,
            hub_kubeconfig: hub.kubeconfig(),
            logs: fleet.more_logs(),
        }
    }

    /// The same with the programs and manifests of another version, for whatever is started or
    /// applied by it.
    #[must_use]
    pub fn of(&self, release: Release) -> Self {
        Self {
            release,
            ..self.clone()
        }
    }

    /// A webhook to be started, with the rights of its ServiceAccount and a certificate of
    /// [`Installation::authority`].
    pub fn webhook(&self) -> Launch {
        self.webhook_at(Ipv4Addr::LOCALHOST.into())
    }

    /// [`Installation::webhook`], serving at this address of the machine.
    pub fn webhook_at(&self, address: IpAddr) -> Launch {
        let tls = self.fresh_certificate();
        self.webhook_without_certificate(address, &tls)
            .arg(format!("--tls-dir={}", tls.display()))
    }

    /// A webhook to be started at this address; where its certificate comes from is still to be
    /// said. `tls` is what [`Running::tls`] will say.
    pub fn webhook_without_certificate(&self, address: IpAddr, tls: &Path) -> Launch {
        serving(self.launch("causeway-webhook"), address, tls)
    }

    /// [`Installation::webhook`], which reaches the hub at another URL than its API server's.
    pub fn webhook_through(&self, hub: &Cluster, url: &str) -> Launch {
        let account = "causeway-webhook";
        let tls = self.fresh_certificate();
        let launch = self.launch_with(account, &self.kubeconfig_through(account, hub, url));
        serving(launch, Ipv4Addr::LOCALHOST.into(), &tls)
            .arg(format!("--tls-dir={}", tls.display()))
    }

    /// A controller to be started, with the rights of its ServiceAccount.
    pub fn controller(&self) -> Launch {
        self.launch("causeway-controller")
    }

    /// [`Installation::controller`], which reaches the hub at another URL than its API server's.
    pub fn controller_through(&self, hub: &Cluster, url: &str) -> Launch {
        let account = "causeway-controller";
        self.launch_with(account, &self.kubeconfig_through(account, hub, url))
    }

    /// Has the hub's API server ask this webhook: applies the manifest for hubs without nodes.
    /// Until the webhook is seen to be asked.
    pub async fn register(&self, webhook: &Running) {
        let file = self.release.manifest("hub/options/webhook-by-url.yaml");
        let configuration = std::fs::read_to_string(&file)
            .unwrap_or_else(|e| panic!("cannot read {file}: {e}"))
            .replace("WEBHOOK_URL", &format!("https://{}", webhook.bind()))
            .replace("CA_BUNDLE", &STANDARD.encode(self.authority.pem()));
        self.kubectl()
            .args(["apply", "-f", "-"])
            .input(configuration)
            .run()
            .await
            .ok();
        self.asked(webhook).await;
    }

    /// Waits until the API server asks the webhook: it learns of a configuration a moment after it
    /// is stored.
    pub async fn asked(&self, webhook: &Running) {
        let probe = "apiVersion: networking.karmada.io/v1alpha1
kind: MultiClusterService
metadata: {generateName: probe-, namespace: default}
spec: {types: [CrossCluster]}
";
        crate::eventually("the API server asks the webhook", crate::SOON, || async {
            let before = requests(webhook).await;
            let create = ["create", "-f", "-", "--dry-run=server"];
            let output = self.kubectl().args(create).input(probe).run().await;
            if requests(webhook).await > before {
                Ok(())
            } else {
                Err(format!("{}{}", output.stdout, output.stderr))
            }
        })
        .await;
    }

    /// Returns the path of a manifest of the installed release.
    pub fn manifest(&self, path: &str) -> String {
        self.release.manifest(path)
    }

    /// `kubectl mcs join`, as a person would: with the member's administrator's kubeconfig.
    pub async fn join(&self, member: &Cluster) {
        self.join_with(member, &[]).await;
    }

    /// [`Installation::join`], for a controller that reaches the member at another address.
    pub async fn join_at(&self, member: &Cluster, url: &str) {
        self.join_with(member, &["--api-endpoint", url]).await;
    }

    /// [`Installation::join`] with these flags.
    pub(crate) async fn join_with(&self, member: &Cluster, flags: &[&str]) {
        let kubeconfig = member.kubeconfig().display().to_string();
        // While the API servers of other fleets start, a member is not synced within a minute.
        let timeout = format!("--timeout={}s", LONG.as_secs());
        let join = ["join", member.name(), &timeout];
        let join = join.into_iter().chain(["--member-kubeconfig", &kubeconfig]);
        let join = join.chain(flags.iter().copied());
        self.kubectl_mcs(join).await.ok();
    }

    /// Joins a member without `kubectl mcs`: makes its Secret and its Cluster, changed by `change`.
    pub async fn join_by_hand(
        &self,
        hub: &Cluster,
        member: &Cluster,
        change: impl FnOnce(&mut ClusterSpec, &mut Secret),
    ) {
        member
            .kubectl(["apply", "-f", &self.release.manifest("member/rbac.yaml")])
            .await
            .ok();
        let data = [
            ("token", member.token(NAMESPACE, "causeway").await),
            ("caBundle", member.ca_pem().to_owned()),
        ];
        let mut secret = Secret {
            metadata: ObjectMeta {
                name: Some(member.name().to_owned()),
                ..ObjectMeta::default()
            },
            data: Some(
                data.map(|(key, value)| (key.to_owned(), ByteString(value.into_bytes())))
                    .into(),
            ),
            ..Secret::default()
        };
        let mut spec = ClusterSpec {
            sync_mode: Some(SyncMode::Push),
            api_endpoint: Some(member.url().to_owned()),
            secret_ref: Some(SecretReference {
                namespace: MEMBERS_NAMESPACE.to_owned(),
                name: member.name().to_owned(),
            }),
            ..ClusterSpec::default()
        };
        change(&mut spec, &mut secret);
        let made = Api::<Secret>::namespaced(hub.client(), MEMBERS_NAMESPACE)
            .create(&PostParams::default(), &secret)
            .await;
        made.unwrap_or_else(|e| panic!("cannot make the Secret of {}: {e}", member.name()));
        let cluster = causeway::api::Cluster::new(member.name(), spec);
        let made = Api::<causeway::api::Cluster>::all(hub.client())
            .create(&PostParams::default(), &cluster)
            .await;
        made.unwrap_or_else(|e| panic!("cannot make the Cluster {}: {e}", member.name()));
    }

    /// Runs `kubectl-mcs` against the hub, with all rights.
    pub async fn kubectl_mcs<A: Into<String>>(&self, args: impl IntoIterator<Item = A>) -> Output {
        self.command(self.release.program("kubectl-mcs"))
            .args(args)
            .run()
            .await
    }

    /// [`Installation::kubectl_mcs`] in a network namespace.
    pub async fn kubectl_mcs_in<'a>(
        &self,
        namespace: &str,
        args: impl IntoIterator<Item = &'a str>,
    ) -> Output {
        let command = self.command(self.release.program("kubectl-mcs"));
        command.args(args).in_network(namespace).run().await
    }

    /// The file with the certificate of [`Installation::authority`].
    pub fn ca_file(&self) -> PathBuf {
        self.directory.join("ca.crt")
    }

    /// The authority of the webhooks' certificates.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// A new certificate for webhooks on the loopback.
    pub fn certificate(&self, validity: Duration) -> Credentials {
        let leaf = Leaf {
            common_name: "causeway-webhook".to_owned(),
            organisation: None,
            names: vec![
                "localhost".to_owned(),
                format!("causeway-webhook.{NAMESPACE}.svc"),
            ],
            addresses: vec![Ipv4Addr::LOCALHOST.into()],
            validity,
            ..Leaf::default()
        };
        self.authority
            .issue(&leaf, SystemTime::now())
            .expect("a certificate")
    }

    /// Writes `tls.crt` and `tls.key` into a directory, made if need be. The key is written first,
    /// so that a reader of the certificate finds its key.
    pub fn write_certificate(&self, directory: &Path, credentials: &Credentials) {
        std::fs::create_dir_all(directory).expect("a directory for a certificate");
        for (file, content) in [
            ("tls.key", &credentials.key),
            ("tls.crt", &credentials.certificate),
        ] {
            std::fs::write(directory.join(file), content).expect("a certificate");
        }
    }

    fn kubeconfig(&self, program: &str) -> PathBuf {
        self.hub_kubeconfig
            .with_file_name(format!("{program}.kubeconfig"))
    }

    fn kubeconfig_through(&self, account: &str, hub: &Cluster, url: &str) -> PathBuf {
        let kubeconfig = self.kubeconfig(account);
        let text = std::fs::read_to_string(&kubeconfig).expect("a kubeconfig");
        let through = kubeconfig.with_extension(format!("{}.kubeconfig", ports::fresh()));
        std::fs::write(&through, text.replace(hub.url(), url)).expect("a kubeconfig");
        through
    }

    fn launch(&self, program: &str) -> Launch {
        self.launch_with(program, &self.kubeconfig(program))
    }

    fn launch_with(&self, program: &str, kubeconfig: &Path) -> Launch {
        let admin = ports::fresh();
        let log = self.directory.join(format!("{program}-{admin}.log"));
        self.logs.add(&log);
        let command = Program::new(self.release.program(program), log);
        Launch::new(Arc::clone(&self.reaper), command, admin)
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
    }

    fn fresh_certificate(&self) -> PathBuf {
        let tls = self.directory.join(format!("tls-{}", ports::fresh()));
        self.write_certificate(&tls, &self.certificate(DAY));
        tls
    }

    fn kubectl(&self) -> Command<'_> {
        self.command(binaries::Testbed::get().program("kubectl"))
    }

    fn command(&self, program: PathBuf) -> Command<'_> {
        Command::new(&self.reaper, &self.directory, program)
            .env("KUBECONFIG", self.hub_kubeconfig.display().to_string())
    }
}

fn serving(launch: Launch, address: IpAddr, tls: &Path) -> Launch {
    let bind = SocketAddr::new(address, ports::fresh()).to_string();
    launch.arg(format!("--bind={bind}")).serving(&bind, tls)
}

/// Returns the number of requests that the webhook answered.
async fn requests(webhook: &Running) -> f64 {
    let metrics = webhook.metrics().await;
    metrics
        .get("causeway_webhook_request_duration_seconds_count", &[])
        .unwrap_or_default()
}

/// The path of one of the project's manifests.
pub(crate) fn manifest(path: &str) -> String {
    Release::This.manifest(path)
}
