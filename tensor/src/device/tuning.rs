//! The choice of the fastest kernels.

use std::collections::BTreeMap;

use super::gpu::{Gpu, lock};

/// Choices among equivalent kernels, by kinds of products.
#[derive(Debug, Default)]
pub(super) struct Tuning {
    is_on: bool,
    choices: BTreeMap<String, String>,
    /// The choices that were measured since the device was opened.
    measured: BTreeMap<String, String>,
    /// The remembered choices that name no kernel of this device.
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

    /// Returns the choices that were measured since the GPU was opened.
    pub(crate) fn measured(&self) -> BTreeMap<String, String> {
        lock(&self.tuning).measured.clone()
    }

    /// Chooses this kernel for products of this kind, after a measurement.
    pub(crate) fn choose(&self, kind: String, kernel: String) {
        let mut tuning = lock(&self.tuning);
        tuning.measured.insert(kind.clone(), kernel.clone());
        tuning.choices.insert(kind, kernel);
    }

    /// Returns the choice for products of this kind, if there is one.
    pub(crate) fn choice(&self, kind: &str) -> Option<String> {
        lock(&self.tuning).choices.get(kind).cloned()
    }

    /// Moves a choice that names no kernel of this device to the missing ones.
    pub(crate) fn misses(&self, kind: &str) {
        let mut tuning = lock(&self.tuning);
        if let Some((kind, kernel)) = tuning.choices.remove_entry(kind) {
            tuning.missing.insert(kind, kernel);
        }
    }

    /// Returns the missing choices.
    pub(crate) fn missing(&self) -> BTreeMap<String, String> {
        lock(&self.tuning).missing.clone()
    }

    /// Returns whether the GPU chooses by measurements, made now or earlier.
    pub(crate) fn has_choices(&self) -> bool {
        let tuning = lock(&self.tuning);
        tuning.is_on || !tuning.choices.is_empty()
    }

    pub(crate) fn is_tuning(&self) -> bool {
        lock(&self.tuning).is_on
    }
}
