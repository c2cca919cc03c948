//! Small networks, as in course exercises. Correct gradients pass, even if their terms cancel. Gradients that are 0.1 % off fail.

use std::f64::consts::PI;

use gradus_autograd::check::{self, Dual, Function};
use gradus_autograd::derivatives::{grad, jvp};
use gradus_autograd::{Real, Samples, Tensor, Var};
use proptest::prelude::*;

/// Points of two spirals, one rotated by half a turn, and the index of each point's spiral (`arms`).
#[derive(Clone, Debug)]
struct Spirals {
    points: Vec<[f64; 2]>,
    arms: Vec<u32>,
}

impl Spirals {
    fn new(each: usize) -> Self {
        // Not exactly half a turn, so that gradients which would be 0 by symmetry are merely small.
        let point = |n: usize| {
            let (radius, turn) = ((n / 2 + 1) as f64 / each as f64, (PI - 1e-6) * (n % 2) as f64);
            let angle = 4.0 * radius + turn;
            [radius * angle.cos(), radius * angle.sin()]
        };
        Spirals { points: (0..2 * each).map(point).collect(), arms: (0..2 * each).map(|n| n as u32 % 2).collect() }
    }
}

/// The mean cross-entropy of a network 2 → h → 2 with a tanh layer; the parameters are w, b, w, b.
impl Function for Spirals {
    fn call<'t, T: Real>(&self, p: &[Var<'t, T>]) -> Var<'t, T> {
        let points = self.points.iter().flatten().map(|&x| T::lit(x)).collect();
        let x = p[0].constant(Tensor::new([self.points.len(), 2], points));
        let logits = x.linear(&p[0], &p[1]).tanh().linear(&p[2], &p[3]);
        logits.cross_entropy(&self.arms).mean_all()
    }
}

/// A network whose gradient is 0.1 % too large in one element of one parameter.
#[derive(Debug)]
struct Planted {
    spirals: Spirals,
    input: usize,
    element: usize,
}

impl Function for Planted {
    fn call<'t, T: Real>(&self, p: &[Var<'t, T>]) -> Var<'t, T> {
        let x = &p[self.input];
        let at = (0..x.value().len()).map(|i| T::lit(if i == self.element { 1e-3 } else { 0.0 })).collect();
        let mut p = p.to_vec();
        // Adds 0, whose gradient is a thousandth of x's in one element.
        p[self.input] = x + (x - x.detach()) * x.constant(Tensor::new(*x.shape(), at));
        self.spirals.call(&p)
    }
}

fn parameters(seed: u64, hidden: usize) -> [Tensor<f64>; 4] {
    let mut draws = Samples::new(seed, 1);
    [draws.normal([2, hidden]), draws.normal([hidden]), draws.normal([hidden, 2]), draws.normal([2])]
}

fn all_pass(f: impl Function + Clone, at: &[Tensor<f64>], seed: u64) -> Result<(), TestCaseError> {
    check::function("network", f, at, seed).into_iter().try_for_each(|outcome| match outcome {
        Ok(_) => Ok(()),
        Err(failure) => Err(TestCaseError::fail(failure.to_string())),
    })
}

/// With biases of zero the network is odd, and the gradients of the two arms cancel in the output's bias.
#[test]
fn gradients_that_cancel_pass() {
    for seed in 0..20 {
        let [w, b, v, c] = parameters(seed, 16);
        let at = [w, b.map(|_| 0.0), v, c.map(|_| 0.0)];
        let (_, g) = grad(|p| Spirals::new(50).call(p), &at);
        assert!(g[3].to_vec().iter().all(|g| g.abs() < 1e-4), "they cancel");
        all_pass(Spirals::new(50), &at, seed).unwrap();
    }
}

/// Saturated units and probabilities: the errors of 1 − y² and p − 1 are ε y and ε p, not relative to their own size.
#[test]
fn saturated_networks_pass() {
    #[derive(Clone, Debug)]
    struct Deep {
        spirals: Spirals,
        relu: bool,
    }
    impl Function for Deep {
        fn call<'t, T: Real>(&self, p: &[Var<'t, T>]) -> Var<'t, T> {
            let points = self.spirals.points.iter().flatten().map(|&x| T::lit(x)).collect();
            let x = p[0].constant(Tensor::new([self.spirals.points.len(), 2], points));
            let layer = |x: Var<'t, T>, i: usize| {
                let z = x.linear(&p[i], &p[i + 1]);
                if self.relu { z.relu() } else { z.sigmoid() }
            };
            layer(layer(x, 0), 2).linear(&p[4], &p[5]).cross_entropy(&self.spirals.arms).mean_all()
        }
    }
    for seed in 0..40 {
        let mut draws = Samples::new(seed, 1);
        let shapes: [&[usize]; 6] = [&[2, 6], &[6], &[6, 6], &[6], &[6, 2], &[2]];
        let at = shapes.map(|shape| draws.normal::<f64>(shape).map(|x| 3.0 * x));
        all_pass(Deep { spirals: Spirals::new(5), relu: seed % 2 == 0 }, &at, seed).unwrap();
    }
}

/// At a minimum the residuals are rounding errors, and so is every gradient.
#[test]
fn gradients_at_a_minimum_pass() {
    #[derive(Clone, Debug)]
    struct LeastSquares;
    impl Function for LeastSquares {
        fn call<'t, T: Real>(&self, p: &[Var<'t, T>]) -> Var<'t, T> {
            let x = (0..12).map(|i| T::lit(1.0 + f64::from(i * 7 % 5) / 3.0 - f64::from(i) / 7.0)).collect();
            let x = p[0].constant(Tensor::new([4, 3], x));
            let y = x.value().matmul(&Tensor::new([3, 1], [0.1, 0.7, -1.3].map(T::lit).to_vec()));
            let y = p[0].constant(y.map(|y| T::lit((y.to_f64() * 1e12).round() / 1e12)));
            let r = x.matmul(&p[0]) - y;
            (&r * &r).sum_all()
        }
    }
    for seed in 0..20 {
        all_pass(LeastSquares, &[Tensor::new([3, 1], vec![0.1, 0.7, -1.3])], seed).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1000) })]

    /// Every correct gradient passes. A gradient that is 0.1 % off is rejected if it exceeds 1e-9 of Σ |terms|.
    #[test]
    fn a_thousand_networks(seed in any::<u64>(), hidden in 1usize..9, each in 1usize..4, input in 0usize..4, place in any::<prop::sample::Index>()) {
        let (spirals, at) = (Spirals::new(each), parameters(seed, hidden));
        all_pass(spirals.clone(), &at, seed)?;
        let element = place.index(at[input].len());
        let mut along = at.each_ref().map(|x| x.map(|_| 0.0));
        along[input] = Tensor::new(*at[input].shape(), (0..at[input].len()).map(|i| f64::from(i == element)).collect());
        let slope = terms(&spirals, &at, &along);
        let planted = Planted { spirals, input, element };
        let case = check::Case::of("planted", planted, &at, seed);
        if slope.tangent.abs() > 1e-9 * slope.terms {
            prop_assert!(check::forward_mode(&case).is_err(), "{slope:?}");
        }
    }
}

/// Returns the loss in dual numbers: its derivative, and the |terms| of the derivative along the whole chain.
fn terms(f: &Spirals, at: &[Tensor<f64>], along: &[Tensor<f64>]) -> Dual {
    let tape = gradus_autograd::Tape::off();
    let moving = |(x, v): (&Tensor<f64>, &Tensor<f64>)| {
        let duals = x.to_vec().into_iter().zip(v.to_vec()).map(|(x, v)| Dual::new(x, v)).collect();
        tape.constant(Tensor::new(*x.shape(), duals))
    };
    let ins: Vec<_> = at.iter().zip(along).map(moving).collect();
    assert_eq!(f.call(&ins).value().item().tangent, jvp(|p| f.call(p), at, along).1.item());
    f.call(&ins).value().item()
}
