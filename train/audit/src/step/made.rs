//! The computation of the step: on the CPU in f64; on a GPU, or with products in bf16, in f32 and read back.

use std::sync::Arc;

use gradus_autograd::Tensor;
use gradus_autograd::trace::{Argument, Recorder, Summand, Traced};
use gradus_model::{DropoutSeed, GradientMode, Tree};
use gradus_tensor::device::MatmulPrecision;
use gradus_tensor::{Device, Real};
use gradus_train::trainer::{Gradient, StepSummary, TrainError, Trainer};

use super::StepInputs;

/// The tolerance on the CPU, at the best of seven step sizes.
const TOLERANCE: f64 = 1e-7;
/// Returns the tolerance of a VJP computed in f32 on a device: sixteen times 2⁻²⁴ with products in f32, four times 2⁻¹² in f16,
/// four times 2⁻⁹ in bf16. The differences are in f64, without the device's rounding.
const fn tolerance_of(precision: MatmulPrecision) -> f64 {
    match precision {
        MatmulPrecision::F32 => 1e-6,
        MatmulPrecision::F16 => 1e-3,
        MatmulPrecision::BF16 => 8e-3,
    }
}

/// The results of a step.
#[derive(Debug)]
pub struct Made {
    /// The parameters and moments before the step, as stored on the device.
    pub before: Trainer<f64>,
    pub after: Trainer<f64>,
    pub loss: f64,
    pub gradient: Gradient<f64>,
    pub summary: StepSummary,
    pub trace: Vec<Traced<f64>>,
    /// A description of the arithmetic.
    pub arithmetic: String,
    /// The error up to which differences confirm a derivative.
    pub tolerance: f64,
}

/// The results of a step in one precision.
struct Run<T: Real> {
    after: Trainer<T>,
    loss: f64,
    gradient: Gradient<T>,
    summary: StepSummary,
    trace: Vec<Traced<T>>,
}

impl Made {
    /// Computes the step on a device.
    pub fn on(device: &Device, step: &StepInputs) -> Result<Self, TrainError> {
        let here = run(&step.trainer, step, &Device::CPU)?;
        let threads = rayon::current_num_threads();
        if *device == Device::CPU {
            let Run { after, loss, gradient, summary, trace } = here;
            let arithmetic = format!("f64, {threads} threads; the bits do not depend on them");
            let before = step.trainer.clone();
            return Ok(Made { before, after, loss, gradient, summary, trace, arithmetic, tolerance: TOLERANCE });
        }
        let mut trainer: Trainer<f32> = step.trainer.cast();
        let before = trainer.cast();
        trainer.place(device).map_err(|error| TrainError::Device { step: trainer.done() + 1, error })?;
        let Run { mut after, loss, gradient, summary, trace } = run(&trainer, step, device)?;
        after.place(&Device::CPU).map_err(|error| TrainError::Device { step: after.done(), error })?;
        let rounds = device.arithmetic().map_or(String::new(), |arithmetic| format!(", where {arithmetic}"));
        Ok(Made {
            before,
            after: after.cast(),
            loss,
            gradient: gradient.map(|_, g| g.as_ref().map(read)),
            summary,
            trace: read_back(&here.trace, &trace),
            arithmetic: format!(
                "f32 on {device}{rounds}, with products in {}; differences are computed in f64, at its numbers, on the CPU",
                device.matmul_precision()
            ),
            tolerance: tolerance_of(device.matmul_precision()),
        })
    }
}

fn run<T: Real>(trainer: &Trainer<T>, step: &StepInputs, device: &Device) -> Result<Run<T>, TrainError> {
    let recorder = Arc::new(Recorder::on(device));
    let dropout = Some(DropoutSeed::new(trainer.recipe.seed, trainer.done() + 1));
    let (loss, gradient) = trainer.params.observed_gradient(Some(recorder.clone()), &step.batch, dropout, GradientMode::Whole);
    let (loss, mut after) = (loss.item().to_f64(), trainer.clone());
    let summary = after.step(&step.batch)?;
    Ok(Run { after, loss, gradient, summary, trace: recorder.trace() })
}

/// Reads a tensor from a GPU. Panics if the GPU fails.
fn read(x: &Tensor<f32>) -> Tensor<f64> {
    Tensor::new(*x.shape(), x.to_vec().into_iter().map(f64::from).collect())
}

/// Combines the numbers of `there` with the ops of `here`, the same step in f64, so that differences can be computed in f64.
fn read_back(here: &[Traced<f64>], there: &[Traced<f32>]) -> Vec<Traced<f64>> {
    assert_eq!(here.len(), there.len(), "a step has the same nodes on every device");
    let mut nodes: Vec<Traced<f64>> = Vec::with_capacity(there.len());
    for (i, (here, it)) in here.iter().zip(there).enumerate() {
        assert_eq!(here.name(), it.name(), "node {i}: a step has the same ops on every device");
        let value_of = |x: &Argument<f32>| match x.node {
            Some(node) => nodes[node.index()].value.clone(),
            None => constant(x, &there[..i], &nodes),
        };
        let ins = it.ins.iter().map(|x| Argument { node: x.node, value: value_of(x) }).collect();
        let summand = |s: &Summand<f32>| Summand { from: s.from, input: s.input, value: read(&s.value) };
        nodes.push(Traced {
            op: here.op.clone(),
            ins,
            site: it.site.clone(),
            value: read(&it.value),
            cotangent: it.cotangent.as_ref().map(read),
            summands: it.summands.iter().map(summand).collect(),
            saved: it.saved,
            forward: it.forward,
            backward: it.backward,
        });
    }
    nodes
}

/// Reads a constant. If it aliases an earlier node's value, possibly expanded, they still share memory.
fn constant(x: &Argument<f32>, earlier: &[Traced<f32>], nodes: &[Traced<f64>]) -> Tensor<f64> {
    let (value, shape) = (read(&x.value), *x.value.shape());
    let may_be = |y: &Tensor<f32>| x.value.shares_buffer(y) && y.shape().broadcast(&shape) == Some(shape);
    let of_node = earlier.iter().rposition(|it| may_be(&it.value)).map(|i| nodes[i].value.expand(shape));
    of_node.filter(|it| it.to_vec() == value.to_vec()).unwrap_or(value)
}
