//! What of the Multi-Cluster Services API a member serves: its definitions come and go while it runs.
//!
//! Asked with small requests: the resources of one version, and of the next where that is not served. What fields a
//! ServiceImport has is in the OpenAPI document, which any account may read; it is asked for when what is served changed.

use std::time::Duration;

use causeway::api::multicluster::{GROUP, Version};
use http::Request;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use kube::Client;
use serde_json::Value;
use tokio::time::{Instant, timeout};

use crate::failure::Failure;
use crate::index::served::{ImportFields, Served, ServedImports};

/// What a member serves, as it was last told.
pub(super) struct Discovery {
    client: Client,
    deadline: Duration,
    schema_every: Duration,
    told: Option<Served>,
    less_before: Option<Versions>,
    schema: Option<(Version, ImportFields, Instant)>,
    schema_missing_since: Option<Instant>,
}

/// An API server publishes the schema of a definition some moments after it serves it; one that has not done so for this long
/// does not do it at all.
const SCHEMA_WITHIN: Duration = Duration::from_secs(30);

/// The version in which each kind is served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Versions {
    exports: Option<Version>,
    imports: Option<Version>,
}

impl Versions {
    fn are_less_than(self, served: &Served) -> bool {
        (self.exports.is_none() && served.exports.is_some())
            || (self.imports.is_none() && served.imports.is_some())
    }
}

impl Discovery {
    pub(super) fn new(client: Client, deadline: Duration, schema_every: Duration) -> Self {
        Self {
            client,
            deadline,
            schema_every,
            told: None,
            less_before: None,
            schema: None,
            schema_missing_since: None,
        }
    }

    /// Looks once; gives what is served where that is news. That something is served no more is believed when it was seen twice
    /// in a row, for an API server that has just started may not know its definitions yet. A failure to look tells nothing.
    pub(super) async fn look(&mut self) -> Option<Served> {
        let versions = match self.versions().await {
            Ok(versions) => versions,
            Err(failure) => {
                tracing::debug!(%failure, "what is served of {GROUP} cannot be asked");
                return None;
            }
        };
        let less = self
            .told
            .as_ref()
            .is_some_and(|told| versions.are_less_than(told));
        if less && self.less_before.replace(versions) != Some(versions) {
            return None;
        }
        self.less_before = None;
        let imports = match versions.imports {
            None => None,
            Some(version) => Some(ServedImports {
                version,
                fields: self.fields(version).await?,
            }),
        };
        let served = Served {
            exports: versions.exports,
            imports,
        };
        let is_news = self.told.as_ref() != Some(&served);
        is_news.then(|| self.told.insert(served).clone())
    }

    async fn versions(&self) -> Result<Versions, Failure> {
        let mut versions = Versions::default();
        for version in Version::ALL {
            let path = format!("/apis/{GROUP}/{version}");
            let Some(resources) = self.get::<APIResourceList>(&path).await? else {
                continue;
            };
            let has = |plural: &str| resources.resources.iter().any(|one| one.name == plural);
            if has("serviceexports") {
                versions.exports = versions.exports.or(Some(version));
            }
            if has("serviceimports") {
                versions.imports = versions.imports.or(Some(version));
            }
            if versions.exports.is_some() && versions.imports.is_some() {
                break;
            }
        }
        Ok(versions)
    }

    /// The fields of a ServiceImport; `None` where they cannot be asked for now.
    async fn fields(&mut self, version: Version) -> Option<ImportFields> {
        if let Some((known, fields, at)) = self.schema
            && known == version
            && at.elapsed() < self.schema_every
        {
            return Some(fields);
        }
        let path = format!("/openapi/v3/apis/{GROUP}/{version}");
        let document = match self.get::<Value>(&path).await {
            Ok(document) => document,
            Err(failure) => {
                tracing::debug!(%failure, "the definition of ServiceImport cannot be read");
                return self.schema.map(|(_, fields, _)| fields);
            }
        };
        let now = Instant::now();
        let Some(fields) = document.as_ref().and_then(import_fields) else {
            let since = *self.schema_missing_since.get_or_insert(now);
            let is_late = now.duration_since(since) >= SCHEMA_WITHIN;
            return is_late.then_some(ImportFields::FIRST);
        };
        self.schema_missing_since = None;
        self.schema = Some((version, fields, now));
        Some(fields)
    }

    /// Asks for a document; `None` where the API server does not serve it.
    async fn get<T: serde::de::DeserializeOwned>(&self, path: &str) -> Result<Option<T>, Failure> {
        let request = Request::get(path)
            .body(Vec::new())
            .map_err(|error| Failure::from(kube::Error::HttpError(error)))?;
        let answer = timeout(self.deadline, self.client.request::<T>(request)).await;
        match answer.map_err(|_| Failure::timeout())? {
            Ok(document) => Ok(Some(document)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Reads which fields the definition of ServiceImport in an OpenAPI v3 document has; `None` where it is not in there.
fn import_fields(document: &Value) -> Option<ImportFields> {
    let schemas = document["components"]["schemas"].as_object();
    let is_import = |schema: &&Value| {
        let kinds = schema["x-kubernetes-group-version-kind"].as_array();
        kinds
            .into_iter()
            .flatten()
            .any(|kind| kind["kind"] == "ServiceImport")
    };
    let import = schemas.and_then(|schemas| schemas.values().find(is_import));
    let properties = &import?["properties"];
    let knows = |part: &str, field: &str| {
        let part = &properties[part];
        let open = part["x-kubernetes-preserve-unknown-fields"] == true;
        open || !part["properties"][field].is_null()
    };
    let ips = &properties["spec"]["properties"]["ips"];
    Some(ImportFields {
        two_ips: ips["maxItems"].as_u64().is_none_or(|most| most > 1),
        ip_families: knows("spec", "ipFamilies"),
        internal_traffic_policy: knows("spec", "internalTrafficPolicy"),
        traffic_distribution: knows("spec", "trafficDistribution"),
        conditions: knows("status", "conditions"),
        endpoint_slice_objects: knows("status", "endpointSliceObjects"),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn document(spec: Value, status: Value) -> Value {
        let import = json!({
            "type": "object",
            "properties": {"spec": {"properties": spec}, "status": {"properties": status}},
            "x-kubernetes-group-version-kind": [{"group": GROUP, "kind": "ServiceImport", "version": "v1alpha1"}],
        });
        let list = json!({"x-kubernetes-group-version-kind": [{"group": GROUP, "kind": "ServiceImportList"}]});
        json!({"components": {"schemas": {
            "io.x-k8s.multicluster.v1alpha1.ServiceImportList": list,
            "io.x-k8s.multicluster.v1alpha1.ServiceImport": import,
        }}})
    }

    #[test]
    fn the_fields_are_those_that_the_definition_names() {
        let first = document(
            json!({"ips": {"maxItems": 1}, "ports": {}, "type": {}}),
            json!({"clusters": {}}),
        );
        assert_eq!(import_fields(&first), Some(ImportFields::FIRST));
        let newest = document(
            json!({"ips": {"maxItems": 2}, "ipFamilies": {}, "internalTrafficPolicy": {}, "trafficDistribution": {}}),
            json!({"conditions": {}, "endpointSliceObjects": {}}),
        );
        assert_eq!(import_fields(&newest), Some(ImportFields::ALL));
        assert_eq!(import_fields(&json!({})), None);
    }

    #[test]
    fn one_kind_less_is_less() {
        let imports = ServedImports {
            version: Version::V1beta1,
            fields: ImportFields::ALL,
        };
        let served = Served {
            exports: Some(Version::V1beta1),
            imports: Some(imports),
        };
        let versions = |exports, imports| Versions { exports, imports };
        let beta = Some(Version::V1beta1);
        assert!(versions(beta, None).are_less_than(&served));
        assert!(versions(None, beta).are_less_than(&served));
        assert!(!versions(Some(Version::V1alpha1), beta).are_less_than(&served));
        assert!(!versions(None, None).are_less_than(&Served::default()));
    }
}
