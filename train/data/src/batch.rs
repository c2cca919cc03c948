//! What a model reads at once.

/// Sequences of ids with what they should predict, (rows, length), row-major.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenBatch {
    /// Number of sequences.
    pub rows: usize,
    /// Positions of each.
    pub length: usize,
    /// What the model reads; 0 where a row is padded, at its end.
    pub inputs: Vec<u32>,
    /// What it should predict at each position; 0 where the weight is.
    pub targets: Vec<u32>,
    /// 1 where there is something to predict; 0 on padding.
    pub weights: Vec<f32>,
}

impl TokenBatch {
    /// One row per window of T + 1 tokens: T inputs, and the same shifted by one as targets; as long as the longest.
    pub fn of_windows<W: AsRef<[u32]>>(windows: &[W]) -> Self {
        let length = windows.iter().map(|window| window.as_ref().len() - 1).max().unwrap_or(0);
        TokenBatch::padded(windows, length)
    }

    /// [`of_windows`](Self::of_windows), of a given length.
    pub(crate) fn padded<W: AsRef<[u32]>>(windows: &[W], length: usize) -> Self {
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

    /// Predictions that count.
    pub fn predicted(&self) -> usize {
        self.weights.iter().filter(|&&w| w != 0.0).count()
    }
}
