//! The act of the clusterset: a Service that clusterb exports is imported everywhere, and
//! un-exported.

use anyhow::bail;
use causeway_tests::Cluster;

use super::{SOON, Story};
use crate::shell::Shell;
use crate::stage::{CONSUMER, PROVIDER};

const NAME: &str = "foo.default.svc.clusterset.local";
const IMPORT: &str = "kubectl --context clustera get serviceimport foo";
const SLICES: &str = "kubectl --context clustera get endpointslices -l multicluster.kubernetes.io/service-name=foo \
    -o custom-columns=NAME:.metadata.name,ADDRESSES:.endpoints[*].addresses[*],PORTS:.ports[*].port --no-headers";

/// Plays the act: nothing of the service is left when it begins, nor when it ends.
pub(crate) async fn play(story: &Story, shell: &Shell, consumer: &Cluster) -> anyhow::Result<()> {
    story.begin("The other way: clusterb has a Service of its own, and exports it (KEP-1645)");
    shell
        .run("kubectl --context clusterb apply -f tests/demo/service.yaml -f tests/demo/serviceexport.yaml")
        .await?;
    shell
        .run(
            "kubectl --context clusterb wait --for=condition=Ready serviceexport/foo --timeout=60s",
        )
        .await?;
    story.begin("clustera has imported it, with an address of its own");
    let address = "kubectl --context clustera get serviceimport foo -o jsonpath='{.spec.ips[0]}'";
    let ip = shell
        .until(address, SOON, |answer| answer.text.starts_with("10."))
        .await?;
    shell.run(IMPORT).await?;
    shell
        .run("kubectl --context clustera get service derived-foo")
        .await?;
    shell
        .until(SLICES, SOON, |answer| answer.text.contains("10."))
        .await?;
    shell.run("kubectl mcs status foo").await?;
    if let Some(namespace) = consumer.network_namespace() {
        story.begin("It is reached by that address, and by the clusterset's name");
        for host in [ip.trim(), NAME] {
            let curl = format!("ip netns exec {namespace} curl -sS --max-time 3 http://{host}:80");
            let of_provider = format!("in {PROVIDER}");
            shell
                .until(&curl, SOON, |answer| answer.text.contains(&of_provider))
                .await?;
        }
    }
    story.begin("It is exported no more, and gone from clustera");
    shell
        .run("kubectl --context clusterb delete -f tests/demo/serviceexport.yaml -f tests/demo/service.yaml")
        .await?;
    let left = "kubectl --context clustera get serviceimports,services,endpointslices -l app.kubernetes.io/managed-by=causeway";
    let gone = shell
        .until(left, SOON, |answer| {
            answer.text.contains("No resources found")
        })
        .await?;
    if gone.contains("derived-foo") {
        bail!("{CONSUMER} still has something of the service");
    }
    Ok(())
}
