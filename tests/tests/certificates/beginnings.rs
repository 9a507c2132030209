use std::collections::BTreeMap;
use std::time::SystemTime;

use causeway_certs::Names;

use crate::stage::Stage;

#[tokio::test]
async fn replicas_that_are_started_at_once_on_an_empty_secret_agree_on_one_authority() {
    let stage = Stage::new().await;
    stage.put(BTreeMap::new()).await;
    let replicas: Vec<_> = (0..3).map(|_| stage.launch().start_unready()).collect();
    stage.register(&replicas[0]).await;
    for replica in &replicas {
        replica.ready().await;
    }
    let stored = stage.settled(2).await;
    let now = SystemTime::now();
    let signing = &stored.signing(now).unwrap().certificate;
    assert_eq!(stored.trust(now), [signing.clone()]);
    let leaf = stored.leaf(&Names::default(), now).unwrap();
    assert_eq!(&leaf.issuer, signing);
    for replica in &replicas {
        stage.register(replica).await;
        stage.installation.asked(replica).await;
    }
}
