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
