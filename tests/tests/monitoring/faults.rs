//! Faults, each for one alert.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use causeway::api::{MultiClusterService, labels};
use causeway_certs::{Leaf, Purpose};
use causeway_tests::causeway::{MEMBERS_NAMESPACE, NAMESPACE};
use causeway_tests::fixtures::RunningPod;
use causeway_tests::{Fault, SOON, eventually, multi_cluster_service};
use kube::Api;
use kube::api::PostParams;
use tokio::task::AbortHandle;
use tokio::time::sleep;

use crate::slow_link::{LABEL, LARGE, SlowLink};
use crate::watched::{MOVING, Watched};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Less than a probe's deadline. Two changes in a row take twice as long, and more than the five
/// seconds of the rule.
const LATE: Duration = Duration::from_secs(3);
/// So often is the Lease taken over at most: a busy machine takes longer for a few than the rule
/// looks back.
const TERMS: usize = 12;

/// Something that goes on until it is dropped.
pub(crate) struct Activity(AbortHandle);

impl Drop for Activity {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Activity {
    fn start(activity: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(activity).abort_handle())
    }
}

impl Watched {
    /// Writes into a consumer take long, and endpoints change twice while one is under way.
    pub(crate) fn slow_member(&self, services: Vec<Vec<RunningPod>>) -> Vec<Activity> {
        self.set("member4", Fault::Late(LATE));
        let pace = LATE * 3;
        let offset = pace / u32::try_from(MOVING.len()).unwrap_or(1);
        let changes = services.into_iter().zip(0..).map(|(pods, number)| {
            Activity::start(async move {
                sleep(offset * number).await;
                for turn in 0.. {
                    for pod in &pods {
                        pod.set_ready(turn % 2 == 1).await;
                        sleep(LATE / 2).await;
                    }
                    sleep(pace - LATE).await;
                }
            })
        });
        changes.collect()
    }

    /// The certificate is one that should have been renewed days ago; it is in the Secret, and
    /// mounted.
    pub(crate) async fn old_certificate(&self) {
        let leaf = Leaf {
            common_name: "causeway-webhook".to_owned(),
            names: vec!["localhost".to_owned()],
            addresses: vec![[127, 0, 0, 1].into()],
            validity: 10 * DAY,
            ..Leaf::default()
        };
        let issued = SystemTime::now() - 9 * DAY;
        let authority = self.installation.authority();
        let credentials = authority.issue(&leaf, issued).expect("a certificate");
        let tls = self.webhook().tls();
        self.installation.write_certificate(tls, &credentials);
        let (certificate, key) = (tls.join("tls.crt"), tls.join("tls.key"));
        // The one of the manifests is empty and of another type.
        let delete = ["delete", "secret", "causeway-webhook-tls", "-n", NAMESPACE];
        self.hub().kubectl(delete).await.ok();
        let create = [
            "create",
            "secret",
            "tls",
            "causeway-webhook-tls",
            "-n",
            NAMESPACE,
        ];
        let files = [
            format!("--cert={}", certificate.display()),
            format!("--key={}", key.display()),
        ];
        let args = create.map(str::to_owned).into_iter().chain(files);
        self.hub().kubectl(args).await.ok();
    }

    /// Starts causeway-tunnel with a certificate that expires in ten days; it is in the Secret too.
    pub(crate) async fn old_certificate_of_the_tunnel(&mut self) {
        let tls = self.certificate_of_ten_days("tunnel", Purpose::Server);
        self.store("causeway-tunnel", &tls).await;
        self.tunnel(&tls);
    }

    /// Gives the controller a certificate for agents that expires in ten days; it is in the Secret
    /// too.
    pub(crate) async fn old_certificate_for_agents(&self) {
        let tls = self.certificate_of_ten_days("controller", Purpose::Client);
        self.store("causeway-controller-tunnel", &tls).await;
    }

    async fn store(&self, secret: &str, tls: &Path) {
        let create = ["create", "secret", "generic", secret, "-n", NAMESPACE];
        let files = ["tls.crt", "tls.key", "ca.crt"].map(|file| tls.join(file));
        let files = files.map(|file| format!("--from-file={}", file.display()));
        let args = create.map(str::to_owned).into_iter().chain(files);
        self.hub().kubectl(args).await.ok();
    }

    /// Starts causeway-agent with a certificate that expires in ten days.
    pub(crate) fn old_certificate_of_an_agent(&mut self) {
        let tls = self.certificate_of_ten_days("member/edge", Purpose::Client);
        self.agent(&tls);
    }

    /// Issues a certificate of one side of the tunnel: the directory with its files.
    fn certificate_of_ten_days(&self, role: &str, purpose: Purpose) -> PathBuf {
        let leaf = Leaf {
            common_name: "causeway".to_owned(),
            addresses: vec![[127, 0, 0, 1].into()],
            uris: vec![format!("causeway://hub/{role}")],
            purpose,
            validity: 10 * DAY,
            ..Leaf::default()
        };
        let authority = self.installation.authority();
        let issued = authority.issue(&leaf, SystemTime::now());
        let issued = issued.expect("a certificate");
        let tls = self.directory().join(role);
        std::fs::create_dir_all(&tls).expect("a directory");
        for (name, content) in [
            ("tls.crt", issued.certificate.as_str()),
            ("tls.key", &issued.key),
            ("ca.crt", authority.pem()),
        ] {
            std::fs::write(tls.join(name), content).expect("a file");
        }
        tls
    }

    /// Replaces the mounted certificate by an invalid file.
    pub(crate) fn broken_certificate(&self) {
        std::fs::write(self.webhook().tls().join("tls.crt"), "").expect("a file");
    }

    /// The webhook's requests to the hub fail, and it has to make one: for a MultiClusterService
    /// without a Service.
    pub(crate) fn failing_hub(&self) -> Activity {
        self.set("hub", Fault::Answers(500));
        let object = multi_cluster_service("without-service").object();
        // As a trial it would be warned of, with a Service or without.
        self.applies(object, PostParams::default())
    }

    /// Slows down the API server's requests to the webhook.
    pub(crate) async fn slow_network(&self) -> (SlowLink, Activity) {
        let link = SlowLink::to(self.webhook()).await;
        link.register(self.hub(), &self.installation).await;
        let object = multi_cluster_service(MOVING[0]).annotation("padding", &"x".repeat(LARGE));
        let mut object = object.object();
        let labels = object.metadata.labels.get_or_insert_default();
        labels.insert(LABEL.to_owned(), "true".to_owned());
        let trial = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        (link, self.applies(object, trial))
    }

    /// Somebody creates this again and again.
    fn applies(&self, object: MultiClusterService, how: PostParams) -> Activity {
        let all: Api<MultiClusterService> = self.space().api(self.hub());
        Activity::start(async move {
            loop {
                // What comes of it, the alerts say.
                all.create(&how, &object).await.ok();
                sleep(Duration::from_millis(500)).await;
            }
        })
    }

    /// A MultiClusterService loses its Service.
    pub(crate) async fn lost_service(&self) {
        let space = self.space();
        let delete = ["delete", "service", "lost", "-n", space.name()];
        self.hub().kubectl(delete).await.ok();
    }

    /// Moves member2, which provides a service, to another network.
    pub(crate) async fn another_network(&self) {
        let space = self.space();
        space.expose("apart", ["member2"], ["member4"]).await;
        space.pod("apart", "member2").await;
        let network = format!("{}=edge", labels::NETWORK);
        let annotate = ["annotate", "cluster", "member2", &network];
        self.hub().kubectl(annotate).await.ok();
    }

    /// A Cluster without credentials.
    pub(crate) async fn refused_member(&self) {
        let cluster = "apiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {name: ghost}\n\
             spec: {syncMode: Push, apiEndpoint: \"https://127.0.0.1:1\", secretRef: {namespace: causeway-members, name: ghost}}\n";
        self.hub().apply(cluster).await.ok();
    }

    /// Stops reading the leader's log, and causes log lines.
    pub(crate) async fn blocked_log(&self) {
        self.log.block();
        let space = self.space();
        space.expose("stuck", ["member3"], ["member4"]).await;
    }

    /// Removes the controller's right to watch the members' Secrets. Only a new watch is refused.
    pub(crate) async fn lost_right(&self) {
        let delete = ["delete", "rolebinding", "causeway-controller"];
        let args = delete.into_iter().chain(["-n", MEMBERS_NAMESPACE]);
        self.hub().kubectl(args).await.ok();
    }

    /// Grants that right again.
    pub(crate) async fn restored_right(&self) {
        let create = ["create", "rolebinding", "causeway-controller"];
        let account = "--serviceaccount=causeway-system:causeway-controller";
        let of = ["--role=causeway-controller", account];
        let args = create.into_iter().chain(of);
        let args = args.chain(["-n", MEMBERS_NAMESPACE]);
        self.hub().kubectl(args).await.ok();
    }

    /// The controller ends and begins again and again, each time as soon as Prometheus has seen
    /// that it leads, until the alert fires.
    pub(crate) async fn restarting_controller(&self, alert: &str) {
        let terms = async || {
            let query = "max(causeway_controller_lease_transitions)";
            self.prometheus.number(query).await
        };
        for _ in 0..TERMS {
            let before = terms().await;
            let process = self.controller.process();
            process.end().await;
            process.restart().await;
            eventually("another term is seen", SOON * 2, async || {
                let now = terms().await;
                let is_another = now.is_some() && now > before;
                is_another.then_some(()).ok_or(format!("{now:?}"))
            })
            .await;
            let active = self.prometheus.alerts().await;
            if active.iter().any(|one| one.name() == alert) {
                return;
            }
        }
    }
}
