//! A function along a line, which two witnesses examine.

use gradus_tensor::Tensor;

use super::Case;
use super::case::like;

/// The function φ(h) = ⟨u, f(x + hv)⟩ with random u and v; v has length 1 over all inputs together.
pub(super) struct Line<'c> {
    case: &'c Case,
    u: Tensor<f64>,
    v: Vec<Tensor<f64>>,
    /// The slope φ′(0) = ⟨Jᵀu, v⟩, by the VJP.
    pub slope: f64,
    /// The sum Σ |terms| of the slope; for a whole function, the largest such sum at any op.
    pub terms: f64,
    /// The sum Σ |uⱼyⱼ|, to which φ's rounding is proportional; for a whole function, the largest such sum at any op.
    pub size: f64,
}

impl<'c> Line<'c> {
    /// Creates the line with this number through the case's inputs. The error names the first gradient of a wrong shape.
    pub fn through(case: &'c Case, number: u64) -> Result<Self, String> {
        let mut draws = case.draws_of(number);
        let inputs = &case.real.inputs;
        let y = case.eval(inputs);
        let u = draws.normal::<f64>(*y.shape());
        let mut v: Vec<Tensor<f64>> = inputs.iter().map(|x| draws.normal(*x.shape())).collect();
        let length = v.iter().flat_map(Tensor::to_vec).map(|v| v * v).sum::<f64>().sqrt();
        v.iter_mut().for_each(|v| *v = v.map(|v| v / length));
        let gx = case.vjp(inputs, &u);
        if let Some(rule) = case.misshapen(&gx) {
            return Err(rule);
        }
        let along: Vec<f64> = gx.iter().zip(&v).flat_map(|(g, v)| g.zip(v, |g, v| g * v).to_vec()).collect();
        let sums = |of: fn(f64) -> f64| along.iter().copied().map(of).sum::<f64>();
        let size = u.zip(&y, |u, y| (u * y).abs()).to_vec().iter().sum::<f64>();
        let whole = case.terms(&v, &u);
        let (terms, size) = (sums(f64::abs).max(whole.derivative), size.max(whole.value));
        Ok(Line { case, slope: sums(|t| t), u, v, terms, size })
    }

    /// Returns φ(h).
    pub fn at(&self, h: f64) -> f64 {
        let moved = |(x, v): (&Tensor<f64>, &Tensor<f64>)| like(x, x.zip(v, |x, v| x + h * v).to_vec());
        let inputs: Vec<Tensor<f64>> = self.case.real.inputs.iter().zip(&self.v).map(moved).collect();
        self.case.eval(&inputs).dot(&self.u)
    }

    /// Returns whether φ is constant because the inputs, or the output, have no elements.
    pub fn is_empty(&self) -> bool {
        self.u.is_empty() || self.v.iter().all(Tensor::is_empty)
    }
}
