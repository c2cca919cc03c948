//! `unsafe` occurs only in `tensor`, always with a reason.
//!
//! The compiler denies it in every crate of the workspace, and clippy requires a comment over each block. But an `#[allow]`, a
//! manifest without the workspace's lints, or a macro would bypass both, so this test reads the sources as text.

use std::fs;
use std::path::{Path, PathBuf};

/// The global allocator of tests, which is an `unsafe` trait. It counts, and forwards every call to the system's allocator.
const ALLOCATOR: &str = "tests/src/allocations.rs";

/// The number of lines above an `unsafe` within which its reason must begin, since the statement around it may be long.
const NEAR: usize = 8;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the root").to_owned()
}

fn members() -> Vec<String> {
    let manifest: toml::Table = fs::read_to_string(root().join("Cargo.toml")).expect("a manifest").parse().expect("TOML");
    let members = manifest["workspace"]["members"].as_array().expect("members");
    members.iter().map(|member| member.as_str().expect("a folder").to_owned()).collect()
}

/// Returns every Rust file of the repository except build outputs, by its path from the root.
fn sources() -> Vec<(String, String)> {
    let (mut found, mut folders) = (Vec::new(), vec![root()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.strip_prefix(root()).expect("below the root").to_string_lossy().into_owned();
            let passed_over = ["target", "shared"].iter().any(|folder| path.ends_with(folder)) || name.starts_with('.');
            if path.is_dir() && !passed_over {
                folders.push(path);
            } else if name.ends_with(".rs") {
                found.push((name, fs::read_to_string(&path).expect("UTF-8")));
            }
        }
    }
    found
}

/// Returns the lines with the word `unsafe` in code, by number from 0.
fn places(text: &str) -> Vec<usize> {
    let is_code = |line: &str| {
        let code = line.split("//").next().unwrap_or_default();
        let words = |code: &str| code.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "unsafe");
        // Only code outside of quotes counts.
        code.split('"').step_by(2).any(words)
    };
    text.lines().enumerate().filter(|(_, line)| is_code(line)).map(|(i, _)| i).collect()
}

/// Returns whether a reason is at or above a line: `// SAFETY:` over a block or an implementation, or `# Safety` over a function.
/// The function's body may begin with the reason instead, since a trait's function is documented in the trait.
fn is_reasoned(lines: &[&str], at: usize) -> bool {
    let line = lines[at];
    let is_function = line.contains("unsafe fn");
    // Declarations in a trait or a table have their reasons at their implementations and calls.
    if is_function && (line.trim_end().ends_with(';') || line.contains("= unsafe fn") || line.contains(": unsafe fn")) {
        return true;
    }
    let words = if is_function { ["# Safety", "SAFETY:"] } else { ["SAFETY:", "SAFETY:"] };
    let above = lines[..at].iter().rev().take(if is_function { 2 * NEAR } else { NEAR });
    let below = lines[at + 1..].iter().take(if is_function { 3 } else { 0 });
    above.chain([&line]).chain(below).any(|line| words.iter().any(|word| line.contains(word)))
}

#[test]
fn unsafe_occurs_only_in_tensor_and_in_allocators_of_tests() {
    let sources = sources();
    let (mut strange, mut inside) = (Vec::new(), 0);
    for (name, text) in &sources {
        let count = places(text).len();
        if name.starts_with("tensor/src/") {
            inside += count;
        } else if count > 0 && name != ALLOCATOR {
            strange.push(name);
        }
        let allowed = text.contains("(unsafe_code)");
        let may = name == "tensor/src/lib.rs" || name == ALLOCATOR || name == "tests/tests/unsafe_code.rs";
        assert!(!allowed || may, "{name} allows unsafe code");
    }
    assert!(sources.len() > 300 && inside > 50, "{} files and {inside} places were read", sources.len());
    assert!(strange.is_empty(), "`unsafe` outside of tensor: {strange:?}");
}

#[test]
fn each_use_of_unsafe_has_its_reason() {
    let mut bare = Vec::new();
    for (name, text) in sources() {
        let lines: Vec<&str> = text.lines().collect();
        let without = places(&text).into_iter().filter(|&at| !is_reasoned(&lines, at));
        bare.extend(without.map(|at| format!("{name}:{}: {}", at + 1, lines[at].trim())));
    }
    assert!(bare.is_empty(), "no reason near: {bare:#?}");
}

#[test]
fn every_crate_has_the_lints_of_the_workspace() {
    for member in members() {
        let manifest = fs::read_to_string(root().join(&member).join("Cargo.toml")).expect("a manifest");
        let manifest: toml::Table = manifest.parse().expect("TOML");
        let lints = manifest.get("lints").and_then(|lints| lints.get("workspace")).and_then(toml::Value::as_bool);
        assert_eq!(lints, Some(true), "{member}: [lints] workspace = true");
    }
}

#[test]
fn unsafe_in_comments_and_strings_is_ignored() {
    let text = "// unsafe\nlet x = \"unsafe\"; // unsafe\nunsafe { f() }\nlet not_unsafe = 1;\nif x { unsafe { g() } }";
    assert_eq!(places(text), [2, 4]);
    assert!(!is_reasoned(&["fn f() {", "unsafe { g() }"], 1) && is_reasoned(&["// SAFETY: it is.", "unsafe { g() }"], 1));
    assert!(!is_reasoned(&["pub unsafe fn f() {"], 0) && is_reasoned(&["/// # Safety", "unsafe fn f() {"], 1));
}
