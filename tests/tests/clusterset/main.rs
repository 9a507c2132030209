//! The Multi-Cluster Services API (KEP-1645) on a hub with two and with three members.
//! `tests/KEP-1645.md` says which test holds which sentence.

/// Runs each of these on two clusters and on three.
macro_rules! on_two_and_three_clusters {
    ($($name:ident),+ $(,)?) => {
        mod on_two_clusters {
            $(#[tokio::test]
            async fn $name() {
                super::$name(crate::Turn::on_two().await).await;
            })+
        }
        mod on_three_clusters {
            $(#[tokio::test]
            async fn $name() {
                super::$name(crate::Turn::on_three().await).await;
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
mod namespaces;
mod near;
mod ports;
mod problems;
mod slices;
mod turn;

use std::ops::Deref;
use std::sync::atomic::AtomicBool;

use causeway_tests::{Environment, Fleet};
use tokio::sync::{OnceCell, RwLock};
use turn::{Turn, cluster_set_ip, condition_of, dig_is_there};

/// A hub with members that are joined, and one controller. member1 has IPv4 alone, the others IPv6
/// too.
struct Clusterset {
    env: Environment,
    /// Read by tests that leave the clusters as they are, written by those that break something.
    peace: RwLock<()>,
    /// Whether a test that had the clusters for itself failed before it restored their definitions.
    is_broken: AtomicBool,
}

impl Deref for Clusterset {
    type Target = Environment;

    fn deref(&self) -> &Environment {
        &self.env
    }
}

impl Clusterset {
    async fn fleet(members: usize) -> Fleet {
        let builder = Fleet::builder().members(members).clusterset();
        let dual = (2..=members).map(|number| format!("member{number}"));
        let builder = dual.fold(builder, |builder, name| builder.dual_stack(&name));
        builder.start().await
    }

    async fn of(fleet: Fleet, flags: &[&str]) -> Self {
        let flags = flags.iter();
        let builder = flags.fold(Environment::builder(), |builder, flag| builder.flag(flag));
        Self {
            env: builder.start(fleet).await,
            peace: RwLock::default(),
            is_broken: AtomicBool::new(false),
        }
    }

    async fn of_two() -> &'static Self {
        static TWO: OnceCell<Clusterset> = OnceCell::const_new();
        // Its controller is killed often, and would wait each time for the lease of the one before.
        let start = async || Self::of(Self::fleet(2).await, &["--leader-elect=false"]).await;
        TWO.get_or_init(start).await
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
        let start = async || Self::of(Self::fleet(3).await, &[]).await;
        THREE.get_or_init(start).await
    }
}
