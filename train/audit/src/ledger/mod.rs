//! The ledger, paper against code: implemented statements of the paper, differences between the paper and implementations or
//! within the paper, and choices that the paper leaves open. Each row has its source line and the tests that pin it.

mod contents;
mod examples;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write};
use std::path::Path;

use gradus_report::{Block, Document, Link};
use serde_json::{Value, json};

use crate::pages::{self, LEDGER, linked};

use contents::{CONTENTS, FigurePart, Row, Section, row};

/// The outcome of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The test was not run.
    NotRun,
    /// The test passed.
    Passed,
    /// The test failed.
    Failed,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Status::NotRun => "not run",
            Status::Passed => "passed",
            Status::Failed => "failed",
        })
    }
}

/// The outcomes of tests, by binary and path in the binary.
pub type Outcomes = BTreeMap<(String, String), Status>;

/// Parses the output of `cargo test`: a line that names the binary, such as
/// `Running tests/bits.rs (target/debug/deps/bits-0123456789abcdef)`, and a line per test.
pub fn outcomes(printed: &str) -> Outcomes {
    let (mut all, mut binary) = (Outcomes::new(), String::new());
    for line in printed.lines().map(str::trim) {
        if let Some((_, file)) = line.strip_prefix("Running ").and_then(|line| line.rsplit_once('(')) {
            let name = file.trim_end_matches(')').rsplit('/').next().unwrap_or_default();
            binary = name.rsplit_once('-').map_or(name, |(name, _)| name).to_owned();
        }
        let Some((path, outcome)) = line.strip_prefix("test ").and_then(|line| line.rsplit_once(" ... ")) else { continue };
        let status = match outcome {
            "ok" => Status::Passed,
            "FAILED" => Status::Failed,
            _ => continue,
        };
        all.insert((binary.clone(), path.trim_end_matches(" - should panic").to_owned()), status);
    }
    all
}

/// Returns the outcome of the test with this name in this file. `train/src/optim/clip.rs` is the module `optim::clip` of its crate;
/// `train/tests/bits.rs` is the module `bits` of the binary `train`, or a separate binary; `train/cli/tests/cli/audit.rs` is the
/// module `audit` of the binary `cli`.
fn outcome(outcomes: &Outcomes, file: &str, name: &str) -> Status {
    let parts: Vec<&str> = file.trim_end_matches(".rs").split('/').filter(|part| *part != "mod").collect();
    let places: Vec<(String, &[&str])> = match parts[..] {
        [krate, "src", ref modules @ ..] | ["train", krate, "src", ref modules @ ..] => {
            vec![(format!("gradus_{krate}"), modules)]
        }
        [krate, "tests", ref modules @ ..] | ["train", krate, "tests", ref modules @ ..] if !modules.is_empty() => {
            vec![(krate.to_owned(), modules), (modules[0].to_owned(), &modules[1..])]
        }
        _ => return Status::NotRun,
    };
    let is = |binary: &str, path: &str, place: &(String, &[&str])| {
        let mut path: Vec<&str> = path.split("::").filter(|part| *part != "tests").collect();
        let modules = place.1.iter().copied().filter(|module| !["lib", "main", "tests"].contains(module));
        place.0 == binary && path.pop() == Some(name) && path.into_iter().eq(modules)
    };
    let found = outcomes.iter().find(|((binary, path), _)| places.iter().any(|place| is(binary, path, place)));
    found.map_or(Status::NotRun, |(_, status)| *status)
}

/// Returns the line that declares an item: `name` anywhere in a file, or `Type::name` in a block of that type or an `impl` of it.
fn declared(content: &str, item: &str) -> Option<usize> {
    let (owner, name) = item.rsplit_once("::").map_or((None, item), |(owner, name)| (Some(owner), name));
    let mut inside = owner.is_none();
    let line = content.lines().position(|line| {
        let code = line.trim_start();
        let words: Vec<&str> = code.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty()).collect();
        if code.starts_with("//") {
            return false;
        }
        let follows = |kinds: &[&str], name: &str| words.windows(2).any(|pair| kinds.contains(&pair[0]) && pair[1] == name);
        let types = ["struct", "enum", "trait"];
        if let Some(owner) = owner
            && line.starts_with(char::is_alphabetic)
        {
            inside = follows(&types, owner) || words.first() == Some(&"impl") && words.contains(&owner);
            return false;
        }
        let field = || code.trim_start_matches("pub ").strip_prefix(name).is_some_and(|rest| rest.starts_with(':'));
        inside && (follows(&["fn", "const", "static", "type"], name) || follows(&types, name) || owner.is_some() && field())
    });
    line.map(|line| line + 1)
}

/// The ledger with the lines of its items in a checkout.
#[derive(Clone, Debug)]
pub struct Ledger {
    rows: Vec<Placed>,
}

/// A row with the heading of its section and the lines of its items.
#[derive(Clone, Debug)]
struct Placed {
    title: &'static str,
    row: &'static Row,
    /// The line of its source; `None` if the item is absent.
    line: Option<usize>,
    /// Each test's line and status.
    tests: Vec<(Option<usize>, Status)>,
}

impl Ledger {
    /// Finds every row's source and tests in a checkout of the repository.
    pub fn of(root: &Path, outcomes: &Outcomes) -> Self {
        let mut files: BTreeMap<&str, Option<String>> = BTreeMap::new();
        let mut line = |(file, item): &'static (String, String)| {
            declared(files.entry(file).or_insert_with(|| std::fs::read_to_string(root.join(file)).ok()).as_ref()?, item)
        };
        let mut all = Vec::new();
        for Section { title, row: rows } in &CONTENTS.section {
            for row in rows {
                let tests = row.tests.iter().map(|test| (line(test), outcome(outcomes, &test.0, &test.1))).collect();
                all.push(Placed { title, row, line: line(&row.source), tests });
            }
        }
        Ledger { rows: all }
    }

    /// Returns the missing sources and tests, and the failed tests.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for placed in &self.rows {
            let (row, head) = (placed.row, format!("{}: {}", placed.row.place, placed.row.statement));
            if placed.line.is_none() {
                faults.push(format!("{head} — {}: no item `{}`", row.source.0, row.source.1));
            }
            for ((file, name), (line, status)) in row.tests.iter().zip(&placed.tests) {
                match (line, status) {
                    (None, _) => faults.push(format!("{head} — {file}: no test `{name}`")),
                    (_, Status::Failed) => faults.push(format!("{head} — {file}: `{name}` failed")),
                    _ => {}
                }
            }
        }
        faults
    }

    /// Returns the ledger as Markdown, without line numbers, which change with every edit.
    pub fn markdown(&self) -> String {
        let mut out = format!(
            "# Paper against code\n\n\
             GPT-1: *Improving Language Understanding by Generative Pre-Training* (Radford, Narasimhan, Salimans, Sutskever \
             2018), OpenAI's code (`finetune-transformer-lm`) and Hugging Face's (`transformers`, `OpenAIGPT…`). Every row names \
             the file that implements it and the tests that check it; a test fails if one of them is missing. With line numbers, \
             and the tests' outcomes:\n\n    cargo test --workspace 2>&1 | tee tests.log\n    cargo run --release -- audit \
             ledger --results tests.log --html ledger.html\n\n\
             To regenerate this page: `cargo run --release -- audit ledger --markdown {LEDGER} --overwrite`.\n"
        );
        let _ = writeln!(out, "\n## Figure 1\n\n| part | | source | tests |\n|-|-|-|-|");
        for part in CONTENTS.figure.model.iter().chain(&CONTENTS.figure.tasks) {
            let [sources, tests] = evidence(&part.rows);
            let _ = writeln!(out, "| {} | {} | {sources} | {tests} |", part.name, part.text.replace('|', "\\|"));
        }
        let _ = writeln!(
            out,
            "\n## The equations, by hand\n\nEach value is computed by this project and again by hand; a test compares the two.\n"
        );
        for example in examples::all() {
            let _ = writeln!(out, "**{}.** {}\n\n```text\n{}\n```\n", example.title, example.text, example.lines().join("\n"));
            let [sources, tests] = evidence(example.rows);
            let _ = writeln!(out, "Implemented in {sources}; checked by {tests}.\n");
        }
        for Section { title, row: rows } in &CONTENTS.section {
            let _ = writeln!(out, "## {title}\n\n| where | | here | source | tests |\n|-|-|-|-|-|");
            for row in rows {
                let [place, statement, here] = [&row.place, &row.statement, &row.here].map(|text| text.replace('|', "\\|"));
                let tests: Vec<String> = row.tests.iter().map(|(file, name)| link(name, file)).collect();
                let (source, tests) = (link(&row.source.0, &row.source.0), tests.join(", "));
                let _ = writeln!(out, "| {place} | {statement} | {here} | {source} | {tests} |");
            }
            let _ = writeln!(out);
        }
        out.truncate(out.trim_end().len());
        out + "\n"
    }

    /// Returns the ledger as one HTML file.
    pub fn report(&self) -> Document {
        let mut report = Document {
            kicker: "Gradus · audit".into(),
            title: "Paper against code".into(),
            lead: format!(
                "GPT-1 (Radford, Narasimhan, Salimans, Sutskever 2018) in {} rows: what the paper states, where the codes \
                 differ, where it is silent, where it contradicts itself; each with the line that implements it and the test \
                 that checks it.",
                self.rows.len()
            ),
            foot: "Tests: the line, and the outcome in the run whose output was given with --results.".into(),
            ..Document::default()
        };
        let figure = &CONTENTS.figure;
        let (stack, beside, framed) = (parts(&figure.model), parts(&figure.tasks), figure.repeated.clone());
        report.section("Figure 1", vec![Block::Diagram { stack, framed, title: "n times, l = 1 … n".to_owned(), beside }]);
        let worked = examples::all().into_iter().flat_map(|example| {
            let head = format!("{}. {}", example.title, example.text);
            let told = Block::Links("Source and tests:".into(), links(example.rows));
            [Block::Text(head), Block::Listing(example.lines().join("\n")), told]
        });
        report.section("The equations, by hand", worked.collect());
        for Section { title, .. } in &CONTENTS.section {
            let heads = ["Where", "", "Here", "Source", "Tests"].map(str::to_owned).to_vec();
            let line = |(number, placed): (usize, &Placed)| {
                let row = placed.row;
                let head = format!("{}. {}", number + 1, row.place);
                let [source, tests] = [placed.source(), placed.tests().join("; ")].map(|text| breakable(&text));
                (id(number), pages::row([head, row.statement.clone(), row.here.clone(), source, tests]))
            };
            let rows = self.rows.iter().enumerate().filter(|(_, placed)| placed.title == title).map(line).collect();
            report.section(title, vec![Block::Anchored(heads, rows)]);
        }
        report
    }

    /// Returns the ledger as one JSON object.
    pub fn json(&self) -> Value {
        let row = |placed: &Placed| {
            let tests = placed.row.tests.iter().zip(&placed.tests).map(|((file, name), (line, status))| {
                json!({ "file": file, "name": name, "line": line, "status": status.to_string() })
            });
            json!({
                "kind": placed.title, "section": placed.row.place, "statement": placed.row.statement,
                "here": placed.row.here, "file": placed.row.source.0, "line": placed.line, "tests": tests.collect::<Vec<_>>(),
            })
        };
        json!({ "rows": self.rows.iter().map(row).collect::<Vec<_>>(), "faults": self.faults() })
    }

    /// Returns a line per row, for a terminal.
    pub fn lines(&self) -> Vec<String> {
        let line = |placed: &Placed| {
            let row = placed.row;
            let (source, tests) = (placed.source(), placed.tests().join("; "));
            format!("{}: {}\n    {}\n    {source}; {tests}", row.place, row.statement, row.here)
        };
        self.rows.iter().map(line).collect()
    }
}

impl Placed {
    fn source(&self) -> String {
        at(&self.row.source.0, self.line)
    }

    fn tests(&self) -> Vec<String> {
        let told = self.row.tests.iter().zip(&self.tests);
        told.map(|((file, name), (line, status))| format!("{name} ({}, {status})", at(file, *line))).collect()
    }
}

fn at(file: &str, line: Option<usize>) -> String {
    line.map_or_else(|| format!("{file} (not found)"), |line| format!("{file}:{line}"))
}

/// Returns a text in which lines may break after a slash or an underscore.
fn breakable(text: &str) -> String {
    text.replace('/', "/\u{200b}").replace('_', "_\u{200b}")
}

/// Returns a row's id in the page.
fn id(number: usize) -> String {
    format!("row-{}", number + 1)
}

/// Returns links to the rows about a part of the figure or an equation.
fn links(begins: &[impl AsRef<str>]) -> Vec<Link> {
    let found = begins.iter().map(|begins| row(begins.as_ref()));
    found.map(|(n, row)| Link { text: format!("row {}, {}", n + 1, row.place), to: id(n) }).collect()
}

fn parts(parts: &[FigurePart]) -> Vec<gradus_report::DiagramBox> {
    let part = |p: &FigurePart| gradus_report::DiagramBox { name: p.name.clone(), text: p.text.clone(), links: links(&p.rows) };
    parts.iter().map(part).collect()
}

/// Returns a Markdown link to a file, or to an item in it.
fn link(name: &str, file: &str) -> String {
    format!("[`{name}`]({})", linked(LEDGER, file))
}

/// Returns links to the sources and the tests of these rows, in Markdown.
fn evidence(begins: &[impl AsRef<str>]) -> [String; 2] {
    let rows: Vec<&Row> = begins.iter().map(|begins| row(begins.as_ref()).1).collect();
    let sources = rows.iter().map(|row| link(&row.source.0, &row.source.0));
    let tests = rows.iter().flat_map(|row| &row.tests).map(|(file, name)| link(name, file));
    [sources.collect::<Vec<_>>(), tests.collect()].map(|mut list| {
        let mut seen = BTreeSet::new();
        list.retain(|one| seen.insert(one.clone()));
        list.join(", ")
    })
}

#[cfg(test)]
mod tests {
    use super::contents::rows;
    use super::*;

    #[test]
    fn outcomes_are_read_from_what_cargo_prints() {
        let printed = "     Running unittests src/lib.rs (target/debug/deps/gradus_train-0123456789abcdef)\nrunning 3 tests\n\
                       test tasks::tests::a_b ... ok\ntest tasks::batch::tests::c ... FAILED\ntest d - should panic ... ok\n\
                       test slow ... ignored\n     Running tests/memory.rs (target/debug/deps/memory-0123456789abcdef)\n\
                       test a_b ... FAILED\ntest c ... ok\n     Running tests/main.rs (target/debug/deps/tests-0123456789abcdef)\n\
                       test bits::c ... FAILED\nnoise";
        let found = outcomes(printed);
        assert_eq!(found.len(), 6);
        let of = |file: &str, name: &str| outcome(&found, file, name);
        assert_eq!(of("train/src/tasks/mod.rs", "a_b"), Status::Passed);
        assert_eq!(of("train/src/tasks/tests.rs", "a_b"), Status::Passed);
        assert_eq!(of("train/src/tasks/batch.rs", "c"), Status::Failed);
        assert_eq!(of("train/src/lib.rs", "d"), Status::Passed);
        assert_eq!((of("tests/tests/memory.rs", "a_b"), of("tests/tests/memory.rs", "c")), (Status::Failed, Status::Passed));
        assert_eq!((of("tests/tests/bits.rs", "a_b"), of("tests/tests/bits.rs", "c")), (Status::NotRun, Status::Failed));
        assert_eq!((of("tests/tests/whole.rs", "c"), of("model/src/tasks/mod.rs", "a_b")), (Status::NotRun, Status::NotRun));
    }

    #[test]
    fn items_are_found_where_they_are_declared() {
        let content = "// fn run() is below\nconst LEAST: u8 = 1;\npub struct Plan {\n    /// The rate.\n    pub rate: f64,\n}\n\n\
                       impl Default for Plan {\n    fn default() -> Self {\n        Plan { rate: 1.0 }\n    }\n}\n\n\
                       impl<T: Real> Runs<T> for Plan {\n    const fn default(run: u8) {}\n}\n\npub(super) fn run<T: Real>(default: T) {}\n";
        let of = |item| declared(content, item);
        assert_eq!((of("LEAST"), of("Plan"), of("run"), of("default")), (Some(2), Some(3), Some(18), Some(9)));
        assert_eq!((of("Plan::rate"), of("Plan::default"), of("Runs::default")), (Some(5), Some(9), Some(15)));
        assert_eq!((of("rate"), of("Plan::run"), of("Run"), of("LEAS"), of("Other::default")), (None, None, None, None, None));
    }

    #[test]
    fn missing_items_and_failed_tests_are_faults() {
        let empty = tempfile::tempdir().unwrap();
        let faults = Ledger::of(empty.path(), &Outcomes::new()).faults();
        assert_eq!(faults.len(), rows().map(|row| 1 + row.tests.len()).sum::<usize>());
        let failed = outcomes(
            "Running unittests src/lib.rs (deps/gradus_train-0)\ntest optim::clip::tests::one_norm_covers_all_tensors ... FAILED",
        );
        let found = Ledger::of(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."), &failed).faults();
        assert!(found.len() == 1 && found[0].ends_with("`one_norm_covers_all_tensors` failed"), "{found:?}");
    }

    #[test]
    fn every_link_of_the_page_leads_to_a_row() {
        let page = Ledger::of(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."), &Outcomes::new()).report().render();
        let targets: Vec<&str> = page.split("href=\"#").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
        assert!(targets.len() > 25, "{}", targets.len());
        for target in targets {
            assert_eq!(page.matches(&format!("<tr id=\"{target}\"")).count(), 1, "{target}");
        }
    }
}
