//! Evidence about the tests: mutants of the files of [`groups`], each with a wrong operator, constant or result, and whether a
//! test detects them.
//!
//! [cargo-mutants](https://mutants.rs) plants them, one at a time. `.ci/mutants` runs it file by file and stores its results in
//! `mutants.json` next to this file. A mutant that no test kills is a gap in the tests, unless it is equivalent: its change cannot
//! be observed from outside. Equivalent mutants are in `equivalent.toml`, each with the reason. `samples` are left out: they are
//! inputs of the tests, and other inputs make no derivative wrong.

use std::collections::BTreeMap;

use gradus_io::hex;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::catalogue;

/// Files whose mutants are killed by common tests. The tests are those of their crate, so that they take seconds for each mutant.
#[derive(Clone, Debug)]
pub struct Group {
    /// The group's name.
    pub name: &'static str,
    /// Another crate whose tests are also run.
    pub package: Option<&'static str>,
    /// The tests of the crate, as targets of `cargo test`.
    pub tests: &'static [&'static str],
    /// The part of a test's name that selects it; `None` selects all tests.
    pub filter: Option<&'static str>,
    /// The path from the root of the repository and the text of each file.
    pub files: Vec<(String, &'static str)>,
}

/// Returns the files whose mutants should be killed: ops, methods of tensors, reverse pass, optimizers and kernels; models and
/// checkpoints; training, scoring and decoding, in one process or several; data sets; and the safe writing of files.
pub fn groups() -> Vec<Group> {
    let file = |path: &str| catalogue::file(path).map(|text| (path.to_owned(), text)).expect("the file is in the catalogue");
    let named = |folder: &str, names: &[&str]| names.iter().map(|name| file(&format!("{folder}/{name}.rs"))).collect::<Vec<_>>();
    // Without files that contain only tests, and without files of another group.
    let below = |folder: &str, without: &[&str]| {
        let is_in = |(path, _): &(String, _)| !without.iter().any(|name| path.contains(name));
        catalogue::files_below(folder).into_iter().filter(is_in).collect::<Vec<_>>()
    };
    let derivatives =
        [catalogue::files("autograd/src/tape"), named("autograd/src", &["derivatives", "ops/operators", "ops/pointwise"])];
    let kernels = below("tensor/src/cpu", &["/bits/", "/length_errors.", "/testing.", "/tests.", "/twins.", "/adam."]);
    let model = below("model/src", &["/check/", "/checkpoint/"]);
    // The witnesses over the ops also test the functions that the ops call.
    let witnesses: &[&str] = &["--lib", "--test=autograd"];
    let group = |name, filter, files| Group { name, package: None, tests: &["--lib"], filter, files };
    vec![
        Group { tests: witnesses, ..group("the ops", None, catalogue::sources()) },
        Group {
            package: Some("gradus-autograd"),
            tests: witnesses,
            ..group("the methods of tensors", None, catalogue::files("tensor/src/methods"))
        },
        Group { tests: witnesses, ..group("the reverse pass", None, derivatives.concat()) },
        group("the optimizers", Some("optim::"), named("train/src/optim", &["clip", "forms", "schedule"])),
        group("their kernel", Some("adam"), named("tensor/src/cpu", &["adam"])),
        group("the other kernels", Some("cpu::"), kernels),
        Group { tests: &["--lib", "--test=model"], ..group("the model", None, model) },
        group("checkpoints", None, below("model/src/checkpoint", &["/tests"])),
        Group {
            tests: &["--lib", "--test=train"],
            ..group("the trainer", Some("trainer"), below("train/src/trainer", &["/tests"]))
        },
        group("sums over shards", None, below("train/collective/src", &["/lib.", "/testing."])),
        Group {
            tests: &["--lib", "--test=cluster", "--test=hostile", "--test=interrupted"],
            ..group("several processes", None, below("train/cluster/src", &["/launch.", "/lib.", "/tests"]))
        },
        group("decoding and zero-shot", None, catalogue::files("train/src/answers")),
        group("the tasks", Some("tasks::"), catalogue::files("train/src/tasks")),
        group("data sets", None, below("train/data/src", &["/testing."])),
        group("files", None, named("train/io/src", &["checksums", "checksums/audit", "checksums/folders", "disk", "files"])),
    ]
}

/// The results of a file's mutants.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tested {
    /// The [`digest`] of the tested file.
    pub source: String,
    /// The number of mutants killed by a test or by a time-out.
    pub killed: usize,
    /// The number of mutants that do not compile.
    pub unviable: usize,
    /// The mutants that no test kills.
    pub survivors: Vec<Mutant>,
}

impl Tested {
    /// Returns the results after the survivors were tested again and `still` survived. A mutant that was killed before may be in
    /// `still`: it is tested again if a survivor has the same text on the same line.
    pub fn again(mut self, still: Vec<Mutant>) -> Self {
        let (before, mut still) = (std::mem::take(&mut self.survivors), still);
        for mutant in before {
            match still.iter().position(|one| *one == mutant) {
                Some(at) => self.survivors.push(still.swap_remove(at)),
                None => self.killed += 1,
            }
        }
        self
    }
}

/// A mutant that no test kills. It has no line number, since edits move lines.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Mutant {
    /// The change, in cargo-mutants' words.
    pub change: String,
    /// The line of code that is changed.
    pub line: String,
}

/// The results of all files.
pub type Results = BTreeMap<String, Tested>;

/// An equivalent mutant, and the reason.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Equivalent {
    /// The mutant's file.
    pub file: String,
    /// The change, in cargo-mutants' words.
    pub change: String,
    /// The line of code that is changed.
    pub line: String,
    /// The reason.
    pub why: String,
}

/// Returns the results of the last run of each file.
pub fn results() -> Results {
    serde_json::from_str(include_str!("mutants.json")).expect("mutants.json is as .ci/mutants writes it")
}

/// Returns the equivalent mutants.
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

/// Returns the SHA-256 of a file without its tests, comments and blank lines: the first 16 hexadecimal digits.
pub fn digest(text: &str) -> String {
    let mut hasher = Sha256::new();
    let text = text.split_once("#[cfg(test)]\nmod tests {").map_or(text, |(code, _)| code);
    for line in text.lines().map(code).filter(|line| !line.trim().is_empty()) {
        hasher.update(line);
        hasher.update("\n");
    }
    hex::encode(&hasher.finalize()[..8])
}

/// Returns a line without its comment. Slashes after an odd number of quotation marks are taken as part of a string.
fn code(line: &str) -> &str {
    let mut starts = line.match_indices("//").map(|(at, _)| at);
    let comment = starts.find(|&at| line[..at].matches('"').count().is_multiple_of(2));
    comment.map_or(line, |at| &line[..at]).trim_end()
}

/// The score of a group of files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Score {
    /// The number of files.
    pub files: usize,
    /// The files that have changed since their mutants were run, or whose mutants were never run.
    pub stale: Vec<String>,
    /// The number of mutants that compile.
    pub planted: usize,
    /// The number of mutants killed by a test.
    pub killed: usize,
    /// The number of equivalent mutants.
    pub equivalent: usize,
    /// The mutants neither killed nor equivalent.
    pub open: Vec<String>,
}

impl Score {
    /// Returns the score of these files.
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

    /// Returns the cells of a table row: group, files, mutants, killed, equivalent, open, and the files changed since.
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

/// Returns the name and the score of each group of files.
pub fn scores() -> Vec<(&'static str, Score)> {
    let (results, equivalents) = (results(), equivalents());
    groups().into_iter().map(|group| (group.name, Score::of(&group.files, &results, &equivalents))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_score_counts_killed_equivalent_open_and_stale_mutants() {
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

    /// Two of three mutants with equal texts survived at first, and one survives again.
    #[test]
    fn a_mutant_that_survives_again_is_counted_once() {
        let [a, b] = ["a", "b"].map(|change| Mutant { change: change.into(), line: "x * y * z * w".into() });
        let first = Tested { source: String::new(), killed: 5, unviable: 2, survivors: vec![a.clone(), a.clone(), b.clone()] };
        let again = |still: &[&Mutant]| first.clone().again(still.iter().map(|m| (*m).clone()).collect());
        let counts = |tested: Tested| (tested.killed, tested.survivors);
        assert_eq!(counts(again(&[&a])), (7, vec![a.clone()]));
        assert_eq!(counts(again(&[&a, &a, &a, &b])), (5, vec![a.clone(), a.clone(), b.clone()]), "the third was killed before");
        assert_eq!(counts(again(&[])), (8, vec![]));
    }

    #[test]
    fn a_comment_plants_no_mutants() {
        let [plain, commented, changed] = ["f();\n", "//! F.\n    // Why.\nf(); // How.\n", "f(1);\n"].map(digest);
        assert!(plain == commented && plain != changed);
        let [one, other] = ["open(\"http://a\"); // A.\n", "open(\"http://b\");\n"].map(digest);
        assert_ne!(one, other, "slashes in a string are not a comment");
        assert_eq!(digest("\nf();\n\n#[cfg(test)]\nmod tests {\n    // Tests.\n}\n"), plain, "nor does a test");
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
    fn every_surviving_mutant_is_justified() {
        let open: Vec<String> = scores().into_iter().flat_map(|(_, score)| score.open).collect();
        assert!(open.is_empty(), "kill it with a test, or say in equivalent.toml why it cannot be seen:\n{}", open.join("\n"));
    }

    #[test]
    fn results_belong_to_existing_files() {
        let files: Vec<String> = groups().into_iter().flat_map(|g| g.files).map(|(path, _)| path).collect();
        for path in results().keys() {
            assert!(files.contains(path), "mutants.json: {path} is no file of any group; take it out");
        }
    }
}
