//! The committed file is what the header says today.

use std::path::Path;

#[test]
fn committed_files_are_what_the_header_says() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let generated = symm_generate::generate(&here.join(symm_generate::HEADER)).expect("the header can be read");
    let committed = std::fs::read_to_string(here.join(symm_generate::OUTPUT)).expect(symm_generate::OUTPUT);
    assert!(
        committed == generated,
        "{} differs from what symm.h gives; run `cargo run -p symm-generate` in bindings/rust and commit the result",
        symm_generate::OUTPUT
    );
}
