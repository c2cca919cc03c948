//! What was found to be fastest.

use std::collections::BTreeMap;

use super::gpu::{Gpu, lock};

/// Choices among kernels of equal results, by what they are for.
#[derive(Debug, Default)]
pub(super) struct Tuning {
    is_on: bool,
    choices: BTreeMap<String, String>,
}

impl Gpu {
    /// Whether it measures, at the first product of a kind, which of the kernels for it is fastest. Otherwise, as at first, a rule
    /// chooses.
    pub fn tunes(&self, on: bool) {
        lock(&self.tuning).is_on = on;
    }

    /// What was measured so far or remembered: kernels' names, by kinds of products.
    pub fn choices(&self) -> BTreeMap<String, String> {
        lock(&self.tuning).choices.clone()
    }

    /// Takes these choices, of another time on the same GPU, without a measurement.
    pub fn remember(&self, choices: impl IntoIterator<Item = (String, String)>) {
        lock(&self.tuning).choices.extend(choices);
    }

    /// The choice for products of this kind, if there is one.
    pub(crate) fn choice(&self, kind: &str) -> Option<String> {
        lock(&self.tuning).choices.get(kind).cloned()
    }

    /// Does it choose by what was measured, now or at another time?
    pub(crate) fn has_choices(&self) -> bool {
        let tuning = lock(&self.tuning);
        tuning.is_on || !tuning.choices.is_empty()
    }

    pub(crate) fn is_tuning(&self) -> bool {
        lock(&self.tuning).is_on
    }
}
