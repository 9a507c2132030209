//! The story of the demo, seen on the page: nobody loads it again.

use std::time::Duration;

use causeway::domain::path::Path;
use causeway_tests::path_reports::{report_path, with_path_reports, without_path_reports};
use causeway_tests::{Environment, Fault, Fleet, Space, service};
use kube::Api;
use kube::api::DeleteParams;

use crate::chromium;
use crate::watcher::{Wanted, Watcher};

/// Maximum time of a change to the page on a busy machine; on an idle machine it is well under a
/// second.
const LATE: Duration = Duration::from_secs(60);

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
    let fleet = Fleet::builder().members(2).start().await;
    let env = Environment::builder().proxies().start(fleet).await;
    let space = env.space("shop").await;
    let ui = env.ui(&[]).await;
    let mut watcher = Watcher::open(&ui.url());
    let mut times = appears(&env, &space, &mut watcher).await;
    times.extend(path_is_reported(&env, &mut watcher).await);
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
        space.offer("foo", ["member1"], ["member2"]).await;
    };
    let ((), first) = watcher.time(wanted, create).await;
    let wanted = says("#/table", "tbody", "2 of 2", "story-2-it-has-endpoints");
    let backends = space.backends("foo").count(2).create(provider);
    let (_, second) = watcher.time(wanted, backends).await;
    vec![first, second]
}

async fn path_is_reported(env: &Environment, watcher: &mut Watcher) -> Vec<Duration> {
    let consumer = env.fleet.member("member2");
    let arc = "#/?sel=cluster%2Fmember1&to=cluster%2Fmember2";
    let wanted = says(arc, "#details", "Unknown", "story-2a-no-path-is-reported");
    let ((), unknown) = watcher.time(wanted, with_path_reports(env, consumer)).await;
    let wanted = says(arc, "#details", "Does not answer", "story-2b-a-bad-path");
    let bad = report_path(consumer, "member1", Some(Path::Bad), 0);
    let ((), bad) = watcher.time(wanted, bad).await;
    let wanted = Wanted {
        absent: true,
        ..says(arc, "#details", "Reported by", "story-2c-no-reports")
    };
    let none = without_path_reports(env, consumer);
    let ((), none) = watcher.time(wanted, none).await;
    vec![unknown, bad, none]
}

async fn is_lost_and_back(env: &Environment, watcher: &mut Watcher) -> Vec<Duration> {
    let wanted = says("#/", ".banners", "member1", "story-3-the-provider-is-lost");
    let lose = async { env.set("member1", Fault::Refused) };
    let ((), lost) = watcher.time(wanted, lose).await;
    let wanted = Wanted {
        absent: true,
        ..says("#/", ".banners", "member1", "story-4-the-provider-is-back")
    };
    let restore = async { env.set("member1", Fault::None) };
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
