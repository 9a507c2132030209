//! A program as it was linked: whether it can be all that an image holds.

use std::str::FromStr as _;

use anyhow::{Context as _, bail};
use auditable_serde::VersionInfo;
use object::Endianness;
use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader as _, ProgramHeader as _};
use oci_spec::image::Arch;

/// The most that a program may say of what it was built from, in bytes.
const AUDIT_MAX: usize = 8 << 20;

/// Facts that a linked program holds about itself.
#[derive(Debug)]
pub(crate) struct Program {
    /// The machines that it runs on.
    pub architecture: Arch,
    /// The crates that it was built from.
    pub crates: VersionInfo,
}

impl Program {
    /// Reads a linked program.
    pub(crate) fn read(bytes: &[u8]) -> anyhow::Result<Self> {
        let architecture = architecture_of_static(bytes)?;
        let crates = auditable_info::json_from_slice(bytes, AUDIT_MAX).context(
            "it names no crates that it was built from, as `cargo auditable` writes them",
        )?;
        let crates = VersionInfo::from_str(&crates)
            .context("the crates that it was built from cannot be read")?;
        Ok(Self {
            architecture,
            crates,
        })
    }
}

fn architecture_of_static(bytes: &[u8]) -> anyhow::Result<Arch> {
    let header = FileHeader64::<Endianness>::parse(bytes);
    let header = header.context("it is no ELF program of 64 bits")?;
    let endian = header.endian()?;
    let architecture = match header.e_machine(endian) {
        elf::EM_X86_64 => Arch::Amd64,
        elf::EM_AARCH64 => Arch::ARM64,
        other => {
            bail!("it is for the ELF machine {other}, and images are made for x86-64 and AArch64")
        }
    };
    for segment in header.program_headers(endian, bytes)? {
        if let Some(path) = segment.interpreter(endian, bytes)? {
            let path = String::from_utf8_lossy(path);
            bail!("it is not static: it is started by {path}");
        }
    }
    Ok(architecture)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Crates of a webhook that needs itoa, and cc to be compiled.
    pub(crate) fn crates() -> VersionInfo {
        let crates = VersionInfo::from_str(
            r#"{"packages": [
                {"name": "causeway-webhook", "version": "0.1.0", "source": "local", "dependencies": [1, 2], "root": true},
                {"name": "cc", "version": "1.0.0+b1", "source": "crates.io", "kind": "build"},
                {"name": "itoa", "version": "1.0.0", "source": "crates.io"}
            ]}"#,
        );
        crates.expect("crates")
    }

    /// The header of a program that consists of nothing else, for a machine.
    fn header(machine: u16) -> Vec<u8> {
        let mut bytes = vec![0; 64];
        bytes[..8].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1, 0]);
        bytes[16..18].copy_from_slice(&elf::ET_EXEC.to_le_bytes());
        bytes[18..20].copy_from_slice(&machine.to_le_bytes());
        bytes[20] = 1;
        bytes[52] = 64;
        bytes
    }

    #[test]
    fn a_static_program_is_of_the_machine_that_its_header_names() {
        for (machine, expected) in [
            (elf::EM_X86_64, Arch::Amd64),
            (elf::EM_AARCH64, Arch::ARM64),
        ] {
            let architecture = architecture_of_static(&header(machine)).expect("static");
            assert_eq!(architecture, expected);
        }
        let error = architecture_of_static(&header(elf::EM_RISCV)).expect_err("no image");
        assert_eq!(
            error.to_string(),
            "it is for the ELF machine 243, and images are made for x86-64 and AArch64"
        );
    }

    #[test]
    fn a_program_that_needs_libraries_is_refused() {
        let own = std::env::current_exe().expect("this test");
        let own = std::fs::read(own).expect("this test");
        let error = Program::read(&own).expect_err("it is linked to the C library");
        let message = error.to_string();
        assert!(
            message.starts_with("it is not static: it is started by /"),
            "{message}"
        );
    }

    #[test]
    fn a_program_that_does_not_say_what_it_was_built_from_is_refused() {
        let error = Program::read(&header(elf::EM_X86_64)).expect_err("it says nothing");
        assert_eq!(
            error.to_string(),
            "it names no crates that it was built from, as `cargo auditable` writes them"
        );
    }

    #[test]
    fn what_is_no_program_is_refused() {
        let error = Program::read(b"#!/bin/sh").expect_err("a script");
        assert_eq!(error.to_string(), "it is no ELF program of 64 bits");
    }
}
