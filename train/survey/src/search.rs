//! The search for a rate: some multiples of the usual one, extended as long as the best is the largest or the smallest.

use gradus_train::systems::Card;

use crate::error::SurveyError;
use crate::plan::{Survey, usual_rate};
use crate::results::{Searched, Trained};

/// The largest multiple that is tried; its inverse is the smallest.
const MOST: f64 = 8.0;

/// Returns the next multiple to try, given the first ones and the losses so far (NaN for a divergence); `None` ends the search.
pub fn next(first: &[f64], tried: &[(f64, f64)]) -> Option<f64> {
    if let Some(&rate) = first.iter().find(|&&rate| tried.iter().all(|it| it.0 != rate)) {
        return Some(rate);
    }
    let rates = || tried.iter().map(|&(rate, _)| rate);
    let (least, most) = (rates().fold(f64::INFINITY, f64::min), rates().fold(0.0, f64::max));
    match tried.iter().filter(|it| it.1.is_finite()).min_by(|a, b| a.1.total_cmp(&b.1)) {
        Some(&(best, _)) if best == most && most < MOST => Some(2.0 * most),
        // If all diverged, a smaller multiple may converge.
        Some(&(best, _)) if best > least => None,
        _ => (least > 1.0 / MOST).then_some(least / 2.0),
    }
}

/// Returns the run with the lowest loss on held-out stories among the rates that were tried.
///
/// # Errors
/// Returns an error if all runs diverged.
pub fn best(searched: &Searched) -> Result<&Trained, SurveyError> {
    let Searched { system, budget, tried, .. } = searched;
    let found = tried.iter().filter(|it| it.loss.is_finite()).min_by(|a, b| a.loss.total_cmp(&b.loss));
    let rates = || tried.iter().map(|it| it.lr.to_string()).collect::<Vec<_>>().join(", ");
    found.ok_or_else(|| SurveyError::NoRate { system: system.clone(), budget: *budget, rates: rates() })
}

/// Returns the rate for a system's training: the best of the rates that were tried, or the usual one without a search.
///
/// # Errors
/// Returns an error if all runs diverged.
pub fn rate(survey: &Survey, card: &Card, searched: Option<&Searched>) -> Result<f64, SurveyError> {
    searched.map_or(Ok(survey.rates[0] * usual_rate(card)), |searched| Ok(best(searched)?.lr))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: [f64; 3] = [1.0, 2.0, 0.5];

    /// Returns all rates that a search tries for these losses.
    fn searched(loss: impl Fn(f64) -> f64) -> Vec<f64> {
        let mut tried: Vec<(f64, f64)> = Vec::new();
        while let Some(rate) = next(&FIRST, &tried) {
            tried.push((rate, loss(rate)));
        }
        tried.into_iter().map(|it| it.0).collect()
    }

    #[test]
    fn the_search_continues_while_the_best_is_at_an_edge() {
        assert_eq!(searched(|rate| (rate - 1.0).abs()), FIRST);
        assert_eq!(searched(|rate| (rate - 2.0).abs()), [1.0, 2.0, 0.5, 4.0]);
        assert_eq!(searched(|rate| (rate - 0.25).abs()), [1.0, 2.0, 0.5, 0.25, 0.125]);
        assert_eq!(searched(|rate| -rate), [1.0, 2.0, 0.5, 4.0, 8.0], "but not for ever");
        assert_eq!(searched(|rate| rate), [1.0, 2.0, 0.5, 0.25, 0.125]);
    }

    #[test]
    fn a_diverging_rate_is_never_the_best() {
        let only_below = |limit: f64| move |rate: f64| if rate < limit { -rate } else { f64::NAN };
        assert_eq!(searched(only_below(1.5)), FIRST, "the largest that does not is inside");
        assert_eq!(searched(only_below(0.3)), [1.0, 2.0, 0.5, 0.25, 0.125]);
        assert_eq!(searched(|_| f64::NAN), [1.0, 2.0, 0.5, 0.25, 0.125]);
    }
}
