//! Optimizers, schedules and clipping: what stands between a gradient and the next parameters.
//!
//! An update t = 1 … T takes the clipping factor from the global norm ([`clip`]), the factor s on the rate from the
//! [`Schedule`], and then one pass over each parameter ([`Optimizer::update`]).
//!
//! ```
//! use gradus_tensor::Tensor;
//! use gradus_train::optim::{Optimizer, Schedule, Update, clip};
//!
//! let (optimizer, schedule) = (Optimizer::default(), Schedule::default());
//! let (mut p, g) = (Tensor::new([2], vec![1.0f64, -1.0]), Tensor::new([2], vec![3.0, 4.0]));
//! let (mut m, mut v) = (p.zeros_like([2]), p.zeros_like([2]));
//! for t in 1..=10 {
//!     let norm = clip::global_norm([&g]);
//!     let at = Update { t, schedule: schedule.factor(t, 10), clip: clip::factor(norm, 1.0) };
//!     optimizer.update(at, true, &mut p, Some((&mut m, &mut v)), &g);
//! }
//! assert!(p.to_vec()[0] < 1.0 && p.to_vec()[1] < -1.0);
//! ```

pub mod clip;
mod forms;
mod schedule;

pub use forms::{Optimizer, OptimizerKind, Update};
pub use schedule::{Schedule, ScheduleKind, Warmup};

use thiserror::Error;

/// A hyperparameter that cannot be meant.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("{field}: expected {expected}, found {found}. {remedy}")]
#[non_exhaustive]
pub struct OptimError {
    /// The field of the configuration.
    pub field: &'static str,
    /// What may stand there.
    pub expected: &'static str,
    /// What stands there.
    pub found: String,
    /// What to do.
    pub remedy: &'static str,
}
