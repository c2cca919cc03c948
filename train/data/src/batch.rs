//! What a model reads at once.

/// Sequences of ids with what they should predict, (rows, length), row-major.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// Number of sequences.
    pub rows: usize,
    /// Positions of each.
    pub length: usize,
    /// What the model reads; 0 where a row is padded, at its end.
    pub inputs: Vec<u32>,
    /// What it should predict at each position; 0 where the weight is.
    pub targets: Vec<u32>,
    /// 1 where the prediction counts; 0 on padding and on tokens that another row predicts.
    pub weights: Vec<f32>,
}

impl Batch {
    pub(crate) fn empty(rows: usize, length: usize) -> Self {
        let n = rows * length;
        Batch { rows, length, inputs: vec![0; n], targets: vec![0; n], weights: vec![0.0; n] }
    }

    /// Windows of one length, T + 1 tokens each: T inputs, and the same shifted by one as targets.
    pub fn of_windows(windows: &[&[u32]]) -> Self {
        let length = windows.first().map_or(0, |w| w.len() - 1);
        let mut batch = Batch::empty(windows.len(), length);
        windows.iter().enumerate().for_each(|(row, window)| batch.fill(row, window, 0));
        batch
    }

    /// Predictions that count.
    pub fn predicted(&self) -> usize {
        self.weights.iter().filter(|&&w| w != 0.0).count()
    }

    /// Writes a row: `window` is one token longer than what it predicts, and its predictions count from `first` on.
    pub(crate) fn fill(&mut self, row: usize, window: &[u32], first: usize) {
        let (at, n) = (row * self.length, window.len() - 1);
        self.inputs[at..at + n].copy_from_slice(&window[..n]);
        self.targets[at + first..at + n].copy_from_slice(&window[1 + first..]);
        self.weights[at + first..at + n].fill(1.0);
    }
}
