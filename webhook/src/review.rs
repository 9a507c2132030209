//! The wire: AdmissionReview v1 in, AdmissionReview v1 out.
//!
//! Only what is validated is ever decoded; serde_json stops at 128 levels there, and skips everything else at any depth
//! without recursion. An object that does not decode can be denied by the uid of its request.

pub mod pruned;
mod string_end;

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use causeway::domain::{FieldError, Problem};
use kube::core::admission::{META_API_VERSION_V1, META_KIND, Operation};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::decide::{Change, Decision, Denial, Metadata, Object, Stored};
use crate::fields::{Fields, fields};

const GROUP: &str = "networking.karmada.io";
const VERSION: &str = "v1alpha1";
const KIND: &str = "MultiClusterService";

/// Reason why a body is no request.
#[derive(Debug, thiserror::Error)]
pub enum EnvelopeError {
    /// It is no UTF-8.
    #[error("the body is not UTF-8: {0}")]
    Encoding(#[from] std::str::Utf8Error),
    /// It is no JSON, or no AdmissionReview.
    #[error("the body is no AdmissionReview: {0}")]
    Json(#[from] serde_json::Error),
    /// It is another object, or another version.
    #[error(
        "the body is {kind:?} of {api_version:?}, not an AdmissionReview of admission.k8s.io/v1; register the webhook \
         with admissionReviewVersions: [v1]"
    )]
    Version {
        /// Its `apiVersion`.
        api_version: String,
        /// Its `kind`.
        kind: String,
    },
    /// It has no request, or one without a uid.
    #[error("the AdmissionReview has no request with a uid")]
    NoRequest,
}

/// `R` is how its request is read: as it is, or raw.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "R: Deserialize<'de>"))]
struct Envelope<'a, R> {
    #[serde(borrow, default)]
    api_version: Cow<'a, str>,
    #[serde(borrow, default)]
    kind: Cow<'a, str>,
    #[serde(default = "Option::default")]
    request: Option<R>,
}

/// `O` is how its objects are read: decoded, or raw.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "O: Deserialize<'de>"))]
struct Wire<'a, O> {
    #[serde(borrow, default)]
    uid: Cow<'a, str>,
    #[serde(borrow, default, deserialize_with = "fields")]
    kind: GroupVersionKind<'a>,
    #[serde(borrow, default)]
    sub_resource: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    namespace: Option<Cow<'a, str>>,
    operation: Operation,
    #[serde(default)]
    dry_run: Option<bool>,
    #[serde(default = "Option::default")]
    object: Option<O>,
    #[serde(default = "Option::default")]
    old_object: Option<O>,
}

/// An AdmissionReview that decodes in one go.
type Whole<'a> = Fields<Envelope<'a, Fields<Wire<'a, Fields<Object>>>>>;

/// An admission request.
#[derive(Debug)]
pub struct Request<'a> {
    /// UID that the answer repeats.
    pub uid: Cow<'a, str>,
    /// Operation: CREATE, UPDATE, DELETE or CONNECT.
    pub operation: &'static str,
    /// The kind of the object.
    pub kind: Cow<'a, str>,
    /// The namespace, where there is one.
    pub namespace: Cow<'a, str>,
    /// The name, where there is one yet.
    pub name: Cow<'a, str>,
    /// Subject of the request.
    pub subject: Subject,
}

#[derive(Debug, Default, Deserialize)]
struct GroupVersionKind<'a> {
    #[serde(borrow, default)]
    group: Cow<'a, str>,
    #[serde(borrow, default)]
    version: Cow<'a, str>,
    #[serde(borrow, default)]
    kind: Cow<'a, str>,
}

impl Request<'_> {
    /// The request without the body that it was read from.
    pub fn into_owned(self) -> Request<'static> {
        let owned = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        Request {
            uid: owned(self.uid),
            operation: self.operation,
            kind: owned(self.kind),
            namespace: owned(self.namespace),
            name: owned(self.name),
            subject: self.subject,
        }
    }
}

/// Subject of a request.
#[derive(Debug)]
pub enum Subject {
    /// Nothing that is validated: a deletion, a connection, a subresource.
    Nothing,
    /// An object of another kind.
    OtherKind(String),
    /// A MultiClusterService that does not decode.
    Unreadable(String),
    /// A MultiClusterService.
    Change(Box<Change>),
}

/// From so many bytes on it pays to look for what can be left out.
const LARGE: usize = 8 * 1024;

/// Reads the envelope of a request.
///
/// # Errors
/// [`EnvelopeError`] where it is no AdmissionReview v1 with a uid.
pub fn read(body: &[u8]) -> Result<Request<'_>, EnvelopeError> {
    let text = std::str::from_utf8(body)?;
    if text.len() >= LARGE
        && let Some(request) = pruned::pruned(text).as_deref().and_then(read_pruned)
    {
        return Ok(request);
    }
    read_in_full(text)
}

/// A request without what is not read; `None` where anything is wrong with it.
pub fn read_pruned(text: &str) -> Option<Request<'static>> {
    let Fields(envelope) = serde_json::from_str::<Whole<'_>>(text).ok()?;
    let Fields(wire) = envelope.request().ok()?;
    Some(request(wire).ok()?.into_owned())
}

/// As [`read`], but whatever is in the review.
///
/// # Errors
/// As those of [`read`].
pub fn read_in_full(text: &str) -> Result<Request<'_>, EnvelopeError> {
    // What an API server sends decodes in one go. Where that fails the parts are read one by one, to tell what is wrong.
    if let Ok(Fields(envelope)) = serde_json::from_str::<Whole<'_>>(text) {
        let Fields(wire) = envelope.request()?;
        return request(wire);
    }
    let Fields(envelope): Fields<Envelope<'_, &RawValue>> = serde_json::from_str(text)?;
    let raw = envelope.request()?;
    let Fields(wire): Fields<Wire<'_, &RawValue>> = serde_json::from_str(raw.get())?;
    request(wire)
}

impl<R> Envelope<'_, R> {
    /// The request of an AdmissionReview v1.
    fn request(self) -> Result<R, EnvelopeError> {
        if self.api_version != META_API_VERSION_V1 || self.kind != META_KIND {
            return Err(EnvelopeError::Version {
                api_version: self.api_version.into_owned(),
                kind: self.kind.into_owned(),
            });
        }
        self.request.ok_or(EnvelopeError::NoRequest)
    }
}

fn request<'a>(mut wire: Wire<'a, impl Piece>) -> Result<Request<'a>, EnvelopeError> {
    if wire.uid.is_empty() {
        return Err(EnvelopeError::NoRequest);
    }
    let subject = wire.subject();
    Ok(Request {
        uid: wire.uid,
        operation: match wire.operation {
            Operation::Create => "CREATE",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
            Operation::Connect => "CONNECT",
        },
        kind: wire.kind.kind,
        namespace: wire.namespace.unwrap_or_default(),
        name: wire.name,
        subject,
    })
}

/// Reason why a request holds no object that can be validated.
#[derive(Debug, thiserror::Error)]
enum ObjectError {
    #[error("the request holds no object")]
    Missing,
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

/// An object of a request, decoded or raw.
trait Piece {
    /// The object, or why it is none.
    fn object(self) -> Result<Object, serde_json::Error>;

    /// The object as the one that is stored.
    fn stored(self) -> Stored;
}

impl Piece for Fields<Object> {
    fn object(self) -> Result<Object, serde_json::Error> {
        Ok(self.0)
    }

    fn stored(self) -> Stored {
        if self.0.metadata.deletion_timestamp.is_some() {
            Stored::Deleting(self.0)
        } else {
            Stored::Present(self.0)
        }
    }
}

impl Piece for &RawValue {
    fn object(self) -> Result<Object, serde_json::Error> {
        serde_json::from_str(self.get()).map(|Fields(object)| object)
    }

    fn stored(self) -> Stored {
        #[derive(Deserialize)]
        struct Bare {
            #[serde(deserialize_with = "fields")]
            metadata: Metadata,
        }
        match serde_json::from_str::<Fields<Object>>(self.get()) {
            Ok(object) => object.stored(),
            Err(_) => match serde_json::from_str::<Fields<Bare>>(self.get()) {
                Ok(Fields(bare)) if bare.metadata.deletion_timestamp.is_some() => {
                    Stored::DeletingUnreadable
                }
                _ => Stored::Nothing,
            },
        }
    }
}

impl<O: Piece> Wire<'_, O> {
    /// Takes out what the request is about, as far as it is validated.
    fn subject(&mut self) -> Subject {
        if matches!(self.operation, Operation::Delete | Operation::Connect) {
            return Subject::Nothing;
        }
        let kind = &self.kind;
        if kind.group != GROUP || kind.version != VERSION || kind.kind != KIND {
            return Subject::OtherKind(format!("{}/{} {}", kind.group, kind.version, kind.kind));
        }
        if self
            .sub_resource
            .as_deref()
            .is_some_and(|sub| !sub.is_empty())
        {
            return Subject::Nothing;
        }
        let stored = match self.old_object.take() {
            Some(object) if self.operation == Operation::Update => object.stored(),
            _ => Stored::Nothing,
        };
        let object = self.object.take();
        let object = object.ok_or(ObjectError::Missing);
        let object = object.and_then(|object| Ok(object.object()?));
        match object {
            Ok(object) => Subject::Change(Box::new(self.change(object, stored))),
            // The API server's schema says more of it than a decoder does, and an object that is being deleted is not held up.
            Err(_) if matches!(stored, Stored::Deleting(_) | Stored::DeletingUnreadable) => {
                Subject::Nothing
            }
            Err(why) => Subject::Unreadable(why.to_string()),
        }
    }

    fn change(&self, mut object: Object, stored: Stored) -> Change {
        if object.metadata.name.is_empty() {
            object.metadata.name = self.name.clone().into_owned();
        }
        Change {
            uid: self.uid.clone().into_owned(),
            namespace: self.namespace.clone().unwrap_or_default().into_owned(),
            dry_run: self.dry_run.unwrap_or_default(),
            object,
            stored,
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    api_version: &'static str,
    kind: &'static str,
    response: Response<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Response<'a> {
    uid: &'a str,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

/// A Kubernetes Status of a failure.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Status {
    api_version: &'static str,
    kind: &'static str,
    metadata: Empty,
    status: &'static str,
    pub(crate) message: String,
    reason: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Details>,
    code: u16,
}

#[derive(Serialize)]
struct Empty {}

#[derive(Serialize)]
struct Details {
    name: String,
    group: &'static str,
    kind: &'static str,
    causes: Vec<Cause>,
}

#[derive(Serialize)]
struct Cause {
    reason: &'static str,
    message: String,
    field: String,
}

impl Status {
    /// A failure with that HTTP code and Kubernetes' reason for it.
    pub(crate) fn new(code: u16, reason: &'static str, message: String) -> Self {
        Self {
            api_version: "v1",
            kind: "Status",
            metadata: Empty {},
            status: "Failure",
            message,
            reason,
            details: None,
            code,
        }
    }

    /// A denial, with details by which kubectl words it as it words a built-in object's.
    fn of(denial: Denial) -> Self {
        let (name, errors) = match denial {
            Denial::Request(message) => return Self::new(400, "BadRequest", message),
            Denial::Fields { name, errors } => (name, errors),
        };
        let rest = errors.rest().map(|message| Cause {
            reason: "FieldValueInvalid",
            message,
            field: "spec".to_owned(),
        });
        let causes = errors.shown().iter().map(cause).chain(rest).collect();
        Self {
            details: Some(Details {
                name,
                group: GROUP,
                kind: KIND,
                causes,
            }),
            ..Self::new(422, "Invalid", errors.to_string())
        }
    }
}

fn cause(error: &FieldError) -> Cause {
    let reason = match error.problem {
        Problem::Required => "FieldValueRequired",
        Problem::Invalid(_) => "FieldValueInvalid",
        Problem::NotSupported(..) => "FieldValueNotSupported",
        Problem::Duplicate(_) => "FieldValueDuplicate",
        Problem::Forbidden => "FieldValueForbidden",
        Problem::TooMany(_) => "FieldValueTooMany",
    };
    let text = error.to_string();
    let message = text
        .strip_prefix(&error.path)
        .and_then(|rest| rest.strip_prefix(": "))
        .unwrap_or(&text);
    Cause {
        reason,
        message: message.to_owned(),
        field: error.path.clone(),
    }
}

/// Writes the answer to the request of that uid.
///
/// # Errors
/// [`serde_json::Error`] where it cannot be written.
pub fn answer(uid: &str, decision: Decision) -> Result<Vec<u8>, serde_json::Error> {
    let mut response = Response {
        uid,
        allowed: true,
        status: None,
        patch_type: None,
        patch: None,
        warnings: Vec::new(),
    };
    response.warnings = match decision {
        Decision::Allow { warnings } => warnings,
        Decision::Patch {
            operations,
            warnings,
        } => {
            response.patch_type = Some("JSONPatch");
            response.patch = Some(STANDARD.encode(serde_json::to_vec(&operations)?));
            warnings
        }
        Decision::Deny { denial, warnings } => {
            response.allowed = false;
            response.status = Some(Status::of(denial));
            warnings
        }
    };
    serde_json::to_vec(&Answer {
        api_version: META_API_VERSION_V1,
        kind: META_KIND,
        response,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const LONG: &str = "a text that is long enough to be left out, where nothing reads it";

    /// A review whose every text is long, but for those by which it is one.
    fn review() -> String {
        let labels = json!({"multiclusterservice.karmada.io/permanent-id": LONG, "other": LONG});
        let annotations = json!({
            "mcs.causeway.dev/prefer": LONG,
            "mcs.causeway.dev/min-ready": LONG,
            "mcs.causeway.dev/unreachable": LONG,
            "kubectl.kubernetes.io/last-applied-configuration": "{\"a\":\"\\n\u{e9}\"}".repeat(LARGE / 8),
        });
        let metadata = json!({
            "name": LONG, "generateName": LONG, "labels": labels, "annotations": annotations,
            "deletionTimestamp": LONG, "managedFields": [{"manager": LONG}],
        });
        let named = json!([{"name": LONG}]);
        let spec = json!({
            "types": [LONG], "ports": [{"name": LONG, "port": 80}], "providerClusters": named,
            "consumerClusters": named, "range": {"clusterNames": [LONG]},
            "serviceProvisionClusters": [LONG], "serviceConsumptionClusters": [LONG],
        });
        let object = json!({"apiVersion": LONG, "kind": LONG, "metadata": metadata, "spec": spec});
        json!({
            "apiVersion": META_API_VERSION_V1, "kind": META_KIND,
            "request": {
                "uid": LONG, "name": LONG, "namespace": LONG, "operation": "UPDATE", "dryRun": true,
                "kind": {"group": GROUP, "version": VERSION, "kind": KIND},
                "object": object, "oldObject": object, "userInfo": {"username": LONG},
            },
        })
        .to_string()
    }

    #[test]
    fn a_large_review_says_what_it_says_in_full() {
        let review = review();
        assert!(review.len() >= LARGE);
        let pruned = pruned::pruned(&review).expect("JSON");
        assert!(pruned.len() < LARGE, "{pruned}");
        let request = read_pruned(&pruned).expect("a request");
        let full = read_in_full(&review).expect("a request");
        assert!(matches!(full.subject, Subject::Change(_)), "{full:?}");
        assert_eq!(format!("{request:?}"), format!("{full:?}"));
    }

    #[test]
    fn what_is_wrong_with_a_large_review_is_said_as_in_full() {
        let review = review();
        for (from, to) in [
            ("\"dryRun\":true", "\"dryRun\":1"),
            ("\"port\":80", "\"port\":\"80\""),
            ("\"operation\":\"UPDATE\"", "\"operation\":\"\""),
            ("AdmissionReview", "Review"),
            ("\"userInfo\":", "\"userInfo\""),
            ("\"manager\":\"a text", "\"manager\":\"a\ntext"),
            ("\"manager\":\"a text", "\"manager\":\"a \\xtext"),
        ] {
            assert!(review.contains(from), "{from}");
            let wrong = review.replace(from, to);
            let said = |read: Result<Request<'_>, EnvelopeError>| match read {
                Ok(request) => format!("{request:?}"),
                Err(error) => error.to_string(),
            };
            let (read, full) = (read(wrong.as_bytes()), read_in_full(&wrong));
            assert_eq!(said(read), said(full), "{to}");
        }
    }
}
