//! GPT-1 and its checkpoints.
