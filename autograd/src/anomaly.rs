//! The first non-finite number: the op that produced it, its place, and its inputs.
//!
//! [`Watch`] checks every value that an op returns and, in the reverse pass, every summand and every leaf's gradient. It records
//! the first NaN or infinity with its place and a summary of the inputs. The computation continues; read the
//! [anomaly](Watch::anomaly) at the end.
//!
//! [`Guard`] checks the same numbers but reports only whether all are finite. On a GPU, no check waits for the result of another.
//!
//! ```
//! use std::sync::Arc;
//! use gradus_autograd::anomaly::Watch;
//! use gradus_autograd::{Tape, Tensor};
//!
//! let watch = Arc::new(Watch::default());
//! let tape = Tape::<f64>::observed(watch.clone());
//! let x = tape.leaf(Tensor::new([2], vec![4.0, 0.0]));
//! let y = tape.scope("h0", || x.sqrt()).sum_all(); // √0 = 0, but its slope is infinite
//! tape.backward(&y);
//! let anomaly = watch.anomaly().unwrap();
//! assert_eq!((anomaly.op, &*anomaly.site.scope), ("sqrt", "h0"));
//! assert!(anomaly.to_string().contains("in the backward pass, sqrt in h0"), "{anomaly}");
//! ```

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use gradus_tensor::{Real, Shape, Tensor};

use crate::tape::observer::{Applied, Observer, Pulled};
use crate::tape::{NodeId, Site};

/// A search for the first non-finite number.
#[derive(Debug, Default)]
pub struct Watch(Mutex<Option<Anomaly>>);

impl Watch {
    /// Returns the first non-finite number, if any.
    pub fn anomaly(&self) -> Option<Anomaly> {
        self.first().clone()
    }

    fn first(&self) -> MutexGuard<'_, Option<Anomaly>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Real> Observer<T> for Watch {
    fn applied(&self, it: &Applied<'_, T>) {
        let mut first = self.first();
        if first.is_none() && !it.out.is_finite() {
            let from = it.ins.iter().enumerate().map(|(i, x)| (format!("input {i}"), Summary::of(x))).collect();
            *first = Some(Anomaly {
                op: it.op.name(),
                details: format!("{:?}", it.op),
                node: it.node.map(|n| n.index()),
                site: it.site.clone(),
                direction: Direction::Forward,
                made: Summary::of(it.out),
                from,
            });
        }
    }

    fn pulled(&self, it: &Pulled<'_, T>) {
        let mut first = self.first();
        if first.is_some() {
            return;
        }
        let Some((input, _, made)) = it.summands().find(|(_, _, g)| !g.is_finite()) else { return };
        if !it.cotangent.is_finite() {
            // Every summand of the cotangent was finite; otherwise that summand would have been the first anomaly.
            *first = Some(Anomaly::of_sum(it.op.name(), it.node, it.cotangent, it.site));
            return;
        }
        let kept = it.kept().map(|(name, x)| (name, Summary::of(x)));
        *first = Some(Anomaly {
            op: it.op.name(),
            details: format!("{:?}", it.op),
            node: Some(it.node.index()),
            site: it.site.clone(),
            direction: Direction::Backward { input },
            made: Summary::of(made),
            from: std::iter::once(("the cotangent".to_owned(), Summary::of(it.cotangent))).chain(kept).collect(),
        });
    }

    fn gradient(&self, leaf: NodeId, value: &Tensor<T>, site: &Site) {
        let mut first = self.first();
        if first.is_none() && !value.is_finite() {
            *first = Some(Anomaly::of_sum("leaf", leaf, value, site));
        }
    }
}

/// A check for any non-finite number. If there is one, a [`Watch`] on a tape with the same computation finds the first.
/// ```
/// use std::sync::Arc;
/// use gradus_autograd::anomaly::Guard;
/// use gradus_autograd::{Tape, Tensor};
///
/// for (x, finite) in [(1.0, true), (0.0, false)] {
///     let guard = Arc::new(Guard::default());
///     let tape = Tape::<f64>::observed(guard.clone());
///     tape.backward(&tape.leaf(Tensor::scalar(x)).sqrt());
///     assert_eq!(guard.mark().unwrap().item().is_finite(), finite);
/// }
/// ```
#[derive(Debug, Default)]
pub struct Guard<T: Real>(Mutex<Option<Tensor<T>>>);

impl<T: Real> Guard<T> {
    /// Returns one element on the device of the numbers: 0 if all were finite, otherwise NaN. `None` if nothing was checked.
    pub fn mark(&self) -> Option<Tensor<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn check(&self, x: &Tensor<T>) {
        let mut mark = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        mark.get_or_insert_with(|| x.zeros_like([])).mark_non_finite(x);
    }
}

impl<T: Real> Observer<T> for Guard<T> {
    fn applied(&self, it: &Applied<'_, T>) {
        self.check(it.out);
    }

    fn pulled(&self, it: &Pulled<'_, T>) {
        it.summands().for_each(|(_, _, g)| self.check(g));
    }

    fn gradient(&self, _: NodeId, value: &Tensor<T>, _: &Site) {
        self.check(value);
    }
}

/// The direction of the computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The value of an op.
    Forward,
    /// The output of an op's VJP for one of its inputs.
    Backward {
        /// The index of the input.
        input: usize,
    },
    /// The sum of a node's summands: each summand is finite, the sum is not.
    Sum,
}

/// The first non-finite number.
#[derive(Clone, Debug, PartialEq)]
pub struct Anomaly {
    /// The op that produced it; `leaf` if the sum is a leaf's gradient.
    pub op: &'static str,
    /// The op with its fields.
    pub details: String,
    /// The index of the node; `None` if none was recorded.
    pub node: Option<usize>,
    /// The place of its application, in the program and in the model.
    pub site: Site,
    /// The direction: forward or backward.
    pub direction: Direction,
    /// The summary of the non-finite tensor.
    pub made: Summary,
    /// The tensors that it was computed from: the op's inputs, or in a VJP the cotangent and the saved values.
    pub from: Vec<(String, Summary)>,
}

/// A summary of a tensor: its shape and five figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The shape.
    pub shape: Shape,
    /// The number of NaN elements.
    pub nan: usize,
    /// The number of infinite elements.
    pub infinite: usize,
    /// The smallest finite element.
    pub least: f64,
    /// The largest finite element.
    pub most: f64,
    /// The root mean square of the finite elements.
    pub rms: f64,
}

impl Summary {
    /// Returns the summary of a tensor.
    pub fn of<T: Real>(x: &Tensor<T>) -> Self {
        let (mut s, mut squares, mut finite) =
            (Summary { shape: *x.shape(), nan: 0, infinite: 0, least: f64::INFINITY, most: f64::NEG_INFINITY, rms: 0.0 }, 0.0, 0);
        for x in x.to_vec().into_iter().map(T::to_f64) {
            match x {
                x if x.is_nan() => s.nan += 1,
                x if x.is_infinite() => s.infinite += 1,
                x => {
                    (s.least, s.most) = (s.least.min(x), s.most.max(x));
                    squares += x * x;
                    finite += 1;
                }
            }
        }
        s.rms = (squares / f64::max(finite as f64, 1.0)).sqrt();
        s
    }
}

impl Anomaly {
    fn of_sum<T: Real>(op: &'static str, node: NodeId, sum: &Tensor<T>, site: &Site) -> Self {
        Anomaly {
            op,
            details: String::new(),
            node: Some(node.index()),
            site: site.clone(),
            direction: Direction::Sum,
            made: Summary::of(sum),
            from: Vec::new(),
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.shape)?;
        if self.least <= self.most {
            write!(f, ", {:.4e} to {:.4e}, root mean square {:.4e}", self.least, self.most, self.rms)?;
        }
        for (count, what) in [(self.nan, "NaN"), (self.infinite, "infinite")] {
            if count > 0 {
                write!(f, ", {count} {what}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Anomaly { op, site, made, .. } = self;
        let scope = if site.scope.is_empty() { String::new() } else { format!(" in {}", site.scope) };
        match self.direction {
            Direction::Forward => write!(f, "in the forward pass, {op}{scope} ({}) produced {made}", site.at)?,
            Direction::Backward { input } => {
                write!(f, "in the backward pass, {op}{scope} ({}) produced {made} for its input {input}", site.at)?;
            }
            Direction::Sum => {
                write!(
                    f,
                    "in the backward pass, every summand of the gradient of {op}{scope} ({}) is finite, but their sum is {made}",
                    site.at
                )?;
            }
        }
        self.from.iter().try_for_each(|(name, summary)| write!(f, "; {name}: {summary}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_counts_non_finite_values_separately() {
        let s = Summary::of(&Tensor::new([2, 2], vec![f64::NAN, 3.0, f64::NEG_INFINITY, -4.0]));
        assert_eq!((s.nan, s.infinite, s.least, s.most), (1, 1, -4.0, 3.0));
        assert!((s.rms - 12.5f64.sqrt()).abs() < 1e-15);
        let nothing = Summary::of(&Tensor::new([1], vec![f64::NAN])).to_string();
        assert_eq!(nothing, "[1], 1 NaN");
    }
}
