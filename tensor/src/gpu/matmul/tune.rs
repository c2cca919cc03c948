//! The fastest tile for each kind of product, by measurement.
//!
//! A kind is defined by the properties that determine the time: the sizes rounded up to a power of two, and the order in which
//! the factors are read. At the first product of a kind, each candidate computes it a few times. A candidate is chosen only if
//! its results equal those of the rule's tile.

use std::time::Instant;

use super::{Matrices, Onto, Reading, Tile, Unit, Variant, by};
use crate::device::MatmulPrecision;
use crate::gpu::{Array, map, sum};

/// The fewest multiplications of a product that is worth a measurement.
const WORTH: usize = 1 << 22;
/// The most elements of a result that is measured. A larger result is measured on as many rows as fit.
const MEASURED: usize = 16 << 20;
/// The shortest duration of a measurement in seconds, and (`MEASUREMENTS`) the number of measurements.
const LEAST: f64 = 2e-3;
const MEASUREMENTS: usize = 3;
/// The tolerance of cooperative matrices, which add in another order, relative to an element and to the mean magnitude.
const OTHER_ORDER: f32 = 1e-3;

/// Returns the tile for A·B in every batch: the measured one, or the rule's.
pub(super) fn tile(batches: [usize; 2], a: &Matrices, b: &Matrices) -> Tile {
    let (gpu, count) = (a.array.gpu(), batches.iter().product::<usize>());
    let ([m, k], n) = (a.extents, b.extents[1]);
    let rule = Tile::of(count, m, n);
    let work = [count, m, k, n].into_iter().fold(1, usize::saturating_mul);
    if work < WORTH || !gpu.has_choices() {
        return rule;
    }
    let kind = kind(gpu.matmul_precision(), count, [m, k, n], [Reading::of(a, 1), Reading::of(b, 0)]);
    let candidates = Tile::candidates(gpu.units, gpu.matmul_precision(), m, n);
    if let Some(name) = gpu.choice(&kind) {
        match candidates.iter().find(|tile| tile.to_string() == name) {
            Some(tile) => return *tile,
            None => gpu.misses(&kind),
        }
    }
    if !gpu.is_tuning() {
        return rule;
    }
    let tile = fastest(rule, &candidates, batches, a, b);
    gpu.choose(kind, tile.to_string());
    tile
}

fn kind(precision: MatmulPrecision, count: usize, [m, k, n]: [usize; 3], [a, b]: [Reading; 2]) -> String {
    let [count, m, k, n] = [count, m, k, n].map(usize::next_power_of_two);
    format!("{precision}, {count} of ({m}, {k})·({k}, {n}), {}·{}", a.name(), b.name())
}

/// Returns the fastest candidate whose results equal those of `rule`.
fn fastest(rule: Tile, candidates: &[Tile], batches: [usize; 2], a: &Matrices, b: &Matrices) -> Tile {
    let gpu = a.array.gpu();
    let (n, most) = (b.extents[1], batches.iter().product::<usize>().min(MEASURED / b.extents[1]).max(1));
    let m = a.extents[0].min(MEASURED / (n * most)).max(1);
    let batches = [1, batches[1].min(most)];
    let part = Matrices { array: a.array.clone(), extents: [m, a.extents[1]], ..*a };
    let result = || Array::unwritten(gpu, [batches[1] * m, n].into());
    let y_of = |to: &Array| Matrices { array: to.clone(), batches: [0, m * n], extents: [m, n], strides: [n, 1] };
    let run = |tile: Tile, to: &Array| by(tile, batches, &part, b, &y_of(to), Onto::Nothing);
    let (expected, found) = (result(), result());
    run(rule, &expected);
    let seconds = |tile: Tile, repeats: usize| {
        let begin = Instant::now();
        (0..repeats).for_each(|_| run(tile, &found));
        gpu.wait();
        begin.elapsed().as_secs_f64() / repeats as f64
    };
    let timed = |tile: &Tile| {
        run(*tile, &found); // compiles it
        let agrees = agrees(tile.unit, &found, &expected);
        let repeats = ((LEAST / seconds(*tile, 1)) as usize).clamp(1, 100);
        let best = (0..MEASUREMENTS).map(|_| seconds(*tile, repeats)).fold(f64::INFINITY, f64::min);
        (*tile, if agrees { best } else { f64::INFINITY })
    };
    let rules = timed(&rule);
    let compiles = |tile: &&Tile| gpu.takes(&Variant::of(**tile, &part, b, &y_of(&found), Onto::Nothing).shader(), 1, 2);
    let others = candidates.iter().filter(|tile| **tile != rule).filter(compiles).map(timed);
    others.fold(rules, |least, it| if it.1 < least.1 { it } else { least }).0
}

/// Returns whether these results equal those of the rule's tile.
fn agrees(unit: Unit, found: &Array, expected: &Array) -> bool {
    let total = |x: &Array, expression: &str, constants: &[f32]| {
        let terms = map(&[x.clone(), expected.clone()], expression, constants);
        sum(&terms.reshaped([x.len()].into()), &[0]).read()[0]
    };
    match unit {
        Unit::Thread | Unit::Subgroup => total(found, "select(0.0, 1.0, bitcast<u32>(x) != bitcast<u32>(y))", &[]) == 0.0,
        Unit::Cooperative { .. } => {
            let usual = total(expected, "abs(x)", &[]) / expected.len() as f32;
            total(found, "select(1.0, 0.0, abs(x - y) <= a * (b + abs(y)))", &[OTHER_ORDER, usual]) == 0.0
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::device::{fresh, fresh_with};
    use crate::rng::Philox;
    use crate::{Device, Tensor};

    fn drawn(device: &Device, shape: [usize; 2], seed: u64) -> Tensor {
        Tensor::normal(shape, 1.0, &mut Philox::new(seed)).to(device).expect("room")
    }

    #[test]
    fn a_measured_tile_is_reused_for_similar_sizes() {
        let Some(gpu) = fresh() else { return };
        let device = Device::Gpu(gpu.clone());
        let drawn = |shape, seed| drawn(&device, shape, seed);
        let (a, b) = (drawn([128, 256], 1), drawn([256, 128], 2));
        let by_rule = a.matmul(&b).to_vec();
        assert!(gpu.choices().is_empty(), "nothing is measured unless asked for");
        device.tune(true);
        assert_eq!(a.matmul(&b).to_vec(), by_rule, "whatever was chosen, the bits are the same");
        drop(drawn([8, 8], 3).matmul(&drawn([8, 8], 4)));
        let choices = gpu.choices();
        let kinds: Vec<&str> = choices.keys().map(String::as_str).collect();
        assert_eq!(kinds, ["f32, 1 of (128, 256)·(256, 128), k4·4"], "small products are not worth it");
        let candidates = Tile::candidates(gpu.units, MatmulPrecision::F32, 128, 128);
        assert!(candidates.iter().any(|tile| tile.to_string() == choices[kinds[0]]), "{choices:?}");
        let before = gpu.counts();
        drop(drawn([120, 200], 5).matmul(&drawn([200, 100], 6)));
        assert_eq!(gpu.counts().dispatches - before.dispatches, 1, "sizes up to these are of one kind");
        assert_eq!(gpu.choices(), choices);
    }

    /// Cooperative matrices are candidates, if the device has them. A sum of 256 products of order 1 is about 16, and each
    /// rounding errs by 2⁻²⁴ of that. In another order the sum is off by at most 256·16·2⁻²⁴ = 2.5e-4, if the device sums in f32.
    #[test]
    fn tuned_half_precision_products_agree_with_untuned_ones() {
        let Some(gpu) = fresh_with(MatmulPrecision::F16) else { return };
        let device = Device::Gpu(gpu.clone());
        let drawn = |shape, seed| drawn(&device, shape, seed);
        let (a, b) = (drawn([128, 256], 1), drawn([256, 128], 2));
        let by_rule = a.matmul(&b).to_vec();
        device.tune(true);
        let found = a.matmul(&b).to_vec();
        assert!(found.iter().zip(&by_rule).all(|(found, expected)| (found - expected).abs() < 1e-3), "{:?}", gpu.choices());
        assert!(gpu.choices().keys().all(|kind| kind.starts_with("f16, 1 of")) && gpu.choices().len() == 1);
    }

    /// A kernel with wrong results is not chosen, however fast it is.
    #[test]
    fn tuning_rejects_a_kernel_with_wrong_results() {
        let Some(gpu) = fresh() else { return };
        let sent = |values: &[f32]| Array {
            layout: crate::layout::Layout::dense([values.len()].into()),
            buffer: gpu.send(values).into(),
        };
        let expected = sent(&[1.0, -2.0, 1000.0, 0.0]);
        let thread = |values: &[f32]| agrees(Unit::Thread, &sent(values), &expected);
        assert!(
            thread(&[1.0, -2.0, 1000.0, 0.0]) && !thread(&[1.0, -2.0000002, 1000.0, 0.0]) && !thread(&[1.0, -2.0, 1000.0, -0.0])
        );
        let unit = Unit::Cooperative { size: 8, threads: 8 };
        let cooperative = |values: &[f32]| agrees(unit, &sent(values), &expected);
        assert!(cooperative(&[1.1, -2.1, 1000.5, 0.1]) && !cooperative(&[3.0, -2.0, 1000.0, 0.0]));
        assert!(!cooperative(&[1.0, f32::NAN, 1000.0, 0.0]));
    }

    #[test]
    fn a_stored_choice_is_used_if_its_tile_exists() {
        let Some(gpu) = fresh() else { return };
        let device = Device::Gpu(gpu.clone());
        let a = Tensor::<f32>::full([256, 256], 1.0).to(&device).expect("room");
        let kind = "f32, 1 of (256, 256)·(256, 256), k4·4".to_string();
        for (name, runs) in [("64×64×16 by 128 of 8×4", 1), ("no such tile", 0)] {
            assert!(gpu.missing().is_empty());
            gpu.remember([(kind.clone(), name.to_string())]);
            assert_eq!(a.matmul(&a).to_vec()[0], 256.0);
            let shader = format!("matmul {name}, k4·4→4");
            assert_eq!(gpu.runs().get(&shader).map_or(0, |it| it.dispatches), runs, "{:?}", gpu.runs());
        }
        assert_eq!((gpu.missing(), gpu.choices()), (BTreeMap::from([(kind, "no such tile".into())]), BTreeMap::new()));
    }
}
