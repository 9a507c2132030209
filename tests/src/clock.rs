//! Wall clocks that can be set, of the processes that are given them.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::causeway::Launch;
use crate::reaper::Program;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/clock.c");

/// Clocks that can be set, one a process.
pub struct Clocks {
    library: PathBuf,
    directory: PathBuf,
}

impl Clocks {
    /// Builds what processes are given, in this directory.
    pub fn new(directory: &Path) -> Self {
        let library = directory.join("clock.so");
        let mut compile = Command::new("cc");
        compile
            .args(["-O2", "-shared", "-fPIC", "-o"])
            .arg(&library)
            .arg(SOURCE);
        let done = compile
            .output()
            .unwrap_or_else(|e| panic!("cannot run cc: {e}"));
        assert!(
            done.status.success(),
            "{}",
            String::from_utf8_lossy(&done.stderr)
        );
        Self {
            library,
            directory: directory.to_path_buf(),
        }
    }

    /// The process that is started has this clock.
    pub fn give(&self, number: usize, launch: Launch) -> Launch {
        self.set(number, 0);
        launch
            .env("LD_PRELOAD", &self.library.display().to_string())
            .env("TEST_CLOCK", &self.file(number).display().to_string())
    }

    /// The program that is started has this clock, and a monotonic clock that goes by it.
    pub fn give_both(&self, number: usize, program: Program) -> Program {
        self.set(number, 0);
        program
            .env("LD_PRELOAD", self.library.display().to_string())
            .env("TEST_CLOCK", self.file(number).display().to_string())
            .env("TEST_CLOCK_MONOTONIC", "1")
    }

    /// From now on the clock shows the machine's time and so many seconds.
    pub fn set(&self, number: usize, seconds: i64) {
        // Never half written: it is replaced as a whole.
        let file = self.file(number);
        let fresh = file.with_extension("new");
        std::fs::write(&fresh, seconds.to_string()).expect("a file for a clock");
        std::fs::rename(&fresh, &file).expect("the file of a clock");
    }

    fn file(&self, number: usize) -> PathBuf {
        self.directory.join(format!("clock-{number}"))
    }
}
