//! The language-model objective: the reduction of token losses to one number.
//!
//! ```text
//! L₁(U) = Σᵢ log P(uᵢ | uᵢ₋ₖ … uᵢ₋₁)                                                             (equation 1)
//! token mean        −L₁ / number of predicted tokens                                             (Hugging Face)
//! sequence mean     mean over sequences of Σ(ℓ·M)/ΣM                                             (OpenAI's code)
//! ```
//!
//! Equation 1 is a log-likelihood, to be maximised; its negative is minimised here.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The mean of the token losses that is minimised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Objective {
    /// The mean over all predicted tokens.
    #[default]
    TokenMean,
    /// The mean over sequences of each sequence's mean.
    SequenceMean,
}

impl Objective {
    /// Returns the weight of each of the (B·T) predictions; the weights sum to 1. `mask` is 1 where a token is to be predicted, 0
    /// where it is padding; a sequence without a predicted token does not count.
    pub fn weights(self, mask: &[f64], sequences: usize) -> Vec<f64> {
        // The mean over all tokens is the mean over one sequence of all tokens.
        let sequences = if self == Objective::TokenMean { 1 } else { sequences };
        let rows = mask.chunks(mask.len().checked_div(sequences).unwrap_or(0).max(1));
        let counted = rows.clone().filter(|row| row.iter().any(|&m| m > 0.0)).count().max(1) as f64;
        let weights = |row: &[f64]| {
            let total = row.iter().sum::<f64>().max(f64::MIN_POSITIVE) * counted;
            row.iter().map(|m| m / total).collect::<Vec<_>>()
        };
        rows.flat_map(weights).collect()
    }
}

impl std::fmt::Display for Objective {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.serialize(f)
    }
}

impl FromStr for Objective {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        match s {
            "token_mean" => Ok(Objective::TokenMean),
            "sequence_mean" => Ok(Objective::SequenceMean),
            other => Err(format!("expected token_mean or sequence_mean, got {other}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_means_differ_on_unequal_rows() {
        let mask = [1., 1., 1., 1., 1., 0., 0., 0.];
        let token = Objective::TokenMean.weights(&mask, 2);
        assert_eq!(token, [0.2, 0.2, 0.2, 0.2, 0.2, 0., 0., 0.]);
        let sequence = Objective::SequenceMean.weights(&mask, 2);
        assert_eq!(sequence, [0.125, 0.125, 0.125, 0.125, 0.5, 0., 0., 0.]);
    }

    #[test]
    fn an_objective_is_parsed_from_its_name() {
        for objective in [Objective::TokenMean, Objective::SequenceMean] {
            assert_eq!(objective.to_string().parse(), Ok(objective));
        }
        assert_eq!("mean".parse::<Objective>().unwrap_err(), "expected token_mean or sequence_mean, got mean");
    }

    #[test]
    fn an_empty_row_has_zero_weight() {
        let sequence = Objective::SequenceMean.weights(&[1., 1., 0., 0.], 2);
        assert_eq!(sequence, [0.5, 0.5, 0., 0.]);
        assert_eq!(Objective::TokenMean.weights(&[], 0), Vec::<f64>::new());
    }
}
