//! The Multi-Cluster Services API (KEP-1645) on a hub with two and with three members. `tests/KEP-1645.md` says which test
//! holds which sentence.

/// Runs each of these on two clusters and on three.
macro_rules! on_two_and_three_clusters {
    ($($name:ident),+ $(,)?) => {
        mod on_two_clusters {
            $(#[tokio::test]
            async fn $name() {
                super::$name(crate::Stage::on_two().await).await;
            })+
        }
        mod on_three_clusters {
            $(#[tokio::test]
            async fn $name() {
                super::$name(crate::Stage::on_three().await).await;
            })+
        }
    };
}

mod beside;
mod conflicts;
mod definitions;
mod exports;
mod families;
mod guide;
mod headless;
mod ids;
mod imports;
mod kills;
mod names;
mod near;
mod ports;
mod problems;
mod sentences;
mod slices;
mod stage;

use std::sync::atomic::AtomicBool;

use causeway_tests::Fleet;
use causeway_tests::causeway::{Installation, Running};
use stage::{Stage, cluster_set_ip, condition_of, dig_is_there};
use tokio::sync::{OnceCell, RwLock};

/// A hub with members that are joined, and one controller. member1 has IPv4 alone, the others IPv6 too.
struct Clusterset {
    fleet: Fleet,
    controller: Running,
    installation: Installation,
    /// Read by tests that leave the clusters as they are, written by those that break something.
    peace: RwLock<()>,
    /// Whether a test that had the clusters for itself failed before it restored their definitions.
    is_broken: AtomicBool,
}

impl Clusterset {
    async fn start(members: usize, flags: &[&str]) -> Self {
        Self::of(Self::fleet(members).await, flags).await
    }

    async fn fleet(members: usize) -> Fleet {
        let mut builder = Fleet::builder().members(members).clusterset();
        for number in 2..=members {
            builder = builder.dual_stack(&format!("member{number}"));
        }
        builder.start().await
    }

    async fn of(fleet: Fleet, flags: &[&str]) -> Self {
        let installation = Installation::new(&fleet).await;
        let flags = flags.iter().copied();
        let controller = flags.fold(installation.controller(), |launch, flag| launch.arg(flag));
        let controller = controller.start().await;
        for member in fleet.members() {
            installation.join(member).await;
        }
        Self {
            fleet,
            controller,
            installation,
            peace: RwLock::default(),
            is_broken: AtomicBool::new(false),
        }
    }

    async fn of_two() -> &'static Self {
        static TWO: OnceCell<Clusterset> = OnceCell::const_new();
        // Its controller is killed often, and would wait each time for the lease of the one before.
        TWO.get_or_init(|| Self::start(2, &["--leader-elect=false"]))
            .await
    }

    /// Two members, of which member1 has the id eu-1 in its clusterset.
    async fn with_ids() -> &'static Self {
        static WITH_IDS: OnceCell<Clusterset> = OnceCell::const_new();
        let start = async || {
            let fleet = Self::fleet(2).await;
            let member1 = fleet.member("member1");
            member1.serve_cluster_properties().await;
            member1.set_cluster_id("eu-1").await;
            Self::of(fleet, &["--leader-elect=false"]).await
        };
        WITH_IDS.get_or_init(start).await
    }

    async fn of_three() -> &'static Self {
        static THREE: OnceCell<Clusterset> = OnceCell::const_new();
        THREE.get_or_init(|| Self::start(3, &[])).await
    }
}
