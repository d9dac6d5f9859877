// SPDX-License-Identifier: Apache-2.0
//! With feature `linked`: tells the linker where libsymm is. Otherwise there is nothing to do.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for name in ["SYMM_LIB_DIR", "PKG_CONFIG", "PKG_CONFIG_PATH", "DOCS_RS"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    // docs.rs has no libsymm, and documentation needs no linker.
    if std::env::var_os("CARGO_FEATURE_LINKED").is_none() || std::env::var_os("DOCS_RS").is_some() {
        return;
    }
    match directories() {
        Ok(directories) => {
            for directory in directories {
                println!("cargo:rustc-link-search=native={directory}");
            }
            println!("cargo:rustc-link-lib=dylib=symm");
        }
        Err(why) => {
            eprintln!("symm-sys, feature `linked`: {why}");
            eprintln!("Set SYMM_LIB_DIR to the directory of libsymm.so, or PKG_CONFIG_PATH to that of symm.pc.");
            std::process::exit(1);
        }
    }
}

/// Where to search, besides the linker's own directories.
fn directories() -> Result<Vec<String>, String> {
    if let Ok(directory) = std::env::var("SYMM_LIB_DIR") {
        return Ok(vec![directory]);
    }
    let program = std::env::var("PKG_CONFIG").unwrap_or_else(|_| "pkg-config".into());
    let output = Command::new(&program)
        .args(["--libs-only-L", "symm >= 0.2", "symm < 1"])
        .output()
        .map_err(|error| format!("{program}: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    }
    let flags = String::from_utf8_lossy(&output.stdout);
    Ok(flags.split_whitespace().filter_map(|flag| flag.strip_prefix("-L")).map(str::to_owned).collect())
}
