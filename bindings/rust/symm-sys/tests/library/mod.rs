//! Tiny libraries, built on the spot.
#![allow(dead_code)] // each test uses its part

use std::path::{Path, PathBuf};
use std::process::Command;

/// A directory that goes away.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("symm-sys-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a scratch directory");
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// A shared library of this Rust source, whose `extern "C"` functions are exported.
    pub fn library(&self, name: &str, source: &str) -> PathBuf {
        let (file, library) = (self.0.join("source.rs"), self.0.join(name));
        std::fs::create_dir_all(library.parent().expect("a name below the directory")).expect("a directory");
        std::fs::write(&file, source.replace("pub extern", "#[unsafe(no_mangle)] pub extern")).expect("the source");
        let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
        let mut command = Command::new(rustc);
        command.args(["--edition=2024", "--crate-type=cdylib", "--crate-name=tiny", "-o"]).args([&library, &file]);
        assert!(command.status().expect("rustc").success());
        library
    }

    /// A library with nothing but `symm_version()`.
    pub fn versioned(&self, name: &str, version: u32) -> PathBuf {
        self.library(name, &format!("pub extern \"C\" fn symm_version() -> u32 {{ {version} }}"))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}
