use super::*;
use crate::watch::tests::http;

#[tokio::test]
async fn document_beyond_its_maximum_is_refused() {
    for (bytes, kind) in [
        (DOCUMENT_MAX, None),
        (DOCUMENT_MAX + 1, Some(FailureKind::Excess)),
    ] {
        let (client, mut requests, _accepting) = http::listen().await;
        let text = r#"{"resources":[{"name":"works"}]}"#;
        let text = format!("{text}{}", " ".repeat(bytes - text.len()));
        let answer = async {
            let asked = requests.recv().await.expect("a request");
            asked.answer_in_part(200, &text).await;
        };
        let found = document::<Resources>(&client, "/apis/example/v1", DEADLINE);
        let (found, ()) = tokio::join!(found, answer);
        let has_works = found.map(|found| found.is_some_and(|found| found.has("works")));
        let failure = has_works.as_ref().err().map(|failure| failure.kind);
        assert_eq!(
            (failure, has_works.is_ok_and(|has| has)),
            (kind, kind.is_none())
        );
    }
}

#[tokio::test]
async fn rejected_credentials_are_read_with_the_right_to_list_only() {
    let (client, mut requests, _accepting) = http::listen().await;
    let (events, mut received) = mpsc::channel(1);
    let secret = SecretReference {
        namespace: "causeway-members".to_owned(),
        name: "edge".to_owned(),
    };
    for (items, is_found) in [
        (
            r#"[{"metadata":{"name":"other"}},{"metadata":{"name":"edge"}}]"#,
            true,
        ),
        ("[]", false),
    ] {
        let answer = async {
            let asked = requests.recv().await.expect("a request");
            assert_eq!(asked.path, "/api/v1/namespaces/causeway-members/secrets");
            assert_eq!(asked.query["fieldSelector"], "metadata.name%3Dedge");
            let list = format!(
                r#"{{"kind":"SecretList","apiVersion":"v1","metadata":{{}},"items":{items}}}"#
            );
            asked.answer(200, &list).await;
        };
        tokio::join!(
            credentials(client.clone(), secret.clone(), events.clone()),
            answer
        );
        let found = match received.try_recv() {
            Ok(Event::Hub(HubEvent::Secrets(namespace, Signal::Applied(found)))) => {
                assert_eq!(namespace, secret.namespace);
                found.metadata.name
            }
            _ => None,
        };
        assert_eq!(found, is_found.then(|| secret.name.clone()));
    }
}
