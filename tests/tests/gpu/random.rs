//! Random ops, and random shapes and layouts for the methods of tensors, compared on a GPU and on the CPU.

use gradus_autograd::{check, ops};
use gradus_tensor::rng::Philox;
use gradus_tensor::{Device, Shape, Tensor};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// Runs a property on this many cases, the same in every run.
fn holds<S: Strategy>(cases: u32, of: S, property: impl Fn(S::Value) -> Result<(), TestCaseError>) {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &[21; 32]));
    runner.run(&of, property).unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn any_draw_of_any_op() {
    let Some(gpu) = crate::gpu() else { return };
    let all = ops::all();
    // These sizes exceed those drawn from fixed seeds.
    holds(96, (0..all.len(), any::<u64>(), 1usize..=8), |(op, seed, size)| {
        let checked = check::devices(&all[op], &gpu, seed, size).into_iter().chain(check::adjoint_on(&all[op], &gpu, seed, size));
        checked.into_iter().try_for_each(|outcome| outcome.map(drop).map_err(|failure| TestCaseError::fail(failure.to_string())))
    });
}

/// A tensor of any shape, laid out in memory in any way.
#[derive(Clone, Debug)]
struct Given {
    shape: Vec<usize>,
    /// The axes in memory order, the outermost first.
    order: Vec<usize>,
    /// The positions before and after each axis that are in memory but outside the view.
    around: Vec<[usize; 2]>,
    /// Whether each axis is one position, repeated.
    repeated: Vec<bool>,
    seed: u64,
}

fn given(shape: impl Strategy<Value = Vec<usize>>) -> impl Strategy<Value = Given> {
    shape.prop_flat_map(|shape| {
        let rank = shape.len();
        let order = Just((0..rank).collect::<Vec<_>>()).prop_shuffle();
        let around = prop::collection::vec(prop::array::uniform2(0usize..3), rank);
        let repeated = prop::collection::vec(prop::bool::weighted(0.15), rank);
        (Just(shape), order, around, repeated, any::<u64>()).prop_map(|(shape, order, around, repeated, seed)| Given {
            shape,
            order,
            around,
            repeated,
            seed,
        })
    })
}

impl Given {
    fn on(&self, device: &Device) -> Tensor {
        let stored = |&a: &usize| if self.repeated[a] { 1 } else { self.around[a][0] + self.shape[a] + self.around[a][1] };
        let stored: Vec<usize> = self.order.iter().map(stored).collect();
        let mut x: Tensor =
            Tensor::normal(&stored[..], 1.0, &mut Philox::new(self.seed)).to(device).expect("room for a small tensor");
        let place = |a| self.order.iter().position(|&at| at == a).expect("every axis has a place");
        x = x.permute(&(0..self.shape.len()).map(place).collect::<Vec<_>>());
        for (a, &n) in self.shape.iter().enumerate().filter(|(a, _)| !self.repeated[*a]) {
            x = x.slice(a, self.around[a][0]..self.around[a][0] + n);
        }
        x.expand(&self.shape[..])
    }

    /// Returns the tensor on the CPU and on the device.
    fn both(&self, there: &Device) -> [Tensor; 2] {
        [self.on(&Device::CPU), self.on(there)]
    }
}

/// Draws small extents, extents around the sizes of tiles, and 0.
fn extent() -> impl Strategy<Value = usize> + Clone {
    prop_oneof![6 => 1usize..=9, 3 => prop::sample::select(vec![15, 16, 17, 31, 33, 63, 64, 65, 70]), 1 => Just(0usize)]
}

fn extents(rank: std::ops::RangeInclusive<usize>, extent: impl Strategy<Value = usize>) -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(extent, rank)
}

fn same_bits([expected, found]: [Tensor; 2]) -> Result<(), TestCaseError> {
    prop_assert_eq!(found.shape(), expected.shape());
    let bits = |x: &Tensor| x.to_vec().into_iter().map(f32::to_bits).collect::<Vec<_>>();
    prop_assert_eq!(bits(&found), bits(&expected));
    Ok(())
}

/// Compares sums of n terms in two orders, each wrong by at most n ε/2 times the sum of the terms' magnitudes.
fn same_sums([expected, found]: [Tensor; 2], terms: usize, magnitudes: &Tensor) -> Result<(), TestCaseError> {
    let allowed = magnitudes.to_vec().into_iter().map(|sum| (terms + 2) as f32 * f32::EPSILON * sum);
    near([expected, found], allowed.collect())
}

fn near([expected, found]: [Tensor; 2], allowed: Vec<f32>) -> Result<(), TestCaseError> {
    prop_assert_eq!(found.shape(), expected.shape());
    for (i, ((found, expected), allowed)) in found.to_vec().into_iter().zip(expected.to_vec()).zip(allowed).enumerate() {
        prop_assert!((found - expected).abs() <= allowed, "element {i} is {found}, expected {expected} within {allowed}");
    }
    Ok(())
}

fn magnitudes(x: &Tensor) -> Tensor {
    x.map(f32::abs)
}

#[test]
fn copies_of_any_view() {
    let Some(gpu) = crate::gpu() else { return };
    let all = extents(1..=5, prop_oneof![8 => 1usize..=6, 1 => Just(0), 1 => Just(33)]).prop_filter("small", |s| small(s));
    holds(48, (given(all), any::<prop::sample::Index>(), [0usize..3, 0..3]), |(x, axis, [before, after])| {
        let axis = axis.index(x.shape.len());
        let both = x.both(&gpu);
        same_bits(both.each_ref().map(Tensor::dense))?;
        same_bits(both.each_ref().map(|x| x.reshape([x.len()])))?;
        same_bits(both.each_ref().map(|x| x.pad(axis, before, after)))?;
        same_bits(both.each_ref().map(|x| Tensor::concat(&[x, &x.dense(), x], axis)))?;
        same_bits(both.each_ref().map(|x| x.add(&x.dense())))
    });
}

fn small(shape: &[usize]) -> bool {
    shape.iter().product::<usize>() <= 20_000
}

#[test]
fn products_of_any_shape() {
    let Some(gpu) = crate::gpu() else { return };
    let sizes = (extents(0..=2, 1usize..=3), extent(), extent(), extent());
    let factors = sizes.prop_flat_map(|(batch, m, k, n)| {
        let of = |rows, columns| given(Just([&batch[..], &[rows, columns]].concat()));
        (of(m, k), of(k, n))
    });
    holds(48, factors, |(a, b)| {
        let ([a, a_there], [b, b_there]) = (a.both(&gpu), b.both(&gpu));
        let terms = b.shape()[b.shape().len() - 2];
        same_sums([a.matmul(&b), a_there.matmul(&b_there)], terms, &magnitudes(&a).matmul(&magnitudes(&b)))
    });
}

#[test]
fn linear_maps_of_any_shape() {
    let Some(gpu) = crate::gpu() else { return };
    let sizes = (extents(0..=3, 0usize..=4), extent(), extent());
    let inputs = sizes
        .prop_flat_map(|(lead, k, n)| (given(Just([&lead[..], &[k]].concat())), given(Just(vec![k, n])), given(Just(vec![n]))));
    holds(48, inputs, |(x, w, b)| {
        let [[x, x_there], [w, w_there], [b, b_there]] = [x, w, b].map(|it| it.both(&gpu));
        let bound = magnitudes(&x).linear(&magnitudes(&w), &magnitudes(&b));
        same_sums([x.linear(&w, &b), x_there.linear(&w_there, &b_there)], w.shape()[0] + 1, &bound)
    });
}

#[test]
fn sums_over_any_axes() {
    let Some(gpu) = crate::gpu() else { return };
    let all = extents(1..=4, extent()).prop_filter("small", |s| small(s));
    let given = given(all).prop_flat_map(|x| {
        let axes = prop::sample::subsequence((0..x.shape.len()).collect::<Vec<_>>(), 0..=x.shape.len());
        (Just(x), axes)
    });
    holds(48, given, |(x, axes)| {
        let both = x.both(&gpu);
        let terms = axes.iter().map(|&a| x.shape[a]).product();
        let bound = magnitudes(&both[0]).sum(&axes);
        same_sums(both.map(|x| x.sum(&axes)), terms, &bound)
    });
}

#[test]
fn softmax_of_any_rows() {
    let Some(gpu) = crate::gpu() else { return };
    let rows = (extents(0..=2, 0usize..=5), prop_oneof![1usize..=9, prop::sample::select(vec![64, 65, 255, 256, 257, 300])]);
    let all = given(rows.prop_map(|(lead, n)| [&lead[..], &[n]].concat()));
    // An exponential may be off by 3e-6 (WGSL, |x| ≤ 10), as may their sum.
    const TOLERANCE: f32 = 1e-5;
    holds(48, all, |x| {
        let both = x.both(&gpu);
        let allowed = |y: &Tensor| vec![TOLERANCE; y.len()];
        near(both.each_ref().map(Tensor::softmax), allowed(&both[0]))?;
        near(both.each_ref().map(Tensor::log_softmax), allowed(&both[0]))
    });
}

#[test]
fn rows_by_any_ids() {
    let Some(gpu) = crate::gpu() else { return };
    let sizes = (1usize..=9, extent(), extents(0..=2, 0usize..=7));
    let inputs = sizes.prop_flat_map(|(rows, d, shape)| {
        let ids = prop::collection::vec(0..rows as u32, shape.iter().product::<usize>());
        (given(Just(vec![rows, d])), given(Just([&shape[..], &[d]].concat())), ids)
    });
    holds(48, inputs, |(table, x, ids)| {
        let shape = Shape::new(&x.shape[..x.shape.len() - 1]);
        same_bits(table.both(&gpu).map(|table| table.gather(&ids, &shape)))?;
        let (both, rows) = (x.both(&gpu), table.shape[0]);
        let bound = magnitudes(&both[0]).scatter_add(&ids, rows);
        same_sums(both.map(|x| x.scatter_add(&ids, rows)), ids.len(), &bound)
    });
}
