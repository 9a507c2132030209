//! From the version before to this one and back, on the same objects.
//!
//! Two webhooks and two controllers of the version before run on a hub with three members,
//! installed by its own `kubectl mcs`. They are replaced one by one by those of this version, then
//! again by those of the version before, as docs/install.md says, while workloads and people change
//! services (the churn of the soak) and MultiClusterServices are sent that are right and that are
//! wrong.
//!
//! What is held: each request is answered as it should be; no endpoint of a service that nobody
//! touched is withdrawn or there twice; in the end of each way every cluster holds exactly what the
//! objects say; an object that nobody touched is written at most once on each way, and nothing is
//! written at rest. The definitions, which stay on the way back, only ever gain.
//!
//! `make upgrade` runs it, for it builds the version before. `make long` goes to and fro for ten
//! minutes.

mod definitions;
mod install;
mod play;
mod traffic;
mod writes;

use std::time::Instant;

use causeway_tests::release::Base;
use causeway_tests::{Fleet, Release, soak::soak};

use self::play::Play;
use self::traffic::Traffic;

const MEMBERS: [&str; 3] = ["member1", "member2", "member3"];

#[ignore = "builds the version before: make upgrade"]
#[tokio::test(flavor = "multi_thread")]
async fn upgrade_and_rollback_withdraw_nothing_and_write_little() {
    let base = Base::get().unwrap_or_else(|missing| panic!("{missing}"));
    let begun = Instant::now();
    let fleet = Fleet::builder().named_members(MEMBERS).start().await;
    let mut play = Play::start(&fleet, Release::Base(base)).await;
    let traffic = Traffic::start(&fleet).await;
    loop {
        play.change_services().await;
        play.replace_all(Release::This).await;
        play.change_services().await;
        play.replace_all(Release::Base(base)).await;
        if soak().is_none_or(|long| begun.elapsed() > long) {
            break;
        }
    }
    play.change_services().await;
    let seen = traffic.stop().await;
    play.report();
    eprintln!("{:4} s: {seen}", begun.elapsed().as_secs());
    let errors = &seen.all.errors;
    let first: Vec<_> = errors.iter().take(10).collect();
    assert!(errors.is_empty(), "{first:#?}");
    assert!(seen.accepted > 100 && seen.refused > 100, "hardly any load");
}
