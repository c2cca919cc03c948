//! Tests of the checks: the list of ops is complete, and the witnesses reject wrong ops.

use std::collections::BTreeSet;

use gradus_autograd::check::{self, Case, Failure, Subject, Toothless, Witness};
use gradus_autograd::{Evaluated, Op, Real, Samples, Saved, Saves, Shape, Tape, Tensor, Var, Want, ops};

// ── The list ────────────────────────────────────────────────────────────────────────────────────────────────────────

#[test]
fn every_file_of_ops_is_listed() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/ops");
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
        assert!(pair[0] < pair[1], "`{}` comes before `{}`", pair[0], pair[1]);
    }
}

/// Every method and operator of `Var` links to its op's formula. An op has a method in its file or an operator of its name.
#[test]
fn each_method_links_to_its_formula() {
    let folder = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src/ops"));
    let page = |name: &str| std::fs::read_to_string(folder.join(name).with_extension("rs")).expect("a file of its name");
    let operators = page("operators");
    for op in ops::all::<f64>() {
        let page = page(op.name);
        assert!(page.starts_with("//! ```text\n"), "`{}`: the page opens with the formula", op.name);
        let Some((_, methods)) = page.split_once("impl<'t, T: Real> Var<'t, T> {") else {
            let operator = format!(", {0}, {0}::", op.name);
            let is_there = operators.lines().any(|line| line.starts_with("binary!(") && line.contains(&operator));
            assert!(is_there, "`{}`: neither a method in its file nor an operator in operators.rs", op.name);
            continue;
        };
        let linked = methods.matches("    /// [Formula and derivative](self).\n    #[track_caller]\n    pub fn ").count();
        assert_eq!(linked, methods.matches("    pub fn ").count(), "`{}`", op.name);
        assert!(linked > 0, "`{}`: no method", op.name);
    }
    let lines: Vec<&str> = operators.lines().collect();
    let functions: Vec<usize> = (0..lines.len()).filter(|&at| lines[at].starts_with("            fn ")).collect();
    for &at in &functions {
        let above = lines[..at].iter().rev().map(|line| line.trim_start());
        let above = above.take_while(|line| line.starts_with("#[") || line.starts_with("///"));
        let links = above.filter(|line| line.contains("[Formula and derivative](super")).count();
        assert_eq!(links, 1, "operators.rs, line {}: {}", at + 1, lines[at]);
    }
    assert!(functions.len() >= 7, "of variables, of a variable and a number, and the negation");
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

/// An op without samples fails too, and so does an op with an input to which no sample gives a gradient.
#[test]
fn the_samples_of_every_op_detect_a_wrong_gradient() {
    let toothless: Vec<String> = check::subjects().iter().filter_map(|op| Some(check::teeth(op).err()?.to_string())).collect();
    assert!(toothless.is_empty(), "{toothless:#?}");
}

// ── Ops of another crate, wrong on purpose ──────────────────────────────────────────────────────────────────────────

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
const ONE_COTANGENT: u8 = 16;
const INFINITE: u8 = 17;

/// ```text
/// y = ab² + a        ā = ȳ(b² + 1),   b̄ = 2abȳ
/// ```
#[derive(Debug)]
struct Rogue<const FLAW: u8>;

impl<T: Real, const FLAW: u8> Op<T> for Rogue<FLAW> {
    const NAME: &'static str = "rogue";
    const MATH: &'static str = "y = ab² + a;  ā = ȳ(b² + 1),  b̄ = 2abȳ";
    const SAVES: Saves = if FLAW == FORGETFUL || FLAW == FUSED_FORGETFUL { Saves::input(0) } else { Saves::INPUTS };
    fn flops(&self, _: &[&Shape], out: &Shape) -> u64 {
        (if FLAW == WRONG_COST { 2 } else { 3 }) * out.numel() as u64
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
            INFINITE => 2.0 * a * b * gy * f64::INFINITY,
            _ => 2.0 * a * b * gy,
        };
        let fast = matches!(FLAW, FLAT | FUSED | FUSED_WRONG_VJP | FUSED_WRONG_VALUE | FUSED_NESTED);
        let give = |g: Var<'t, T>| if fast { g.detach() } else { g };
        let ga = saved.grad(0, || give(ga));
        if FLAW == ONE_COTANGENT { vec![ga] } else { vec![ga, saved.grad(1, || give(gb))] }
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
    fn samples(g: &mut Samples) -> Vec<(Self, Vec<Tensor<T>>)> {
        let n = 1 + g.extent();
        match FLAW {
            NO_SAMPLES => vec![],
            BLIND_SAMPLES => vec![(Rogue, vec![Tensor::zeros([n]), g.normal([n])])],
            _ => vec![(Rogue, vec![g.normal([n]), g.normal([n])]), (Rogue, vec![g.normal([0]), g.normal([0])])],
        }
    }
}

/// Asserts that these witnesses, and no others, reject the op.
fn refused_by<const FLAW: u8>(expected: &[&str]) {
    let cases: Vec<_> = (0..4).flat_map(|seed| Subject::of::<Rogue<FLAW>>().cases(seed, 3)).collect();
    let refuses = |witness: Witness| cases.iter().any(|case| witness(case).is_err());
    let refused: Vec<&str> = check::WITNESSES.iter().filter(|(_, w)| refuses(*w)).map(|(name, _)| *name).collect();
    assert_eq!(refused, expected, "flaw {FLAW}");
}

#[test]
fn a_correct_op_of_another_crate_is_recorded_and_passes() {
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
fn a_wrong_vjp_is_rejected_by_every_first_order_witness() {
    let first_order = ["forward_mode", "differences", "adjoint", "v_curve", "taylor"];
    refused_by::<WRONG_CONSTANT>(&first_order);
    refused_by::<MISSING_TERM>(&first_order);
    refused_by::<WRONG_SIGN>(&first_order);
}

#[test]
fn a_vjp_that_depends_on_which_gradients_are_needed_is_rejected() {
    // The gradient is also off by 1e-9, which the exact witnesses detect and differences cannot resolve.
    refused_by::<SWAYED>(&["forward_mode", "adjoint"]);
}

/// A witness reports each of these flaws with its place, even if the op panics.
#[test]
fn the_error_for_a_panicking_op_names_witness_op_and_sample() {
    let derivatives = ["forward_mode", "differences", "adjoint", "second_order", "v_curve", "taylor"];
    refused_by::<ONE_COTANGENT>(&derivatives);
    refused_by::<FORGETFUL>(&derivatives);
    refused_by::<WRONG_SHAPE>(&derivatives);
    refused_by::<INFINITE>(&derivatives);
    let error = |case: &Case, witness: Witness| witness(case).unwrap_err().to_string();
    let one = &Subject::of::<Rogue<ONE_COTANGENT>>().cases(3, 2)[0];
    let forgetful = &Subject::of::<Rogue<FORGETFUL>>().cases(3, 2)[0];
    for (name, witness) in check::DERIVATIVES {
        let (one, forgetful) = (error(one, witness), error(forgetful, witness));
        assert!(one.starts_with(&format!("{name} of `rogue`, sample 0 of cases(seed 3, size 2)")), "{one}");
        assert!(one.contains("gives one cotangent per input") && forgetful.contains("reads input 1"), "{one}; {forgetful}");
    }
}

#[test]
fn a_vjp_without_derivatives_of_its_own_is_rejected() {
    refused_by::<FLAT>(&["second_order"]);
}

#[test]
fn a_fused_op_that_is_not_its_definition_is_rejected() {
    refused_by::<FUSED_WRONG_VJP>(&["forward_mode", "differences", "adjoint", "second_order", "v_curve", "taylor", "fused"]);
    refused_by::<FUSED_WRONG_VALUE>(&["second_order", "fused"]);
    refused_by::<FUSED_NESTED>(&["fused"]);
}

#[test]
fn a_fused_op_that_drops_an_input_is_rejected() {
    let case = &Subject::of::<Rogue<FUSED_FORGETFUL>>().cases(0, 3)[0];
    let failure = check::fused(case).unwrap_err();
    assert!(matches!(*failure, Failure::Breaks { .. }), "{failure}");
    assert!(failure.to_string().contains("input 1 is dropped"), "{failure}");
}

#[test]
fn a_wrong_cost_is_rejected() {
    refused_by::<WRONG_COST>(&["audit"]);
}

#[test]
fn a_gradient_of_another_shape_is_rejected() {
    let case = &Subject::of::<Rogue<WRONG_SHAPE>>().cases(0, 3)[0];
    for (_, witness) in check::DERIVATIVES {
        let failure = witness(case).unwrap_err();
        assert!(failure.to_string().contains("the gradient of input 1 should have its shape"), "{failure}");
    }
}

#[test]
fn ops_without_informative_samples_are_rejected() {
    assert_eq!(check::teeth(&Subject::of::<Rogue<NO_SAMPLES>>()), Err(Toothless::NoSamples("rogue")));
    let unseen = Toothless::Unseen { op: "rogue", input: 1, witness: "forward_mode" };
    assert_eq!(check::teeth(&Subject::of::<Rogue<BLIND_SAMPLES>>()), Err(unseen));
}

#[test]
fn a_report_names_the_worst_element_and_the_seed() {
    let case = &Subject::of::<Rogue<WRONG_CONSTANT>>().cases(5, 3)[0];
    let failure = check::forward_mode(case).unwrap_err();
    let Failure::Disagrees(report) = &*failure else { panic!("{failure}") };
    let worst = report.worst.unwrap();
    assert_eq!((report.op, report.seed, report.size, worst.input), ("rogue", 5, 3, Some(1)));
    assert!((worst.value / worst.expected - 1.001).abs() < 1e-12);
    assert!((report.error() - 1e-3).abs() < 1e-12, "{failure}");
    assert!(failure.to_string().starts_with("forward_mode of `rogue`, sample 0 of cases(seed 5, size 3): input 1, element"));
}
