//! The documents lead where they say, and stay short.

use std::path::{Path, PathBuf};

/// Documents that people write, and pages that the program writes.
const DOCUMENTS: [&str; 17] = [
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
    "train/paper/MINIATURE.md",
    "train/paper/MINIATURE-RETOLD.md",
    "train/paper/NOTEBOOK.md",
    "train/paper/RESULTS.md",
    "train/paper/SURVEY.md",
    "train/src/systems/SYSTEMS.md",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the root").to_owned()
}

fn read(document: &str) -> String {
    let path = root().join(document);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The link target that GitHub makes of a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

fn has_heading(page: &str, target: &str) -> bool {
    page.lines().filter(|line| line.starts_with('#')).any(|line| anchor(line.trim_start_matches('#')) == target)
}

#[test]
fn every_link_leads_somewhere() {
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

/// Paths in the prose, `like/this.rs`, from the root of the repository.
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
fn what_everyone_reads_is_short() {
    for (document, most) in [("README.md", 10_000), ("ARCHITECTURE.md", 16_000)] {
        let bytes = read(document).len();
        assert!(bytes <= most, "{document}: {bytes} bytes, at most {most}");
    }
}

/// The excerpt in README against the pages that the program writes.
#[test]
fn figures_of_the_excerpt_are_those_of_the_pages() {
    let (readme, page) = (read("README.md"), read("train/paper/MINIATURE.md") + &read("train/paper/MINIATURE-RETOLD.md"));
    let (_, results) = readme.split_once("\n## Results\n").expect("README has results");
    let (excerpt, _) = results.split_once("\n## ").expect("a section follows");
    // `13.1 ± 6.8`: the words around each ±, without what is not a number's.
    let number = |text: Option<&str>| text.unwrap_or_default().trim_matches(|c: char| !c.is_ascii_digit()).to_owned();
    let sides: Vec<&str> = excerpt.split(" ± ").collect();
    let figures = sides
        .windows(2)
        .map(|pair| format!("{} ± {}", number(pair[0].split_whitespace().last()), number(pair[1].split_whitespace().next())));
    // A whole figure: 3.6 is not the end of 13.6.
    let stands = |figure: &String| page.match_indices(figure).any(|(at, _)| !page[..at].ends_with(|c: char| c.is_ascii_digit()));
    let strange: Vec<String> = figures.filter(|figure| !stands(figure)).collect();
    assert_eq!((sides.len(), strange), (17, vec![]), "README quotes sixteen means with their deviations");
}
