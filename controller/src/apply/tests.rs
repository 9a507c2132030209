use serde_json::Value;

use super::*;
use crate::watch::tests::http;

fn object() -> ObjectId {
    ObjectId::Service(ServiceKey::new("shop", "foo"))
}

#[tokio::test]
async fn deletion_counts_only_where_the_api_server_names_the_object() {
    let observed = ObservedVersion {
        uid: "1".into(),
        resource_version: "5".into(),
    };
    for (named, kind) in [
        (Some("foo"), None),
        (Some("bar"), Some(FailureKind::NotFound)),
        (Some(""), Some(FailureKind::NotServed)),
        (None, Some(FailureKind::NotServed)),
    ] {
        let (client, mut requests, _accepting) = http::listen().await;
        let write = Write::new(object(), Operation::Delete(observed.clone()));
        let deadline = Duration::from_secs(10);
        let answer = async {
            let asked = requests.recv().await.unwrap();
            match named {
                Some(name) => asked.not_found(name).await,
                None => asked.answer(404, "<html>404 page not found</html>").await,
            }
        };
        let (ack, ()) = tokio::join!(apply(&client, &write, deadline), answer);
        assert_eq!(ack.err().map(|failure| failure.kind), kind, "{named:?}");
    }
}

#[tokio::test]
async fn deletion_counts_only_by_a_success_or_the_object() {
    let success = r#"{"kind": "Status", "apiVersion": "v1", "status": "Success""#;
    let service = r#"{"kind": "Service", "apiVersion": "v1""#;
    for (body, counts) in [
        (format!(r#"{success}}}"#), true),
        (
            format!(r#"{success}, "details": {{"name": "foo", "kind": "services"}}}}"#),
            true,
        ),
        (
            format!(r#"{service}, "metadata": {{"name": "foo", "namespace": "shop"}}}}"#),
            true,
        ),
        ("{}".to_owned(), false),
        (
            r#"{"kind": "Status", "apiVersion": "v1"}"#.to_owned(),
            false,
        ),
        (
            format!(r#"{success}, "details": {{"name": "bar", "kind": "services"}}}}"#),
            false,
        ),
        (
            format!(r#"{service}, "metadata": {{"name": "bar", "namespace": "shop"}}}}"#),
            false,
        ),
        (format!("{service}}}"), false),
        (r#"{"metadata": {"name": "foo"}}"#.to_owned(), false),
        (
            r#"{"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "foo"}}"#.to_owned(),
            false,
        ),
        ("[]".to_owned(), false),
        (String::new(), false),
    ] {
        let (client, mut requests, _accepting) = http::listen().await;
        let observed = ObservedVersion {
            uid: "1".into(),
            resource_version: "5".into(),
        };
        let write = Write::new(object(), Operation::Delete(observed));
        let answer = async { requests.recv().await.unwrap().answer(200, &body).await };
        let (ack, ()) = tokio::join!(apply(&client, &write, Duration::from_secs(10)), answer);
        let kind = ack.err().map(|failure| failure.kind);
        assert_eq!(kind, (!counts).then_some(FailureKind::Other), "{body}");
    }
}

#[tokio::test]
async fn patch_counts_only_by_the_object_of_its_name() {
    for (body, counts) in [
        (
            r#"{"kind": "Service", "apiVersion": "v1", "metadata": {"name": "foo"}}"#,
            true,
        ),
        (
            r#"{"kind": "Service", "apiVersion": "v1", "metadata": {"name": "bar"}}"#,
            false,
        ),
        ("{}", false),
    ] {
        let (client, mut requests, _accepting) = http::listen().await;
        let write = Write::new(object(), Operation::Patch(Value::Null));
        let answer = async { requests.recv().await.unwrap().answer(200, body).await };
        let (ack, ()) = tokio::join!(apply(&client, &write, Duration::from_secs(10)), answer);
        let kind = ack.err().map(|failure| failure.kind);
        assert_eq!(kind, (!counts).then_some(FailureKind::Other), "{body}");
    }
}
