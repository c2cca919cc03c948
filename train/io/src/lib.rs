//! Input, output and process control for all parts of a training program.
//!
//! | module | |
//! |-|-|
//! | [`files`] | atomic writes, and folders locked by one process |
//! | [`checksums`] | checksums that verify files when they are read |
//! | [`disk`] | all calls on files, which tests can observe |
//! | [`exit`] | exit codes, stated beside each error |
//! | [`progress`] | progress reports of long work |
//! | [`interrupt`] | the stop request |
//! | [`numbers`] | counts, measurements and durations as text |
//! | [`hex`], [`identity`](fn@identity) | hexadecimal text, and the digest of a value |

pub mod checksums;
pub mod disk;
pub mod exit;
pub mod files;
pub mod hex;
mod identity;
pub mod interrupt;
pub mod numbers;
pub mod progress;

pub use identity::identity;
