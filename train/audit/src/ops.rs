//! The audit of the ops: each op's statements, and the evidence for them.

use std::fmt::Write;

use gradus_autograd::check::{self, Evidence};
use gradus_io::numbers::count;
use gradus_report::{Block, Document};
use rayon::prelude::*;
use serde_json::{Value, json};

use crate::catalogue::{Kernel, Page, SourceLine, pages};
use crate::golden::{self, Golden};
use crate::mutants;
use crate::pages::{OPS, linked, table};

/// All ops with their evidence.
#[derive(Clone, Debug)]
pub struct Catalogue {
    /// The number of draws of each op's samples.
    pub draws: u64,
    /// The ops, in the order of the list.
    pub ops: Vec<AuditedOp>,
}

/// An op with its evidence.
#[derive(Clone, Debug)]
pub struct AuditedOp {
    /// The op's page in the catalogue.
    pub page: Page,
    /// The results of the witnesses.
    pub evidence: Vec<Evidence>,
    /// The error of [`check::teeth`] if a planted error of 0.1 % is not detected.
    pub toothless: Option<String>,
    /// The errors against PyTorch, if it has a case.
    pub golden: Option<Golden>,
}

impl Catalogue {
    /// Runs every witness on `draws` draws of every op's samples; `done` is called after each op.
    pub fn of(draws: u64, done: impl Fn() + Sync) -> Self {
        let both: Vec<_> = pages().into_iter().zip(check::subjects()).collect();
        let audit = |(page, op): (Page, check::Subject)| {
            let evidence = check::evidence(&op, draws);
            let toothless = check::teeth(&op).err().map(|e| e.to_string());
            let golden = golden::golden(page.name);
            done();
            AuditedOp { page, evidence, toothless, golden }
        };
        Catalogue { draws, ops: both.into_par_iter().map(audit).collect() }
    }

    /// Returns the faults, one line each.
    pub fn faults(&self) -> Vec<String> {
        self.ops.iter().flat_map(AuditedOp::faults).collect()
    }

    /// Returns the largest error of a witness over all ops, and the op.
    fn worst(&self, witness: &str) -> Option<(f64, &'static str)> {
        let of = |op: &AuditedOp| Some((op.of(witness)?.worst.as_ref()?.error(), op.page.name));
        self.ops.iter().filter_map(of).max_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// Returns one line per witness: its results over all ops.
    pub fn summary(&self) -> Vec<[String; 5]> {
        let row = |(name, _): &(&'static str, check::Witness)| {
            let all = || self.ops.iter().filter_map(|op| op.of(name));
            let (cases, compared) = all().fold((0, 0), |(a, b), e| (a + e.cases, b + e.compared));
            let (error, op) = match self.worst(name) {
                Some((error, op)) if error > 0.0 => (format!("{error:.1e}"), op),
                Some(_) => ("0".into(), ""),
                None => (String::new(), ""),
            };
            [(*name).to_owned(), count(cases as u64), count(compared as u64), error, op.to_owned()]
        };
        check::WITNESSES.iter().map(row).collect()
    }

    /// Returns the verdict in a sentence: no faults and planted errors detected, or the list of faults.
    pub fn verdict(&self) -> String {
        let faults = self.faults();
        if faults.is_empty() {
            return "No witness rejects an op, and an error of 0.1 % injected into the VJP of any input of any op is detected on \
                    its own samples."
                .into();
        }
        format!("**Failures:** {}.", faults.join("; "))
    }

    /// Returns the catalogue as Markdown.
    pub fn markdown(&self) -> String {
        let mut out = String::new();
        let n = self.ops.len();
        let _ = writeln!(
            out,
            "# The ops\n\n\
             Each of the {n} ops of the model: its equations, its code, and the evidence that its derivative is right. This page \
             is generated from the list of ops and their files; a test fails if the page does not match them. To regenerate \
             it:\n\n    cargo run --release -- audit ops --markdown {OPS} --overwrite\n\n\
             ## Evidence\n\n\
             Every witness on {} draws of every op's samples, in f64: seven of its derivative, and `audit`, which compares its \
             stated cost (`flops`) with a count. [The property that each one checks, and the scale of its error]({}). Extents \
             are small, up to 5; that a kernel's blocks and threads change nothing is shown by its twin, in `tensor`. Every \
             second draw is stored with its axes reversed. The error shown is the one closest to its tolerance; for `fused`, a \
             value's tolerance is 1e-12 and a VJP's 1e-10. {} Against PyTorch {}: value and gradients of {} of the {n} ops, at \
             one input each.\n",
            self.draws,
            linked(OPS, "autograd/src/check/mod.rs"),
            self.verdict(),
            golden::torch(),
            self.ops.iter().filter(|op| op.golden.is_some()).count()
        );
        markdown_table(&mut out, ["witness", "samples", "numbers compared", "worst error", "of"], &self.summary());
        let _ = writeln!(out, "\n## Mutants\n\n{MUTANTS}\n");
        markdown_table(&mut out, MUTANT_HEADS, &of_mutants());
        let _ = writeln!(out, "\n    .ci/mutants\n\n## The list\n");
        let line = |op: &AuditedOp| {
            let fused = if op.page.fused { "fused" } else { "" };
            [format!("[`{0}`](#{0})", op.page.name), op.page.math.replace('|', "\\|"), fused.to_owned()]
        };
        markdown_table(&mut out, ["op", "function and VJP", ""], &self.ops.iter().map(line).collect::<Vec<_>>());
        self.ops.iter().for_each(|op| op.markdown(&mut out));
        out
    }

    /// Returns the catalogue as one HTML file.
    pub fn report(&self) -> Document {
        let mut report = Document {
            kicker: "Gradus · audit".into(),
            title: format!("The {} ops, and the evidence for each", self.ops.len()),
            lead: format!(
                "Equations, code and evidence of every op, generated from the list of ops and their files. Every witness ran on \
                 {} draws of every op's samples, in f64: seven of its derivative, and `audit`, which compares its stated cost \
                 (`flops`) with a count. {}",
                self.draws,
                self.verdict()
            ),
            foot: format!("Values and gradients of PyTorch {}.", golden::torch()),
            ..Document::default()
        };
        let heads = ["Witness", "Samples", "Numbers compared", "Worst error", "Of"];
        report.section("Evidence", vec![table(heads, self.summary())]);
        report.section("Mutants", vec![Block::Text(MUTANTS.into()), table(MUTANT_HEADS, of_mutants())]);
        for op in &self.ops {
            report.section(op.page.name, op.blocks());
        }
        report
    }

    /// Returns the catalogue as one JSON object.
    pub fn json(&self) -> Value {
        let op = |op: &AuditedOp| {
            let evidence: Vec<Value> = op.evidence.iter().map(evidence_json).collect();
            let at = |at: &SourceLine| format!("{}:{}", at.file, at.line);
            let kernel = |k: &Kernel| json!({ "name": k.name, "loops": at(&k.naive), "vectorised": at(&k.fast) });
            json!({
                "name": op.page.name, "math": op.page.math, "file": op.page.file, "shapes": op.page.shapes, "saves": op.page.saves,
                "fused": op.page.fused, "kernels": op.page.kernels.iter().map(kernel).collect::<Vec<_>>(), "evidence": evidence, "teeth": op.toothless.is_none(),
                "golden": op.golden.map(|g| json!({ "value": g.value, "gradient": g.gradient })),
            })
        };
        let mutants = mutants::scores().into_iter().map(|(of, score)| {
            json!({
                "of": of, "files": score.files, "mutants": score.planted, "killed": score.killed,
                "equivalent": score.equivalent, "open": score.open, "stale": score.stale,
            })
        });
        json!({
            "draws": self.draws, "torch": golden::torch(), "ops": self.ops.iter().map(op).collect::<Vec<_>>(), "faults": self.faults(),
            "mutants": mutants.collect::<Vec<_>>(),
        })
    }
}

fn evidence_json(evidence: &Evidence) -> Value {
    let worst = evidence.worst.as_ref();
    json!({
        "witness": evidence.witness, "samples": evidence.cases, "compared": evidence.compared,
        "error": worst.map(check::Report::error), "tolerance": worst.map(|w| w.tolerance), "seed": worst.map(|w| w.seed),
        "size": worst.map(|w| w.size), "sample": worst.map(|w| w.sample),
        "refused": evidence.refused.as_ref().map(|f| f.to_string()),
    })
}

impl AuditedOp {
    fn of(&self, witness: &str) -> Option<&Evidence> {
        self.evidence.iter().find(|e| e.witness == witness)
    }

    fn faults(&self) -> Vec<String> {
        let refused = self.evidence.iter().filter_map(|e| Some(e.refused.as_ref()?.to_string()));
        let far = self.golden.filter(|g| g.worst() > Golden::TOLERANCE);
        let far = far.map(|g| {
            format!("`{}`: differs from PyTorch by {:.1e}, at most {:.0e} allowed", self.page.name, g.worst(), Golden::TOLERANCE)
        });
        refused.chain(self.toothless.clone()).chain(far).collect()
    }

    /// Returns facts by name: shapes, cost, tensors kept.
    fn facts(&self) -> Vec<(String, String)> {
        let page = &self.page;
        let definition = if page.fused { "in primitives, below; kernel and VJP are checked against it" } else { "a primitive" };
        let mut facts = vec![
            ("samples".to_owned(), page.shapes.join("; ")),
            ("kept for the VJP".into(), page.saves.clone()),
            ("definition".into(), definition.into()),
        ];
        if page.part("f").is_some() {
            facts.push((
                "shape, cost".into(),
                "element by element: y has the shape of x; `FLOPS` operations per element, 1 unless the file states another number"
                    .into(),
            ));
        }
        let golden = self
            .golden
            .map_or("none was computed".to_owned(), |g| format!("value {:.1e}, gradients {:.1e}", g.value, g.gradient));
        facts.push(("difference to PyTorch".into(), golden));
        facts
    }

    /// Returns a line per witness: samples, numbers, error, tolerance, and the sample that reproduces it.
    fn lines(&self) -> Vec<[String; 6]> {
        let line = |e: &Evidence| {
            let (error, tolerance, place) = match (&e.refused, &e.worst) {
                (Some(failure), _) => ("refused".into(), String::new(), failure.to_string()),
                (None, None) => ("–".into(), "–".into(), "nothing to compare".into()),
                (None, Some(w)) => {
                    let place = format!("sample {} of cases(seed {}, size {})", w.sample, w.seed, w.size);
                    (format!("{:.1e}", w.error()), format!("{:.0e}", w.tolerance), place)
                }
            };
            [e.witness.to_owned(), count(e.cases as u64), count(e.compared as u64), error, tolerance, place]
        };
        self.evidence.iter().map(line).collect()
    }

    fn markdown(&self, out: &mut String) {
        let page = &self.page;
        let vjp = page.part("vjp").map_or(1, |part| part.line);
        let _ =
            writeln!(out, "\n## {}\n\n{}\n\n[`{}`]({}#L{vjp})\n", page.name, page.derivation, page.file, linked(OPS, &page.file));
        for (name, text) in self.facts() {
            let _ = writeln!(out, "- {name}: {text}");
        }
        let link = |form: &str, at: &SourceLine| format!("[{form}]({}#L{})", linked(OPS, &at.file), at.line);
        let kernel = |k: &Kernel| format!("`{}` ({}, {})", k.name, link("loops", &k.naive), link("vectorised", &k.fast));
        if !page.kernels.is_empty() {
            let _ = writeln!(out, "- kernels: {}", page.kernels.iter().map(kernel).collect::<Vec<_>>().join(", "));
        }
        let _ = writeln!(out);
        markdown_table(out, ["witness", "samples", "numbers compared", "worst error", "allowed", "seen at"], &self.lines());
        let code: Vec<&str> = page.parts.iter().map(|part| part.code.as_str()).collect();
        let _ = writeln!(out, "\n```rust\n{}\n```", code.join("\n"));
    }

    fn blocks(&self) -> Vec<Block> {
        let heads = ["Witness", "Samples", "Numbers compared", "Worst error", "Allowed", "Seen at"];
        let code: Vec<String> =
            self.page.parts.iter().map(|part| format!("// {}:{}\n{}", self.page.file, part.line, part.code)).collect();
        let kernel = |k: &Kernel| {
            (
                format!("kernel {}", k.name),
                format!("{}: loops on line {}, vectorised on {}", k.naive.file, k.naive.line, k.fast.line),
            )
        };
        vec![
            Block::Listing(unfenced(&self.page.derivation)),
            Block::Pairs(self.facts().into_iter().chain(self.page.kernels.iter().map(kernel)).collect()),
            table(heads, self.lines()),
            Block::Listing(code.join("\n\n")),
        ]
    }
}

/// The text above the table of mutants.
const MUTANTS: &str = "Would the tests detect an error? File by file, cargo-mutants replaces operators, constants and results, \
    one at a time, and runs the tests; the last column lists the files that have not been tested yet or have changed since. A \
    surviving mutant is either equivalent (train/audit/src/equivalent.toml states why) or open, a gap in the tests. Mutants that \
    do not compile are not counted, and none is made in samples, the tests' inputs.";
const MUTANT_HEADS: [&str; 7] = ["of", "files", "mutants", "killed", "equivalent", "open", "to be rerun"];

/// Returns a line per group of files.
fn of_mutants() -> Vec<[String; 7]> {
    mutants::scores().into_iter().map(|(of, score)| score.cells(of)).collect()
}

/// Returns a derivation without the lines that begin and end its code blocks.
pub(super) fn unfenced(derivation: &str) -> String {
    derivation.lines().filter(|line| !line.starts_with("```")).collect::<Vec<_>>().join("\n")
}

/// Writes a Markdown table.
fn markdown_table<const N: usize>(out: &mut String, heads: [&str; N], rows: &[[String; N]]) {
    let line = |cells: &[&str]| format!("| {} |", cells.join(" | "));
    let _ = writeln!(out, "{}\n|{}", line(&heads), "-|".repeat(N));
    for row in rows {
        let _ = writeln!(out, "{}", line(&row.each_ref().map(String::as_str)));
    }
}
