//! Benchmarks of fused ops against their definitions in primitives: `RAYON_NUM_THREADS=1 cargo bench -p gradus-autograd`.
//!
//! The ratio of the two times, each forward and backward, is the gain of a fused op.

use divan::Bencher;
use gradus_autograd::{Samples, Tape, Tensor, Var, ops};

/// An op of the list, applied to rows and, if it has them, to a gain and a bias.
type Apply = for<'t> fn(&[Var<'t, f32>]) -> Var<'t, f32>;

const OPS: [(&str, usize, Apply); 5] = [
    ("gelu", 1, |x| x[0].gelu()),
    ("softmax", 1, |x| x[0].softmax()),
    ("log_softmax", 1, |x| x[0].log_softmax()),
    ("layer_norm", 3, |x| x[0].layer_norm(&x[1], &x[2], 1e-5)),
    ("rms_norm", 2, |x| x[0].rms_norm(&x[1], 1e-5)),
];

fn main() {
    divan::main();
}

/// Measures an op on a batch of the preset `small`: 2048 rows of 384.
#[divan::bench(args = OPS.map(|(name, ..)| name), consts = [false, true])]
fn op<const FUSED: bool>(bencher: Bencher<'_, '_>, name: &str) {
    let (_, inputs, fused) = *OPS.iter().find(|(other, ..)| *other == name).expect("listed");
    let mut draw = Samples::new(1, 1);
    let values: [Tensor<f32>; 3] = [draw.normal([2048, 384]), draw.normal([384]), draw.normal([384])];
    let gy = draw.normal([2048, 384]);
    let entry = ops::all::<f32>().into_iter().find(|entry| entry.name == name).expect("an op");
    let op = (entry.samples)(&mut draw).remove(0).op; // the norms' samples have ε = 1e-5
    bencher.bench_local(|| {
        let tape = Tape::new();
        let x: Vec<Var<'_, f32>> = values[..inputs].iter().map(|x| tape.leaf(x.clone())).collect();
        let y = if FUSED { fused(&x) } else { op.reference(&x).expect("fused") };
        tape.backward_from(&y, gy.clone())
    });
}
