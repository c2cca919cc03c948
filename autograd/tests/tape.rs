//! Tests of the tape: its records, its saved values, its freeing of memory, and its observers.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use gradus_autograd::anomaly::{Direction, Guard, Watch};
use gradus_autograd::observer::{Applied, Observer, Pulled};
use gradus_autograd::trace::Recorder;
use gradus_autograd::{Evaluated, NodeId, Op, Samples, Saved, Saves, Site, Tape, Tensor, Var, Want};

fn vector(values: &[f64]) -> Tensor<f64> {
    Tensor::new([values.len()], values.to_vec())
}

#[test]
fn misuse_of_a_tape_panics_with_a_message() {
    type Misuse = for<'t> fn(&'t Tape<f64>, &Var<'t, f64>);
    let calls: [(&str, Misuse); 5] = [
        ("a tape runs backward once", |tape, x| drop([(); 2].map(|()| tape.backward_from(x, vector(&[1.0, 2.0]))))),
        ("backward: a result of one element, got shape [2]; use backward_from", |tape, x| drop(tape.backward(x))),
        ("backward: a cotangent of the result's shape", |tape, x| drop(tape.backward_from(x, vector(&[1.0])))),
        ("pullback: a cotangent of the result's shape", |tape, x| drop(tape.pullback(x, &tape.constant(vector(&[1.0])), &[]))),
        ("an input is on another tape", |_, x| drop(x + Tape::new().leaf(vector(&[1.0, 2.0])))),
    ];
    for (expected, call) in calls {
        let tape = Tape::new();
        let x = tape.leaf(vector(&[1.0, 2.0])).tanh();
        let panic = catch_unwind(AssertUnwindSafe(|| call(&tape, &x))).expect_err(expected);
        let message = panic.downcast_ref::<String>().expect("a message");
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn backward_frees_what_was_saved() {
    let tape = Tape::new();
    let x = tape.leaf(vector(&[0.5, -1.0]));
    let y = (x.gelu() * x.tanh()).sum_all();
    // gelu saves its input, tanh its output, and mul both of its inputs.
    assert_eq!(tape.saved_elements(), 8);
    let before = tape.recorded();
    tape.backward(&y);
    assert_eq!(tape.saved_elements(), 0);
    assert_eq!(tape.recorded(), before);
}

#[test]
fn a_pullback_keeps_the_tape_and_backward_still_runs() {
    // y = x³,  y′ = 3x²,  y″ = 6x
    let tape = Tape::new();
    let x = tape.leaf(Tensor::scalar(2.0));
    let y = &x * &x * &x;
    let one = tape.constant(Tensor::scalar(1.0));
    let slope = tape.pullback(&y, &one, &[&x]).remove(0).unwrap();
    assert_eq!(slope.value().item(), 12.0);
    assert_eq!(tape.backward(&slope).of(&x).unwrap().item(), 12.0);
    assert_eq!(tape.saved_elements(), 0);
}

#[test]
fn a_third_derivative_is_a_pullback_of_a_pullback() {
    // y = tanh x,  y‴ = −2(1 − t²)(1 − 3t²),  t = tanh x
    let tape = Tape::new();
    let x = tape.leaf(Tensor::scalar(0.6));
    let one = tape.constant(Tensor::scalar(1.0));
    let first = tape.pullback(&x.tanh(), &one, &[&x]).remove(0).unwrap();
    let second = tape.pullback(&first, &one, &[&x]).remove(0).unwrap();
    let third = tape.backward(&second).of(&x).unwrap().item();
    let t = 0.6f64.tanh();
    assert!((third + 2.0 * (1.0 - t * t) * (1.0 - 3.0 * t * t)).abs() < 1e-14);
}

#[test]
fn a_tape_that_is_off_records_nothing() {
    let tape = Tape::off();
    let x = tape.leaf(vector(&[1.0, -2.0]));
    let y = tape.scope("h0", || x.gelu().sum_all());
    assert!(tape.is_empty() && tape.recorded().is_empty() && x.node().is_none() && y.node().is_none());
    assert_eq!(tape.backward(&y).of(&x), None);
}

#[test]
fn nothing_is_recorded_of_constants() {
    let tape = Tape::new();
    let c = tape.constant(vector(&[1.0, 2.0]));
    assert_eq!((&c * &c).tanh().node(), None);
    assert_eq!(tape.leaf(vector(&[1.0])).detach().tanh().node(), None);
    assert_eq!((tape.len(), tape.saved_elements()), (1, 0));
}

#[test]
fn a_leaf_that_is_not_used_has_no_gradient() {
    let tape = Tape::new();
    let (x, unused) = (tape.leaf(vector(&[1.0])), tape.leaf(vector(&[1.0])));
    let after = tape.leaf(vector(&[1.0]));
    let late = &after + &after;
    let grads = tape.backward(&(&x * &x).sum_all());
    assert_eq!(grads.of(&x).map(Tensor::to_vec), Some(vec![2.0]));
    assert_eq!((grads.of(&unused), grads.of(&after), grads.of(&late)), (None, None, None));
}

// ── Gradients on completion ─────────────────────────────────────────────────────────────────────────────────────────

/// A log of the VJPs that ran, and of the leaves, by index, that were observed or returned.
#[derive(Debug, Default)]
struct Order(Mutex<Vec<String>>);

impl Order {
    fn push(&self, what: String) {
        self.0.lock().unwrap().push(what);
    }
}

impl Observer<f64> for Order {
    fn pulled(&self, it: &Pulled<'_, f64>) {
        self.push(it.op.name().to_owned());
    }
    fn gradient(&self, leaf: NodeId, _: &Tensor<f64>, _: &Site) {
        self.push(format!("%{} observed", leaf.index()));
    }
}

#[test]
fn a_gradient_is_handed_over_before_the_vjps_of_earlier_nodes() {
    let order = Arc::new(Order::default());
    let tape = Tape::observed(order.clone());
    let [x, w, b] = [1.0, 2.0, 3.0].map(|x| tape.leaf(vector(&[x])));
    let y = (x.tanh() * &w + &b).exp() - &b; // b is read twice; its gradient is complete at the first
    tape.backward_each(vec![(&y, vector(&[1.0]))], |leaf, _| order.push(format!("%{}", leaf.index())));
    let expected = ["sub", "exp", "add", "%2 observed", "%2", "mul", "%1 observed", "%1", "tanh", "%0 observed", "%0"];
    assert_eq!(*order.0.lock().unwrap(), expected);
}

/// A log of the beginning, the end and the observation of each op and VJP.
#[derive(Debug, Default)]
struct Calls(Mutex<Vec<&'static str>>);

impl Observer<f64> for Calls {
    fn begins(&self) {
        self.0.lock().unwrap().push("begins");
    }
    fn ends(&self) {
        self.0.lock().unwrap().push("ends");
    }
    fn applied(&self, it: &Applied<'_, f64>) {
        self.0.lock().unwrap().push(it.op.name());
    }
    fn pulled(&self, it: &Pulled<'_, f64>) {
        self.0.lock().unwrap().push(it.op.name());
    }
}

#[test]
fn begin_and_end_events_precede_the_event_of_an_op_or_vjp() {
    let calls = Arc::new(Calls::default());
    let tape = Tape::observed(calls.clone());
    let x = tape.leaf(vector(&[1.0, 2.0]));
    let y = x.tanh().exp();
    // Neither the ops that a VJP applies nor the sums of cotangents are observed.
    tape.backward_from(&y, vector(&[1.0, 1.0]));
    let expected = ["tanh", "exp", "exp", "tanh"].map(|op| ["begins", "ends", op]).concat();
    assert_eq!(*calls.0.lock().unwrap(), expected);
}

/// Gradients are complete whatever else is on the tape: reads that no cotangent reaches, reads after the result, a result that is
/// a leaf.
#[test]
fn each_gradient_is_handed_over_once() {
    let run = |each: &mut dyn FnMut(NodeId, Tensor<f64>)| {
        let tape = Tape::new();
        let leaf = |x: f64| tape.leaf(vector(&[x]));
        let [x, w, late, dead, unused, result, both] = [0.5, -2.0, 0.25, 4.0, 1.0, 3.0, 0.75].map(leaf);
        let _ = (&dead * &x).exp(); // its cotangent is None, and it is the first to read x
        let y = (&x * &x) * &w + x.tanh() * &both;
        let after = &y * &late + &w + &result;
        let results = vec![(&result, vector(&[7.0])), (&y, vector(&[1.0])), (&both, vector(&[10.0])), (&y, vector(&[0.5]))];
        tape.backward_each(results, each);
        assert!(after.node() > y.node());
        [x, w, late, dead, unused, result, both].map(|x| x.node().unwrap())
    };
    let mut seen = Vec::new();
    let [x, w, _, _, _, result, both] = run(&mut |leaf, gradient| seen.push((leaf, gradient.to_vec()[0])));
    let t = 0.5f64.tanh();
    let expected = [(result, 7.0), (both, 10.0 + 1.5 * t), (w, 1.5 * 0.25), (x, 1.5 * (-2.0 + 0.75 * (1.0 - t * t)))];
    assert_eq!(seen.iter().map(|(leaf, _)| leaf).collect::<Vec<_>>(), expected.iter().map(|(leaf, _)| leaf).collect::<Vec<_>>());
    for ((leaf, found), (_, expected)) in seen.iter().zip(expected) {
        assert!((found - expected).abs() < 1e-15, "{leaf:?}: {found}, {expected}");
    }
}

#[test]
fn the_gradient_of_a_leaf_by_itself_is_its_cotangent() {
    let tape = Tape::new();
    let [x, y] = [2.0, 3.0].map(|x| tape.leaf(Tensor::scalar(x)));
    assert_eq!(tape.backward(&y).of(&y).unwrap().item(), 1.0);
    assert_eq!(tape.backward_from_all(vec![(&tape.constant(Tensor::scalar(1.0)), Tensor::scalar(1.0))]).of(&x), None);
    // Read only by nodes after the result.
    let _ = &x * &y;
    let grads = tape.backward_from_all(vec![(&x, Tensor::scalar(5.0))]);
    assert_eq!((grads.of(&x).map(Tensor::item), grads.of(&y)), (Some(5.0), None));
}

/// The op y = x₀ of this many inputs. The term that `add_vjp` adds to a sum is ten times too large, so that it can be recognised.
#[derive(Debug)]
struct Adding(usize);

impl Op<f64> for Adding {
    const NAME: &'static str = "adding";
    const MATH: &'static str = "y = x;  x̄ = ȳ";
    const SAVES: Saves = Saves::NONE;
    fn eval(&self, ins: &[&Tensor<f64>], _: Want) -> Evaluated<f64> {
        ins[0].clone().into()
    }
    fn vjp<'t>(&self, _: &Saved<'t, f64>, gy: &Var<'t, f64>) -> Vec<Option<Var<'t, f64>>> {
        (0..self.0).map(|i| (i == 0).then(|| gy.clone())).collect()
    }
    fn add_vjp(&self, _: &Saved<'_, f64>, gy: &Tensor<f64>, sum: &mut Tensor<f64>) -> bool {
        sum.add_assign(&gy.map(|g| 10.0 * g));
        true
    }
    fn samples(_: &mut Samples) -> Vec<(Self, Vec<Tensor<f64>>)> {
        Vec::new()
    }
}

/// The op y = x₀, of three inputs. Its VJP records which of them need a gradient.
#[derive(Debug)]
struct Asked(Arc<Mutex<Vec<bool>>>);

impl Op<f64> for Asked {
    const NAME: &'static str = "asked";
    const MATH: &'static str = "y = x;  x̄ = ȳ";
    const SAVES: Saves = Saves::NONE;
    fn eval(&self, ins: &[&Tensor<f64>], _: Want) -> Evaluated<f64> {
        ins[0].clone().into()
    }
    fn vjp<'t>(&self, saved: &Saved<'t, f64>, gy: &Var<'t, f64>) -> Vec<Option<Var<'t, f64>>> {
        *self.0.lock().unwrap() = (0..saved.inputs()).map(|i| saved.needs(i)).collect();
        (0..saved.inputs()).map(|i| saved.grad(i, || gy.clone())).collect()
    }
    fn samples(_: &mut Samples) -> Vec<(Self, Vec<Tensor<f64>>)> {
        Vec::new()
    }
}

#[test]
fn a_vjp_receives_which_inputs_need_a_gradient() {
    let (tape, wanted) = (Tape::new(), Arc::new(Mutex::new(Vec::new())));
    let [x, y] = [1.0, 2.0].map(|x| tape.leaf(Tensor::scalar(x)));
    tape.backward(&tape.apply(Asked(wanted.clone()), &[&x, &tape.constant(Tensor::scalar(3.0)), &y]));
    assert_eq!(*wanted.lock().unwrap(), [true, false, true]);
}

#[test]
fn an_op_with_one_input_adds_to_the_existing_gradient() {
    type Function<'a> = &'a dyn for<'t> Fn(&'t Tape<f64>, &Var<'t, f64>) -> Var<'t, f64>;
    let gradient = |f: Function<'_>| {
        let recorder = Arc::new(Recorder::default());
        let run = |tape: &Tape<f64>| {
            let x = tape.leaf(Tensor::scalar(1.0));
            tape.backward(&f(tape, &x)).of(&x).unwrap().item()
        };
        let (alone, observed) = (run(&Tape::new()), run(&Tape::observed(recorder.clone())));
        assert_eq!(alone, observed, "an observer changes nothing");
        (alone, recorder.trace()[0].summands.iter().map(|s| s.value.item()).collect::<Vec<_>>())
    };
    // Its VJP comes second, so there is a sum already. The observer gets the summands of `vjp`.
    assert_eq!(gradient(&|tape, x| tape.apply(Adding(1), &[x]) + x), (11.0, vec![1.0, 1.0]));
    // There is no sum yet.
    assert_eq!(gradient(&|tape, x| tape.apply(Adding(1), &[x])), (1.0, vec![1.0]));
    // With two inputs, the tape adds their summands.
    assert_eq!(gradient(&|tape, x| tape.apply(Adding(2), &[x, x]) + x), (2.0, vec![1.0, 1.0]));
}

#[test]
fn a_guard_is_nan_after_a_non_finite_value() {
    for (x, is_finite) in [(1.0, true), (0.0, false)] {
        let guard = Arc::new(Guard::default());
        let tape = Tape::<f64>::observed(guard.clone());
        tape.backward(&tape.leaf(Tensor::scalar(x)).sqrt()); // 1/(2√0) = ∞
        assert_eq!(guard.mark().unwrap().item().is_nan(), !is_finite);
    }
}

#[test]
fn a_node_records_its_op_scope_line_and_inputs() {
    let tape = Tape::new();
    let x = tape.leaf(vector(&[1.0, 2.0]));
    let (y, line) = tape.scope("h3", || tape.scope("attn", || (x.tanh(), line!())));
    let z = &y + &tape.constant(vector(&[1.0, 1.0]));
    let steps = tape.recorded();
    let ops: Vec<Option<&str>> = steps.iter().map(|s| s.op).collect();
    assert_eq!(ops, [None, Some("tanh"), Some("add")]);
    assert_eq!((&*steps[1].site.scope, &*steps[2].site.scope), ("h3.attn", ""));
    assert_eq!((steps[1].site.at.line(), steps[1].site.at.file()), (line, file!()));
    assert_eq!((steps[1].inputs.clone(), steps[2].inputs.clone()), (vec![x.node()], vec![y.node(), None]));
    assert_eq!(z.node().map(NodeId::index), Some(2));
}

/// The ops that a recorded pass applies, including softmax's definition, are not observed: there is one summand, from one op.
#[test]
fn a_trace_leaves_out_the_ops_of_a_recorded_backward_pass() {
    let recorder = Arc::new(Recorder::default());
    let tape = Tape::observed(recorder.clone());
    let x = tape.leaf(vector(&[0.5, -2.0, 3.0]));
    let y = (x.softmax() * tape.constant(vector(&[1.0, 2.0, 4.0]))).sum_all();
    let (shown, one) = (recorder.trace().len(), tape.constant(Tensor::scalar(1.0)));
    let first = tape.pullback(&y, &one, &[&x]).remove(0).unwrap();
    assert!(tape.len() > shown, "the pass is on the tape");
    let trace = recorder.trace();
    assert_eq!(trace.len(), shown);
    let seen: Vec<_> = trace[0].summands.iter().map(|s| (trace[s.from.index()].name(), s.value.to_vec())).collect();
    assert_eq!(seen, [("softmax", first.value().to_vec())]);
}

#[test]
fn ops_after_a_recorded_pass_are_observed_again() {
    let watch = Arc::new(Watch::default());
    let tape = Tape::observed(watch.clone());
    let x = tape.leaf(vector(&[0.0]));
    tape.pullback(&x.tanh(), &tape.constant(vector(&[1.0])), &[&x]);
    assert_eq!(watch.anomaly(), None);
    x.log();
    assert_eq!(watch.anomaly().map(|a| a.op), Some("log"));
}

/// A leaf without a node is not observed.
#[test]
fn a_recorder_ignores_values_without_nodes() {
    let recorder = Arc::new(Recorder::default());
    let tape = Tape::off().observed_by(Some(recorder.clone()));
    let x = tape.leaf(vector(&[0.5]));
    tape.scope("h0", || x.tanh());
    assert!(tape.is_empty() && recorder.trace().is_empty());
}

#[test]
fn the_length_of_a_tape_is_its_nodes() {
    let tape = Tape::new();
    assert!(tape.is_empty());
    let x = tape.leaf(vector(&[0.5]));
    assert!(!tape.is_empty() && tape.len() == 1);
    assert_eq!((x.node().map(NodeId::index), x.tanh().tanh().node().map(NodeId::index)), (Some(0), Some(2)));
}

/// A worker makes a tape and may return it; a doctest that does not compile shows that a `Var` cannot move.
#[test]
fn a_tape_can_move_to_another_thread() {
    let tape = Tape::<f64>::new();
    let done = std::thread::spawn(move || {
        let x = tape.leaf(vector(&[3.0]));
        tape.backward(&(&x * &x).sum_all()).take(&x)
    });
    assert_eq!(done.join().unwrap().unwrap().item(), 6.0);
}

// ── Anomalies ───────────────────────────────────────────────────────────────────────────────────────────────────────

/// log 0 is −∞ and 0·(−∞) is NaN: the first of them is recorded, with its inputs.
#[test]
fn the_first_non_finite_value_of_the_forward_pass_is_reported() {
    let watch = Arc::new(Watch::default());
    let tape = Tape::observed(watch.clone());
    let x = tape.leaf(vector(&[1.0, 0.0]));
    let (y, line) = tape.scope("h1", || tape.scope("mlp", || (x.log(), line!())));
    let z = (&y * &x).sum_all();
    assert!(z.value().item().is_nan());
    tape.backward(&z);
    let anomaly = watch.anomaly().expect("seen");
    assert_eq!((anomaly.op, anomaly.direction, anomaly.node), ("log", Direction::Forward, y.node().map(NodeId::index)));
    assert_eq!((&*anomaly.site.scope, anomaly.site.at.line()), ("h1.mlp", line));
    assert_eq!((anomaly.made.infinite, anomaly.made.nan), (1, 0));
    assert_eq!((anomaly.from.len(), anomaly.from[0].1.most), (1, 1.0));
}

#[test]
fn a_non_finite_gradient_is_reported_with_the_op_of_its_vjp() {
    // sqrt's VJP divides by 2√x: sqrt is named, not the division.
    let watch = Arc::new(Watch::default());
    let tape = Tape::observed(watch.clone());
    let x = tape.leaf(vector(&[0.0, 4.0]));
    let grads = tape.backward(&(x.sqrt() * 3.0).sum_all());
    assert!(grads.of(&x).unwrap().to_vec()[0].is_infinite());
    let anomaly = watch.anomaly().expect("seen");
    assert_eq!((anomaly.op, anomaly.direction), ("sqrt", Direction::Backward { input: 0 }));
    assert_eq!((&*anomaly.details, &*anomaly.site.scope), ("Sqrt", ""));
    let from: Vec<(&str, f64)> = anomaly.from.iter().map(|(name, summary)| (&**name, summary.most)).collect();
    assert_eq!(from, [("the cotangent", 3.0), ("the output", 2.0)]);
}

/// Two finite summands add to infinity: neither op that computed one is named as the cause, nor the op that receives the sum.
#[test]
fn a_sum_of_finite_summands_that_overflows_is_named_as_the_sum() {
    let seen = |f: fn(&Var<'_, f64>) -> f64| {
        let watch = Arc::new(Watch::default());
        let tape = Tape::observed(watch.clone());
        let x = tape.scope("w", || tape.leaf(vector(&[0.0])));
        assert!(f(&x).is_infinite());
        watch.anomaly().expect("seen")
    };
    // The sum x̄ = h + h of a leaf itself.
    let leaf = seen(|x| {
        let y = x.affine(f64::MAX * 0.75, 0.0) + x.affine(f64::MAX * 0.75, 0.0);
        x.tape().backward(&y.sum_all()).of(x).unwrap().to_vec()[0]
    });
    assert_eq!((leaf.op, &*leaf.site.scope, leaf.direction, leaf.made.infinite), ("leaf", "w", Direction::Sum, 1));
    assert!(leaf.to_string().contains("every summand of the gradient of leaf in w"), "{leaf}");
    // The sum of an op, whose VJP reads it.
    let op = seen(|x| {
        let t = x.tanh();
        let y = t.affine(f64::MAX * 0.75, 0.0) + t.affine(f64::MAX * 0.75, 0.0);
        x.tape().backward(&y.sum_all()).of(x).unwrap().to_vec()[0]
    });
    assert_eq!((op.op, op.direction), ("tanh", Direction::Sum));
}

#[test]
fn an_observer_changes_no_bit() {
    let run = |observer: Option<Arc<dyn Observer<f64>>>, at: &[f64]| {
        let tape = observer.map_or_else(Tape::new, Tape::observed);
        let x = tape.leaf(vector(at));
        let y = (x.gelu() * x.exp()).layer_norm(&x, &x, 1e-5).softmax().log().sum_all();
        let bits = |t: &Tensor<f64>| t.to_vec().iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        let gradient = bits(tape.backward(&y).of(&x).unwrap());
        (bits(y.value()), gradient)
    };
    let (sound, watch) = ([0.5, -1.0, 2.0], Arc::new(Watch::default()));
    assert_eq!(run(Some(watch.clone()), &sound), run(None, &sound));
    assert_eq!(run(Some(Arc::new(Recorder::default())), &sound), run(None, &sound));
    assert_eq!(watch.anomaly(), None);
    run(Some(watch.clone()), &[800.0, 0.0, 1.0]);
    assert_eq!(watch.anomaly().map(|a| (a.op, a.direction)), Some(("exp", Direction::Forward)));
}
