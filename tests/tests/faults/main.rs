//! Failures of members, of the hub's objects and of the controller. Each test has a fleet to itself
//! while it runs, and leaves that as it found it.

mod controller;
mod credentials;
mod events;
mod evidence;
mod fights;
mod frontends;
mod joining;
mod karmada;
mod karmada_imports;
mod leaving;
mod lookups;
mod members;
mod names;
mod narrow;
mod networks;
mod old;
mod profiles;
mod proxies;
mod quota;
mod rights;
mod versions;

use causeway_tests::{Environment, Fleet};

/// Starts an environment of two members for a test that leaves it otherwise than it found it.
async fn own() -> Environment {
    let fleet = Fleet::builder().members(2).start().await;
    let env = Environment::start(fleet).await;
    for member in env.fleet.members() {
        env.serves_clusterset(member.name()).await;
    }
    env
}
