//! `cargo run -p symm-generate` writes `symm-sys/src/generated.rs` from `symm.h`.

use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = here.join(symm_generate::OUTPUT);
    std::fs::write(&path, symm_generate::generate(&here.join(symm_generate::HEADER))?)?;
    println!("wrote {}", path.display());
    Ok(())
}
