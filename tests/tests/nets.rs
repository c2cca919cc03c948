//! Nets under the checks: nothing escapes the list of ops, the witnesses refuse what is wrong, and the tape keeps its word.

use std::collections::BTreeSet;
use std::sync::Arc;

use gradus_autograd::anomaly::{Direction, Watch};
use gradus_autograd::check::{self, Failure, Subject, Toothless, Witness};
use gradus_autograd::observer::Observer;
use gradus_autograd::trace::Recorder;
use gradus_autograd::{
    Declared, Evaluated, NodeId, Op, Real, Samples, Saved, Saves, Shape, ShapeError, Tape, Tensor, Var, Want, ops,
};

// ── The list ────────────────────────────────────────────────────────────────────────────────────────────────────────

#[test]
fn every_file_of_ops_is_listed() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../autograd/src/ops");
    let files = std::fs::read_dir(folder).expect("the folder of ops").map(|entry| {
        let path = entry.expect("an entry of the folder").path();
        path.file_stem().expect("a file name").to_string_lossy().into_owned()
    });
    let files: BTreeSet<String> = files.filter(|f| !["mod", "operators", "pointwise"].contains(&f.as_str())).collect();
    let listed: BTreeSet<String> = ops::all::<f64>().iter().map(|op| op.name.to_string()).collect();
    assert_eq!(files, listed, "each file of autograd/src/ops is one op, of its name, listed in ops::all");
}

#[test]
fn the_list_is_alphabetical_and_names_are_unique() {
    let names: Vec<&str> = ops::all::<f64>().iter().map(|op| op.name).collect();
    for pair in names.windows(2) {
        assert!(pair[0] < pair[1], "`{}` stands before `{}`", pair[0], pair[1]);
    }
}

#[test]
fn the_list_states_what_the_ops_state() {
    for (entry, subject) in ops::all::<f64>().iter().zip(check::subjects()) {
        assert!(
            entry.math.contains('=') && entry.math.contains('\u{304}'),
            "`{}`: a function and a VJP: {}",
            entry.name,
            entry.math
        );
        for case in subject.cases(1, 3) {
            assert_eq!(case.op(), entry.name);
        }
    }
}

#[test]
fn a_seed_draws_the_same_inputs_for_every_scalar() {
    for subject in check::subjects() {
        for case in subject.cases(11, 4) {
            assert_eq!(format!("{:?}", case.real.op), format!("{:?}", case.dual.op));
            assert_eq!(format!("{:?}", case.real.op), format!("{:?}", case.count.op));
            for ((x, dual), count) in case.real.inputs.iter().zip(&case.dual.inputs).zip(&case.count.inputs) {
                assert_eq!((x.shape(), x.strides()), (dual.shape(), dual.strides()), "`{}`", case.op());
                assert_eq!((x, x), (&dual.cast(), &count.cast()), "`{}`", case.op());
            }
        }
    }
}

/// Also: an op without samples fails, and so does an input that all samples leave without a gradient.
#[test]
fn the_checks_of_every_op_have_teeth() {
    let toothless: Vec<String> = check::subjects().iter().filter_map(|op| Some(check::teeth(op).err()?.to_string())).collect();
    assert!(toothless.is_empty(), "{toothless:#?}");
}

// ── Rogues: ops of another crate, wrong on purpose ──────────────────────────────────────────────────────────────────

const HONEST: u8 = 0;
const WRONG_CONSTANT: u8 = 1;
const MISSING_TERM: u8 = 2;
const WRONG_SIGN: u8 = 3;
const WRONG_SHAPE: u8 = 4;
const SWAYED: u8 = 5;
const FLAT: u8 = 6;
const FUSED: u8 = 7;
const FUSED_WRONG_VJP: u8 = 8;
const FUSED_WRONG_VALUE: u8 = 9;
const FUSED_NESTED: u8 = 10;
const FUSED_FORGETFUL: u8 = 11;
const WRONG_COST: u8 = 12;
const FORGETFUL: u8 = 13;
const NO_SAMPLES: u8 = 14;
const BLIND_SAMPLES: u8 = 15;

/// ```text
/// y = ab² + a        ā = ȳ(b² + 1),   b̄ = 2abȳ
/// ```
#[derive(Debug)]
struct Rogue<const FLAW: u8>;

impl<T: Real, const FLAW: u8> Op<T> for Rogue<FLAW> {
    fn name(&self) -> &'static str {
        "rogue"
    }
    fn shape(&self, ins: &[&Shape]) -> Result<Shape, ShapeError> {
        if ins[0] == ins[1] { Ok(*ins[0]) } else { Err(ShapeError::new("rogue", "two inputs of one shape", ins)) }
    }
    fn flops(&self, _: &[&Shape], out: &Shape) -> u64 {
        (if FLAW == WRONG_COST { 2 } else { 3 }) * out.numel() as u64
    }
    fn saves(&self) -> Saves {
        match FLAW {
            FORGETFUL | FUSED_FORGETFUL => Saves::input(0),
            _ => Saves::INPUTS,
        }
    }
    fn eval(&self, ins: &[&Tensor<T>], _: Want) -> Evaluated<T> {
        ins[0].zip(ins[1], |a, b| a * b * b + a).into()
    }
    fn vjp<'t>(&self, saved: &Saved<'t, T>, gy: &Var<'t, T>) -> Vec<Option<Var<'t, T>>> {
        if FLAW == FUSED_FORGETFUL {
            return vec![None, None];
        }
        let (a, b) = (saved.x(0), saved.x(1));
        let ga = match FLAW {
            MISSING_TERM => gy * (b * b),
            SWAYED if saved.needs(1) => gy * (b * b + 1.0) + 1e-9,
            _ => gy * (b * b + 1.0),
        };
        let gb = match FLAW {
            WRONG_CONSTANT | FUSED_WRONG_VJP => 2.002 * a * b * gy,
            WRONG_SIGN => -2.0 * a * b * gy,
            WRONG_SHAPE => (2.0 * a * b * gy).sum(&[0]),
            _ => 2.0 * a * b * gy,
        };
        let fast = matches!(FLAW, FLAT | FUSED | FUSED_WRONG_VJP | FUSED_WRONG_VALUE | FUSED_NESTED);
        let give = |g: Var<'t, T>| if fast { g.detach() } else { g };
        vec![saved.grad(0, || give(ga)), saved.grad(1, || give(gb))]
    }
    fn reference<'t>(&self, ins: &[Var<'t, T>]) -> Option<Var<'t, T>> {
        let (a, b) = (&ins[0], &ins[1]);
        match FLAW {
            FUSED | FUSED_WRONG_VJP | FUSED_FORGETFUL => Some(a * b * b + a),
            FUSED_WRONG_VALUE => Some(a * b * b + 1.001 * a),
            FUSED_NESTED => Some(a * b * b + a + (a.gelu() - a.gelu())),
            _ => None,
        }
    }
}

impl<T: Real, const FLAW: u8> Declared<T> for Rogue<FLAW> {
    const NAME: &'static str = "rogue";
    const MATH: &'static str = "y = ab² + a;  ā = ȳ(b² + 1),  b̄ = 2abȳ";
    fn samples(g: &mut Samples) -> Vec<(Self, Vec<Tensor<T>>)> {
        let n = 1 + g.extent();
        match FLAW {
            NO_SAMPLES => vec![],
            BLIND_SAMPLES => vec![(Rogue, vec![Tensor::zeros([n]), g.normal([n])])],
            _ => vec![(Rogue, vec![g.normal([n]), g.normal([n])]), (Rogue, vec![g.normal([0]), g.normal([0])])],
        }
    }
}

/// Do these witnesses, and no others, refuse the op?
fn refused_by<const FLAW: u8>(expected: &[&str]) {
    let cases: Vec<_> = (0..4).flat_map(|seed| Subject::of::<Rogue<FLAW>>().cases(seed, 3)).collect();
    let refuses = |witness: Witness| cases.iter().any(|case| witness(case).is_err());
    let refused: Vec<&str> = check::WITNESSES.iter().filter(|(_, w)| refuses(*w)).map(|(name, _)| *name).collect();
    assert_eq!(refused, expected, "flaw {FLAW}");
}

#[test]
fn an_honest_op_of_another_crate_is_recorded_and_passes() {
    let tape = Tape::<f64>::new();
    let (a, b) = (tape.leaf(Tensor::scalar(3.0)), tape.leaf(Tensor::scalar(2.0)));
    let y = tape.apply(Rogue::<HONEST>, &[&a, &b]);
    let grads = tape.backward(&y);
    assert_eq!((y.value().item(), grads.of(&a).unwrap().item(), grads.of(&b).unwrap().item()), (15.0, 5.0, 12.0));
    refused_by::<HONEST>(&[]);
    refused_by::<FUSED>(&[]);
    assert_eq!(check::teeth(&Subject::of::<Rogue<HONEST>>()), Ok(()));
}

#[test]
fn a_wrong_vjp_is_refused_by_every_first_order_witness() {
    let first_order = ["forward_mode", "differences", "adjoint", "v_curve", "taylor"];
    refused_by::<WRONG_CONSTANT>(&first_order);
    refused_by::<MISSING_TERM>(&first_order);
    refused_by::<WRONG_SIGN>(&first_order);
}

#[test]
fn a_gradient_that_depends_on_who_else_wants_one_is_refused() {
    // Its error of 1e-9 is also one of value; central differences alone cannot resolve it.
    refused_by::<SWAYED>(&["forward_mode", "adjoint"]);
}

#[test]
fn a_vjp_without_derivatives_of_its_own_is_refused() {
    refused_by::<FLAT>(&["second_order"]);
}

#[test]
fn a_fused_op_that_is_not_its_definition_is_refused() {
    refused_by::<FUSED_WRONG_VJP>(&["forward_mode", "differences", "adjoint", "second_order", "v_curve", "taylor", "fused"]);
    refused_by::<FUSED_WRONG_VALUE>(&["second_order", "fused"]);
    refused_by::<FUSED_NESTED>(&["fused"]);
}

#[test]
fn a_fused_op_that_drops_an_input_is_refused() {
    let case = &Subject::of::<Rogue<FUSED_FORGETFUL>>().cases(0, 3)[0];
    let failure = check::fused(case).unwrap_err();
    assert!(matches!(*failure, Failure::Breaks { .. }), "{failure}");
    assert!(failure.to_string().contains("input 1 is dropped"), "{failure}");
}

#[test]
fn every_fused_op_saves_its_inputs() {
    let mut fused = 0;
    for case in check::subjects().iter().flat_map(|op| op.cases(0, 3)) {
        let tape = Tape::off();
        let ins: Vec<Var<'_, f64>> = case.real.inputs.iter().map(|x| tape.constant(x.clone())).collect();
        if case.real.op.reference(&ins).is_some() {
            fused += 1;
            assert!((0..ins.len()).all(|i| case.real.op.saves().keeps_input(i)), "`{}`", case.op());
        }
    }
    assert!(fused > 0);
}

#[test]
fn a_wrong_cost_is_refused() {
    refused_by::<WRONG_COST>(&["audit"]);
}

#[test]
fn a_gradient_of_another_shape_is_refused() {
    let case = &Subject::of::<Rogue<WRONG_SHAPE>>().cases(0, 3)[0];
    for witness in [check::forward_mode, check::differences, check::adjoint] {
        let failure = witness(case).unwrap_err();
        assert!(failure.to_string().contains("the gradient of input 1 has its shape"), "{failure}");
    }
}

#[test]
#[should_panic(expected = "the VJP of `rogue` reads input 1, which its saves() does not keep")]
fn a_vjp_that_reads_what_was_dropped_says_so() {
    let _ = check::forward_mode(&Subject::of::<Rogue<FORGETFUL>>().cases(0, 3)[0]);
}

#[test]
fn samples_that_prove_nothing_are_refused() {
    assert_eq!(check::teeth(&Subject::of::<Rogue<NO_SAMPLES>>()), Err(Toothless::NoSamples("rogue")));
    let unseen = Toothless::Unseen { op: "rogue", input: 1, witness: "forward_mode" };
    assert_eq!(check::teeth(&Subject::of::<Rogue<BLIND_SAMPLES>>()), Err(unseen));
}

#[test]
fn a_report_says_what_to_look_at_and_how_to_draw_it_again() {
    let case = &Subject::of::<Rogue<WRONG_CONSTANT>>().cases(5, 3)[0];
    let failure = check::forward_mode(case).unwrap_err();
    let Failure::Disagrees(report) = &*failure else { panic!("{failure}") };
    let worst = report.worst.unwrap();
    assert_eq!((report.op, report.seed, report.size, worst.input), ("rogue", 5, 3, Some(1)));
    assert!((worst.value / worst.expected - 1.001).abs() < 1e-12);
    assert!((report.error() - 1e-3).abs() < 1e-12, "{failure}");
    assert!(failure.to_string().starts_with("forward_mode of `rogue`, sample 0 of cases(seed 5, size 3): input 1, element"));
}

// ── The tape ────────────────────────────────────────────────────────────────────────────────────────────────────────

fn vector(values: &[f64]) -> Tensor<f64> {
    Tensor::new([values.len()], values.to_vec())
}

#[test]
#[should_panic(expected = "a tape runs backward once")]
fn backward_twice_says_so() {
    let tape = Tape::new();
    let x = tape.leaf(vector(&[1.0, 2.0]));
    let y = (&x * &x).sum_all();
    tape.backward(&y);
    tape.backward(&y);
}

#[test]
fn backward_frees_what_was_saved() {
    let tape = Tape::new();
    let x = tape.leaf(vector(&[0.5, -1.0]));
    let y = (x.gelu() * x.tanh()).sum_all();
    // gelu keeps its input, tanh its output, and mul both of its inputs.
    assert_eq!(tape.saved_elements(), 8);
    tape.backward(&y);
    assert_eq!(tape.saved_elements(), 0);
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
    assert!(tape.is_empty() && tape.steps().is_empty() && x.node().is_none() && y.node().is_none());
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
    assert!(grads.of(&x).is_some());
    assert_eq!((grads.of(&unused), grads.of(&after), grads.of(&late)), (None, None, None));
}

#[test]
fn an_observer_sees_every_summand_and_they_add_up_to_the_gradient() {
    // y = Σ x² + x tanh x: x is used four times.
    let recorder = Arc::new(Recorder::default());
    let tape = Tape::observed(recorder.clone());
    let x = tape.leaf(vector(&[0.5, -2.0, 3.0]));
    let y = tape.scope("h3", || tape.scope("attn", || (&x * &x + &x * x.tanh()).sum_all()));
    let grads = tape.backward(&y);
    let trace = recorder.trace();
    for node in &trace[1..] {
        assert_eq!(&*node.site.scope, "h3.attn");
        assert!(node.site.at.file().ends_with("nets.rs"));
        assert!(node.ins.iter().all(|x| x.node.is_some_and(|x| x < y.node().unwrap())));
    }
    let summands = &trace[0].summands;
    let seen: Vec<&str> = summands.iter().map(|s| trace[s.from.index()].name()).collect();
    assert_eq!(seen, ["mul", "tanh", "mul", "mul"]);
    let sum = summands.iter().fold(vector(&[0.0; 3]), |sum, s| sum.zip(&s.value, |a, b| a + b));
    let gradient = grads.of(&x).unwrap();
    assert!(sum.zip(gradient, |a, b| (a - b).abs()).to_vec().iter().all(|&e| e < 1e-15));
    let exact = |x: f64| 3.0 * x - x + x.tanh() + x * (1.0 - x.tanh().powi(2));
    for (g, x) in gradient.to_vec().into_iter().zip([0.5, -2.0, 3.0]) {
        assert!((g - exact(x)).abs() < 1e-14);
    }
}

#[test]
fn a_node_knows_its_place() {
    let tape = Tape::new();
    let x = tape.leaf(vector(&[1.0, 2.0]));
    let (y, line) = tape.scope("h3", || tape.scope("attn", || (x.tanh(), line!())));
    let z = &y + &tape.constant(vector(&[1.0, 1.0]));
    let steps = tape.steps();
    let ops: Vec<Option<&str>> = steps.iter().map(|s| s.op).collect();
    assert_eq!(ops, [None, Some("tanh"), Some("add")]);
    assert_eq!((&*steps[1].site.scope, &*steps[2].site.scope), ("h3.attn", ""));
    assert_eq!((steps[1].site.at.line(), steps[1].site.at.file()), (line, file!()));
    assert_eq!((steps[1].inputs.clone(), steps[2].inputs.clone()), (vec![x.node()], vec![y.node(), None]));
    assert_eq!(z.node().map(NodeId::index), Some(2));
}

/// A worker makes a tape and may hand it on; that a `Var` stays is a doctest that does not compile.
#[test]
fn a_tape_can_move_to_another_thread() {
    let tape = Tape::<f64>::new();
    let done = std::thread::spawn(move || {
        let x = tape.leaf(vector(&[3.0]));
        tape.backward(&(&x * &x).sum_all()).take(&x)
    });
    assert_eq!(done.join().unwrap().unwrap().item(), 6.0);
}

#[test]
#[should_panic(expected = "an input is on another tape")]
fn two_tapes_do_not_mix() {
    let (one, two) = (Tape::<f64>::new(), Tape::<f64>::new());
    let _ = one.leaf(vector(&[1.0])) + two.leaf(vector(&[1.0]));
}

// ── Anomalies ───────────────────────────────────────────────────────────────────────────────────────────────────────

/// log 0 is −∞ and 0·(−∞) is NaN: the first of them counts, with what it was made of.
#[test]
fn the_first_number_that_is_not_finite_is_named_going_forward() {
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
fn one_that_a_vjp_makes_is_the_op_s() {
    // sqrt's VJP divides by 2√x: the division is not to blame.
    let watch = Arc::new(Watch::default());
    let tape = Tape::observed(watch.clone());
    let x = tape.leaf(vector(&[0.0, 4.0]));
    let grads = tape.backward(&(x.sqrt() * 3.0).sum_all());
    assert!(grads.of(&x).unwrap().to_vec()[0].is_infinite());
    let anomaly = watch.anomaly().expect("seen");
    assert_eq!((anomaly.op, anomaly.direction), ("sqrt", Direction::Backward { input: 0 }));
    assert_eq!((&*anomaly.from[0].0, anomaly.from[0].1.most), ("the cotangent", 3.0));
}

/// Two finite summands that add to infinity: neither op that gave one is to blame, nor the one that gets it.
#[test]
fn a_sum_of_finite_summands_that_is_not_finite_is_the_sum_s() {
    let seen = |f: fn(&Var<'_, f64>) -> f64| {
        let watch = Arc::new(Watch::default());
        let tape = Tape::observed(watch.clone());
        let x = tape.scope("w", || tape.leaf(vector(&[0.0])));
        assert!(f(&x).is_infinite());
        watch.anomaly().expect("seen")
    };
    // x̄ = h + h, of a leaf itself.
    let leaf = seen(|x| {
        let y = x.affine(f64::MAX * 0.75, 0.0) + x.affine(f64::MAX * 0.75, 0.0);
        x.tape().backward(&y.sum_all()).of(x).unwrap().to_vec()[0]
    });
    assert_eq!((leaf.op, &*leaf.site.scope, leaf.direction, leaf.made.infinite), ("leaf", "w", Direction::Sum, 1));
    assert!(leaf.to_string().contains("what flows to leaf in w"), "{leaf}");
    // And of an op, whose VJP gets the sum.
    let op = seen(|x| {
        let t = x.tanh();
        let y = t.affine(f64::MAX * 0.75, 0.0) + t.affine(f64::MAX * 0.75, 0.0);
        x.tape().backward(&y.sum_all()).of(x).unwrap().to_vec()[0]
    });
    assert_eq!((op.op, op.direction), ("tanh", Direction::Sum));
}

#[test]
fn who_looks_on_changes_no_bit() {
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
    assert!(watch.anomaly().is_some());
}
