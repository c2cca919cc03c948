//! Optimizers, schedules and clipping: the way from a gradient to the next parameters.
//!
//! Step t = 1 … T takes the clipping factor from the global norm ([`clip`]), the factor s on the rate from the
//! [`Schedule`], and then one pass over each parameter ([`Optimizer::update`]).

pub mod clip;
mod forms;
mod schedule;

pub use forms::{Optimizer, OptimizerKind, StepFactors};
pub use schedule::{Schedule, ScheduleKind, Warmup};

/// An invalid hyperparameter.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{field}: expected {expected}, found {found}. {remedy}")]
pub struct OptimError {
    field: &'static str,
    expected: &'static str,
    found: String,
    remedy: &'static str,
}
