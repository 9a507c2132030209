//! Discovery of the Multi-Cluster Services API in a member, whose definitions are made and deleted
//! while it runs.
//!
//! It needs small requests: the resources of one version, and of the next if that is not served. A
//! kind counts as not served only if the member proves that in the same look
//! ([`lookup::prove_unserved`]); looks that observe the same again need no proof. The fields of a
//! ServiceImport are in the OpenAPI document, which any account may read; it is requested when the
//! served versions change.

use std::time::Duration;

use causeway::api::multicluster::{GROUP, Version};
use causeway::domain::ClusterName;
use causeway_engine::evidence::discovery::DebouncedDiscovery;
use causeway_engine::model::Failure;
use causeway_engine::model::served::{Served, ServedImports};
use kube::Client;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use self::schema::{Document, Fields, Schema};
use self::versions::Versions;
use crate::lookup::{self, Resources, UnservedResources};

mod schema;
mod versions;

/// Kinds that a member serves, as last reported.
pub(super) struct Discovery {
    name: ClusterName,
    /// UID of the member's kube-system namespace.
    uid: String,
    client: Client,
    deadline: Duration,
    schema_every: Duration,
    versions: DebouncedDiscovery<Versions>,
    schema: Schema,
    reported: Option<Served>,
    outage: Option<(Failure, u32)>,
}

impl Discovery {
    /// Nothing is known yet. A request may take as long as `deadline`; the fields of a
    /// ServiceImport are read again after `schema_every`, whether or not anything changed.
    pub(super) fn new(
        name: ClusterName,
        uid: String,
        client: Client,
        deadline: Duration,
        schema_every: Duration,
    ) -> Self {
        Self {
            name,
            uid,
            client,
            deadline,
            schema_every,
            versions: Versions::debounced(),
            schema: Schema::default(),
            reported: None,
            outage: None,
        }
    }

    /// Looks once; gives what is served where that is news, or why it cannot be asked where that
    /// is. That something is not served is debounced.
    pub(super) async fn look(&mut self) -> Option<Result<Served, Failure>> {
        let observed = match self.observe().await {
            Ok(observed) => observed,
            Err(failure) => {
                self.versions.observe_failure();
                return self.note_outage(failure).map(Err);
            }
        };
        self.outage = None;
        let Some(versions) = self.versions.observe(observed) else {
            // Where something is gone for a moment, other definitions may have taken its place.
            self.schema.expire(Instant::now());
            return None;
        };
        let imports = match versions.imports {
            None => {
                self.schema = Schema::default();
                None
            }
            Some(version) => Some((version, self.fields(version).await?)),
        };
        let served = Served {
            exports: versions.exports,
            export_clusters: imports.is_some_and(|(version, fields)| {
                fields.export_clusters && versions.exports == Some(version)
            }),
            imports: imports.map(|(version, fields)| ServedImports {
                version,
                fields: fields.imports,
            }),
        };
        let is_news = self.reported.as_ref() != Some(&served);
        is_news.then(|| Ok(self.reported.insert(served).clone()))
    }

    /// Whether nothing could be reported yet for want of a schema that is about to be published.
    pub(super) fn awaits_schema(&self) -> bool {
        self.reported.is_none() && matches!(self.schema, Schema::Missing(..))
    }

    async fn observe(&self) -> Result<Versions, Failure> {
        let mut versions = Versions::default();
        let mut unserved = Vec::new();
        for version in Version::ALL {
            let path = format!("/apis/{GROUP}/{version}");
            match self.get::<Resources>(&path).await? {
                Some(resources) => versions.note(version, &resources),
                None => unserved.push(version.as_str()),
            }
            if versions.missing().is_empty() {
                return Ok(versions);
            }
        }
        if *self.versions.served() != versions {
            let Self { client, uid, .. } = self;
            let unserved = UnservedResources {
                group: GROUP,
                versions: &unserved,
                plurals: &versions.missing(),
            };
            lookup::prove_unserved(client, uid, unserved, self.deadline).await?;
        }
        Ok(versions)
    }

    /// The fields of the definitions; `None` while they may still be published.
    async fn fields(&mut self, version: Version) -> Option<Fields> {
        if let Some(fields) = self.schema.fresh(version, Instant::now()) {
            return Some(fields);
        }
        let path = format!("/openapi/v3/apis/{GROUP}/{version}");
        let document = self.get::<Document>(&path).await.unwrap_or_else(|failure| {
            tracing::debug!(cluster = %self.name, kind = "ServiceImport", error = %failure, "definition not read");
            None
        });
        let read = document.as_ref().and_then(Document::fields);
        self.schema
            .settle(version, read, Instant::now(), self.schema_every)
    }

    /// Gets a document; `None` where the API server does not serve it.
    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<Option<T>, Failure> {
        lookup::document(&self.client, path, self.deadline).await
    }

    /// Gives once why it cannot be asked, when it was so twice in a row: an API server that starts
    /// refuses for a moment what it grants. Of a member that does not answer the probes tell.
    fn note_outage(&mut self, failure: Failure) -> Option<Failure> {
        let times = match &self.outage {
            Some((before, times)) if *before == failure => times.saturating_add(1),
            _ => 1,
        };
        let is_news = times == 2 && !failure.is_connection();
        if is_news {
            tracing::warn!(cluster = %self.name, group = GROUP, error = %failure, "discovery failed, retrying");
        }
        self.outage = Some((failure.clone(), times));
        is_news.then_some(failure)
    }
}
