//! The command line.
pub mod pretrain;
