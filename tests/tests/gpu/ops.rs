//! Every op on the GPU.

use gradus_autograd::{Evaluated, Op, Real, Samples, Saved, Saves, Tape, Tensor, Var, Want, check, ops};

/// The number of draws of each op's samples.
const DRAWS: u64 = 10;

#[test]
fn values_and_gradients_of_every_op_match_the_cpu() {
    let Some(gpu) = crate::gpu() else { return };
    let mut compared = 0;
    let mut wrong = Vec::new();
    for op in ops::all() {
        for (seed, size) in check::draws(DRAWS) {
            for outcome in check::devices(&op, &gpu, seed, size) {
                match outcome {
                    Ok(report) => compared += report.compared,
                    Err(failure) => wrong.push(failure.to_string()),
                }
            }
        }
    }
    assert!(compared > 40_000, "{compared} numbers of {} ops", ops::all::<f32>().len());
    assert!(wrong.is_empty(), "{} samples disagree:\n{}", wrong.len(), wrong.join("\n"));
}

/// Values and VJPs of the device are compared with each other, without the CPU.
#[test]
fn every_vjp_is_the_adjoint_of_what_the_device_computes() {
    let Some(gpu) = crate::gpu() else { return };
    let (mut compared, mut wrong) = (0, Vec::new());
    for op in ops::all() {
        for outcome in check::draws(DRAWS).flat_map(|(seed, size)| check::adjoint_on(&op, &gpu, seed, size)) {
            match outcome {
                Ok(report) => compared += report.compared,
                Err(failure) => wrong.push(failure.to_string()),
            }
        }
    }
    assert!(compared > 800, "{compared} samples of {} ops", ops::all::<f32>().len());
    assert!(wrong.is_empty(), "{} samples disagree:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn an_error_of_a_thousandth_in_a_vjp_is_detected_on_the_device() {
    let Some(gpu) = crate::gpu() else { return };
    let toothless: Vec<String> =
        ops::all().iter().filter_map(|op| check::teeth_on(op, &gpu).err()).map(|e| e.to_string()).collect();
    assert!(toothless.is_empty(), "{}", toothless.join("\n"));
}

/// The op y = 2x for elements in the CPU's memory, with or without a definition in primitives.
#[derive(Debug)]
struct Doubled {
    is_defined: bool,
}

impl<T: Real> Op<T> for Doubled {
    const NAME: &'static str = "doubled";
    const MATH: &'static str = "y = 2x;  x̄ = 2ȳ";
    const SAVES: Saves = Saves::INPUTS;
    const ON_GPU: bool = false;
    fn eval(&self, ins: &[&Tensor<T>], _: Want) -> Evaluated<T> {
        ins[0].map(|x| x + x).into()
    }
    fn vjp<'t>(&self, _: &Saved<'t, T>, gy: &Var<'t, T>) -> Vec<Option<Var<'t, T>>> {
        vec![Some(gy.tape().constant(gy.value().map(|x: T| x + x)))]
    }
    fn reference<'t>(&self, ins: &[Var<'t, T>]) -> Option<Var<'t, T>> {
        self.is_defined.then(|| 2.0 * &ins[0])
    }
    fn samples(g: &mut Samples) -> Vec<(Self, Vec<Tensor<T>>)> {
        vec![(Doubled { is_defined: true }, vec![g.normal([2])])]
    }
}

#[test]
fn an_op_without_a_kernel_is_recorded_by_its_definition() {
    let Some(gpu) = crate::gpu() else { return };
    let tape = Tape::new();
    let x = tape.leaf(Tensor::new([2], vec![1.5f32, -3.0]).to(&gpu).unwrap());
    let y = tape.apply(Doubled { is_defined: true }, &[&x]);
    assert!(tape.recorded().iter().all(|node| node.op != Some("doubled")));
    let gradient = tape.backward(&y.sum_all()).take(&x).unwrap();
    assert_eq!((y.value().to_vec(), gradient.to_vec()), (vec![3.0, -6.0], vec![2.0, 2.0]));
}

#[test]
#[should_panic(expected = "`doubled` has neither a kernel for gpu:")]
fn an_op_without_kernel_or_definition_panics() {
    let Some(gpu) = crate::gpu() else { panic!("`doubled` has neither a kernel for gpu: (skipped)") };
    let tape = Tape::new();
    let x = tape.leaf(Tensor::new([1], vec![1.0f32]).to(&gpu).unwrap());
    tape.apply(Doubled { is_defined: false }, &[&x]);
}
