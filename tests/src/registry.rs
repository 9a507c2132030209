//! A registry of container images on this machine, which real nodes pull from.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use crate::binaries::{self, Testbed};
use crate::eventually::{START, eventually};
use crate::ports;
use crate::reaper::{Process, Program, Reaper};

/// The name that nodes know it by.
pub const NAME: &str = "registry.example";

/// The image of the program of pods, `pod`, in it: `serve`, `get` and `pause`.
pub const POD_IMAGE: &str = "testbed/pod:1";

/// A registry that runs. It keeps images in memory and speaks HTTP.
pub struct Registry {
    address: SocketAddr,
    process: Process,
}

impl Registry {
    pub(crate) async fn start(reaper: &Arc<Reaper>, directory: &Path, address: IpAddr) -> Self {
        let address = SocketAddr::new(address, ports::fresh());
        let pod = Testbed::get().program("pod");
        let log = directory.join("registry.log");
        let program = Program::new(binaries::node("registry"), &log)
            .arg(address.to_string())
            .arg(format!("{POD_IMAGE}={}", pod.display()));
        let process = reaper.run(program);
        eventually("the registry listens", START, || async {
            assert!(process.is_running(), "it ended:\n{}", process.log_tail(20));
            std::fs::read_to_string(&log).is_ok_and(|log| log.contains("listening"))
        })
        .await;
        Self { address, process }
    }

    /// Returns the address of the registry.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn log(&self) -> &Path {
        self.process.log()
    }
}
