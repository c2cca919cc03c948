//! The device and the precision in a run's files: its bits depend on them as well as on the settings.

use std::collections::BTreeMap;

use gradus_tensor::Device;
use gradus_tensor::device::MatmulPrecision;
use serde::{Deserialize, Serialize};

use crate::hyperparameters::{RangeError, require};

/// The precision of a run's products, and the kernels for them, which differ in the order of sums. A resumed run uses both.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Precision {
    /// The precision of products (`--matmul-precision`).
    #[serde(with = "text")]
    pub products: MatmulPrecision,
    /// The fastest measured kernel for each kind of product; empty in full precision, where the choice changes no bit.
    #[serde(default)]
    pub kernels: BTreeMap<String, String>,
}

impl Precision {
    /// Returns the precision of a device, with the kernels measured there so far.
    pub fn of(device: &Device) -> Self {
        let products = device.matmul_precision();
        let of_these = |(kind, _): &(String, String)| kind.starts_with(&format!("{products},"));
        let kernels = if products == MatmulPrecision::F32 { BTreeMap::new() } else { device.choices() };
        Precision { products, kernels: kernels.into_iter().filter(of_these).collect() }
    }

    /// Returns whether products are in full precision.
    pub fn is_full(&self) -> bool {
        is_f32(&self.products)
    }
}

/// Returns whether products are in full precision.
pub fn is_f32(products: &MatmulPrecision) -> bool {
    *products == MatmulPrecision::F32
}

/// Returns an error for products that the CPU does not have.
///
/// # Errors
/// Returns an error for f16.
pub fn check_on_cpu(products: MatmulPrecision) -> Result<(), RangeError> {
    require("matmul-precision", products, products != MatmulPrecision::F16, "f32 or bf16, the precisions of a CPU")
}

/// Returns the flag of a precision other than the default, to be added to a command.
pub fn flag(products: MatmulPrecision) -> String {
    if is_f32(&products) { String::new() } else { format!(" --matmul-precision {products}") }
}

/// Returns the name of a device in files; `None` for the CPU.
pub fn named(device: &Device) -> Option<String> {
    (!device.is_cpu()).then(|| device.to_string())
}

/// A value that is serialized as its text.
pub mod text {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::{Deserialize, Deserializer, Serializer};

    /// Serializes a value as its text.
    ///
    /// # Errors
    /// Returns the serializer's error.
    pub fn serialize<S: Serializer>(value: &impl Display, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(value)
    }

    /// Parses a value from its text.
    ///
    /// # Errors
    /// Returns the deserializer's error, or one that states what was expected and what was found.
    pub fn deserialize<'de, T: FromStr<Err = String>, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_precision_survives_serialization() {
        let kernels = BTreeMap::from([("f16, 1 of (64, 64)·(64, 64), k4·4".to_owned(), "64×64×16 by 256 of 4×4".to_owned())]);
        let precision = Precision { products: MatmulPrecision::F16, kernels };
        let text = serde_json::to_string(&precision).unwrap();
        assert!(text.starts_with(r#"{"products":"f16","#), "{text}");
        assert_eq!(serde_json::from_str::<Precision>(&text).unwrap(), precision);
        let error = serde_json::from_str::<Precision>(r#"{"products":"f8"}"#).unwrap_err().to_string();
        assert!(error.contains(r#"expected f32, f16 or bf16, found "f8""#), "{error}");
        assert!(Precision::of(&Device::CPU).is_full() && !precision.is_full());
    }
}
