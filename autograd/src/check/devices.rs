//! The comparison of an op on a device with the same op on the CPU.

use gradus_tensor::{Device, Tensor};

use super::case::drawn;
use super::report::{Comparison, Ledger, Outcome, Report};
use crate::{Entry, Sample, Samples, Tape, Var};

/// WGSL allows e^x an error of 3 + 2|x| units in the last place (23 of them, or 3e-6, at |x| ≤ 10) and a quotient 2.5. A device
/// adds in another order than the CPU and may fuse products and sums. The samples are small, so only a few such errors combine in
/// one number.
const TOLERANCE: f64 = 1e-5;

/// Compares value and VJP of the op's samples for a seed, on `device` and on the CPU, in f32. The error is relative to the
/// largest number among inputs and outputs.
///
/// ```
/// use gradus_autograd::{check, ops};
/// use gradus_tensor::Device;
/// let gpu = Device::CPU; // or Device::open("gpu")?
/// for op in ops::all::<f32>() {
///     for report in check::devices(&op, &gpu, 17, 3) {
///         println!("{}", report?);
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn devices(op: &Entry<f32>, device: &Device, seed: u64, size: usize) -> Vec<Outcome> {
    let samples = |device| drawn(op, Samples::new(seed, size).on(device), seed);
    let (here, there) = (samples(&Device::CPU), samples(device));
    let compared = |(sample, (here, there)): (usize, (&Sample<f32>, &Sample<f32>))| {
        let blank = Report::new("devices", op.name, sample, seed, size);
        let of = |it: &Sample<f32>, device| value_and_vjp(it, &mut Samples::new(!seed, size).on(device));
        Ledger::on(&blank, |ledger| compare(ledger, here, of(here, &Device::CPU), of(there, device), device))
    };
    here.iter().zip(&there).enumerate().map(compared).collect()
}

/// The tensors ȳ, y, and x̄ of each input that has one.
pub(super) struct Computed {
    pub gy: Tensor,
    pub y: Tensor,
    pub gradients: Vec<Option<Tensor>>,
}

/// Computes y and the x̄ for a random ȳ.
pub(super) fn value_and_vjp(sample: &Sample<f32>, g: &mut Samples) -> Computed {
    let tape = Tape::new();
    let leaves: Vec<Var<'_, f32>> = sample.inputs.iter().map(|x| tape.leaf(x.clone())).collect();
    let y = tape.record(sample.op.clone(), &leaves.iter().collect::<Vec<_>>());
    let gy: Tensor = g.normal(*y.shape());
    let mut gradients = tape.backward_from(&y, gy.clone());
    Computed { gy, gradients: leaves.iter().map(|x| gradients.take(x)).collect(), y: y.value().clone() }
}

fn compare(mut ledger: Ledger, sample: &Sample<f32>, here: Computed, there: Computed, device: &Device) -> Outcome {
    let largest = |x: &Tensor| x.to_vec().iter().filter(|x| x.is_finite()).fold(0.0, |most: f64, x| most.max(x.abs().into()));
    let scale =
        sample.inputs.iter().chain([&here.gy, &here.y]).chain(here.gradients.iter().flatten()).map(largest).fold(0.0, f64::max);
    if there.y.device() != *device {
        return ledger.broken(format!("it was computed on {}", there.y.device()));
    }
    let none = |x: &Option<Tensor>| x.is_none();
    if here.gradients.iter().map(none).ne(there.gradients.iter().map(none)) {
        return ledger.broken("an input has a gradient on one device and none on the other".into());
    }
    let gradients = here.gradients.into_iter().zip(there.gradients).enumerate();
    let gradients = gradients.filter_map(|(i, (here, there))| Some((Some(i), here?, there?)));
    for (input, expected, found) in [(None, here.y, there.y)].into_iter().chain(gradients) {
        if found.shape() != expected.shape() {
            return ledger.broken(format!("shape {} on one device, {} on the other", expected.shape(), found.shape()));
        }
        for (element, (found, expected)) in found.to_vec().into_iter().zip(expected.to_vec()).enumerate() {
            let (value, expected) = (found.into(), expected.into());
            ledger.compare(TOLERANCE, Comparison { input, element, value, expected, scale });
        }
    }
    ledger.close()
}

#[cfg(test)]
mod tests {
    use gradus_tensor::device::MatmulPrecision;

    use super::*;
    use crate::ops;

    const BF16: Device = Device::Cpu(MatmulPrecision::BF16);

    /// A lost precision would compute later products in f32.
    #[test]
    fn results_inherit_the_precision_of_any_operand() {
        for op in ops::all::<f32>() {
            for sample in (op.samples)(&mut Samples::new(3, 4)) {
                for only in (0..sample.inputs.len()).map(Some).chain([None]) {
                    let place = |(i, x): (usize, &Tensor)| {
                        if only.is_none_or(|only| only == i) { x.to(&BF16).unwrap() } else { x.clone() }
                    };
                    let inputs = sample.inputs.iter().enumerate().map(place).collect();
                    let Computed { y, gradients, .. } =
                        value_and_vjp(&Sample { inputs, ..sample.clone() }, &mut Samples::new(5, 4).on(&BF16));
                    assert_eq!(y.device(), BF16, "{}, with input {only:?}", op.name);
                    let inherited = gradients.iter().flatten().all(|gradient| gradient.device() == BF16);
                    assert!(inherited, "a gradient of {}, with input {only:?}", op.name);
                }
            }
        }
    }
}
