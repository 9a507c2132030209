//! Creates a MultiClusterService in a dry run to test that the API server reaches and trusts the
//! webhook.

use causeway::api::MultiClusterService;
use kube::api::PostParams;

use crate::cluster::api_server::{ApiServer, RequestError, is_denial};

/// Response to the creation of a MultiClusterService in a dry run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Creation {
    /// The hub would store the object.
    Accepted,
    /// The webhook denied the object, which shows that the API server reaches the webhook.
    Denied,
    /// The hub cannot create any MultiClusterService.
    Failed(String),
    /// The hub did not respond.
    Unreachable(String),
    /// The user may not create a MultiClusterService, another admission plugin denied it, or the
    /// namespace does not exist.
    Unknown(String),
}

/// Creates a MultiClusterService in a dry run, in the namespace of the context.
pub(crate) async fn dry_run(hub: &ApiServer) -> Creation {
    let namespace = &hub.config.default_namespace;
    let object: Result<MultiClusterService, _> = serde_json::from_value(serde_json::json!({
        "metadata": { "name": "causeway-check", "namespace": namespace },
        "spec": { "types": ["CrossCluster"] },
    }));
    let object = match object {
        Ok(object) => object,
        Err(error) => return Creation::Unknown(error.to_string()),
    };
    let parameters = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let services = hub.within::<MultiClusterService>(namespace);
    match hub.request(services.create(&parameters, &object)).await {
        Ok(_) => Creation::Accepted,
        Err(error) => of_failure(&error),
    }
}

fn of_failure(error: &RequestError) -> Creation {
    let message = error.to_string();
    match error {
        // Response of a webhook (k8s.io/apiserver, webhook/errors/statuserror.go).
        _ if is_denial(&message) && message.contains("denied the request") => Creation::Denied,
        // Another admission plugin denied the object, maybe before the webhook received it.
        RequestError::Refused { message: why, .. } if is_denial(why) => Creation::Unknown(message),
        RequestError::Busy { message, .. } | RequestError::Refused { message, .. } => {
            Creation::Failed(message.clone())
        }
        RequestError::Unreachable { why, .. } => Creation::Unreachable(why.clone()),
        RequestError::Kubeconfig { .. }
        | RequestError::NoKubeconfig(_)
        | RequestError::NotJoined(_)
        | RequestError::NotServed { .. }
        | RequestError::NotAllowed { .. }
        | RequestError::NotFound { .. }
        | RequestError::Unsendable { .. }
        | RequestError::TooMany { .. }
        | RequestError::Conflict { .. } => Creation::Unknown(message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::access::Side;

    #[test]
    fn a_denial_shows_that_the_webhook_answers() {
        let side = Side::Hub;
        let denied = "admission webhook \"validate.mcs\" denied the request: no";
        let failed = "Internal error occurred: failed calling webhook \"validate.mcs\": x509";
        let refused = |message| RequestError::Refused { side, message };
        let not_allowed = |message| RequestError::NotAllowed {
            side,
            message,
            unauthenticated: false,
        };
        let busy = |message| RequestError::Busy { side, message };
        let not_found = |message| RequestError::NotFound { side, message };
        let creation = |error| of_failure(&error);
        assert_eq!(creation(refused(denied.to_owned())), Creation::Denied);
        assert_eq!(creation(not_allowed(denied.to_owned())), Creation::Denied);
        let reported = creation(busy(failed.to_owned()));
        assert_eq!(reported, Creation::Failed(failed.to_owned()));
        for error in [
            not_allowed("is forbidden".to_owned()),
            not_allowed(format!(
                "a is forbidden: User \"b\" cannot create a: {denied}"
            )),
            refused("ValidatingAdmissionPolicy 'a' denied request: no".to_owned()),
            not_found("namespaces not found".to_owned()),
        ] {
            assert!(matches!(creation(error), Creation::Unknown(_)));
        }
    }
}
