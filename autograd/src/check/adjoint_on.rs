//! The dot-product test on a device.

use gradus_tensor::{Device, Tensor};

use super::case::{drawn, laid_out_as, with};
use super::devices::value_and_vjp;
use super::report::{Comparison, Ledger, Outcome, Report};
use crate::{Entry, Sample, Samples, Tape, Var};

/// WGSL allows a relative error of 3e-6 in exp(x) at |x| ≤ 10. Divided by 2h = 1/8, at the longest step, this is 2.4e-5.
const TOLERANCE: f64 = 3e-5;
/// Step sizes h, the longest first: powers of two, so that dividing by them is exact.
const STEPS: [f64; 6] = [1.0 / 16.0, 1.0 / 32.0, 1.0 / 64.0, 1.0 / 128.0, 1.0 / 256.0, 1.0 / 512.0];

/// Tests the [adjoint](super::adjoint()) identity on an op's samples for a seed, using only `device`, in f32.
///
/// ```text
/// ⟨u, Jv⟩ = ⟨Jᵀu, v⟩        Jv = (4 D(h/2) − D(h))/3 + O(h⁴),   D(h) = (f(x + hv) − f(x − hv))/2h
/// ```
///
/// f and Jᵀu are computed on the device, the sums of their products in f64; v moves one input at a time. There are no dual
/// numbers on a device, and differentiating the VJP would not help: it is linear in ȳ, so its derivative repeats the same error.
/// So Jv is a difference of values, extrapolated once (Richardson 1911): the truncation error is O(h⁴), the rounding error
/// O(1/h). If f bends too sharply for h = 1/16, shorter steps are tried. The error is relative to Σ |terms| + √Σ (uⱼ max(|yⱼ|,
/// 1))², since elements are rounded independently and a small one may be a difference of large numbers. An error of 0.1 % in a
/// VJP is detected: [`teeth_on`](super::teeth_on).
///
/// ```
/// use gradus_autograd::{check, ops};
/// use gradus_tensor::Device;
/// let device = Device::CPU; // or Device::open("gpu")?
/// for op in ops::all::<f32>() {
///     for report in check::adjoint_on(&op, &device, 17, 3) {
///         println!("{}", report?);
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn adjoint_on(op: &Entry<f32>, device: &Device, seed: u64, size: usize) -> Vec<Outcome> {
    let samples = drawn(op, Samples::new(seed, size).on(device), seed);
    samples.iter().enumerate().map(|(number, sample)| of_sample(sample, number, device, seed, size)).collect()
}

/// Tests one sample.
pub(super) fn of_sample(sample: &Sample<f32>, number: usize, device: &Device, seed: u64, size: usize) -> Outcome {
    Ledger::on(&Report::new("adjoint_on", sample.op.name(), number, seed, size), |mut ledger| {
        let mut draws = Samples::new(!seed ^ (number as u64) << 40, size).on(device);
        let here = value_and_vjp(sample, &mut draws);
        if here.y.device() != *device {
            return ledger.broken(format!("it was computed on {}", here.y.device()));
        }
        let (u, y) = (here.gy.to_vec(), here.y.to_vec());
        let rounded = u.iter().zip(&y).map(|(&u, &y)| f64::from(u * y.abs().max(1.0)).powi(2)).sum::<f64>().sqrt();
        for (i, (x, gx)) in sample.inputs.iter().zip(&here.gradients).enumerate() {
            let Some(gx) = gx.as_ref().filter(|_| !x.is_empty() && !u.is_empty()) else { continue };
            if gx.shape() != x.shape() {
                return ledger.broken(format!(
                    "the gradient of input {i} should have its shape {}, got {}",
                    x.shape(),
                    gx.shape()
                ));
            }
            let v = draws.normal(*x.shape());
            let terms: Vec<f64> = products(&gx.to_vec(), &v.to_vec()).collect();
            let scale = terms.iter().map(|t| t.abs()).sum::<f64>() + rounded;
            let quotient = |h: f64| {
                let [up, down] = [h, -h].map(|h| value_at(sample, i, &v, h).to_vec());
                (products(&u, &up).sum::<f64>() - products(&u, &down).sum::<f64>()) / (2.0 * h)
            };
            ledger.compare(TOLERANCE, at_best_step(i, terms.iter().sum(), scale, quotient));
        }
        ledger.close()
    })
}

/// Returns the comparison of `value` with the extrapolated quotient at the first step size where they agree within the tolerance;
/// if there is none, at the best one.
fn at_best_step(input: usize, value: f64, scale: f64, quotient: impl Fn(f64) -> f64) -> Comparison {
    let mut coarse = quotient(STEPS[0]);
    let mut at = |h: f64| {
        let fine = quotient(h / 2.0);
        let expected = (4.0 * fine - coarse) / 3.0;
        coarse = fine;
        Comparison { input: Some(input), element: 0, value, expected, scale }
    };
    let mut best = at(STEPS[0]);
    for &h in &STEPS[1..] {
        if best.error() <= TOLERANCE {
            break;
        }
        let finer = at(h);
        if finer.error() < best.error() {
            best = finer;
        }
    }
    best
}

/// Returns f with input `i` moved by hv.
fn value_at(sample: &Sample<f32>, i: usize, v: &Tensor, h: f64) -> Tensor {
    let tape = Tape::off();
    let x = &sample.inputs[i];
    let inputs = with(&sample.inputs, i, laid_out_as(x, &x.add(&v.affine(h, 0.0))));
    let inputs: Vec<Var<'_, f32>> = inputs.into_iter().map(|x| tape.constant(x)).collect();
    tape.record(sample.op.clone(), &inputs.iter().collect::<Vec<_>>()).into_value()
}

/// Returns the products, which are exact: a product of two `f32`s is representable in `f64`.
fn products(a: &[f32], b: &[f32]) -> impl Iterator<Item = f64> {
    a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b))
}
