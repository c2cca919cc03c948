//! What every part of a training program needs of the outside world.
//!
//! | module | |
//! |-|-|
//! | [`files`] | writes that are whole or absent, folders that one process works in |
//! | [`checksums`] | what was written, so that what is read can be trusted |
//! | [`disk`] | every call on files, with a place for a watcher |
//! | [`progress`] | how far a long piece of work is, reported to what shows it |
//! | [`interrupt`] | the request that the work should end |
//! | [`numbers`] | counts, measurements and times as people read them |
//! | [`hex`] | digests as they are written |

pub mod checksums;
pub mod disk;
pub mod files;
pub mod hex;
pub mod interrupt;
pub mod numbers;
pub mod progress;
