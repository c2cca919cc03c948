//! The loss scale for products in f16.
//!
//! ```text
//! L̃ = S·L,  S = 2ᵏ        ⇒        every cotangent is S times as large, and so is the gradient: g̃ = S·g
//! ```
//!
//! A loss that is a mean over N tokens has cotangents of about 1/N. Half precision, whose smallest number is 2⁻²⁴, would lose
//! many of them. S brings the largest weight of the batch to 4 ≤ S·w < 8. It depends only on the batch: a resumed run computes
//! the same S. A power of two rounds nothing: loss, norm and clipping factor are divided by S (Micikevicius et al. 2018, §3.2).

use std::borrow::Cow;

use gradus_model::{Batch, LossTerm, Tree};
use gradus_tensor::device::MatmulPrecision;
use gradus_tensor::{Device, Real};

use super::Trainer;

/// The lower bound of the largest scaled weight.
const LARGEST: f64 = 4.0;

/// Returns S for a batch.
fn scale(batch: &Batch) -> f64 {
    let largest = batch.losses.iter().flat_map(LossTerm::weights).fold(0.0, |most: f64, w| most.max(w.abs()));
    if largest > 0.0 && largest.is_finite() { (LARGEST / largest).log2().ceil().exp2() } else { 1.0 }
}

impl<T: Real> Trainer<T> {
    /// Returns the model's device.
    pub(super) fn device(&self) -> Device {
        let mut device = Device::CPU;
        self.params.as_ref().visit(|_, p| device = p.device());
        device
    }

    /// Returns the precision of the device's products.
    pub(super) fn matmul_precision(&self) -> MatmulPrecision {
        self.device().matmul_precision()
    }

    /// Returns the batch to compute with, and the scale of its loss.
    pub(super) fn scaled<'b>(&self, batch: &'b Batch) -> (Cow<'b, Batch>, f64) {
        match self.matmul_precision() {
            MatmulPrecision::F32 | MatmulPrecision::BF16 => (Cow::Borrowed(batch), 1.0),
            MatmulPrecision::F16 => {
                let scale = scale(batch);
                (Cow::Owned(batch.scaled(scale)), scale)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use gradus_model::ClassLoss;

    use super::*;

    #[test]
    fn the_largest_weight_is_scaled_to_four_by_a_power_of_two() {
        let weighted = |weights: &[f64], of_class: Option<f64>| {
            let class =
                |weight| ClassLoss { head: 0, slots: [0].into(), group: 1, targets: [1.0].into(), weights: [weight].into() };
            let batch = Batch::next(1, vec![0; weights.len()], vec![0; weights.len()], weights);
            of_class.into_iter().fold(batch, |batch, weight| batch.with_classes(class(weight)))
        };
        let scales = |weights: &[f64], labels| scale(&weighted(weights, labels));
        assert_eq!([scales(&[1.0, 0.0], None), scales(&[1.0 / 8192.0; 3], None), scales(&[5.0], None)], [4.0, 32768.0, 1.0]);
        assert_eq!([scales(&[0.001], Some(0.03125)), scales(&[0.0], Some(0.3)), scales(&[0.0], None)], [128.0, 16.0, 1.0]);
        let larger = weighted(&[0.5, 0.0], Some(0.25)).scaled(8.0);
        assert_eq!(larger.losses.iter().map(LossTerm::weights).collect::<Vec<_>>(), [&[4.0, 0.0][..], &[2.0]]);
    }
}
