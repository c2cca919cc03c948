//! What was found to be fastest.

use std::collections::BTreeMap;

use super::gpu::{Gpu, lock};

/// Choices among kernels of equal results, by what they are for.
#[derive(Debug, Default)]
pub(super) struct Tuning {
    is_on: bool,
    choices: BTreeMap<String, String>,
    /// Those of them that were measured since the device was opened.
    measured: BTreeMap<String, String>,
    /// Those that were remembered and name no kernel of this device.
    missing: BTreeMap<String, String>,
}

impl Gpu {
    pub(super) fn tune(&self, on: bool) {
        lock(&self.tuning).is_on = on;
    }

    pub(crate) fn choices(&self) -> BTreeMap<String, String> {
        lock(&self.tuning).choices.clone()
    }

    pub(crate) fn remember(&self, choices: impl IntoIterator<Item = (String, String)>) {
        lock(&self.tuning).choices.extend(choices);
    }

    /// What was measured since it was opened.
    pub(crate) fn measured(&self) -> BTreeMap<String, String> {
        lock(&self.tuning).measured.clone()
    }

    /// Chooses this kernel for products of this kind, after a measurement.
    pub(crate) fn choose(&self, kind: String, kernel: String) {
        let mut tuning = lock(&self.tuning);
        tuning.measured.insert(kind.clone(), kernel.clone());
        tuning.choices.insert(kind, kernel);
    }

    /// The choice for products of this kind, if there is one.
    pub(crate) fn choice(&self, kind: &str) -> Option<String> {
        lock(&self.tuning).choices.get(kind).cloned()
    }

    /// Takes a choice back that names no kernel of this device.
    pub(crate) fn misses(&self, kind: &str) {
        let mut tuning = lock(&self.tuning);
        if let Some((kind, kernel)) = tuning.choices.remove_entry(kind) {
            tuning.missing.insert(kind, kernel);
        }
    }

    /// The choices that were taken back.
    pub(crate) fn missing(&self) -> BTreeMap<String, String> {
        lock(&self.tuning).missing.clone()
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
