//! Sequences of unequal length, one per row.

use crate::batch::TokenBatch;
use crate::error::DataError;
use crate::tokens::check_ids;

/// Sequences that are each predicted separately, with a separator before each:
///
/// ```text
/// inputs     s  x₁ x₂ … xₙ    padding          log p(x) = Σᵢ log p(xᵢ | s, x₁ … xᵢ₋₁)  [+ log p(s | s, x₁ … xₙ)]
/// targets    x₁ x₂ … xₙ [s]   weight 0
/// ```
///
/// With the separator at the end too (`closed`), the probability of a row includes the probability that the sequence ends there,
/// as for a whole story. Padding needs no mask: it is on the right, and attention is causal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rows {
    sequences: Vec<Vec<u32>>,
    separator: u32,
    closed: bool,
}

impl Rows {
    /// Creates rows of at most `context` positions.
    ///
    /// # Errors
    /// Returns an error if a sequence is too long ([`DataError::RowTooLong`]) or empty ([`DataError::RowEmpty`]), with its index,
    /// or if an id is outside the vocabulary ([`DataError::Id`]).
    pub fn new(
        sequences: Vec<Vec<u32>>,
        separator: u32,
        closed: bool,
        context: usize,
        vocab_size: usize,
    ) -> Result<Self, DataError> {
        check_ids(&[separator], vocab_size)?;
        for (row, sequence) in sequences.iter().enumerate() {
            check_ids(sequence, vocab_size)?;
            let found = sequence.len() + usize::from(closed);
            if found == 0 {
                return Err(DataError::RowEmpty { row });
            }
            if found > context {
                return Err(DataError::RowTooLong { row, found, context });
            }
        }
        Ok(Rows { sequences, separator, closed })
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.sequences.len()
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.sequences.is_empty()
    }

    /// Returns a row's tokens, without separators.
    pub fn sequence(&self, row: usize) -> &[u32] {
        &self.sequences[row]
    }

    /// Returns the number of predictions.
    pub fn predicted(&self) -> usize {
        self.sequences.iter().map(|s| s.len() + usize::from(self.closed)).sum()
    }

    /// Returns a batch of the given rows, padded to the length of the longest.
    pub fn batch(&self, rows: impl IntoIterator<Item = usize>) -> TokenBatch {
        let end = self.closed.then_some(self.separator);
        let window = |row: usize| [&[self.separator], &self.sequences[row][..], end.as_slice()].concat();
        TokenBatch::of_windows(&rows.into_iter().map(window).collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_prefixed_padded_and_weighted() {
        let sequences = vec![vec![1, 2, 3], vec![4], vec![5, 6]];
        let open = Rows::new(sequences.clone(), 9, false, 3, 10).unwrap();
        assert_eq!((open.len(), open.predicted()), (3, 6));
        assert_eq!(open.sequence(2), [5, 6]);
        assert!(!open.is_empty() && Rows::new(vec![], 9, false, 3, 10).unwrap().is_empty());
        let batch = open.batch(0..2);
        assert_eq!((batch.rows, batch.length, batch.predicted()), (2, 3, 4));
        assert_eq!(batch.inputs, [9, 1, 2, 9, 0, 0]);
        assert_eq!(batch.targets, [1, 2, 3, 4, 0, 0]);
        assert_eq!(batch.weights, [1.0, 1.0, 1.0, 1.0, 0.0, 0.0]);
        assert_eq!(open.batch(1..3).length, 2, "as long as the longest chosen");

        let closed = Rows::new(sequences, 9, true, 4, 10).unwrap();
        assert_eq!(closed.predicted(), 9);
        let batch = closed.batch(1..3);
        assert_eq!((batch.inputs, batch.targets), (vec![9, 4, 0, 9, 5, 6], vec![4, 9, 0, 5, 6, 9]));
    }

    #[test]
    fn bad_rows_are_named() {
        let error = |sequences, separator, closed| Rows::new(sequences, separator, closed, 3, 10).unwrap_err();
        let long = error(vec![vec![1], vec![1, 2, 3]], 9, true);
        assert!(matches!(long, DataError::RowTooLong { row: 1, found: 4, context: 3 }), "{long}");
        let empty = error(vec![vec![1], vec![]], 9, false);
        assert!(matches!(empty, DataError::RowEmpty { row: 1 }), "{empty}");
        let unknown = error(vec![vec![1, 10]], 9, false);
        assert!(matches!(unknown, DataError::Id { id: 10, position: 1, vocab_size: 10 }), "{unknown}");
        let separator = error(vec![], 10, false);
        assert!(matches!(separator, DataError::Id { id: 10, position: 0, vocab_size: 10 }), "{separator}: it is an id too");
    }
}
