//! Evidence about the evidence: every file of the derivatives, with a wrong operator, constant or result planted wherever one can
//! be, and what the tests said of it.
//!
//! [cargo-mutants](https://mutants.rs) plants them, one at a time; `.ci/mutants` runs it file by file and keeps what it found in
//! `mutants.json` beside this file. A mutant that no test refuses is a hole in the tests, unless it is equivalent: what it changes
//! cannot be seen from outside. Those are in `equivalent.toml`, each with the reason. `samples` are
//! left out: they are inputs of the tests, and other inputs make no derivative wrong.

use std::collections::BTreeMap;

use gradus_io::hex;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::catalogue;

/// Files whose mutants the same tests should kill: those of their own crate, so that a mutant takes seconds.
#[derive(Clone, Debug)]
pub struct Group {
    /// What they are.
    pub name: &'static str,
    /// The crate whose tests should kill them beside those of their own.
    pub package: Option<&'static str>,
    /// Which of the crate's tests, as targets of `cargo test`.
    pub tests: &'static [&'static str],
    /// And of those whose names contain this.
    pub filter: Option<&'static str>,
    /// Path from the root of the repository, and text.
    pub files: Vec<(String, &'static str)>,
}

/// The files whose mutants should be killed: ops, methods of tensors, reverse pass, optimizers and their kernel; what decides a result
/// beyond derivatives; and what keeps files whole.
pub fn groups() -> Vec<Group> {
    let file = |path: &str| catalogue::file(path).map(|text| (path.to_owned(), text)).expect("the file is in the catalogue");
    let mut derivatives = catalogue::files("autograd/src/tape");
    derivatives.extend(["derivatives", "ops/operators", "ops/pointwise"].map(|name| file(&format!("autograd/src/{name}.rs"))));
    let optimizers = vec![
        ("train/src/optim/clip.rs".to_owned(), include_str!("../../src/optim/clip.rs")),
        ("train/src/optim/forms.rs".to_owned(), include_str!("../../src/optim/forms.rs")),
        ("train/src/optim/schedule.rs".to_owned(), include_str!("../../src/optim/schedule.rs")),
    ];
    // What the ops call; the witnesses over the ops are tests of it.
    let methods = catalogue::files("tensor/src/methods");
    let sources = |folder: &str| {
        let no_tests = |(path, _): &(String, _)| !["/tests", "/testing", "/twins", "/bits/"].iter().any(|name| path.contains(name));
        catalogue::files_below(folder).into_iter().filter(no_tests).collect::<Vec<_>>()
    };
    let kernels = sources("tensor/src/cpu").into_iter().filter(|(path, _)| !path.ends_with("cpu/adam.rs")).collect();
    // `check` is a test itself.
    let model = sources("model/src").into_iter().filter(|(path, _)| !["/check/", "/checkpoint/"].iter().any(|f| path.contains(f)));
    let model = model.collect();
    let lib: &[&str] = &["--lib"];
    let all: &[&str] = &["--lib", "--test=autograd"];
    vec![
        Group { name: "the ops", package: None, tests: all, filter: None, files: catalogue::sources() },
        Group { name: "the methods of tensors", package: Some("gradus-autograd"), tests: all, filter: None, files: methods },
        Group { name: "the reverse pass", package: None, tests: all, filter: None, files: derivatives },
        Group { name: "the optimizers", package: None, tests: lib, filter: Some("optim::"), files: optimizers },
        Group {
            name: "their kernel",
            package: None,
            tests: lib,
            filter: Some("adam"),
            files: vec![file("tensor/src/cpu/adam.rs")],
        },
        Group {
            name: "decoding and zero-shot",
            package: None,
            tests: lib,
            filter: None,
            files: ["generate", "zero_shot"].map(|name| file(&format!("train/src/{name}.rs"))).to_vec(),
        },
        Group {
            name: "the tasks",
            package: None,
            tests: lib,
            filter: Some("tasks::"),
            files: catalogue::files("train/src/tasks"),
        },
        Group { name: "the data sets", package: None, tests: lib, filter: None, files: sources("train/data/src") },
        Group {
            name: "the trainer",
            package: None,
            tests: lib,
            filter: Some("trainer::"),
            files: sources("train/src/trainer"),
        },
        Group { name: "the model", package: None, tests: lib, filter: None, files: model },
        Group { name: "checkpoints", package: None, tests: lib, filter: None, files: sources("model/src/checkpoint") },
        Group { name: "the kernels", package: None, tests: lib, filter: Some("cpu::"), files: kernels },
        Group {
            name: "files",
            package: None,
            tests: lib,
            filter: None,
            files: ["checksums", "disk", "files"].map(|name| file(&format!("train/io/src/{name}.rs"))).to_vec(),
        },
    ]
}

/// What became of a file's mutants.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tested {
    /// [`digest`] of the file as it was.
    pub source: String,
    /// Those that a test refused, or that timed out.
    pub killed: usize,
    /// Those that the compiler refused.
    pub unviable: usize,
    /// Those that no test refused.
    pub survivors: Vec<Mutant>,
}

/// A mutant that no test refused. It has no line number: lines move.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Mutant {
    /// What was planted, in cargo-mutants' words.
    pub change: String,
    /// The line on which it was planted.
    pub line: String,
}

/// What is known about every file.
pub type Results = BTreeMap<String, Tested>;

/// Why a mutant cannot be seen.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Equivalent {
    /// Its file.
    pub file: String,
    /// What is planted.
    pub change: String,
    /// The line on which it is planted.
    pub line: String,
    /// The reason.
    pub why: String,
}

/// What the last run of each file found.
pub fn results() -> Results {
    serde_json::from_str(include_str!("mutants.json")).expect("mutants.json is as .ci/mutants writes it")
}

/// The mutants that cannot be seen.
pub fn equivalents() -> Vec<Equivalent> {
    #[derive(Deserialize)]
    struct File {
        #[serde(default)]
        mutant: Vec<Equivalent>,
    }
    toml::from_str::<File>(include_str!("equivalent.toml"))
        .expect("equivalent.toml: [[mutant]] with file, change, line, why")
        .mutant
}

/// SHA-256 of a file without the lines that are comments, the first 16 hexadecimal digits.
pub fn digest(text: &str) -> String {
    let mut hasher = Sha256::new();
    for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
        hasher.update(line);
        hasher.update("\n");
    }
    hex::encode(&hasher.finalize()[..8])
}

/// The score of a group of files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Score {
    /// Files.
    pub files: usize,
    /// Files that have changed since their mutants were run, or whose mutants never were.
    pub stale: Vec<String>,
    /// Mutants that compile.
    pub planted: usize,
    /// Of them, refused by a test.
    pub killed: usize,
    /// Of them, equivalent.
    pub equivalent: usize,
    /// Of them, neither refused nor justified.
    pub open: Vec<String>,
}

impl Score {
    /// The score of these files.
    pub fn of(files: &[(String, &str)], results: &Results, equivalents: &[Equivalent]) -> Self {
        let mut score = Score { files: files.len(), ..Score::default() };
        for (path, text) in files {
            let Some(tested) = results.get(path) else {
                score.stale.push(path.clone());
                continue;
            };
            if tested.source != digest(text) {
                score.stale.push(path.clone());
            }
            score.planted += tested.killed + tested.survivors.len();
            score.killed += tested.killed;
            for mutant in &tested.survivors {
                let justified = |e: &&Equivalent| (&e.file, &e.change, &e.line) == (path, &mutant.change, &mutant.line);
                match equivalents.iter().find(justified) {
                    Some(_) => score.equivalent += 1,
                    None => score.open.push(format!("{path}: {}, in `{}`", mutant.change, mutant.line)),
                }
            }
        }
        score
    }

    /// One line: whose score it is, files, mutants, killed, equivalent, open, and which files have changed since.
    pub fn cells(&self, of: &str) -> [String; 7] {
        let stale = match &self.stale[..] {
            [] => "none".to_owned(),
            many if many.len() > 4 => format!("{} files", many.len()),
            some => some.iter().map(|path| path.rsplit('/').next().unwrap_or(path)).collect::<Vec<_>>().join(", "),
        };
        let counts = [self.files, self.planted, self.killed, self.equivalent, self.open.len()];
        let [files, planted, killed, equivalent, open] = counts.map(|n| n.to_string());
        [of.to_owned(), files, planted, killed, equivalent, open, stale]
    }
}

/// The score of each group of files, by its name.
pub fn scores() -> Vec<(&'static str, Score)> {
    let (results, equivalents) = (results(), equivalents());
    groups().into_iter().map(|group| (group.name, Score::of(&group.files, &results, &equivalents))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_score_tells_killed_equivalent_open_and_stale_apart() {
        let mutant = |change: &str| Mutant { change: change.into(), line: "a < b".into() };
        let tested = |text: &str| Tested {
            source: digest(text),
            killed: 5,
            unviable: 2,
            survivors: vec![mutant("replace < with <="), mutant("replace < with ==")],
        };
        let results = Results::from([("a.rs".to_owned(), tested("a")), ("b.rs".to_owned(), tested("old"))]);
        let equivalents = [Equivalent {
            file: "a.rs".into(),
            change: "replace < with <=".into(),
            line: "a < b".into(),
            why: "a is never b".into(),
        }];
        let files = [("a.rs".to_owned(), "a"), ("b.rs".to_owned(), "new"), ("c.rs".to_owned(), "")];
        let score = Score::of(&files, &results, &equivalents);
        assert_eq!((score.files, score.planted, score.killed, score.equivalent), (3, 14, 10, 1));
        assert_eq!(score.stale, ["b.rs", "c.rs"]);
        assert_eq!(score.open.len(), 3);
        assert_eq!(score.open[0], "a.rs: replace < with ==, in `a < b`");
        assert_eq!(score.cells("all"), ["all", "3", "14", "10", "1", "3", "b.rs, c.rs"].map(str::to_owned));
    }

    #[test]
    fn a_comment_plants_no_mutants() {
        let [plain, commented, changed] = ["f();\n", "//! F.\n    // Why.\nf();\n", "f(); // Why.\n"].map(digest);
        assert!(plain == commented && plain != changed);
    }

    #[test]
    fn every_justification_is_of_a_mutant_that_survived() {
        let results = results();
        for e in equivalents() {
            let mutant = Mutant { change: e.change.clone(), line: e.line.clone() };
            let survived = results.get(&e.file).is_some_and(|tested| tested.survivors.contains(&mutant));
            assert!(survived, "equivalent.toml: {}: `{}` in `{}` did not survive; take it out", e.file, e.change, e.line);
            assert!(e.why.len() > 20, "{}: {}: a reason", e.file, e.change);
        }
    }

    #[test]
    fn every_mutant_of_the_ops_that_no_test_refuses_is_justified() {
        let open: Vec<String> = scores().into_iter().flat_map(|(_, score)| score.open).collect();
        assert!(open.is_empty(), "kill it with a test, or say in equivalent.toml why it cannot be seen:\n{}", open.join("\n"));
    }

    #[test]
    fn results_are_of_files_that_there_are() {
        let files: Vec<String> = groups().into_iter().flat_map(|g| g.files).map(|(path, _)| path).collect();
        for path in results().keys() {
            assert!(files.contains(path), "mutants.json: {path} is no file of any group; take it out");
        }
    }
}
