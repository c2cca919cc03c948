//! Where each kernel stands, read from the files themselves.
//!
//! ```
//! use gradus_tensor::catalogue;
//!
//! let gelu = catalogue::kernels().into_iter().find(|kernel| kernel.name == "gelu_vjp").unwrap();
//! assert!(gelu.naive.file == "tensor/src/cpu/gelu.rs" && gelu.naive.line < gelu.fast.line);
//! ```

/// A kernel and its two forms.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Its name in [`Kernels`](crate::kernels::Kernels).
    pub name: &'static str,
    /// The loops, for any scalar.
    pub naive: Source,
    /// Vectorised and parallel.
    pub fast: Source,
}

/// A line of this repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The file, from the root of the repository.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
}

use std::sync::LazyLock;

macro_rules! methods {
    ($($file:literal)*) => { [$(include_str!(concat!("methods/", $file, ".rs"))),*] };
}

macro_rules! files {
    ($($file:literal)*) => { &[$(($file, include_str!(concat!("cpu/", $file, ".rs")))),*] };
}

/// The files with kernels, and their texts.
const FILES: &[(&str, &str)] = files!(
    "adam" "attention/naive" "attention/fast" "cross_entropy" "dropout" "elementwise" "embedding" "gelu" "layer_norm"
    "linear_cross_entropy" "log_softmax" "lstm" "matmul" "reduce" "rms_norm" "softmax" "unary"
);

/// Every kernel, in the order of the table.
pub fn kernels() -> Vec<Kernel> {
    let (_, naive) = include_str!("kernels.rs").split_once("const NAIVE").expect("kernels.rs has both forms");
    let (naive, fast) = naive.split_once("const FAST").expect("kernels.rs has both forms");
    let fast = entries(fast);
    let kernel = |(name, naive)| {
        let (_, fast) = fast.iter().find(|(other, _)| *other == name).expect("FAST has every kernel");
        Kernel { name, naive: source(naive), fast: source(fast) }
    };
    entries(naive).into_iter().map(kernel).collect()
}

/// The kernels that a method of [`Tensor`](crate::Tensor) calls, itself or through another.
pub fn kernels_of(method: &str) -> Vec<Kernel> {
    let (mut reached, mut next): (Vec<&str>, Vec<&str>) = (Vec::new(), vec![method]);
    while let Some(method) = next.pop() {
        if !reached.contains(&method) {
            let found = METHODS.iter().find(|(name, _)| *name == method);
            reached.push(method);
            next.extend(found.into_iter().flat_map(|(_, body)| METHODS.iter().map(|m| m.0).filter(|m| calls(body, m))));
        }
    }
    let bodies = || METHODS.iter().filter(|(name, _)| reached.contains(name)).map(|(_, body)| body);
    kernels().into_iter().filter(|k| bodies().any(|body| names(body, &format!("kernels().{}", k.name)))).collect()
}

/// Every function of the methods' files, with its text.
static METHODS: LazyLock<Vec<(&str, &str)>> = LazyLock::new(|| {
    let texts = methods!("arithmetic" "attention" "in_place" "loss" "norm" "product" "recurrent" "reduce" "rows");
    let functions = texts.iter().flat_map(|text| text.split("\n    pub fn ").flat_map(|part| part.split("\n    fn ")));
    functions.filter_map(|text| Some((text.split(['(', '<']).next()?, text))).collect()
});

fn calls(text: &str, method: &str) -> bool {
    [".", "::"].iter().any(|of| text.contains(&format!("{of}{method}(")))
}

/// Does the text hold this path, and not a longer name?
fn names(text: &str, path: &str) -> bool {
    text.match_indices(path).any(|(at, _)| !text[at + path.len()..].starts_with(|c: char| c == '_' || c.is_alphanumeric()))
}

/// Fields, each with its function: `gelu_vjp` with `gelu::fast_vjp`.
fn entries(text: &'static str) -> Vec<(&'static str, &'static str)> {
    text.lines().filter_map(|line| line.trim().strip_suffix(',')?.split_once(": ")).collect()
}

/// Where `gelu::fast_vjp` begins.
fn source(function: &str) -> Source {
    let (module, function) = function.rsplit_once("::").expect("kernels are functions of modules");
    let file = module.replace("::", "/");
    let (_, text) = FILES.iter().find(|(name, _)| *name == file).expect("every file with kernels is in the list");
    let begins = format!("pub fn {function}<");
    let line = text.lines().position(|line| line.starts_with(&begins)).expect("the function stands in its file") + 1;
    Source { file: format!("tensor/src/cpu/{file}.rs"), line }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_is_found() {
        let all = kernels();
        assert_eq!(all.len(), include_str!("kernels.rs").matches("\n    pub ").count() - 2); // but for NAIVE and FAST
        for kernel in all {
            assert!(kernel.naive != kernel.fast, "{}", kernel.name);
        }
    }
}
