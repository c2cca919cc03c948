//! Measurement of the rounding behaviour of a device.
//!
//! WGSL leaves open whether a·b + c is rounded once or twice, allows a quotient an error of 2.5 ulp, and lets a device flush
//! denormals to 0. Two devices may therefore give different results, so the record of a run contains the measurement.

use super::gpu::Gpu;
use super::memory::Buffer;
use super::pipeline::shader;
use super::{Arithmetic, DeviceError, Rounding};
use crate::rng::Philox;

/// The number of results of each kind that are compared with the CPU's.
const N: usize = 1 << 15;

/// Measures the rounding from 4·2¹⁵ results, compared with the CPU's.
pub(super) fn measure(gpu: &std::sync::Arc<Gpu>) -> Result<Arithmetic, DeviceError> {
    let mut rng = Philox::new(0);
    let mut draw = |low: f64, high: f64| (0..N).map(|_| (low + (high - low) * rng.uniform_f64()) as f32).collect::<Vec<_>>();
    let [a, b] = [draw(1.0, 2.0), draw(-2.0, -1.0)];
    // Half of the sums cancel: the result is the product's rounding error, or zero.
    let c: Vec<f32> = draw(1.0, 4.0)
        .into_iter()
        .zip(a.iter().zip(&b))
        .enumerate()
        .map(|(i, (c, (a, b)))| if i % 2 == 0 { -a * b } else { c })
        .collect();
    let d: Vec<f32> = draw(1.0, f64::from(1 << 22)).iter().map(|&bits| f32::from_bits(bits as u32)).collect();

    let inputs = [&a, &b, &c, &d].map(|x| gpu.send(x));
    let out = Buffer::recycled(gpu, 4 * N);
    gpu.dispatch(&shader!("probe"), &[N as u32], &[&out], &inputs.each_ref(), N.div_ceil(64));
    let found = out.read(0..4 * N).wait()?;

    let each = |part: usize, is: &dyn Fn(usize, f32) -> bool| found[part * N..][..N].iter().enumerate().all(|(i, &y)| is(i, y));
    let rounding = |part| {
        if each(part, &|i, y| y == a[i].mul_add(b[i], c[i])) {
            Rounding::Once
        } else if each(part, &|i, y| y == a[i] * b[i] + c[i]) {
            Rounding::Twice
        } else {
            Rounding::Mixed
        }
    };
    let ulps = |i: usize| found[2 * N + i].to_bits().abs_diff((a[i] / b[i]).to_bits());
    Ok(Arithmetic {
        product_sum: rounding(0),
        fma: rounding(1),
        division_ulps: (0..N).map(ulps).max().unwrap_or(0),
        denormals: each(3, &|i, y| y == d[i] + d[i]),
    })
}
