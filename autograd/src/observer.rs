//! Looking on as a tape computes: every value as an op gives it, every summand as a VJP does.
//!
//! A tape with an [`Observer`] computes the same bits as one without. [`Watch`](crate::anomaly::Watch) looks for numbers that are
//! not finite, [`Recorder`](crate::trace::Recorder) keeps everything.
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
use std::sync::Arc;
use std::time::Duration;

use gradus_tensor::{Real, Tensor};

use crate::op::{Op, Saved};
use crate::tape::{NodeId, Site};
use crate::var::Var;

/// Who looks on. What is not overridden is not looked at.
pub trait Observer<T: Real>: Debug + Send + Sync {
    /// A leaf was made.
    fn leaf(&self, _node: NodeId, _value: &Tensor<T>, _site: &Site) {}
    /// An op gave its value. What VJPs apply on their way is not shown.
    fn applied(&self, _it: &Applied<'_, T>) {}
    /// A VJP gave its summands.
    fn pulled(&self, _it: &Pulled<'_, T>) {}
    /// The reverse pass is done with this leaf: its gradient.
    fn gradient(&self, _leaf: NodeId, _value: &Tensor<T>, _site: &Site) {}
}

/// One application of an op.
#[derive(Debug)]
pub struct Applied<'a, T: Real> {
    /// The op.
    pub op: &'a Arc<dyn Op<T>>,
    /// Its inputs, with their nodes.
    pub ins: &'a [&'a Var<'a, T>],
    /// Its value.
    pub out: &'a Tensor<T>,
    /// What it left for its VJP besides inputs and output.
    pub residuals: &'a [Tensor<T>],
    /// Its node; `None` where nothing is recorded.
    pub node: Option<NodeId>,
    /// Where it was applied.
    pub site: &'a Site,
    /// How long it took.
    pub took: Duration,
}

/// One application of a VJP.
#[derive(Debug)]
pub struct Pulled<'a, T: Real> {
    /// The op.
    pub op: &'a dyn Op<T>,
    /// Its node.
    pub node: NodeId,
    /// Where it was applied.
    pub site: &'a Site,
    /// ȳ, complete.
    pub cotangent: &'a Tensor<T>,
    /// How long it took.
    pub took: Duration,
    pub(crate) saved: &'a Saved<'a, T>,
    pub(crate) parents: &'a [Option<NodeId>],
    pub(crate) summands: &'a [Option<Var<'a, T>>],
}

impl<'a, T: Real> Pulled<'a, T> {
    /// What flows to the inputs that want a gradient: which input, its node, the summand of its cotangent.
    pub fn summands(&self) -> impl Iterator<Item = (usize, NodeId, &'a Tensor<T>)> {
        let both = self.summands.iter().zip(self.parents).enumerate();
        both.filter_map(|(i, (g, to))| Some((i, (*to)?, &g.as_ref()?.value)))
    }

    /// The inputs that were kept for it, the output if that was, and the residuals.
    pub fn kept(&self) -> impl Iterator<Item = (String, &'a Tensor<T>)> {
        let ins = self.saved.ins.iter().enumerate().filter_map(|(i, x)| Some((format!("input {i}"), &x.as_ref()?.value)));
        let out = self.saved.out.as_ref().map(|y| ("the output".to_owned(), &y.value));
        let residuals = self.saved.residuals.iter().enumerate().map(|(i, r)| (format!("residual {i}"), r));
        ins.chain(out).chain(residuals)
    }
}
