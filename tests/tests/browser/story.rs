//! The story of the demo, seen on the page: nobody loads it again.

use std::time::Duration;

use causeway_tests::ui::Ui;
use causeway_tests::{
    Fault, Fleet, Installation, Proxy, Running, Space, multi_cluster_service, service,
};
use kube::Api;
use kube::api::DeleteParams;

use crate::chromium;
use crate::watcher::{Wanted, Watcher};

/// Maximum time of a change to the page on a busy machine; on an idle machine it is well under a
/// second.
const LATE: Duration = Duration::from_secs(60);

/// A provider that can be cut off, and a consumer.
struct Environment {
    _controller: Running,
    proxy: Proxy,
    fleet: Fleet,
}

impl Environment {
    async fn start() -> Self {
        let members = ["member1", "member2"];
        let fleet = Fleet::builder().named_members(members).start().await;
        let proxy = Proxy::before(fleet.member("member1")).await;
        let installation = Installation::new(&fleet).await;
        let controller = installation.controller().start().await;
        installation
            .join_at(fleet.member("member1"), &proxy.url())
            .await;
        installation.join(fleet.member("member2")).await;
        Self {
            _controller: controller,
            proxy,
            fleet,
        }
    }
}

/// Returns the expected content of the page.
fn says<'a>(hash: &'a str, selector: &'a str, text: &'a str, picture: &'a str) -> Wanted<'a> {
    Wanted {
        hash,
        selector,
        text,
        absent: false,
        picture,
    }
}

#[tokio::test]
async fn the_page_shows_the_demos_story_as_it_happens() {
    if !chromium::is_there() {
        return;
    }
    let env = Environment::start().await;
    let space = env.fleet.space("shop").await;
    let (directory, hub) = (env.fleet.directory(), env.fleet.hub().kubeconfig());
    let ui = Ui::start(env.fleet.reaper(), directory, &hub, &[]).await;
    let mut watcher = Watcher::open(&ui.url());
    let mut times = appears(&env, &space, &mut watcher).await;
    times.extend(is_lost_and_back(&env, &mut watcher).await);
    times.extend(changes_and_goes(&env, &space, &mut watcher).await);
    watcher.close().await;
    for took in times {
        assert!(took < LATE, "{took:?} from a change to the page");
    }
}

async fn appears(env: &Environment, space: &Space<'_>, watcher: &mut Watcher) -> Vec<Duration> {
    let (hub, provider) = (env.fleet.hub(), env.fleet.member("member1"));
    service("foo").port("http", 80).create(hub, space).await;
    let row = format!("{}/foo", space.name());
    let wanted = says("#/table", "tbody", &row, "story-1-the-service-appears");
    let create = async {
        let mcs = multi_cluster_service("foo");
        mcs.providers(["member1"])
            .consumers(["member2"])
            .create(space)
            .await;
    };
    let ((), first) = watcher.time(wanted, create).await;
    let wanted = says("#/table", "tbody", "2 of 2", "story-2-it-has-endpoints");
    let backends = space.backends("foo").count(2).create(provider);
    let (_, second) = watcher.time(wanted, backends).await;
    vec![first, second]
}

async fn is_lost_and_back(env: &Environment, watcher: &mut Watcher) -> Vec<Duration> {
    let wanted = says("#/", ".banners", "member1", "story-3-the-provider-is-lost");
    let lose = async { env.proxy.set(Fault::Refused) };
    let ((), lost) = watcher.time(wanted, lose).await;
    let wanted = Wanted {
        absent: true,
        ..says("#/", ".banners", "member1", "story-4-the-provider-is-back")
    };
    let restore = async { env.proxy.set(Fault::None) };
    let ((), back) = watcher.time(wanted, restore).await;
    vec![lost, back]
}

async fn changes_and_goes(
    env: &Environment,
    space: &Space<'_>,
    watcher: &mut Watcher,
) -> Vec<Duration> {
    let provider = env.fleet.member("member1");
    let place = format!("#/{}/foo", space.name());
    let wanted = says(&place, "main", "4 of 4", "story-5-the-endpoints-change");
    let backends = space.backends("foo").count(2).create(provider);
    let (pods, more) = watcher.time(wanted, backends).await;
    let wanted = says(&place, "main", "3 of 4", "story-6-a-pod-is-not-ready");
    let (_, fewer) = watcher.time(wanted, pods[0].set_ready(false)).await;
    let wanted = says(&place, "main", "Nothing exposes", "story-7-it-is-gone");
    let delete = async {
        let api = Api::<causeway::api::MultiClusterService>::namespaced(
            env.fleet.hub().client(),
            space.name(),
        );
        let deleted = api.delete("foo", &DeleteParams::default()).await;
        deleted.expect("it is deleted");
    };
    let ((), gone) = watcher.time(wanted, delete).await;
    vec![more, fewer, gone]
}
