//! Only `train/io/src/disk.rs` accesses files, and tests make each of its calls fail: no other program code calls the standard
//! library's functions on files.

use std::fs;
use std::path::{Path, PathBuf};

/// The files that may call these functions, each with the reason.
const EXCEPTIONS: [(&str, &str); 5] = [
    ("train/io/src/disk.rs", "the layer"),
    ("train/audit/src/bin/mutants.rs", "a developer's tool"),
    ("train/audit/src/ledger/mod.rs", "reads sources, and compares"),
    ("train/bench/src/machine.rs", "/proc"),
    ("train/cli/src/signals.rs", "/proc"),
];

/// Calls that read or change files.
const CALLS: [&str; 13] = [
    "fs::read(",
    "fs::read_to_string(",
    "fs::write(",
    "fs::rename(",
    "fs::remove_file(",
    "fs::remove_dir(",
    "fs::remove_dir_all(",
    "fs::create_dir(",
    "fs::create_dir_all(",
    "fs::copy(",
    "File::open(",
    "File::create(",
    "File::options(",
];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let is_test = ["tests", "tests.rs", "testing.rs", "examples", "benches", "target", "fuzz"].contains(&name.as_str());
        match path.is_dir() {
            _ if is_test => {}
            true => sources(&path, found),
            false if name.ends_with(".rs") => found.push(path),
            false => {}
        }
    }
}

/// Returns whether a line has a call, and not only the end of another name.
fn calls(line: &str) -> bool {
    let begins = |at: usize| !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
    CALLS.iter().any(|call| line.match_indices(call).any(|(at, _)| begins(at)))
}

#[test]
fn only_the_disk_layer_accesses_files() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let (mut files, mut seen) = (Vec::new(), 0);
    sources(&root.join("train"), &mut files);
    for path in files {
        let text = fs::read_to_string(&path).unwrap();
        let program = text.split("#[cfg(test)]").next().unwrap();
        let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
        let found = program.lines().zip(1..).find(|(line, _)| !line.trim_start().starts_with("//") && calls(line));
        match found {
            Some((line, number)) if !EXCEPTIONS.iter().any(|(file, _)| *file == name) => {
                panic!("{name}:{number}: `{}`: go through gradus_io::disk", line.trim())
            }
            Some(_) => seen += 1,
            None => {}
        }
    }
    assert_eq!(seen, EXCEPTIONS.len(), "each exception is one");
}
