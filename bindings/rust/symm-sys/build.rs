//! With feature `link`, tells the linker where libsymm is; with feature `vendored`, builds libsymm
//! first. Without them there is nothing to do.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for name in ["SYMM_LIB_DIR", "PKG_CONFIG", "PKG_CONFIG_PATH", "DOCS_RS"] {
        println!("cargo:rerun-if-env-changed={name}");
    }

    // docs.rs has no libsymm, and documentation needs no linker.
    if std::env::var_os("CARGO_FEATURE_LINK").is_none() || std::env::var_os("DOCS_RS").is_some() {
        return;
    }
    if is_documentation() {
        // cargo keeps one result for `doc` and `build`. A file that is not there makes it run this
        // script again.
        println!("cargo:rerun-if-changed=documentation-needs-no-libsymm");
        return;
    }

    #[cfg(feature = "vendored")]
    build();
    #[cfg(not(feature = "vendored"))]
    match directories() {
        Ok(directories) => {
            for directory in directories {
                println!("cargo:rustc-link-search=native={directory}");
            }
            println!("cargo:rustc-link-lib=dylib=symm");
        }
        Err(why) => {
            eprintln!("libsymm-sys, feature `link`: {why}");
            eprintln!(
                "Set SYMM_LIB_DIR to the directory of libsymm.so, \
                 or PKG_CONFIG_PATH to that of symm.pc."
            );
            std::process::exit(1);
        }
    }
}

/// Whether `cargo doc` runs this script. cargo tells scripts what to build, not what for, but it is
/// their parent, and the first name of a command among its arguments is its own.
fn is_documentation() -> bool {
    let parent = std::os::unix::process::parent_id();
    let arguments = std::fs::read(format!("/proc/{parent}/cmdline")).unwrap_or_default();
    let commands: &[&[u8]] = &[
        b"b", b"bench", b"build", b"c", b"check", b"clippy", b"d", b"doc", b"fix", b"install",
        b"package", b"publish", b"r", b"run", b"rustc", b"rustdoc", b"t", b"test",
    ];
    let command = arguments
        .split(|&byte| byte == 0)
        .skip(1)
        .find(|argument| commands.contains(argument));
    command.is_some_and(|name| [&b"d"[..], b"doc", b"rustdoc"].contains(&name))
}

/// Builds libsymm from the sources that are packed with the crate, or from the repository around
/// it.
#[cfg(feature = "vendored")]
fn build() {
    let here =
        std::path::PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let packed = here.join("vendor");
    let source = if packed.exists() {
        packed
    } else {
        here.join("../../..")
    };

    for folder in ["capi", "cmake", "core", "kernels"] {
        println!("cargo:rerun-if-changed={}", source.join(folder).display());
    }
    let mut config = cmake::Config::new(&source);
    config
        .profile("Release")
        .define("SYMM_UNITY", "all")
        .define("CMAKE_INSTALL_LIBDIR", "lib");
    for (part, wanted) in [
        ("STATIC", "ON"),
        ("TESTS", "OFF"),
        ("TOOL", "OFF"),
        ("BENCH", "OFF"),
    ] {
        config.define(format!("SYMM_{part}"), wanted);
    }

    // Without libsodium, groups would be those of one machine. CMake says what is missing.
    config.define("SYMM_SODIUM", "on");
    for name in ["SYMM_CUDA", "SYMM_SODIUM"] {
        println!("cargo:rerun-if-env-changed={name}");
        if let Ok(wanted) = std::env::var(name) {
            config.define(name, wanted);
        }
    }

    let built = config.build();
    println!(
        "cargo:rustc-link-search=native={}",
        built.join("lib").display()
    );
    println!("cargo:rustc-link-lib=static=symm");
    link_sodium(&built);
    println!("cargo:rustc-link-lib=stdc++");
}

/// Links libsodium, where CMake found it and libsymm.a calls it, as symm.pc says.
#[cfg(feature = "vendored")]
fn link_sodium(built: &std::path::Path) {
    let read = |file: &str| {
        let path = built.join(file);
        std::fs::read_to_string(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
    };
    if !read("lib/pkgconfig/symm.pc").contains("-lsodium") {
        return;
    }

    let cache = read("build/CMakeCache.txt");
    let library = cache
        .lines()
        .find_map(|line| line.strip_prefix("SYMM_SODIUM_LIBRARY:FILEPATH="))
        .expect("CMake keeps where libsodium is");
    let folder = std::path::Path::new(library)
        .parent()
        .expect("a file is in a folder");
    println!("cargo:rustc-link-search=native={}", folder.display());
    println!("cargo:rustc-link-lib=static=sodium");
}

/// The directories in which to look for libsymm, besides the linker's own.
#[cfg(not(feature = "vendored"))]
fn directories() -> Result<Vec<String>, String> {
    if let Ok(directory) = std::env::var("SYMM_LIB_DIR") {
        return Ok(vec![directory]);
    }

    let program = std::env::var("PKG_CONFIG").unwrap_or_else(|_| "pkg-config".into());
    let output = std::process::Command::new(&program)
        .args(["--libs-only-L", "symm >= 0.2", "symm < 1"])
        .output()
        .map_err(|error| format!("{program}: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    }

    let flags = String::from_utf8_lossy(&output.stdout);
    Ok(flags
        .split_whitespace()
        .filter_map(|flag| flag.strip_prefix("-L"))
        .map(str::to_owned)
        .collect())
}
