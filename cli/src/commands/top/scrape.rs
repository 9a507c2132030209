//! Leading controller, and the difference between two scrapes of its metrics.

use causeway::domain::protected::DEFAULT_NAMESPACE;
use k8s_openapi::jiff::Timestamp;

use crate::args::TopArgs;
use crate::cluster::admin_endpoint::{self, AdminEndpoint, AdminError};
use crate::cluster::api_server::{ApiServer, RequestError};
use crate::views::top::metrics::Samples;
use crate::views::top::rates::{ControllerRates, rates};

const LEADER: &str = "causeway_controller_leader";

/// Reason that the controller's metrics are unavailable.
#[derive(Debug, thiserror::Error)]
pub(super) enum ScrapeError {
    #[error("the metrics of the controller are not read: {0}")]
    Admin(#[from] AdminError),
    #[error(
        "the metrics of the controller are not read: you may not list pods in namespace {namespace} of the hub ({message}); give --admin-url \
         with its --admin-bind"
    )]
    Pods { namespace: String, message: String },
    #[error("the metrics of the controller are not read: {0}")]
    Request(RequestError),
    #[error(
        "the metrics of the controller are not read: there is no pod of causeway-controller in namespace {0} of the hub; if it runs elsewhere, \
         give --admin-url http://HOST:8081 with its --admin-bind, else see kubectl mcs check"
    )]
    NoPod(String),
    #[error("no controller leads, of {0}; see kubectl mcs check")]
    NoLeader(String),
}

/// Leading controller with its first scrape.
pub(super) struct Controller {
    endpoint: AdminEndpoint,
    first: Samples,
    at: std::time::Instant,
}

impl Controller {
    /// Finds the leading controller among the given admin addresses, or else among the pods of the
    /// hub.
    pub(super) async fn find(hub: &ApiServer, args: &TopArgs) -> Result<Self, ScrapeError> {
        let endpoints = endpoints(hub, args).await?;
        let mut failure = None;
        let mut names = Vec::new();
        for endpoint in endpoints {
            match endpoint.get(hub, "/metrics").await {
                Ok(text) => {
                    let first = Samples::parse(&text);
                    if first.value(LEADER) == Some(1.0) {
                        let at = std::time::Instant::now();
                        return Ok(Self {
                            endpoint,
                            first,
                            at,
                        });
                    }
                    names.push(endpoint.name());
                }
                Err(error) => failure = Some(error),
            }
        }
        match failure {
            Some(failure) => Err(failure.into()),
            None => Err(ScrapeError::NoLeader(names.join(", "))),
        }
    }

    /// Returns the rates since the first scrape.
    pub(super) async fn rates(
        &self,
        hub: &ApiServer,
        now: Timestamp,
    ) -> Result<ControllerRates, ScrapeError> {
        let later = Samples::parse(&self.endpoint.get(hub, "/metrics").await?);
        let seconds = self.at.elapsed().as_secs_f64();
        Ok(rates(
            self.endpoint.name(),
            &self.first,
            &later,
            seconds,
            now,
        ))
    }
}

async fn endpoints(hub: &ApiServer, args: &TopArgs) -> Result<Vec<AdminEndpoint>, ScrapeError> {
    let lease = args.controller.lease.0.as_ref();
    let namespace = lease.map_or(DEFAULT_NAMESPACE, |(namespace, _)| namespace);
    let of_controller = (namespace, "controller");
    match admin_endpoint::of_component(hub, &args.admin.urls, of_controller).await {
        Err(RequestError::NotAllowed { message, .. }) => Err(ScrapeError::Pods {
            namespace: namespace.to_owned(),
            message,
        }),
        Err(other) => Err(ScrapeError::Request(other)),
        Ok(endpoints) if endpoints.is_empty() => Err(ScrapeError::NoPod(namespace.to_owned())),
        Ok(endpoints) => Ok(endpoints),
    }
}
