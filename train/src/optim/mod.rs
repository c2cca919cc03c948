//! Optimizers, schedules and clipping: the steps from a gradient to the next parameters.
//!
//! Step t = 1 … T computes the clipping factor from the global norm ([`clip`]) and the factor s on the rate from the
//! [`Schedule`], then makes one pass over each parameter ([`Optimizer::update`]).

pub mod clip;
mod forms;
mod schedule;

pub use forms::{Optimizer, OptimizerKind, StepFactors};
pub use schedule::{Schedule, ScheduleKind, Warmup};

/// An invalid hyperparameter.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("--{} {found}: expected {expected}. {remedy}", field.replace('_', "-"))]
pub struct OptimError {
    field: &'static str,
    expected: &'static str,
    found: String,
    remedy: &'static str,
}
