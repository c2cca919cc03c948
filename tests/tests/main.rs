//! Tests across crates, in one binary, because linking takes most of the time. `memory` needs its own allocator, and `browser` a
//! browser.

mod bf16;
mod derivatives;
mod disk_layer;
mod documents;
mod gradients;
mod half_surrogates;
mod heads_parity;
mod ledger;
mod lstm_parity;
mod openai_release;
mod ops_page;
mod optimizer_parity;
mod published_checkpoints;
mod relatives_parity;
mod rooms;
mod survey;
mod systems;
mod transformers_parity;
mod tuned_parity;
mod unsafe_code;

/// A file that no binary includes would be a test that never runs.
#[test]
fn every_file_of_tests_is_in_a_binary() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for (krate, folder) in
        [("autograd", "tests"), ("model", "tests"), ("tests", "tests"), ("train", "tests"), ("train/cli", "tests/cli")]
    {
        let read = |file: &str| std::fs::read_to_string(root.join(krate).join(file)).unwrap();
        let (main, manifest) = (read(&format!("{folder}/main.rs")), read("Cargo.toml"));
        for entry in std::fs::read_dir(root.join(krate).join(folder)).unwrap() {
            let name = entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned();
            let held =
                name == "main" || main.contains(&format!("\nmod {name};")) || manifest.contains(&format!("name = \"{name}\""));
            assert!(held, "{krate}/{folder}/{name}.rs: add `mod {name};` to main.rs");
        }
    }
}
