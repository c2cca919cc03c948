//! The catalogue of ops, read from the list and from the files themselves, so that it cannot say what they do not.
//!
//! ```
//! use gradus_autograd::catalogue;
//!
//! let tanh = catalogue::pages().into_iter().find(|page| page.name == "tanh").unwrap();
//! assert_eq!(tanh.math, "y = tanh x;  x̄ = ȳ ∘ (1 − y²)");
//! assert_eq!((tanh.file.as_str(), tanh.saves.as_str()), ("autograd/src/ops/tanh.rs", "the output"));
//! assert_eq!(tanh.part("vjp").unwrap().code.lines().nth(1), Some("    let y = saved.y();"));
//! ```

use gradus_tensor::catalogue::{Kernel, kernels, kernels_of};

use crate::ops::{SOURCES, all};
use crate::{Samples, Saves, Shape, Tape, Var, Want};

/// One op, as its file has it.
#[derive(Clone, Debug)]
pub struct Page {
    /// Its name.
    pub name: &'static str,
    /// Its function and VJP on one line.
    pub math: &'static str,
    /// Its file, from the root of the repository.
    pub file: String,
    /// Its derivation: what stands at the head of the file.
    pub derivation: String,
    /// Shapes that it takes and gives, of each of its samples.
    pub shapes: Vec<String>,
    /// What is kept for its VJP, in words.
    pub saves: String,
    /// Has it a definition in primitives?
    pub fused: bool,
    /// Its functions.
    pub parts: Vec<Part>,
    /// The kernels that it calls.
    pub kernels: Vec<Kernel>,
}

/// A function of an op, as it is written.
#[derive(Clone, Debug)]
pub struct Part {
    /// `shape`, `flops`, `f` of one element, `vjp`, `reference`.
    pub name: &'static str,
    /// The line on which it begins, from 1.
    pub line: usize,
    /// Its text.
    pub code: String,
}

impl Page {
    /// The function of this name.
    pub fn part(&self, name: &str) -> Option<&Part> {
        self.parts.iter().find(|part| part.name == name)
    }
}

/// Every op of this crate, in the order of the list.
pub fn pages() -> Vec<Page> {
    let page = |entry: crate::Entry<f64>| {
        let source = SOURCES.iter().find(|(name, _)| *name == entry.name).expect("every op has its file").1;
        let samples = (entry.samples)(&mut Samples::new(1, 3));
        let tape = Tape::off();
        let mut shapes: Vec<String> = Vec::new();
        let (mut fused, mut saves) = (false, String::new());
        for sample in &samples {
            let ins: Vec<&Shape> = sample.inputs.iter().map(|x| x.shape()).collect();
            let y = sample.op.shape(&ins).expect("samples fit");
            let from: Vec<String> = ins.iter().map(|s| s.to_string()).collect();
            let example = format!("{} → {y}", from.join(", "));
            if !shapes.contains(&example) {
                shapes.push(example);
            }
            let vars: Vec<Var<'_, f64>> = sample.inputs.iter().map(|x| tape.constant(x.clone())).collect();
            fused |= sample.op.reference(&vars).is_some();
            let values: Vec<_> = sample.inputs.iter().collect();
            let residuals = sample.op.eval(&values, Want::Vjp).residuals;
            saves = kept(sample.op.saves(), ins.len(), residuals.len());
        }
        Page {
            name: entry.name,
            math: entry.math,
            file: file_of(entry.name),
            derivation: head(source),
            shapes,
            saves,
            fused,
            kernels: called(source),
            parts: ["shape", "flops", "f", "vjp", "reference"].into_iter().filter_map(|name| part(source, name)).collect(),
        }
    };
    all().into_iter().map(page).collect()
}

/// Every op's file: its path from the root of the repository, and its text.
pub fn sources() -> Vec<(String, &'static str)> {
    SOURCES.iter().map(|(name, text)| (file_of(name), *text)).collect()
}

fn file_of(name: &str) -> String {
    format!("autograd/src/ops/{name}.rs")
}

/// What the VJP is handed, in words. Residuals are what one evaluation leaves besides.
fn kept(saves: Saves, inputs: usize, residuals: usize) -> String {
    let kept: Vec<usize> = (0..inputs).filter(|&i| saves.keeps_input(i)).collect();
    let inputs = match kept.len() {
        0 => None,
        n if n == inputs && n == 1 => Some("the input".to_owned()),
        n if n == inputs => Some(format!("all {n} inputs")),
        1 => Some(format!("input {}", kept[0])),
        _ => Some(format!("inputs {}", kept.iter().map(usize::to_string).collect::<Vec<_>>().join(", "))),
    };
    let residuals = match residuals {
        0 => None,
        1 => Some("a residual of the evaluation".to_owned()),
        n => Some(format!("{n} residuals of the evaluation")),
    };
    let all: Vec<String> =
        inputs.into_iter().chain(saves.keeps_output().then(|| "the output".to_owned())).chain(residuals).collect();
    if all.is_empty() { "nothing".into() } else { all.join(" and ") }
}

/// The comment at the head of a file, without its title.
fn head(source: &str) -> String {
    let lines = source.lines().map_while(|line| line.strip_prefix("//!")).skip(1);
    let text: Vec<&str> = lines.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
    text.join("\n").trim().to_owned()
}

/// The kernels behind the methods that an op's evaluation and VJP call.
fn called(source: &str) -> Vec<Kernel> {
    let parts = ["eval", "map", "vjp", "add_vjp"].into_iter().filter_map(|name| part(source, name));
    let code: String = parts.map(|part| part.code).collect();
    let methods = code.split(['.', ':']).filter_map(|rest| rest.split_once('(')).map(|(name, _)| name);
    let called: Vec<&str> = methods.flat_map(kernels_of).map(|kernel| kernel.name).collect();
    kernels().into_iter().filter(|kernel| called.contains(&kernel.name)).collect()
}

/// The first function of this name, indented as if it stood alone.
fn part(source: &str, name: &'static str) -> Option<Part> {
    let lines: Vec<&str> = source.lines().collect();
    let is = |line: &&str| {
        let rest = line.trim_start().strip_prefix("fn ").and_then(|rest| rest.strip_prefix(name));
        rest.is_some_and(|rest| rest.starts_with(['(', '<']))
    };
    let first = lines.iter().position(is)?;
    let indent = lines[first].len() - lines[first].trim_start().len();
    let last = first + lines[first..].iter().position(|line| line.starts_with(&format!("{}}}", " ".repeat(indent))))?;
    let code: Vec<&str> = lines[first..=last].iter().map(|line| line.get(indent..).unwrap_or("")).collect();
    Some(Part { name, line: first + 1, code: code.join("\n") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_has_a_derivation_and_a_vjp() {
        for page in pages() {
            assert!(page.derivation.contains("```text") && page.derivation.contains('\u{304}'), "{}", page.name);
            let vjp = page.part("vjp").unwrap_or_else(|| panic!("{}", page.name));
            assert!(vjp.code.starts_with("fn vjp<'t>(") && vjp.code.ends_with("\n}"), "{}: {}", page.name, vjp.code);
            assert_eq!(vjp.code.matches('{').count(), vjp.code.matches('}').count(), "{}", page.name);
            assert_eq!(page.fused, page.part("reference").is_some(), "{}", page.name);
            // A function of one element has its shape and its cost from `Pointwise`.
            assert_eq!(page.part("f").is_none(), page.part("shape").is_some() && page.part("flops").is_some(), "{}", page.name);
            assert!(!page.shapes.is_empty() && !page.saves.is_empty(), "{}", page.name);
        }
    }

    #[test]
    fn the_kernels_of_an_op_are_those_that_it_calls() {
        let of = |name: &str| {
            let page = pages().into_iter().find(|page| page.name == name).unwrap();
            page.kernels.into_iter().map(|kernel| kernel.name).collect::<Vec<_>>()
        };
        assert_eq!(of("layer_norm"), ["layer_norm", "layer_norm_vjp"]);
        assert_eq!(of("linear"), ["matmul", "sum_rows", "sum_cols"]);
        assert_eq!(of("sum"), ["sum_rows", "sum_cols"]);
        assert_eq!(of("reshape"), [""; 0]);
    }

    #[test]
    fn an_op_bears_the_name_of_its_entry() {
        for entry in all::<f64>() {
            for sample in (entry.samples)(&mut Samples::new(1, 3)) {
                assert_eq!(sample.op.name(), entry.name);
            }
        }
    }

    #[test]
    fn what_is_kept_is_said_in_words() {
        let words = [(Saves::NONE, 2, "nothing"), (Saves::INPUTS, 1, "the input"), (Saves::INPUTS, 3, "all 3 inputs")];
        for (saves, inputs, expected) in words {
            assert_eq!(kept(saves, inputs, 0), expected);
        }
        assert_eq!(kept(Saves::input(1), 2, 1), "input 1 and a residual of the evaluation");
        assert_eq!(kept(Saves::ALL, 2, 0), "all 2 inputs and the output");
        assert_eq!(kept(Saves::NONE, 1, 2), "2 residuals of the evaluation");
    }
}
