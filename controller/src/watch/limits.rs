//! Maximum that is read of one API server: more than any honest one has, and no more than the
//! process can hold.

use causeway_engine::model::{Failure, FailureKind};

/// Maximum that is read of one kind of object of one API server. More than that fails the watch,
/// and observed objects stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Number of objects.
    pub objects: usize,
    /// Bytes of one object, as it is sent.
    pub object_bytes: usize,
    /// Bytes of all objects, as they are sent.
    pub bytes: usize,
}

/// A mark on a request: whoever sends it counts the bytes of its answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted;

impl Default for Limits {
    fn default() -> Self {
        Self {
            objects: 250_000,
            object_bytes: 8 * MIB,
            bytes: 1024 * MIB,
        }
    }
}

const MIB: usize = 1024 * 1024;

impl Limits {
    /// Whether so much may be held.
    pub(super) fn check(&self, kind: &str, objects: usize, bytes: usize) -> Result<(), Failure> {
        if objects > self.objects {
            return Err(self.too_many_objects(kind));
        }
        if bytes > self.bytes {
            return Err(self.too_many_bytes(kind));
        }
        Ok(())
    }

    /// Returns the failure of more objects than may be held.
    pub(super) fn too_many_objects(&self, kind: &str) -> Failure {
        let most = self.objects;
        excess(format!(
            "it has more {kind}s than {most} (--max-member-objects)"
        ))
    }

    /// Returns the failure of objects that take more bytes than may be held.
    pub(super) fn too_many_bytes(&self, kind: &str) -> Failure {
        let most = self.bytes / MIB;
        excess(format!(
            "its {kind}s take more than {most} MiB (--max-member-mib)"
        ))
    }

    /// Returns the failure of a list that has ever more pages and no objects.
    pub(super) fn too_many_pages(&self, kind: &str) -> Failure {
        excess(format!("its list of {kind}s has pages without end"))
    }

    /// Whether an object may be so large.
    pub(super) fn check_object(&self, kind: &str, bytes: usize) -> Result<(), Failure> {
        match bytes <= self.object_bytes {
            true => Ok(()),
            false => Err(self.too_large(kind)),
        }
    }

    /// Returns the failure of an object that takes more bytes than may be held.
    pub(super) fn too_large(&self, kind: &str) -> Failure {
        let most = self.object_bytes / MIB;
        excess(format!(
            "it has a {kind} of more than {most} MiB (--max-member-object-mib)"
        ))
    }
}

fn excess(what: String) -> Failure {
    Failure::new(
        FailureKind::Excess,
        format!("{what}; what was known of it before is kept"),
    )
}
