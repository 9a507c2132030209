//! The wire format: AdmissionReview v1 in, AdmissionReview v1 out.
//!
//! The decoder decodes validated fields alone. serde_json skips the others at any depth, without
//! recursion. A request whose object does not decode can still be denied by its uid.

use std::fmt::{self, Write as _};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use causeway::api::bounds;
use causeway::domain::{FieldError, Problem, quoted};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Status, StatusCause, StatusDetails};
use kube::core::admission::{META_API_VERSION_V1, META_KIND, Operation};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::decide::{Change, Decision, Denial, Metadata, Object, Stored};
use crate::fields::{Fields, fields};

const GROUP: &str = "networking.karmada.io";
const VERSION: &str = "v1alpha1";
const KIND: &str = "MultiClusterService";

/// Error of a body that is no admission request.
#[derive(Debug, thiserror::Error)]
pub enum EnvelopeError {
    /// Not UTF-8.
    #[error("the body is not UTF-8: {0}")]
    Encoding(#[from] std::str::Utf8Error),
    /// Not JSON, or not an AdmissionReview.
    #[error("the body is no AdmissionReview: {0}")]
    Json(String),
    /// Another kind or version.
    #[error(
        "the body is {kind:?} of {api_version:?}, not an AdmissionReview of admission.k8s.io/v1; \
         register the webhook with admissionReviewVersions: [v1]"
    )]
    Version {
        /// Beginning of `apiVersion` of the body.
        api_version: String,
        /// Beginning of `kind` of the body.
        kind: String,
    },
    /// No request, or one without a uid.
    #[error("the AdmissionReview has no request with a uid")]
    NoRequest,
    /// A text that is longer than API servers send.
    #[error("the {field} of the request has {length} bytes, more than {most}")]
    TooLong {
        /// Field of the request.
        field: &'static str,
        /// Length of its text, in bytes.
        length: usize,
        /// Maximum length of its text, in bytes.
        most: usize,
    },
}

impl From<serde_json::Error> for EnvelopeError {
    fn from(error: serde_json::Error) -> Self {
        Self::Json(beginning(&error))
    }
}

/// Maximum number of bytes of an error that are formatted, before control characters are escaped.
const FORMATTED_MAX: usize = 2 * bounds::FOREIGN_TEXT;

/// Returns the beginning of an error. serde quotes a text of the caller whole.
fn beginning(error: &serde_json::Error) -> String {
    struct Beginning(String);

    impl fmt::Write for Beginning {
        fn write_str(&mut self, part: &str) -> fmt::Result {
            let room = FORMATTED_MAX.saturating_sub(self.0.len());
            let end = part.floor_char_boundary(room);
            self.0.push_str(&part[..end]);
            (end == part.len()).then_some(()).ok_or(fmt::Error)
        }
    }

    let mut text = Beginning(String::new());
    // The only error is that the text is longer.
    write!(text, "{error}").ok();
    bounds::foreign(&text.0)
}

/// AdmissionReview with a request of type `R`: decoded, or raw.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope<R> {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default = "Option::default")]
    request: Option<R>,
}

/// Request of a review with objects of type `O`: decoded, or raw.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire<O> {
    #[serde(default)]
    uid: String,
    #[serde(default, deserialize_with = "fields")]
    kind: GroupVersionKind,
    #[serde(default)]
    sub_resource: Option<String>,
    #[serde(default)]
    name: String,
    #[serde(default)]
    namespace: Option<String>,
    operation: Operation,
    #[serde(default)]
    dry_run: Option<bool>,
    #[serde(default = "Option::default")]
    object: Option<O>,
    #[serde(default = "Option::default")]
    old_object: Option<O>,
}

/// AdmissionReview that decodes in one pass.
type Whole = Fields<Envelope<Fields<Wire<Fields<Object>>>>>;

/// An admission request.
#[derive(Debug)]
pub struct Request {
    /// UID that the answer repeats.
    pub uid: String,
    /// Operation: CREATE, UPDATE, DELETE or CONNECT.
    pub operation: &'static str,
    /// Beginning of the kind of the object.
    pub kind: String,
    /// Namespace; empty if there is none.
    pub namespace: String,
    /// Beginning of the name; empty if the API server has not made one up yet. An API server sends
    /// a name to `/mutate` before it validates its length.
    pub name: String,
    /// Subject of the request.
    pub subject: Subject,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct GroupVersionKind {
    group: String,
    version: String,
    kind: String,
}

/// Subject of a request.
#[derive(Debug)]
pub enum Subject {
    /// A deletion, a connection or a subresource, which is not validated.
    Nothing,
    /// An object of another kind.
    OtherKind(String),
    /// A MultiClusterService that does not decode.
    Unreadable(String),
    /// A MultiClusterService.
    Change(Box<Change>),
}

/// Decodes the body of a request.
///
/// # Errors
/// [`EnvelopeError`] if it is no AdmissionReview v1 with a uid, or if its uid or namespace is
/// longer than API servers send.
pub fn read(body: &[u8]) -> Result<Request, EnvelopeError> {
    let text = std::str::from_utf8(body)?;
    // What an API server sends decodes in one pass. If that fails, the parts are decoded one by
    // one, to find the wrong one.
    if let Ok(Fields(envelope)) = serde_json::from_str::<Whole>(text) {
        let Fields(wire) = envelope.request()?;
        return request(wire);
    }
    let Fields(envelope): Fields<Envelope<&RawValue>> = serde_json::from_str(text)?;
    let raw = envelope.request()?;
    let Fields(wire): Fields<Wire<&RawValue>> = serde_json::from_str(raw.get())?;
    request(wire)
}

impl<R> Envelope<R> {
    /// Returns the request of an AdmissionReview v1.
    fn request(self) -> Result<R, EnvelopeError> {
        if self.api_version != META_API_VERSION_V1 || self.kind != META_KIND {
            return Err(EnvelopeError::Version {
                api_version: quoted(&self.api_version).into_owned(),
                kind: quoted(&self.kind).into_owned(),
            });
        }
        self.request.ok_or(EnvelopeError::NoRequest)
    }
}

fn request(mut wire: Wire<impl Piece>) -> Result<Request, EnvelopeError> {
    if wire.uid.is_empty() {
        return Err(EnvelopeError::NoRequest);
    }
    wire.check_lengths()?;
    let subject = wire.subject();
    Ok(Request {
        uid: wire.uid,
        operation: match wire.operation {
            Operation::Create => "CREATE",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
            Operation::Connect => "CONNECT",
        },
        kind: quoted(&wire.kind.kind).into_owned(),
        namespace: wire.namespace.unwrap_or_default(),
        name: quoted(&wire.name).into_owned(),
        subject,
    })
}

/// Object of a request, decoded or raw.
trait Piece {
    /// Decodes the object.
    fn object(self) -> Result<Object, serde_json::Error>;

    /// Decodes the object as the stored one.
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

impl<O: Piece> Wire<O> {
    /// Checks the lengths of the texts that answers repeat whole, some of them for each error.
    fn check_lengths(&self) -> Result<(), EnvelopeError> {
        let namespace = self.namespace.as_deref().unwrap_or_default();
        for (field, text, most) in [
            ("uid", self.uid.as_str(), bounds::UID),
            ("namespace", namespace, bounds::LABEL),
        ] {
            let length = text.len();
            if length > most {
                return Err(EnvelopeError::TooLong {
                    field,
                    length,
                    most,
                });
            }
        }
        Ok(())
    }

    /// Takes out the subject of the request.
    fn subject(&mut self) -> Subject {
        if matches!(self.operation, Operation::Delete | Operation::Connect) {
            return Subject::Nothing;
        }
        let kind = &self.kind;
        if kind.group != GROUP || kind.version != VERSION || kind.kind != KIND {
            let [group, version, kind] =
                [&kind.group, &kind.version, &kind.kind].map(|it| quoted(it));
            return Subject::OtherKind(format!("{group}/{version} {kind}"));
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
        let object = object.ok_or_else(|| "the request holds no object".to_owned());
        let object = object.and_then(|object| object.object().map_err(|error| beginning(&error)));
        match object {
            Ok(object) => Subject::Change(Box::new(self.change(object, stored))),
            // An object that is being deleted is not held up. The API server's schema reports more
            // than a decoder does.
            Err(_) if matches!(stored, Stored::Deleting(_) | Stored::DeletingUnreadable) => {
                Subject::Nothing
            }
            Err(why) => Subject::Unreadable(why),
        }
    }

    fn change(&self, mut object: Object, stored: Stored) -> Change {
        if object.metadata.name.is_empty() {
            object.metadata.name = self.name.clone();
        }
        Change {
            uid: self.uid.clone(),
            namespace: self.namespace.clone().unwrap_or_default(),
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

/// Returns the Status of a failure, with an HTTP code and Kubernetes' reason for it.
pub(crate) fn failure(code: u16, reason: &str, message: String) -> Status {
    Status {
        status: Some("Failure".to_owned()),
        message: Some(message),
        reason: Some(reason.to_owned()),
        code: Some(code.into()),
        ..Status::default()
    }
}

/// Returns the Status of a denial, with the details that kubectl reads of built-in objects.
fn denied(denial: Denial) -> Status {
    let (name, errors) = match denial {
        Denial::Request(message) => return failure(400, "BadRequest", message),
        Denial::Fields { name, errors } => (name, errors),
    };
    let rest = errors.rest().map(|message| StatusCause {
        reason: Some("FieldValueInvalid".to_owned()),
        message: Some(message),
        field: Some("spec".to_owned()),
    });
    let causes = errors.shown().iter().map(cause).chain(rest).collect();
    Status {
        details: Some(StatusDetails {
            name: Some(name),
            group: Some(GROUP.to_owned()),
            kind: Some(KIND.to_owned()),
            causes: Some(causes),
            ..StatusDetails::default()
        }),
        ..failure(422, "Invalid", errors.to_string())
    }
}

fn cause(error: &FieldError) -> StatusCause {
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
    StatusCause {
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        field: Some(error.path.clone()),
    }
}

/// Encodes the answer to the request of a uid.
///
/// # Errors
/// [`serde_json::Error`] if it cannot be encoded.
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
            response.status = Some(denied(denial));
            warnings
        }
    };
    serde_json::to_vec(&Answer {
        api_version: META_API_VERSION_V1,
        kind: META_KIND,
        response,
    })
}
