//! Many API servers in one process, light enough for a hundred clusters with a million objects.
//! They serve lists, watches and writes as Kubernetes does, and store slices as a few numbers.

pub(crate) mod journal;
mod seed;
mod server;
pub(crate) mod slices;
mod store;
#[cfg(test)]
mod tests;
mod writes;

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use causeway::api::{Cluster, condition};
use causeway_certs::{Authority, Leaf};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use self::journal::Journal;
use self::server::{Shared, respond};
use self::slices::{Encoding, SliceId, namespace};
use self::store::{Body, Entry, Place, Store, key, path};
use crate::serving;

/// Service with one provider.
#[derive(Clone, Debug)]
pub(crate) struct ServiceSpec {
    /// Member that provides it, counted from 0.
    pub(crate) provider: u16,
    slices: u16,
    /// Endpoints of each slice.
    endpoints: u16,
    /// Members that consume it, none of which is the provider.
    pub(crate) consumers: Arc<[u16]>,
}

impl ServiceSpec {
    /// Returns a service of one slice of ten endpoints.
    pub(crate) fn new(provider: u16, consumers: impl IntoIterator<Item = u16>) -> Self {
        Self {
            provider,
            slices: 1,
            endpoints: 10,
            consumers: consumers.into_iter().collect(),
        }
    }

    /// Returns one service for each member, consumed by the next `consumers` members.
    pub(crate) fn ring(members: usize, consumers: usize) -> Vec<Self> {
        let number = |member: usize| u16::try_from(member % members).unwrap_or_default();
        let spec = |member: usize| {
            let others = 1..=consumers.min(members - 1);
            Self::new(number(member), others.map(|step| number(member + step)))
        };
        (0..members).map(spec).collect()
    }

    pub(crate) fn slices(mut self, slices: u16, endpoints: u16) -> Self {
        (self.slices, self.endpoints) = (slices, endpoints);
        self
    }

    pub(crate) fn times(self, count: u32) -> Vec<Self> {
        vec![self; count as usize]
    }
}

/// Access to the members.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Access {
    Plain,
    Tls,
    /// With TLS, through causeway-tunnel.
    Tunnel,
    /// One member refuses connections.
    Dead(usize),
}

/// Hub and its members. They are served until it is dropped.
pub(crate) struct Simulation {
    pub(crate) services: Arc<[ServiceSpec]>,
    pub(crate) journal: Arc<Journal>,
    shared: Arc<Shared>,
    /// URL of all API servers, without TLS.
    pub(crate) url: String,
    /// Address of all API servers, with TLS.
    tls: String,
    _tasks: JoinSet<()>,
}

impl Simulation {
    /// Serves API servers that hold all that a controller would have left of the services.
    pub(crate) async fn serve(
        members: usize,
        services: Vec<ServiceSpec>,
        access: Access,
    ) -> anyhow::Result<Self> {
        let services = Arc::<[ServiceSpec]>::from(services);
        let stores = (0..).map(|number| Arc::new(Store::new(number, services.clone())));
        let shared = Arc::new(Shared {
            stores: stores.take(members + 1).collect(),
            journal: Arc::default(),
        });
        let mut tasks = JoinSet::new();
        let mut listen = async |tls: Option<TlsAcceptor>| {
            let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
            let address = listener.local_addr()?.to_string();
            let shared = shared.clone();
            tasks.spawn(serving::serve(listener, tls, move |request| {
                respond(shared.clone(), request)
            }));
            anyhow::Ok(address)
        };
        let url = format!("http://{}", listen(None).await?);
        let (mut tls, mut authority) = (String::new(), None);
        if matches!(access, Access::Tls | Access::Tunnel) {
            let (acceptor, certificate) = acceptor()?;
            tls = listen(Some(acceptor)).await?;
            authority = Some(certificate);
        }
        let simulation = Self {
            services,
            journal: shared.journal.clone(),
            shared,
            url,
            tls,
            _tasks: tasks,
        };
        seed::fill(&simulation, access, authority.as_deref());
        Ok(simulation)
    }

    pub(crate) fn members(&self) -> usize {
        self.shared.stores.len() - 1
    }

    fn hub(&self) -> &Store {
        &self.shared.stores[0]
    }

    fn member(&self, number: u16) -> &Store {
        &self.shared.stores[usize::from(number) + 1]
    }

    /// Has a member answer no request and send no event from now on.
    pub(crate) fn hang(&self, member: u16) {
        self.member(member).hang();
    }

    /// Returns a kubeconfig of the hub.
    pub(crate) fn kubeconfig(&self) -> String {
        let (url, hub) = (&self.url, "{cluster: hub, user: hub}");
        format!(
            "{{apiVersion: v1, kind: Config, current-context: hub, \
             clusters: [{{name: hub, cluster: {{server: \"{url}/0\"}}}}], \
             contexts: [{{name: hub, context: {hub}}}], \
             users: [{{name: hub, user: {{token: token}}}}]}}"
        )
    }

    /// Returns the URL of a member's API server, without TLS.
    fn member_url(&self, number: usize) -> String {
        format!("{}/{}", self.url, number + 1)
    }

    /// Returns the address of all API servers, with TLS.
    pub(crate) fn tls(&self) -> &str {
        &self.tls
    }

    /// Returns the number of members whose Cluster on the hub reports that they are synced.
    pub(crate) fn reported_synced(&self) -> usize {
        let clusters = Place::read(&path::<Cluster>()).expect("a collection");
        let (clusters, ..) = self.hub().list(&clusters, None, usize::MAX);
        let is_synced = |entry: &Entry| {
            let json = self.hub().encode(entry, Encoding::Json);
            let cluster: Option<Cluster> = serde_json::from_slice(&json).ok();
            let status = cluster.and_then(|cluster| cluster.status);
            status.is_some_and(|status| {
                let ready = condition::find(&status.conditions, condition::READY);
                ready.is_some_and(|ready| ready.status == "True" && ready.reason == "Synced")
            })
        };
        clusters.iter().filter(|entry| is_synced(entry)).count()
    }

    /// Returns the JSON of a source and of a copy.
    pub(crate) fn json(&self) -> [Vec<u8>; 2] {
        let (id, spec) = (SliceId::first(0), &self.services[0]);
        let source = slices::source(id, spec, 0, 1);
        let copy = slices::copy(id, spec, 1, 1, 1);
        [source, copy].map(|draft| draft.encode(Encoding::Json))
    }

    /// Replaces a pod of the first slice of a service. The change is awaited in all consumers that
    /// answer.
    pub(crate) fn replace_pod(&self, service: u32) {
        let (spec, id) = (&self.services[service as usize], SliceId::first(service));
        let path = path::<EndpointSlice>();
        let key = key(Some(&namespace(service)), &id.name());
        let change = self.member(spec.provider).change(&path, &key);
        let Some(Body::Source(_, changes)) = change.entry().map(|entry| &entry.body) else {
            panic!("there is no slice {key}");
        };
        let body = Body::Source(id, changes + 1);
        let answers = |consumer: &u16| !self.member(*consumer).hangs();
        let consumers = spec.consumers.iter().copied().filter(answers).collect();
        let version = change.next_version();
        self.journal.changed(id, version, consumers, Instant::now());
        change.put(body);
    }
}

/// Returns a TLS acceptor, and the certificate of its authority.
fn acceptor() -> anyhow::Result<(TlsAcceptor, String)> {
    const VALIDITY: Duration = Duration::from_secs(24 * 60 * 60);
    let authority = Authority::new("members", VALIDITY, SystemTime::now())?;
    let leaf = Leaf {
        common_name: "kube-apiserver".to_owned(),
        addresses: vec![std::net::Ipv4Addr::LOCALHOST.into()],
        validity: VALIDITY,
        ..Leaf::default()
    };
    let serving = authority.issue(&leaf, SystemTime::now())?;
    let tls = serving::acceptor(serving.certificate.as_bytes(), serving.key.as_bytes())?;
    Ok((tls, authority.pem().to_owned()))
}
