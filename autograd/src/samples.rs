//! Random inputs for the checks of an op.

use gradus_tensor::rng::Philox;
use gradus_tensor::{Device, Real, Shape, Tensor};

/// A generator of inputs from a seed. The same seed draws the same values for every scalar.
///
/// `size` is the upper bound of [`Samples::extent`] and has no other effect. An op's samples take their extents from it: size 1
/// gives the smallest tensors, a larger size larger ones. If all shapes are given, `size` does not matter.
#[derive(Debug)]
pub struct Samples {
    rng: Philox,
    size: usize,
    device: Device,
}

impl Samples {
    /// Creates a generator with this seed, whose [`extent`](Samples::extent) is at most `size`; 0 counts as 1.
    pub fn new(seed: u64, size: usize) -> Self {
        Samples { rng: Philox::new(seed), size: size.max(1), device: Device::CPU }
    }
    /// Returns this generator, with its tensors on `device`. The draws stay the same.
    pub fn on(self, device: &Device) -> Self {
        Samples { device: device.clone(), ..self }
    }
    /// Moves a tensor that was not drawn to the device of the draws. Panics if a GPU fails.
    #[track_caller]
    pub fn place<T: Real>(&self, x: Tensor<T>) -> Tensor<T> {
        x.to(&self.device).unwrap_or_else(|error| panic!("{error}"))
    }
    /// Draws an extent, 1 ..= size.
    pub fn extent(&mut self) -> usize {
        1 + self.index(self.size)
    }
    /// Draws an index below n (n ≥ 1).
    pub fn index(&mut self, n: usize) -> usize {
        self.rng.below(n as u64) as usize
    }
    /// Draws `count` indices below n.
    pub fn ids(&mut self, count: usize, n: usize) -> Vec<u32> {
        (0..count).map(|_| self.index(n) as u32).collect()
    }
    /// Draws a number in [low, high).
    pub fn number(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.rng.uniform_f64()
    }
    /// Draws a seed.
    pub fn seed(&mut self) -> u64 {
        self.rng.double_word()
    }
    /// Draws standard normal values.
    pub fn normal<T: Real>(&mut self, shape: impl Into<Shape>) -> Tensor<T> {
        let x = Tensor::normal(shape, 1.0, &mut self.rng);
        self.place(x)
    }
    /// Draws values in [0.5, 2), well inside a domain of positive numbers.
    pub fn positive<T: Real>(&mut self, shape: impl Into<Shape>) -> Tensor<T> {
        let x = Tensor::uniform(shape, 0.5, 2.0, &mut self.rng);
        self.place(x)
    }
    /// Draws values of either sign at a distance of 0.2 … 2 from 0, off the kink of |x| or relu and off the pole of 1/x.
    pub fn off_zero<T: Real>(&mut self, shape: impl Into<Shape>) -> Tensor<T> {
        let x: Tensor<f64> = Tensor::uniform(shape, -1.0, 1.0, &mut self.rng);
        self.place(x.map(|x| T::lit(if x < 0.0 { 1.8 * x - 0.2 } else { 1.8 * x + 0.2 })))
    }
    /// Draws shuffled values that differ by at least 0.2 from one another. Without ties a maximum is smooth. Takes O(n) time.
    pub fn distinct<T: Real>(&mut self, shape: impl Into<Shape>) -> Tensor<T> {
        let shape = shape.into();
        let n = shape.numel();
        let mut order: Vec<usize> = (0..n).collect();
        self.rng.shuffle(&mut order);
        let middle = n as f64 / 2.0;
        let values = order.into_iter().map(|i| T::lit(0.3 * (i as f64 - middle) + self.number(0.0, 0.1))).collect();
        self.place(Tensor::new(shape, values))
    }
    /// Returns the same values in another order in memory: a transposed view of the last two axes (rank ≥ 2).
    pub fn strided<T: Real>(&self, x: &Tensor<T>) -> Tensor<T> {
        x.t().dense().t()
    }
}
