//! Batches of token ids.

/// A batch of token sequences and their targets, (rows, length), row-major.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenBatch {
    /// The number of sequences.
    pub rows: usize,
    /// The number of positions per sequence, padding included.
    pub length: usize,
    /// The input ids; 0 on padding, which is at the end of a row.
    pub inputs: Vec<u32>,
    /// The target id at each position; 0 on padding.
    pub targets: Vec<u32>,
    /// The weight of each target in the loss: 1 for a target, 0 on padding.
    pub weights: Vec<f32>,
}

impl TokenBatch {
    /// Returns one row per window of T + 1 tokens: its first T tokens as inputs, its last T as targets. Rows are padded to the
    /// length of the longest.
    pub fn of_windows<W: AsRef<[u32]>>(windows: &[W]) -> Self {
        let length = windows.iter().map(|window| window.as_ref().len() - 1).max().unwrap_or(0);
        let (rows, n) = (windows.len(), windows.len() * length);
        let mut batch = TokenBatch { rows, length, inputs: vec![0; n], targets: vec![0; n], weights: vec![0.0; n] };
        for (window, at) in windows.iter().map(W::as_ref).zip((0..).step_by(length.max(1))) {
            let n = window.len() - 1;
            batch.inputs[at..at + n].copy_from_slice(&window[..n]);
            batch.targets[at..at + n].copy_from_slice(&window[1..]);
            batch.weights[at..at + n].fill(1.0);
        }
        batch
    }

    /// Returns the number of predictions, padding excluded.
    pub fn predicted(&self) -> usize {
        self.weights.iter().filter(|&&w| w != 0.0).count()
    }
}
