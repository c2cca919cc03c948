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

macro_rules! files {
    ($($module:ident)*) => { &[$((stringify!($module), include_str!(concat!("cpu/", stringify!($module), ".rs")))),*] };
}

/// The modules with kernels, and their texts.
const FILES: &[(&str, &str)] = files!(
    adam attention cross_entropy dropout elementwise embedding exp gelu layer_norm linear_cross_entropy log_softmax lstm matmul
    reduce sigmoid softmax tanh
);

/// Every kernel, in the order of the trait.
pub fn kernels() -> Vec<Kernel> {
    let (naive, fast) = include_str!("kernels.rs").split_once("Kernels<T> for Fast").expect("kernels.rs has both forms");
    let fast = calls(fast);
    let kernel = |(name, naive)| {
        let (_, fast) = fast.iter().find(|(other, _)| *other == name).expect("Fast has every kernel");
        Kernel { name, naive: source(naive), fast: source(fast) }
    };
    calls(naive).into_iter().map(kernel).collect()
}

/// Methods, each with what it calls: `gelu_vjp` with `gelu::fast_vjp`.
fn calls(text: &'static str) -> Vec<(&'static str, &'static str)> {
    let mut method = "";
    let line = |line: &'static str| {
        let line = line.trim_start();
        if let Some(rest) = line.strip_prefix("fn ") {
            method = rest.split('(').next().unwrap_or_default();
        }
        Some((method, line.strip_prefix("cpu::")?.split('(').next()?))
    };
    text.lines().filter_map(line).collect()
}

/// Where `gelu::fast_vjp` begins.
fn source(called: &str) -> Source {
    let (module, function) = called.split_once("::").expect("kernels call functions of modules");
    let (_, text) = FILES.iter().find(|(name, _)| *name == module).expect("every module with kernels is in the list");
    let begins = format!("pub fn {function}<");
    let line = text.lines().position(|line| line.starts_with(&begins)).expect("the function stands in its module") + 1;
    Source { file: format!("tensor/src/cpu/{module}.rs"), line }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_is_found() {
        let all = kernels();
        let declared = include_str!("kernels.rs").split_once("impl<T: Real> Kernels<T> for Naive").unwrap().0;
        let trait_methods = declared.split_once("pub trait Kernels").unwrap().1.matches("\n    fn ").count();
        assert_eq!(all.len(), trait_methods);
        for kernel in all {
            assert!(kernel.naive != kernel.fast, "{}", kernel.name);
            assert_eq!(kernel.naive.file, kernel.fast.file, "{}", kernel.name);
        }
    }
}
