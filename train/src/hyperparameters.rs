//! The declaration of hyperparameters: one declaration gives the help, the flag, the key in files, the type and the default.

use std::path::Path;

/// Declares a struct of hyperparameters. Each is a flag under the heading above it, and its comment is its help.
///
/// ```text
/// "Training":
///     /// Peak learning rate (§4.1)
///     lr: f64 = 6.25e-5,             a flag with this default
///     rows: Option<usize>,           a flag that may be left out
/// ```
macro_rules! hyperparameters {
    (
        $(#[$about:meta])*
        pub struct $Struct:ident {
            $($heading:literal: { $($(#[$help:meta])+ $name:ident: $type:ty $(= $default:expr)?,)+ })+
        }
    ) => {
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        #[cfg_attr(feature = "clap", derive(clap::Args))]
        $(#[$about])*
        pub struct $Struct {
            $($(
                $(#[$help])+
                #[cfg_attr(feature = "clap", arg(long, $(default_value_t = $default,)? help_heading = $heading))]
                pub $name: $type,
            )+)+
        }

        impl Default for $Struct {
            fn default() -> Self {
                Self { $($($name: hyperparameters!(@default $($default)?),)+)+ }
            }
        }
    };
    (@default) => { Default::default() };
    (@default $default:expr) => { $default };
}

pub(crate) use hyperparameters;

/// A value of a flag that is out of range.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("--{flag} {found}: expected {expected}")]
pub struct RangeError {
    flag: String,
    found: String,
    expected: String,
}

impl RangeError {
    /// Returns the error for a flag, its value and the expected values.
    pub fn new(flag: impl Into<String>, found: impl ToString, expected: impl Into<String>) -> Self {
        RangeError { flag: flag.into(), found: found.to_string(), expected: expected.into() }
    }
}

/// Returns an error if a value does not fit.
pub fn require(flag: &'static str, found: impl ToString, fits: bool, expected: impl Into<String>) -> Result<(), RangeError> {
    if fits { Ok(()) } else { Err(RangeError::new(flag, found, expected)) }
}

/// Returns an error if a path is not Unicode, since the run's files store it as text.
pub fn in_unicode(flag: &'static str, path: &Path) -> Result<(), RangeError> {
    require(flag, path.display(), path.to_str().is_some(), "a path in Unicode, which the run's files can store")
}

/// Returns an error if the global norm to clip to is out of range.
pub fn clip_in_range(clip: f64) -> Result<(), RangeError> {
    require("clip", clip, clip >= 0.0 && clip.is_finite(), "a number of at least 0 (0: no clipping)")
}
