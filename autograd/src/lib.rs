//! The tape, the ops, the checks.
