use causeway_engine::model::FailureKind;

use super::*;
use crate::watch::tests::http;

#[tokio::test]
async fn deletion_counts_only_where_the_api_server_names_the_object() {
    let key = ServiceKey::new("shop", "foo");
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
        let operation = Operation::DeleteService(key.clone(), observed.clone());
        let deadline = Duration::from_secs(10);
        let answer = async {
            let asked = requests.recv().await.unwrap();
            match named {
                Some(name) => asked.not_found(name).await,
                None => asked.answer(404, "<html>404 page not found</html>").await,
            }
        };
        let (ack, ()) = tokio::join!(apply(&client, &operation, deadline), answer);
        assert_eq!(ack.err().map(|failure| failure.kind), kind, "{named:?}");
    }
}
