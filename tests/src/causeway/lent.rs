//! Environments that tests have to themselves one after the other.

use std::ops::{Deref, DerefMut};

use parking_lot::Mutex;

use super::{Environment, Launch};
use crate::Fleet;
use crate::reaper::Exit;

/// Environments that no test uses at present, and whether their controllers have other flags.
static IDLE: Mutex<Vec<(Environment, bool)>> = Mutex::new(Vec::new());

/// An environment of three members, member1 to member3, that one test has to itself. The test may
/// break what it likes and mends it. The next test takes it; that of a test that failed ends.
pub struct Lent {
    /// `None` once it is returned.
    env: Option<Environment>,
    relaunched: bool,
}

impl Lent {
    /// Takes an idle environment, or starts one, and waits until all members are in it.
    pub async fn take() -> Self {
        let taken = IDLE.lock().pop();
        let (env, relaunched) = match taken {
            Some(taken) => taken,
            None => (
                Environment::start(Fleet::builder().members(3).start().await).await,
                false,
            ),
        };
        let mut env = Self {
            env: Some(env),
            relaunched,
        };
        if relaunched {
            env.restore().await;
        }
        for name in ["member1", "member2", "member3"] {
            env.is_synced(name).await;
            env.serves_clusterset(name).await;
        }
        env
    }

    /// Takes an environment and starts its controller again with these flags.
    pub async fn with_flags(flags: &[&str]) -> Self {
        let mut env = Self::take().await;
        let launch = env.installation.controller();
        let launch = flags.iter().fold(launch, |launch, flag| launch.arg(*flag));
        env.relaunch(launch).await;
        env
    }

    /// Ends the controller, and starts one with the default flags.
    pub async fn restore(&mut self) {
        let launch = self.installation.controller();
        self.relaunch(launch).await;
        self.relaunched = false;
    }

    /// Ends the controller, which gives its Lease up, and starts this one in its place.
    pub async fn relaunch(&mut self, launch: Launch) {
        self.relaunch_unready(launch).await;
        self.controller.ready().await;
    }

    /// The same without a wait for `/readyz`.
    pub async fn relaunch_unready(&mut self, launch: Launch) {
        let process = self.controller.process();
        assert_eq!(
            process.end().await,
            Exit::Code(0),
            "{}",
            process.log_tail(30)
        );
        self.controller = launch.start_unready();
        self.relaunched = true;
    }
}

impl Deref for Lent {
    type Target = Environment;

    fn deref(&self) -> &Environment {
        self.env.as_ref().expect("it is not returned yet")
    }
}

impl DerefMut for Lent {
    fn deref_mut(&mut self) -> &mut Environment {
        self.env.as_mut().expect("it is not returned yet")
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let env = self.env.take().filter(|_| !std::thread::panicking());
        IDLE.lock().extend(env.map(|env| (env, self.relaunched)));
    }
}
