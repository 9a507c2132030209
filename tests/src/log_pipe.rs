//! The pipe that takes the log of a process, as a container's: a thread reads it until the test
//! blocks it.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;

/// `O_NONBLOCK` of Linux.
const NONBLOCK: i32 = 0o4000;
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// State of the reader.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reading {
    On,
    Paused,
    Ended,
}

/// A named pipe whose content is written into a file.
pub struct LogPipe {
    pipe: PathBuf,
    log: PathBuf,
    /// Held while the pipe is read or filled.
    reading: Arc<Mutex<Reading>>,
    reader: Option<JoinHandle<()>>,
}

impl LogPipe {
    /// Makes a pipe in that directory and begins to read it.
    pub fn new(directory: &Path) -> Self {
        let (pipe, log) = (directory.join("log.pipe"), directory.join("controller.log"));
        let made = Command::new("mkfifo").arg(&pipe).status();
        assert!(made.expect("mkfifo").success(), "no pipe");
        let opened = open(&pipe);
        let file = File::create(&log).expect("a log");
        let reading = Arc::new(Mutex::new(Reading::On));
        let state = Arc::clone(&reading);
        let reader = std::thread::spawn(move || copy(opened, file, &state));
        Self {
            pipe,
            log,
            reading,
            reader: Some(reader),
        }
    }

    /// Returns the path that the process writes to.
    pub fn pipe(&self) -> &Path {
        &self.pipe
    }

    /// Returns the path of the log that was read so far.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Stops reading and fills the pipe: the thread that writes next blocks.
    pub fn block(&self) {
        let mut reading = self.reading.lock();
        *reading = Reading::Paused;
        let mut pipe = open(&self.pipe);
        for size in [4096, 1] {
            while pipe.write(&vec![b'\n'; size]).is_ok() {}
        }
    }

    /// Ends [`LogPipe::block`].
    pub fn unblock(&self) {
        *self.reading.lock() = Reading::On;
    }
}

impl Drop for LogPipe {
    fn drop(&mut self) {
        *self.reading.lock() = Reading::Ended;
        if let Some(reader) = self.reader.take() {
            // A reader that panicked has nothing more to do either.
            reader.join().ok();
        }
    }
}

/// For reading and writing, so that neither end has to be there first.
fn open(pipe: &Path) -> File {
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).custom_flags(NONBLOCK);
    options.open(pipe).expect("a pipe")
}

fn copy(mut pipe: File, mut log: File, reading: &Mutex<Reading>) {
    let mut buffer = vec![0; 65_536];
    loop {
        let state = reading.lock();
        let read = match *state {
            Reading::Ended => return,
            Reading::Paused => Err(ErrorKind::WouldBlock.into()),
            Reading::On => pipe.read(&mut buffer),
        };
        drop(state);
        match read {
            Ok(count) => log.write_all(&buffer[..count]).expect("the log"),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                std::thread::sleep(LOOK_AGAIN);
            }
            Err(error) => panic!("the pipe cannot be read: {error}"),
        }
    }
}
