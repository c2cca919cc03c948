//! Observation of a tape: every value that an op computes and every summand that a VJP computes.
//!
//! A tape with an [`Observer`] computes the same bits as one without. [`Watch`](crate::anomaly::Watch) finds non-finite numbers,
//! [`Recorder`](crate::trace::Recorder) keeps everything.
//!
//! ```
//! use std::sync::{Arc, Mutex};
//! use gradus_autograd::{Tape, Tensor};
//! use gradus_autograd::observer::{Applied, Observer, Pulled};
//!
//! #[derive(Debug, Default)]
//! struct Log(Mutex<Vec<String>>);
//!
//! impl Observer<f64> for Log {
//!     fn applied(&self, it: &Applied<'_, f64>) {
//!         self.0.lock().unwrap().push(format!("{} = {}", it.op.name(), it.out.item()));
//!     }
//!     fn pulled(&self, it: &Pulled<'_, f64>) {
//!         let to: Vec<f64> = it.summands().map(|(_, _, g)| g.item()).collect();
//!         self.0.lock().unwrap().push(format!("{} back: {to:?}", it.op.name()));
//!     }
//! }
//!
//! let log = Arc::new(Log::default());
//! let tape = Tape::observed(log.clone());
//! let x = tape.leaf(Tensor::scalar(3.0));
//! tape.backward(&(&x * &x));
//! assert_eq!(*log.0.lock().unwrap(), ["mul = 9", "mul back: [3.0, 3.0]"]);
//! ```

use std::fmt::Debug;
use std::panic::Location;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gradus_tensor::{Real, Tensor};

use super::op::{AnyOp, Evaluated, Saved, Want};
use super::reached::{Reached, Summands};
use super::{NodeId, Site, Tape, Var};

/// An observer of a tape's computation. Each method does nothing unless overridden.
pub trait Observer<T: Real>: Debug + Send + Sync {
    /// Called when a leaf is created.
    fn leaf(&self, _node: NodeId, _value: &Tensor<T>, _site: &Site) {}
    /// Called before an op or a VJP is computed; the time is measured from here.
    fn begins(&self) {}
    /// Called after the op or the VJP, before its result is passed to the observer. The time of this method counts as the op's
    /// time: on a GPU, which computes asynchronously, it includes a wait for the result.
    fn ends(&self) {}
    /// Called with the value of an op. Ops that VJPs apply are excluded.
    fn applied(&self, _it: &Applied<'_, T>) {}
    /// Called with the summands of a VJP.
    fn pulled(&self, _it: &Pulled<'_, T>) {}
    /// Called once the last summand of this leaf's gradient is added.
    fn gradient(&self, _leaf: NodeId, _value: &Tensor<T>, _site: &Site) {}
}

/// One application of an op.
#[derive(Debug)]
pub struct Applied<'a, T: Real> {
    /// The op.
    pub op: &'a Arc<dyn AnyOp<T>>,
    /// The inputs.
    pub ins: &'a [&'a Tensor<T>],
    /// The nodes of its inputs; `None` for a constant.
    pub parents: &'a [Option<NodeId>],
    /// The value.
    pub out: &'a Tensor<T>,
    /// The residuals for its VJP, besides inputs and output.
    pub residuals: &'a [Tensor<T>],
    /// The node; `None` if nothing is recorded.
    pub node: Option<NodeId>,
    /// The place of the application.
    pub site: &'a Site,
    /// The time it took.
    pub took: Duration,
}

/// One application of a VJP.
#[derive(Debug)]
pub struct Pulled<'a, T: Real> {
    /// The op.
    pub op: &'a dyn AnyOp<T>,
    /// The node.
    pub node: NodeId,
    /// The place of the application.
    pub site: &'a Site,
    /// The complete cotangent ȳ.
    pub cotangent: &'a Tensor<T>,
    /// The time it took.
    pub took: Duration,
    pub(crate) saved: &'a Saved<'a, T>,
    pub(crate) parents: &'a [Option<NodeId>],
    pub(crate) summands: &'a [Option<Var<'a, T>>],
}

impl<'a, T: Real> Pulled<'a, T> {
    /// Returns the summands for the inputs that need a gradient: the input's index, its node, and the summand of its cotangent.
    pub fn summands(&self) -> impl Iterator<Item = (usize, NodeId, &'a Tensor<T>)> {
        let both = self.summands.iter().zip(self.parents).enumerate();
        both.filter_map(|(i, (g, to))| Some((i, (*to)?, &g.as_ref()?.value)))
    }

    /// Returns the saved inputs, the output if it was saved, and the residuals.
    pub fn kept(&self) -> impl Iterator<Item = (String, &'a Tensor<T>)> {
        let ins = self.saved.ins.iter().enumerate().filter_map(|(i, x)| Some((format!("input {i}"), &x.as_ref()?.value)));
        let out = self.saved.out.as_ref().map(|y| ("the output".to_owned(), &y.value));
        let residuals = self.saved.residuals.iter().enumerate().map(|(i, r)| (format!("residual {i}"), r));
        ins.chain(out).chain(residuals)
    }
}

// ── Calls from the tape ─────────────────────────────────────────────────────────────────────────────────────────────

impl<T: Real> Tape<T> {
    pub(super) fn tell_leaf(&self, node: NodeId, value: &Tensor<T>, site: &Site) {
        if let Some(observer) = &*self.observer.borrow() {
            observer.leaf(node, value, site);
        }
    }

    pub(super) fn tell_gradient(&self, observer: Option<&dyn Observer<T>>, leaf: NodeId, value: &Tensor<T>) {
        if let Some(observer) = observer {
            observer.gradient(leaf, value, &self.nodes.borrow()[leaf.index()].site);
        }
    }

    /// Computes y = f(x).
    pub(super) fn evaluate(
        &self,
        op: &Arc<dyn AnyOp<T>>,
        ins: &[&Var<'_, T>],
        x: &[&Tensor<T>],
        node: Option<NodeId>,
        at: &'static Location<'static>,
    ) -> Evaluated<T> {
        let want = if node.is_some() { Want::Vjp } else { Want::Value };
        let observer = self.observer.borrow();
        let Some(observer) = &*observer else { return op.eval(x, want) };
        observer.begins();
        let begun = Instant::now();
        let y = op.eval(x, want);
        observer.ends();
        let took = begun.elapsed();
        let (parents, site): (Vec<_>, _) = (ins.iter().map(|x| x.node).collect(), &self.site(at));
        observer.applied(&Applied { op, ins: x, parents: &parents, out: &y.out, residuals: &y.residuals, node, site, took });
        y
    }

    /// Runs a reverse pass with the observer. The observer is called for the pass's VJPs, but not for the ops that they apply.
    pub(super) fn reversing<R>(&self, pass: impl FnOnce(Option<&dyn Observer<T>>) -> R) -> R {
        let observer = self.observer.take();
        let result = pass(observer.as_deref());
        self.observer.replace(observer);
        result
    }
}

impl<'t, T: Real> Reached<'t, T> {
    /// Returns x̄ᵢ = Jᵢᵀȳ for each input, as `vjp` computes it; `None` if the op itself has added its only x̄ to the sum so far.
    /// The observer gets this x̄ too.
    pub(super) fn observed(
        &self,
        gy: &Var<'t, T>,
        observer: Option<&dyn Observer<T>>,
        vjp: impl FnOnce() -> Option<Summands<'t, T>>,
    ) -> Option<Summands<'t, T>> {
        let Some(observer) = observer else { return vjp() };
        observer.begins();
        let begun = Instant::now();
        let summands = vjp();
        observer.ends();
        let took = begun.elapsed();
        let shown = summands.clone().unwrap_or_else(|| self.vjp(gy));
        let Reached { op, node, site, parents, saved } = self;
        let (op, cotangent, summands_shown) = (&**op, gy.value(), &shown[..]);
        observer.pulled(&Pulled { op, node: *node, site, cotangent, took, saved, parents, summands: summands_shown });
        summands
    }
}
