//! The requests of a watch, and what is read from the answers.

use std::io;
use std::marker::PhantomData;
use std::pin::pin;
use std::time::Duration;

use causeway::api::bounds;
use causeway_engine::model::Failure;
use causeway_wire::{Object, Page, PageReader, Unreadable};
use futures::TryStreamExt as _;
use futures::io::{AsyncBufRead, AsyncReadExt as _};
use http::header::{ACCEPT, ACCEPT_ENCODING};
use http::{HeaderValue, Request as HttpRequest};
use http_body_util::BodyExt as _;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ListMeta, ObjectMeta};
use kube::api::{ListParams, WatchParams};
use kube::client::Body;
use kube::core::Request;
use kube::{Client, Resource};
use prometheus_client::metrics::counter::Counter;
use serde::Deserialize;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use super::decoder::Decoder;
use super::{Counted, Settings};
use crate::encoding::{self, PROTOBUF_OR_JSON, Unread};
use crate::failure::Classify as _;

/// Value of `Accept-Encoding` for an answer that must not be compressed.
const UNCOMPRESSED: HeaderValue = HeaderValue::from_static("identity");
/// Bytes of a refusal that are read.
const REFUSAL_MOST: usize = 64 * 1024;
/// Maximum number of unreadable objects of a list, or of a watch request, that are logged.
const LOGGED_MAX: usize = 100;

/// An object of a list, or what is known of one that cannot be read.
pub(super) type Read<K> = Result<K, ObjectMeta>;

/// Page of a list, of which the objects were passed on.
pub(super) struct PageRead {
    pub(super) page: Page,
    /// Number of its objects.
    pub(super) objects: usize,
    /// Bytes of the answer.
    pub(super) bytes: usize,
}

/// Source of the objects.
pub(super) struct Source<K, D> {
    pub(super) request: Request,
    pub(super) client: Client,
    pub(super) labels: Option<String>,
    pub(super) metadata_only: bool,
    pub(super) settings: Settings,
    pub(super) unreadable: Counter,
    /// Number of unreadable objects logged since the list or the watch request began.
    pub(super) logged: usize,
    pub(super) decoder: D,
    pub(super) objects: PhantomData<fn() -> K>,
}

impl<K, D: Clone> Clone for Source<K, D> {
    fn clone(&self) -> Self {
        Self {
            request: self.request.clone(),
            client: self.client.clone(),
            labels: self.labels.clone(),
            metadata_only: self.metadata_only,
            settings: self.settings.clone(),
            unreadable: self.unreadable.clone(),
            logged: self.logged,
            decoder: self.decoder.clone(),
            objects: PhantomData,
        }
    }
}

/// Page of a list to request.
pub(super) struct PageRequest<'a> {
    /// Maximum number of objects.
    pub limit: Option<u32>,
    /// Continue token of the page before.
    pub token: Option<&'a str>,
    /// Maximum number of bytes.
    pub most: usize,
    /// Number of objects that may be held besides those of the pages before.
    pub objects_left: usize,
}

impl<K, D> Source<K, D>
where
    K: Resource<DynamicType: Default>,
    D: Decoder<K>,
{
    /// Waits until the list may go on beside others, but not for long.
    pub(super) async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        let turn = self.settings.turns.clone().acquire_owned();
        let turn = timeout(self.settings.turn_deadline, turn).await;
        turn.ok()?.ok()
    }

    /// Requests the version of the API server's most recent state. A list has it whatever its
    /// selector. With a selector, the API server reads objects until one matches.
    pub(super) async fn newest(&self) -> Result<String, Failure> {
        let params = ListParams {
            limit: Some(1),
            ..ListParams::default()
        };
        let request = self.request.list_metadata(&params);
        let request = request.map_err(kube::Error::BuildRequest).classified()?;
        let page = self.client.request::<Newest>(request).await.classified()?;
        Ok(page.metadata.resource_version.unwrap_or_default())
    }

    /// Reads a page of the list; `None` if it is longer than `most` bytes. `held` is its buffer, so
    /// many pages need one allocation.
    pub(super) async fn page(
        &mut self,
        request: PageRequest<'_>,
        held: &mut Vec<u8>,
        mut take: impl FnMut(Read<K>, usize),
    ) -> Result<Option<PageRead>, Failure> {
        let params = ListParams {
            label_selector: self.labels.clone(),
            limit: request.limit,
            continue_token: request.token.map(str::to_owned),
            ..ListParams::default()
        };
        if request.token.is_none() {
            self.logged = 0;
        }
        let (most, objects_left) = (request.most, request.objects_left);
        let request = match self.metadata_only {
            true => self.request.list_metadata(&params),
            false => self.request.list(&params),
        };
        let mut request = request.map_err(kube::Error::BuildRequest).classified()?;
        if D::PROTOBUF && !self.metadata_only {
            // Compressing a list of protobuf takes an API server longer than all else that it does
            // for it.
            request.headers_mut().insert(ACCEPT_ENCODING, UNCOMPRESSED);
        }
        let mut objects = 0;
        let deadline = self.settings.page_deadline;
        let page = timeout(deadline, async {
            let stream = pin!(self.send(request).await?);
            let reader = PageReader::new(self.settings.limits.object_bytes, objects_left, held);
            let page = encoding::read_page(stream, reader, most, |object| {
                let bytes = object.bytes();
                self.check_object(bytes)?;
                objects += 1;
                let read = self.decode(object);
                take(read.ok_or_else(|| object.identity()), bytes);
                Ok(())
            });
            page.await
        });
        match page.await.map_err(|_| Failure::timeout())? {
            Ok((page, bytes)) => Ok(Some(PageRead {
                page,
                objects,
                bytes,
            })),
            Err(Unread::Page) => Ok(None),
            Err(Unread::Object) => Err(self.settings.limits.too_large(&kind::<K>())),
            Err(Unread::Objects) => Err(self.settings.limits.too_many_objects(&kind::<K>())),
            Err(Unread::Failed(failure)) => Err(failure),
        }
    }

    /// Whether so many objects, of so many bytes, are listened to.
    pub(super) fn check(&self, objects: usize, bytes: usize) -> Result<(), Failure> {
        self.settings.limits.check(&kind::<K>(), objects, bytes)
    }

    /// Whether an object of so many bytes is listened to.
    pub(super) fn check_object(&self, bytes: usize) -> Result<(), Failure> {
        self.settings.limits.check_object(&kind::<K>(), bytes)
    }

    /// Asks for the changes since `version`; done when the API server has accepted.
    pub(super) async fn open(
        &mut self,
        version: &str,
        lifetime: Duration,
    ) -> Result<impl AsyncBufRead + use<K, D>, Failure> {
        self.logged = 0;
        let params = WatchParams {
            label_selector: self.labels.clone(),
            field_selector: None,
            timeout: u32::try_from(lifetime.as_secs()).ok(),
            bookmarks: true,
            send_initial_events: false,
        };
        let request = match self.metadata_only {
            true => self.request.watch_metadata(&params, version),
            false => self.request.watch(&params, version),
        };
        let mut request = request.map_err(kube::Error::BuildRequest).classified()?;
        // Kubernetes 1.37 compresses each event on its own, which the client's decoder does not
        // follow.
        request.headers_mut().insert(ACCEPT_ENCODING, UNCOMPRESSED);
        self.send(request).await
    }

    /// Sends a request whose answer holds objects: what the answer holds, unless it is a refusal.
    async fn send(
        &self,
        mut request: HttpRequest<Vec<u8>>,
    ) -> Result<impl AsyncBufRead + use<K, D>, Failure> {
        request.extensions_mut().insert(Counted);
        if D::PROTOBUF && !self.metadata_only {
            request.headers_mut().insert(ACCEPT, PROTOBUF_OR_JSON);
        }
        let answer = self.client.send(request.map(Body::from)).await;
        let (head, body) = answer.classified()?.into_parts();
        let mut body = body
            .into_data_stream()
            .map_err(io::Error::other)
            .into_async_read();
        if head.status.is_client_error() || head.status.is_server_error() {
            let mut refusal = Vec::new();
            let mut start = (&mut body).take(REFUSAL_MOST as u64);
            start.read_to_end(&mut refusal).await.classified()?;
            return Err(encoding::refusal(head.status, &refusal));
        }
        Ok(body)
    }

    /// The object, unless it cannot be read; then it is counted and logged.
    pub(super) fn decode(&mut self, object: Object<'_>) -> Option<K> {
        let decoded = self.decoder.decode(object);
        decoded
            .inspect_err(|error| {
                self.unreadable.inc();
                if self.logged == LOGGED_MAX {
                    return;
                }
                self.logged += 1;
                let ObjectMeta {
                    namespace, name, ..
                } = object.identity();
                let kind = kind::<K>();
                let error = bounds::foreign(&described(&kind, error));
                let [namespace, name] =
                    [namespace, name].map(|text| bounds::foreign(&text.unwrap_or_default()));
                tracing::error!(kind, namespace, name, error, "object unreadable, skipped");
            })
            .ok()
    }
}

/// Returns why an object cannot be read. Quotes the wrong value, except one of a Secret.
fn described(kind: &str, error: &Unreadable) -> String {
    match error {
        Unreadable::Json(error) if kind == "Secret" => format!(
            "its JSON is not that of a Secret, at line {} column {}",
            error.line(),
            error.column()
        ),
        other => other.to_string(),
    }
}

pub(super) fn kind<K: Resource<DynamicType: Default>>() -> String {
    K::kind(&K::DynamicType::default()).into_owned()
}

#[derive(Deserialize)]
struct Newest {
    metadata: ListMeta,
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Secret;

    use super::*;

    #[test]
    fn a_value_of_a_secret_is_not_quoted_when_it_cannot_be_read() {
        for text in [
            r#"{"type":"Opaque","data":{"token":"hunter2!"}}"#,
            r#"{"type":"Opaque","data":"hunter2!"}"#,
        ] {
            let error = serde_json::from_str::<Secret>(text).expect_err(text);
            let error = Unreadable::Json(error);
            let said = described("Secret", &error);
            assert!(said.contains("at line 1 column"), "{said}");
            assert!(!said.contains("hunter2"), "{said}");
            assert_eq!(described("Service", &error), error.to_string());
        }
    }
}
