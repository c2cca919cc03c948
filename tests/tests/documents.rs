//! The links, paths and commands of the documents are valid, and the documents stay short.

use std::collections::BTreeMap;
use std::path::PathBuf;

use gradus_tests::lines::{self, Line, root};

/// The documents, and the pages that the program writes.
const DOCUMENTS: [&str; 18] = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "autograd/OPS.md",
    "model/LEDGER.md",
    "tensor/NOTEBOOK.md",
    "tests/README.md",
    "tests/fuzz/README.md",
    "tests/golden/README.md",
    "tests/peers/README.md",
    "train/cluster/README.md",
    "train/paper/MINIATURE.md",
    "train/paper/MINIATURE-RETOLD.md",
    "train/paper/NOTEBOOK.md",
    "train/paper/RESULTS.md",
    "train/paper/SURVEY.md",
    "train/src/systems/SYSTEMS.md",
];

fn read(document: &str) -> String {
    let path = root().join(document);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Returns the link target that GitHub makes of a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

fn has_heading(page: &str, target: &str) -> bool {
    page.lines().filter(|line| line.starts_with('#')).any(|line| anchor(line.trim_start_matches('#')) == target)
}

#[test]
fn every_link_has_a_target() {
    let mut faults = Vec::new();
    for document in DOCUMENTS {
        let page = read(document);
        let links: Vec<&str> = page.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0)).collect();
        for link in links.into_iter().filter(|link| !link.contains("://") && !link.contains(' ')) {
            let link = link.trim_start_matches('<').trim_end_matches('>');
            let (file, target) = link.split_once('#').unwrap_or((link, ""));
            let path = root().join(document).with_file_name(file);
            let found = match (file, target) {
                ("", target) => has_heading(&page, target),
                (_, "") => path.exists(),
                (file, target) if file.ends_with(".md") => {
                    std::fs::read_to_string(&path).is_ok_and(|to| has_heading(&to, target))
                }
                _ => path.is_file(),
            };
            if !found {
                faults.push(format!("{document}: {link}"));
            }
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

/// Paths in the prose, such as `like/this.rs`, exist relative to the root of the repository.
#[test]
fn every_path_in_the_prose_exists() {
    let folders = ["tensor/", "autograd/", "model/", "train/", "tests/", ".ci/"];
    for document in ["ARCHITECTURE.md", "CONTRIBUTING.md", "tests/README.md"] {
        let page = read(document);
        let quoted = page.split('`').skip(1).step_by(2);
        let paths: Vec<&str> = quoted.filter(|text| folders.iter().any(|folder| text.starts_with(folder))).collect();
        assert!(paths.len() > 5, "{document}: {paths:?}");
        let plain = |path: &&str| !path.contains(['*', ' ', '{']) && !path.contains("NAME");
        let gone: Vec<&str> = paths.into_iter().filter(plain).filter(|path| !root().join(path).exists()).collect();
        assert!(gone.is_empty(), "{document}: {gone:?}");
    }
}

#[test]
fn readme_and_architecture_stay_short() {
    for (document, most) in [("README.md", 10_000), ("ARCHITECTURE.md", 16_000)] {
        let bytes = read(document).len();
        assert!(bytes <= most, "{document}: {bytes} bytes, at most {most}");
    }
}

/// The Rust of README is a doctest of `gradus_autograd::check::Function`.
#[test]
fn the_code_of_readme_is_a_doctest() {
    let readme = read("README.md");
    let code = readme.split("```rust\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a block of Rust");
    let doctest: String = code.lines().map(|line| format!("/// {line}").trim_end().to_owned() + "\n").collect();
    assert!(read("autograd/src/check/function.rs").contains(&format!("/// ```\n{doctest}/// ```\n")));
}

/// The excerpt in README agrees with the pages that the program writes.
#[test]
fn figures_in_readme_are_those_of_the_generated_pages() {
    let (readme, page) = (read("README.md"), read("train/paper/MINIATURE.md") + &read("train/paper/MINIATURE-RETOLD.md"));
    let (_, results) = readme.split_once("\n## Results\n").expect("README has results");
    let (excerpt, _) = results.split_once("\n## ").expect("a section follows");
    // The numbers around each ± as in `13.1 ± 6.8`, without other characters.
    let number = |text: Option<&str>| text.unwrap_or_default().trim_matches(|c: char| !c.is_ascii_digit()).to_owned();
    let sides: Vec<&str> = excerpt.split(" ± ").collect();
    let figures = sides
        .windows(2)
        .map(|pair| format!("{} ± {}", number(pair[0].split_whitespace().last()), number(pair[1].split_whitespace().next())));
    // Only a whole number counts: 3.6 is not the end of 13.6.
    let stands = |figure: &String| page.match_indices(figure).any(|(at, _)| !page[..at].ends_with(|c: char| c.is_ascii_digit()));
    let strange: Vec<String> = figures.filter(|figure| !stands(figure)).collect();
    assert_eq!((sides.len(), strange), (17, vec![]), "README quotes sixteen means with their deviations");
}

// ── Lines of cargo ──────────────────────────────────────────────────────────────────────────────────────────────────

/// A package of the workspace: its folder and its manifest.
struct Package {
    folder: PathBuf,
    manifest: toml::Table,
}

impl Package {
    /// Returns whether there is a target of this kind and name, as an entry of the manifest or as a file in the folder of its
    /// kind.
    fn has(&self, kind: &str, folder: &str, name: &str) -> bool {
        let entries = self.manifest.get(kind).and_then(toml::Value::as_array);
        let listed =
            entries.is_some_and(|all| all.iter().any(|entry| entry.get("name").and_then(toml::Value::as_str) == Some(name)));
        listed || self.folder.join(folder).join(name).with_extension("rs").is_file()
    }

    fn has_feature(&self, name: &str) -> bool {
        self.manifest.get("features").is_some_and(|features| features.get(name).is_some())
    }
}

/// Returns the packages of the workspace by name, and the name of the default member.
fn packages() -> (BTreeMap<String, Package>, String) {
    let workspace: toml::Table = read("Cargo.toml").parse().expect("a manifest");
    let folders = |list: &str| -> Vec<String> {
        let list = workspace["workspace"][list].as_array().expect("a list");
        list.iter().map(|folder| folder.as_str().expect("a folder").to_owned()).collect()
    };
    let package = |folder: &String| {
        let manifest: toml::Table = read(&format!("{folder}/Cargo.toml")).parse().expect("a manifest");
        (manifest["package"]["name"].as_str().expect("a name").to_owned(), Package { folder: root().join(folder), manifest })
    };
    let [default] = &folders("default-members")[..] else { panic!("one package is the default") };
    (folders("members").iter().map(package).collect(), package(default).0)
}

/// Returns the package, target or feature that a `cargo` command names and that does not exist.
fn fault(line: &Line, packages: &BTreeMap<String, Package>, default: &str) -> Option<String> {
    let words = line.words();
    let command = words.get(1).map(String::as_str).unwrap_or_default();
    if !["run", "test", "build", "check", "bench", "doc", "clippy"].contains(&command) {
        return None;
    }
    let flags: Vec<&str> = words[2..].iter().map(String::as_str).take_while(|word| *word != "--").collect();
    let after =
        |names: &[&str]| -> Vec<&str> { flags.windows(2).filter(|pair| names.contains(&pair[0])).map(|pair| pair[1]).collect() };
    let named = after(&["-p", "--package"]);
    if let Some(name) = named.iter().find(|name| !packages.contains_key(**name)) {
        return Some(format!("no package {name}"));
    }
    let chosen: Vec<&Package> = match (named.is_empty(), flags.contains(&"--workspace")) {
        (_, true) => packages.values().collect(),
        (true, false) => vec![&packages[default]],
        (false, false) => named.iter().map(|name| &packages[*name]).collect(),
    };
    for (flag, kind, folder) in [("--example", "example", "examples"), ("--test", "test", "tests"), ("--bin", "bin", "src/bin")] {
        let gone = after(&[flag]).into_iter().find(|name| !chosen.iter().any(|package| package.has(kind, folder, name)));
        if let Some(name) = gone {
            return Some(format!("no {kind} {name} in the package"));
        }
    }
    let features = after(&["--features", "-F"]);
    let mut features = features.iter().flat_map(|list| list.split(','));
    let has = |feature: &str| match feature.split_once('/') {
        Some((name, feature)) => packages.get(name).is_some_and(|package| package.has_feature(feature)),
        None => chosen.iter().any(|package| package.has_feature(feature)),
    };
    features.find(|feature| !has(feature)).map(|feature| format!("no feature {feature} in the package"))
}

/// Every package, target and feature named by a `cargo` command of a document exists.
#[test]
fn cargo_commands_name_existing_packages_targets_and_features() {
    let (packages, default) = packages();
    let found = lines::beginning_with("cargo");
    assert!(found.len() > 40, "{} lines", found.len());
    let faults: Vec<String> = found
        .iter()
        .filter_map(|line| Some(format!("{}: {}: {}", line.file, line.text, fault(line, &packages, &default)?)))
        .collect();
    assert!(faults.is_empty(), "{faults:#?}");
    for wrong in [
        "cargo run --example world_baselines",
        "cargo run -p gradus-nothing",
        "cargo run -p gradus-train --example nothing",
        "cargo build --features nothing",
        "cargo test -p gradus-tests --test nothing",
        "cargo test --features gradus-tensor/nothing",
    ] {
        let line = Line { file: String::new(), text: wrong.to_owned(), alone: true };
        assert!(fault(&line, &packages, &default).is_some(), "{wrong}");
    }
}
