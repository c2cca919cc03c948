//! The shapes that each op accepts and rejects: for every condition in a shape rule, an input that breaks only this condition.

use std::panic::{AssertUnwindSafe, catch_unwind};

use gradus_autograd::ops::Attention;
use gradus_autograd::{Shape, Tape, Tensor, Var};
use gradus_tensor::Mask;

/// An application of an op to inputs.
type Apply = dyn for<'t> Fn(&[Var<'t, f64>]) -> Var<'t, f64>;

/// An op, as its name and an application.
struct Call(&'static str, Box<Apply>);

fn call(op: &'static str, f: impl for<'t> Fn(&[Var<'t, f64>]) -> Var<'t, f64> + 'static) -> Call {
    Call(op, Box::new(f))
}

/// Parses a shape such as `[2, 3]`, as messages write it.
fn shape(text: &str) -> Shape {
    let extents = text.trim_matches(['[', ']']).split(", ").filter(|n| !n.is_empty());
    Shape::new(&extents.map(|n| n.parse().expect("an extent")).collect::<Vec<usize>>())
}

impl Call {
    /// Returns the shape of its result for ones, or the message of its panic.
    fn of(&self, shapes: &str) -> Result<String, String> {
        let tape = Tape::new();
        let xs: Vec<_> = shapes.split(" · ").map(|s| tape.leaf(Tensor::full(shape(s), 1.0))).collect();
        let made = catch_unwind(AssertUnwindSafe(|| self.1(&xs).shape().to_string()));
        made.map_err(|panic| panic.downcast_ref::<String>().expect("a formatted message").clone())
    }

    #[track_caller]
    fn takes(&self, shapes: &str, expected: &str) -> &Self {
        assert_eq!(self.of(shapes).as_deref(), Ok(expected), "{} of {shapes}", self.0);
        self
    }

    /// Asserts that the op rejects these shapes by its rule, not by a later failure.
    #[track_caller]
    fn refuses(&self, shapes: &str) -> &Self {
        let Err(message) = self.of(shapes) else { panic!("{} takes {shapes}", self.0) };
        let rule = message.starts_with(&format!("{}: ", self.0)) && message.ends_with(&format!(", got {shapes}"));
        assert!(rule, "{} of {shapes}: {message}", self.0);
        self
    }

    /// Asserts that the op rejects these shapes with this explanation.
    #[track_caller]
    fn fails_with(&self, shapes: &str, rule: &str) -> &Self {
        assert_eq!(self.of(shapes), Err(format!("{}: {rule}, got {shapes}", self.0)));
        self
    }
}

fn attends(op: Attention) -> Call {
    call("attention", move |x| x[0].attention(&x[1], &x[2], x.get(3), op.clone()))
}

#[test]
fn attention() {
    let plain = attends(Attention::new(Mask::Full));
    plain.takes("[2, 3, 4, 5] · [2, 3, 6, 5] · [2, 3, 6, 5]", "[2, 3, 4, 5]");
    plain.takes("[2, 3, 6, 5] · [2, 3, 4, 5] · [2, 3, 4, 5]", "[2, 3, 6, 5]");
    plain.takes("[1, 1, 0, 5] · [1, 1, 0, 5] · [1, 1, 0, 5]", "[1, 1, 0, 5]");
    plain.refuses("[2, 4, 5] · [2, 4, 5] · [2, 4, 5]");
    plain.refuses("[2, 3, 4, 5] · [2, 6, 5] · [2, 6, 5]");
    plain.refuses("[2, 3, 4, 5] · [2, 3, 6, 5] · [2, 3, 7, 5]");
    plain.refuses("[2, 3, 4, 5] · [1, 3, 6, 5] · [1, 3, 6, 5]");
    plain.refuses("[2, 3, 4, 5] · [2, 1, 6, 5] · [2, 1, 6, 5]");
    plain.refuses("[2, 3, 4, 5] · [2, 3, 6, 4] · [2, 3, 6, 4]");
    plain.refuses("[2, 3, 4, 0] · [2, 3, 6, 0] · [2, 3, 6, 0]");
    // Without keys, every query's output is 0.
    plain.takes("[2, 3, 4, 5] · [2, 3, 0, 5] · [2, 3, 0, 5]", "[2, 3, 4, 5]");

    for bias in ["[2, 3, 4, 6]", "[1, 3, 4, 6]", "[2, 1, 4, 6]", "[1, 1, 4, 6]"] {
        plain.takes(&format!("[2, 3, 4, 5] · [2, 3, 6, 5] · [2, 3, 6, 5] · {bias}"), "[2, 3, 4, 5]");
    }
    for bias in ["[3, 3, 4, 6]", "[2, 2, 4, 6]", "[2, 3, 5, 6]", "[2, 3, 4, 7]", "[2, 3, 1, 6]", "[3, 4, 6]"] {
        plain.refuses(&format!("[2, 3, 4, 5] · [2, 3, 6, 5] · [2, 3, 6, 5] · {bias}"));
    }
    plain.refuses("[2, 3, 4, 5] · [2, 3, 6, 4] · [2, 3, 6, 4] · [2, 3, 4, 6]");

    let causal = attends(Attention::new(Mask::Causal));
    causal.takes("[2, 3, 4, 5] · [2, 3, 4, 5] · [2, 3, 4, 5]", "[2, 3, 4, 5]");
    causal.takes("[2, 3, 4, 5] · [2, 3, 6, 5] · [2, 3, 6, 5]", "[2, 3, 4, 5]");
    causal.refuses("[2, 3, 6, 5] · [2, 3, 4, 5] · [2, 3, 4, 5]");

    let only = attends(Attention::new(Mask::Allowed(vec![true; 24].into())));
    only.takes("[2, 3, 4, 5] · [2, 3, 6, 5] · [2, 3, 6, 5]", "[2, 3, 4, 5]");
    only.takes("[1, 3, 4, 5] · [1, 3, 6, 5] · [1, 3, 6, 5]", "[1, 3, 4, 5]");
    only.refuses("[2, 3, 4, 5] · [2, 3, 4, 5] · [2, 3, 4, 5]");
    let each = attends(Attention::new(Mask::Allowed(vec![true; 48].into())));
    each.takes("[2, 3, 4, 5] · [2, 3, 6, 5] · [2, 3, 6, 5]", "[2, 3, 4, 5]");
    each.refuses("[3, 3, 4, 5] · [3, 3, 6, 5] · [3, 3, 6, 5]");
    let padded = attends(Attention { lengths: Some([6, 2].into()), ..Attention::new(Mask::Full) });
    padded.takes("[2, 3, 4, 5] · [2, 3, 6, 5] · [2, 3, 6, 5]", "[2, 3, 4, 5]");
    padded.refuses("[2, 3, 4, 5] · [2, 3, 5, 5] · [2, 3, 5, 5]");
    padded.refuses("[1, 3, 4, 5] · [1, 3, 6, 5] · [1, 3, 6, 5]");
    padded.refuses("[3, 3, 4, 5] · [3, 3, 6, 5] · [3, 3, 6, 5]");
}

#[test]
fn self_attention() {
    let heads = |heads, mask| {
        call("self_attention", move |x| {
            let mask = if mask { Mask::Allowed(vec![true; 16].into()) } else { Mask::Causal };
            x[0].self_attention(heads, Attention::new(mask))
        })
    };
    heads(2, false).takes("[3, 4, 12]", "[3, 4, 4]").takes("[3, 0, 12]", "[3, 0, 4]");
    heads(2, false).refuses("[4, 12]").refuses("[3, 4, 0]").refuses("[3, 4, 9]").refuses("[3, 4, 10]");
    heads(2, true).takes("[3, 4, 12]", "[3, 4, 4]").refuses("[3, 5, 12]");
}

#[test]
fn operators() {
    let broadcast = "shapes that broadcast (equal from the last axis on, or 1)";
    call("sub", |x| &x[0] - &x[1]).takes("[2, 3] · [3]", "[2, 3]").fails_with("[2, 3] · [2]", broadcast);
    call("div", |x| &x[0] / &x[1]).takes("[2, 1] · [3]", "[2, 3]").fails_with("[2, 3] · [2]", broadcast);
}

#[test]
fn products() {
    let matmul = call("matmul", |x| x[0].matmul(&x[1]));
    matmul.takes("[2, 3] · [3, 4]", "[2, 4]").takes("[5, 2, 3] · [5, 3, 4]", "[5, 2, 4]");
    matmul.takes("[2, 0] · [0, 4]", "[2, 4]").takes("[1, 2, 3, 2, 4] · [1, 2, 3, 4, 5]", "[1, 2, 3, 2, 5]");
    matmul.refuses("[3] · [3]").refuses("[2, 3] · [1, 3, 4]").refuses("[2, 3] · [4, 3]");
    matmul.refuses("[5, 2, 3] · [6, 3, 4]").refuses("[2, 3] · [2, 4]");

    let linear = call("linear", |x| x[0].linear(&x[1], &x[2]));
    linear.takes("[2, 3] · [3, 4] · [4]", "[2, 4]").takes("[3] · [3, 4] · [4]", "[4]");
    linear.takes("[5, 2, 3] · [3, 4] · [4]", "[5, 2, 4]");
    linear.refuses("[] · [3, 4] · [4]").refuses("[2, 3] · [2, 4] · [4]");
    linear.fails_with("[2, 3] · [3, 4] · [3]", "[…,k]·[k,n] + [n] → […,n]");
    linear.refuses("[2, 3] · [3] · [3]").refuses("[2, 3] · [3, 4] · [1, 4]");
    let gelu = call("linear_gelu", |x| x[0].linear_gelu(&x[1], &x[2]));
    gelu.takes("[5, 2, 3] · [3, 4] · [4]", "[5, 2, 4]").refuses("[2, 3] · [2, 4] · [4]");
    gelu.fails_with("[2, 3] · [3, 4] · [3]", "[…,k]·[k,n] + [n] → […,n]");
}

#[test]
fn rows() {
    let norm = call("layer_norm", |x| x[0].layer_norm(&x[1], &x[2], 1e-5));
    norm.takes("[2, 3] · [3] · [3]", "[2, 3]").takes("[1] · [1] · [1]", "[1]").takes("[0, 3] · [3] · [3]", "[0, 3]");
    norm.refuses("[2, 3] · [2] · [3]").refuses("[2, 3] · [1, 3] · [3]");
    norm.fails_with("[2, 3] · [3] · [2]", "x […,n], gain [n], bias [n] with n ≥ 1");
    norm.refuses("[2, 0] · [0] · [0]").refuses("[] · [] · []");
    let rms = call("rms_norm", |x| x[0].rms_norm(&x[1], 1e-5));
    rms.takes("[2, 3] · [3]", "[2, 3]").takes("[1] · [1]", "[1]").takes("[0, 3] · [3]", "[0, 3]");
    rms.refuses("[2, 3] · [2]").refuses("[2, 3] · [1, 3]").refuses("[2, 0] · [0]").refuses("[] · []");
    call("softmax", |x| x[0].softmax()).takes("[2, 1]", "[2, 1]").fails_with("[2, 0]", "[…,n] with n ≥ 1").refuses("[]");
    call("log_softmax", |x| x[0].log_softmax()).takes("[0, 1]", "[0, 1]").refuses("[2, 0]").fails_with("[]", "[…,n] with n ≥ 1");
}

#[test]
fn classes() {
    let one = call("cross_entropy", |x| x[0].cross_entropy([0, 2]));
    one.takes("[2, 3]", "[2]").fails_with("[2, 2]", "logits [n,V] with more classes than the target 2");
    one.fails_with("[3, 3]", "logits [n,V] with a row for each of 2 targets, V ≥ 1")
        .refuses("[1, 3]")
        .refuses("[6]")
        .refuses("[2, 1, 3]");
    let none = call("cross_entropy", |x| x[0].cross_entropy([]));
    none.takes("[0, 3]", "[0]").refuses("[0, 0]");

    let fused = |weights: usize| {
        call("linear_cross_entropy", move |x| {
            x[0].linear_cross_entropy(&x[1], x.get(2), [0, 2].into(), vec![0.5; weights].into())
        })
    };
    fused(2).takes("[2, 4] · [3, 4]", "[]");
    fused(2).refuses("[2, 4] · [2, 4]").refuses("[2, 4] · [3, 5]").refuses("[3, 4] · [3, 4]").refuses("[2, 0] · [3, 0]");
    fused(2).refuses("[1, 2, 4] · [3, 4]").refuses("[2, 4] · [1, 3, 4]");
    fused(1).refuses("[2, 4] · [3, 4]");
    fused(3).refuses("[2, 4] · [3, 4]");
    fused(2).takes("[2, 4] · [3, 4] · [3]", "[]").refuses("[2, 4] · [3, 4] · [4]").refuses("[2, 4] · [3, 4] · [1, 3]");
}

#[test]
fn tables() {
    let gather = call("gather", |x| x[0].gather([0, 2], [2, 1]));
    gather.takes("[3, 4]", "[2, 1, 4]").refuses("[3]").refuses("[3, 4, 1]");
    gather.fails_with("[2, 4]", "a table [V,d] with more rows than the id 2");
    call("gather", |x| x[0].gather([0, 2], [1]))
        .fails_with("[3, 4]", "a table [V,d] and ids that fill their shape [1], not 2 ids");
    call("gather", |x| x[0].gather([], [0])).takes("[0, 4]", "[0, 4]");
    let scatter = call("scatter_add", |x| x[0].scatter_add([0, 2], 3));
    scatter.takes("[2, 4]", "[3, 4]").takes("[1, 2, 4]", "[3, 4]").refuses("[3, 4]").refuses("[]").refuses("[1, 4]");
    call("scatter_add", |x| x[0].scatter_add([0, 3], 3)).fails_with("[2, 4]", "[…,d] with a row for each of 2 ids below 3");
}

#[test]
fn axes() {
    let concat = call("concat", |x| Var::concat(&x.iter().collect::<Vec<_>>(), 1));
    concat.takes("[2, 3] · [2, 4]", "[2, 7]").takes("[2, 3]", "[2, 3]").takes("[2, 0] · [2, 4] · [2, 1]", "[2, 5]");
    concat
        .fails_with("[2, 3] · [3, 3]", "equal extents except on axis 1, which has [3, 3]")
        .refuses("[2, 3] · [2, 3, 1]")
        .refuses("[2] · [2]");
    let sum = |axes: &'static [usize]| call("sum", move |x| x[0].sum(axes));
    sum(&[0, 2]).takes("[2, 3, 4]", "[1, 3, 1]").refuses("[2, 3]");
    sum(&[]).takes("[2, 3]", "[2, 3]");
    sum(&[1, 1]).refuses("[2, 3]");
    sum(&[1, 0]).refuses("[2, 3]");
    sum(&[2]).refuses("[2, 3]");
    let max = call("max", |x| x[0].max(1));
    max.takes("[2, 1]", "[2, 1]").takes("[0, 3]", "[0, 1]").fails_with("[2, 0]", "an axis 1 of extent at least 1").refuses("[2]");
    let slice = call("slice", |x| x[0].slice(1, 2..4));
    slice
        .takes("[3, 4]", "[3, 2]")
        .takes("[3, 5]", "[3, 2]")
        .fails_with("[3, 3]", "an axis 1 with the positions 2..4")
        .refuses("[5]");
    call("slice", |x| x[0].slice(0, 2..2)).takes("[2]", "[0]").refuses("[1]");
    #[allow(clippy::reversed_empty_ranges)]
    call("slice", |x| x[0].slice(0, 2..1)).refuses("[3]");
    let pad = call("pad", |x| x[0].pad(1, 2, 3));
    pad.takes("[3, 4]", "[3, 9]").takes("[3, 0]", "[3, 5]").fails_with("[3]", "a shape with an axis 1");
    let permute = |axes: &'static [usize]| call("permute", move |x| x[0].permute(axes));
    permute(&[2, 0, 1]).takes("[2, 3, 4]", "[4, 2, 3]").refuses("[2, 3]").refuses("[2, 3, 4, 5]");
    permute(&[0, 0]).refuses("[2, 3]");
    permute(&[0, 2]).refuses("[2, 3]");
}

#[test]
fn views() {
    let reshape = call("reshape", |x| x[0].reshape([3, 2]));
    reshape.takes("[2, 3]", "[3, 2]").takes("[6]", "[3, 2]").refuses("[5]").refuses("[]");
    let expand = call("expand", |x| x[0].expand([2, 3]));
    expand.takes("[3]", "[2, 3]").takes("[]", "[2, 3]").takes("[2, 1]", "[2, 3]").takes("[2, 3]", "[2, 3]");
    expand.refuses("[2]").refuses("[1, 2, 3]").refuses("[4, 3]");
    // Wider than the target: both broadcast to (4, 3), which is not the requested shape.
    call("expand", |x| x[0].expand([1, 3])).refuses("[4, 3]");
    let select = call("select", |x| x[0].select(&Tensor::new([2, 1], vec![1.0, 0.0]), &x[1]));
    select.takes("[2, 1] · [2, 1]", "[2, 1]").fails_with("[3] · [3]", "inputs of the mask's shape [2, 1]");
    select.refuses("[1, 2] · [1, 2]").refuses("[2, 1] · [2, 2]");
}

#[test]
fn cells() {
    let cell = call("lstm_cell", |x| x[0].lstm_cell(&x[1]).0);
    cell.takes("[3, 8] · [3, 2]", "[3, 2]").takes("[0, 4] · [0, 1]", "[0, 1]");
    cell.fails_with("[3, 8] · [2, 2]", "z [B,4H], c [B,H] with H ≥ 1 → [2,B,H]")
        .refuses("[3, 6] · [3, 2]")
        .refuses("[3, 0] · [3, 0]");
    cell.refuses("[1, 3, 8] · [3, 2]").refuses("[3, 8] · [1, 3, 2]");
    let lstm = call("lstm", |x| x[0].lstm(&x[1]));
    lstm.takes("[5, 3, 8] · [2, 8]", "[5, 3, 2]").takes("[0, 3, 8] · [2, 8]", "[0, 3, 2]");
    lstm.fails_with("[5, 3, 8] · [3, 8]", "x [T,B,4H], W [H,4H] with H ≥ 1 → [T,B,H]")
        .refuses("[5, 3, 8] · [2, 4]")
        .refuses("[5, 3, 0] · [0, 0]");
    lstm.refuses("[5, 3, 4] · [2, 8]").refuses("[3, 8] · [2, 8]").refuses("[5, 3, 8] · [1, 2, 8]");
}
