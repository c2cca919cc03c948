//! The catalogue of ops and kernels, read from the list of ops and from the source files, so that it cannot differ from them.
//! [`syn`] parses the files, as the compiler does.
//!
//! ```
//! use gradus_audit::catalogue;
//!
//! let tanh = catalogue::pages().into_iter().find(|page| page.name == "tanh").unwrap();
//! assert_eq!(tanh.math, "y = tanh x;  x̄ = ȳ ∘ (1 − y²)");
//! assert_eq!((tanh.file.as_str(), tanh.saves.as_str()), ("autograd/src/ops/tanh.rs", "the output"));
//! assert_eq!(tanh.part("vjp").unwrap().code.lines().nth(1), Some("    let y = saved.y();"));
//! ```

use std::collections::BTreeSet;

use gradus_autograd::{Entry, Samples, Saves, Shape, Tape, Var, Want, ops};
use include_dir::{Dir, File, include_dir};
use syn::Token;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// The page of an op, read from its file.
#[derive(Clone, Debug)]
pub struct Page {
    /// The op's name.
    pub name: &'static str,
    /// The function and its VJP on one line.
    pub math: &'static str,
    /// The op's file, from the root of the repository.
    pub file: String,
    /// The derivation: the comment at the head of the file.
    pub derivation: String,
    /// The shapes of inputs and result, for each sample.
    pub shapes: Vec<String>,
    /// A description of the tensors kept for the VJP.
    pub saves: String,
    /// Whether the op has a definition in primitives.
    pub fused: bool,
    /// The op's functions: `shape`, `flops`, `f` of one element, `vjp`, `reference`.
    pub parts: Vec<CodePart>,
    /// The kernels that the op calls directly, not through another op.
    pub kernels: Vec<Kernel>,
}

/// The source of one function of an op.
#[derive(Clone, Debug)]
pub struct CodePart {
    /// The name of the function.
    pub name: &'static str,
    /// The line of its beginning, from 1.
    pub line: usize,
    /// The code, without the indentation of its `impl`.
    pub code: String,
}

/// A kernel and its two implementations.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// The kernel's field in [`Kernels`](gradus_tensor::kernels::Kernels).
    pub name: String,
    /// The naive loops, for any scalar.
    pub naive: SourceLine,
    /// The vectorised and parallel implementation.
    pub fast: SourceLine,
}

/// A line of this repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLine {
    /// The file, from the root of the repository.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
}

impl Page {
    /// Returns the function of this name.
    pub fn part(&self, name: &str) -> Option<&CodePart> {
        self.parts.iter().find(|part| part.name == name)
    }
}

/// Returns the pages of all ops of `gradus-autograd`, in the order of the list.
pub fn pages() -> Vec<Page> {
    // The functions of `Tensor`, through which ops reach kernels.
    let methods: Vec<Function> = files("tensor/src/methods").iter().flat_map(|(_, text)| functions(&parsed(text))).collect();
    let kernels = kernels();
    ops::all().into_iter().map(|entry| page(entry, &kernels, &methods)).collect()
}

/// A file's path from the root of the repository, and its text.
pub type Source = (String, &'static str);

/// The folders whose files are included.
static FOLDERS: [(&str, Dir<'_>); 8] = [
    ("autograd/src", include_dir!("$CARGO_MANIFEST_DIR/../../autograd/src")),
    ("tensor/src", include_dir!("$CARGO_MANIFEST_DIR/../../tensor/src")),
    ("model/src", include_dir!("$CARGO_MANIFEST_DIR/../../model/src")),
    ("train/io/src", include_dir!("$CARGO_MANIFEST_DIR/../io/src")),
    ("train/data/src", include_dir!("$CARGO_MANIFEST_DIR/../data/src")),
    ("train/cluster/src", include_dir!("$CARGO_MANIFEST_DIR/../cluster/src")),
    ("train/collective/src", include_dir!("$CARGO_MANIFEST_DIR/../collective/src")),
    ("train/src", include_dir!("$CARGO_MANIFEST_DIR/../src")),
];

/// Returns the files in this folder.
pub fn files(folder: &str) -> Vec<Source> {
    let (root, dir) = directory(folder);
    dir.files().map(|file| source(root, file)).collect()
}

/// Returns the files in this folder and all folders below it.
pub fn files_below(folder: &str) -> Vec<Source> {
    fn walk(root: &str, dir: &'static Dir<'static>, all: &mut Vec<Source>) {
        all.extend(dir.files().map(|file| source(root, file)));
        dir.dirs().for_each(|inner| walk(root, inner, all));
    }
    let (root, dir) = directory(folder);
    let mut all = Vec::new();
    walk(root, dir, &mut all);
    all
}

fn directory(folder: &str) -> (&'static str, &'static Dir<'static>) {
    let within = |(root, dir): &'static (&str, Dir<'static>)| match folder.strip_prefix(root)? {
        "" => Some((*root, dir)),
        inner => Some((*root, dir.get_dir(inner.strip_prefix('/')?)?)),
    };
    FOLDERS.iter().find_map(within).unwrap_or_else(|| panic!("{folder}: no such folder"))
}

fn source(root: &str, file: &'static File<'static>) -> Source {
    (format!("{root}/{}", file.path().display()), file.contents_utf8().expect("Rust is UTF-8"))
}

/// Returns the text of a file, if it is included.
pub fn file(path: &str) -> Option<&'static str> {
    let within = |(root, dir): &'static (&str, Dir<'static>)| dir.get_file(path.strip_prefix(root)?.strip_prefix('/')?);
    FOLDERS.iter().find_map(within)?.contents_utf8()
}

/// Returns the files of all ops.
pub fn sources() -> Vec<Source> {
    ops::all::<f64>().iter().map(|op| (path_of(op.name), text(&path_of(op.name)))).collect()
}

fn path_of(op: &str) -> String {
    format!("autograd/src/ops/{op}.rs")
}

fn text(path: &str) -> &'static str {
    file(path).unwrap_or_else(|| panic!("{path}: no such file"))
}

fn parsed(text: &str) -> syn::File {
    syn::parse_file(text).expect("the compiler has read it too")
}

fn page(entry: Entry<f64>, kernels: &[Kernel], methods: &[Function]) -> Page {
    let source = text(&path_of(entry.name));
    let file = parsed(source);
    let functions = functions(&file);
    let tape = Tape::off();
    let mut shapes: Vec<String> = Vec::new();
    let (mut fused, mut saves) = (false, String::new());
    for sample in (entry.samples)(&mut Samples::new(1, 3)) {
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
    let called = kernels_of(&functions, methods, fused);
    let part = |name: &'static str| functions.iter().find(|f| f.name == name).map(|f| f.part(name, source));
    Page {
        name: entry.name,
        math: entry.math,
        file: path_of(entry.name),
        derivation: head(&file),
        shapes,
        saves,
        fused,
        kernels: kernels.iter().filter(|kernel| called.contains(&kernel.name)).cloned().collect(),
        parts: ["shape", "flops", "f", "vjp", "reference"].into_iter().filter_map(part).collect(),
    }
}

/// Describes the tensors kept for the VJP. Residuals are additional results of an evaluation.
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

/// Returns the comment at the head of a file.
fn head(file: &syn::File) -> String {
    let line = |attribute: &syn::Attribute| match &attribute.meta.require_name_value().ok()?.value {
        syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
        _ => None,
    };
    let lines = file.attrs.iter().filter(|attribute| attribute.path().is_ident("doc")).filter_map(line);
    let text: Vec<String> = lines.map(|line| line.strip_prefix(' ').unwrap_or(&line).to_owned()).collect();
    text.join("\n").trim().to_owned()
}

// ── Kernels ─────────────────────────────────────────────────────────────────────────────────────────────────────────

/// Returns every kernel in the order of the table: its fields in `Kernels::NAIVE` and `Kernels::FAST`, and the lines of their
/// functions.
fn kernels() -> Vec<Kernel> {
    let table = parsed(text("tensor/src/kernels.rs"));
    let (naive, fast) = (fields(&table, "NAIVE"), fields(&table, "FAST"));
    assert!(naive.iter().map(|(name, _)| name).eq(fast.iter().map(|(name, _)| name)), "both tables in one order");
    let both = naive.into_iter().zip(fast);
    both.map(|((name, naive), (_, fast))| Kernel { name, naive: place(&naive), fast: place(&fast) }).collect()
}

/// Returns the fields of the constant `table`, each with the path of its function: `gelu_vjp` with `gelu::fast_vjp`.
fn fields(file: &syn::File, table: &str) -> Vec<(String, Vec<String>)> {
    let items = file.items.iter().filter_map(|item| if let syn::Item::Impl(item) = item { Some(&item.items) } else { None });
    let value = |item: &'_ syn::ImplItem| match item {
        syn::ImplItem::Const(item) if item.ident == table => Some(item.expr.clone()),
        _ => None,
    };
    let Some(syn::Expr::Struct(all)) = items.flatten().find_map(value) else { panic!("no table {table}") };
    let field = |field: &syn::FieldValue| match (&field.member, &field.expr) {
        (syn::Member::Named(name), syn::Expr::Path(function)) => {
            (name.to_string(), function.path.segments.iter().map(|segment| segment.ident.to_string()).collect())
        }
        _ => panic!("{table}: each field is the path of a function"),
    };
    all.fields.iter().map(field).collect()
}

/// Returns the file and the line of a function of `tensor/src/cpu`, given by its path, such as `gelu::fast_vjp`.
fn place(path: &[String]) -> SourceLine {
    let (function, modules) = path.split_last().expect("a path has a last segment");
    let module = format!("tensor/src/cpu/{}", modules.join("/"));
    let own = format!("{module}.rs");
    let file = if file(&own).is_some() { own } else { format!("{module}/mod.rs") };
    let found = functions(&parsed(text(&file))).into_iter().find(|f| f.name == *function);
    let line = found.unwrap_or_else(|| panic!("{file}: no function {function}")).first;
    SourceLine { file, line }
}

/// Returns the kernels that an op reaches, directly or through functions of its file and of `Tensor`. A function is identified by
/// its name and its number of arguments.
///
/// Only functions on tensors are followed: evaluation, `add_vjp`, and the VJP of a fused op. Their methods are `Tensor`'s, not
/// the methods of `Var` with the same names. Any other VJP is written in variables, whose methods are ops with separate pages. (A
/// VJP in tensors of an op without a definition in primitives would have no second derivatives; a witness rejects it.)
fn kernels_of(op: &[Function], methods: &[Function], fused: bool) -> BTreeSet<String> {
    let computes = |f: &&Function| matches!(&*f.name, "eval" | "f" | "add_vjp") || f.name == "vjp" && fused;
    let begin = op.iter().filter(computes);
    let (mut next, mut seen, mut kernels) = (begin.collect::<Vec<_>>(), BTreeSet::new(), BTreeSet::new());
    while let Some(function) = next.pop() {
        kernels.extend(function.kernels.iter().cloned());
        for call in function.calls.iter().filter(|&call| seen.insert(call)) {
            next.extend(op.iter().chain(methods).filter(|f| f.is(call)));
        }
    }
    kernels
}

// ── Functions of a file ─────────────────────────────────────────────────────────────────────────────────────────────

/// A function or method: its position and its calls.
#[derive(Debug)]
struct Function {
    name: String,
    arguments: usize,
    first: usize,
    last: usize,
    indent: usize,
    calls: BTreeSet<Call>,
    kernels: BTreeSet<String>,
}

/// The name of a called function, and its number of arguments, `self` included.
type Call = (String, usize);

impl Function {
    fn of(signature: &syn::Signature, block: &syn::Block) -> Self {
        let (begins, ends) = (signature.span().start(), block.brace_token.span.close().end());
        let mut body = Body::default();
        body.visit_block(block);
        Function {
            name: signature.ident.to_string(),
            arguments: signature.inputs.len(),
            first: begins.line,
            last: ends.line,
            indent: begins.column,
            calls: body.calls,
            kernels: body.kernels,
        }
    }

    fn is(&self, call: &Call) -> bool {
        (&self.name, self.arguments) == (&call.0, call.1)
    }

    fn part(&self, name: &'static str, source: &str) -> CodePart {
        let lines = source.lines().skip(self.first - 1).take(self.last + 1 - self.first);
        let code: Vec<&str> = lines.map(|line| line.get(self.indent..).unwrap_or("")).collect();
        CodePart { name, line: self.first, code: code.join("\n") }
    }
}

/// Returns the functions of a file, in order.
fn functions(file: &syn::File) -> Vec<Function> {
    struct Functions(Vec<Function>);
    impl<'a> Visit<'a> for Functions {
        fn visit_impl_item_fn(&mut self, f: &'a syn::ImplItemFn) {
            self.0.push(Function::of(&f.sig, &f.block));
        }
        fn visit_item_fn(&mut self, f: &'a syn::ItemFn) {
            self.0.push(Function::of(&f.sig, &f.block));
        }
    }
    let mut all = Functions(Vec::new());
    all.visit_file(file);
    all.0
}

/// The calls in a function's body, and the kernels that it names.
#[derive(Default)]
struct Body {
    calls: BTreeSet<Call>,
    kernels: BTreeSet<String>,
}

impl<'a> Visit<'a> for Body {
    fn visit_expr_method_call(&mut self, call: &'a syn::ExprMethodCall) {
        self.calls.insert((call.method.to_string(), call.args.len() + 1));
        visit::visit_expr_method_call(self, call);
    }
    fn visit_expr_call(&mut self, call: &'a syn::ExprCall) {
        if let syn::Expr::Path(function) = &*call.func {
            self.calls.extend(last(&function.path).map(|name| (name, call.args.len())));
        }
        visit::visit_expr_call(self, call);
    }
    /// Parses the contents of `vec![…]` and similar macros if they are a list of expressions.
    fn visit_macro(&mut self, call: &'a syn::Macro) {
        if let Ok(elements) = call.parse_body_with(Punctuated::<syn::Expr, Token![,]>::parse_terminated) {
            let mut inside = Body::default();
            elements.iter().for_each(|element| inside.visit_expr(element));
            self.calls.extend(inside.calls);
            self.kernels.extend(inside.kernels);
        }
    }
    /// Records a method passed as a value, such as `Tensor::dense`.
    fn visit_expr_path(&mut self, path: &'a syn::ExprPath) {
        if path.path.segments.len() > 1 {
            self.calls.extend(last(&path.path).map(|name| (name, 1)));
        }
    }
    /// Records a kernel, such as `cpu.kernels.gelu`.
    fn visit_expr_field(&mut self, field: &'a syn::ExprField) {
        if let (syn::Expr::Field(table), syn::Member::Named(kernel)) = (&*field.base, &field.member)
            && matches!(&table.member, syn::Member::Named(name) if name == "kernels")
        {
            self.kernels.insert(kernel.to_string());
        }
        visit::visit_expr_field(self, field);
    }
}

fn last(path: &syn::Path) -> Option<String> {
    Some(path.segments.last()?.ident.to_string())
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
            // A function of one element keeps the shape.
            assert!(page.part("f").is_none() || page.part("shape").is_none(), "{}", page.name);
            assert!(!page.shapes.is_empty() && !page.saves.is_empty(), "{}", page.name);
        }
    }

    #[test]
    fn the_kernels_of_an_op_are_those_that_it_calls() {
        let pages = pages();
        let of = |name: &str| {
            let page = pages.iter().find(|page| page.name == name).unwrap();
            page.kernels.iter().map(|kernel| kernel.name.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(of("tanh"), ["tanh"]);
        assert_eq!(of("gelu"), ["gelu", "gelu_vjp"]); // the second within `vec![…]`
        assert_eq!(of("linear"), ["matmul", "sum_rows", "sum_cols"]);
        assert_eq!(of("linear_gelu"), ["matmul", "gelu", "gelu_vjp", "sum_rows", "sum_cols"]);
        assert_eq!(of("layer_norm"), ["layer_norm", "layer_norm_vjp"]);
        assert_eq!(of("gather"), ["gather", "scatter_add"]); // the second by `add_vjp`
        assert_eq!(of("sum"), ["sum_rows", "sum_cols"]);
        assert_eq!(of("reshape"), [""; 0]);
        assert_eq!(of("erf"), [""; 0]); // its VJP uses the `exp` of `Var`, which is another op
        assert_eq!(of("expand"), [""; 0]); // its VJP uses the `sum` of `Var`
    }

    #[test]
    fn each_kernel_points_at_its_naive_and_fast_function() {
        let all = kernels();
        assert!(all.len() > 30);
        for Kernel { name, naive, fast } in &all {
            assert_ne!(naive, fast, "{name}");
            for SourceLine { file, line } in [naive, fast] {
                let begins = text(file).lines().nth(line - 1).unwrap();
                assert!(begins.starts_with("pub fn ") || begins.starts_with("pub(super) fn "), "{file}:{line}: {begins}");
            }
        }
    }

    #[test]
    fn saved_tensors_are_described_in_words() {
        let words = [(Saves::NONE, 2, "nothing"), (Saves::INPUTS, 1, "the input"), (Saves::INPUTS, 3, "all 3 inputs")];
        for (saves, inputs, expected) in words {
            assert_eq!(kept(saves, inputs, 0), expected);
        }
        assert_eq!(kept(Saves::input(1), 2, 1), "input 1 and a residual of the evaluation");
        assert_eq!(kept(Saves::ALL, 2, 0), "all 2 inputs and the output");
        assert_eq!(kept(Saves::NONE, 1, 2), "2 residuals of the evaluation");
    }
}
