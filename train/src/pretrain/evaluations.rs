//! The frequency and size of evaluations. Settings that are not given are derived from the length of the run.

use super::PretrainSettings;

/// The largest ratio of evaluated tokens to training tokens. Evaluating a token takes about a third of the time of training on
/// it, so evaluations take at most about a tenth of the run.
const SHARE: f64 = 0.3;
/// The number of evaluations, unless the budget allows fewer.
const EVALUATIONS: u64 = 20;
/// The default maximum number of tokens that an evaluation before the last reads.
const MOST: usize = 100_000;

impl PretrainSettings {
    /// Fills in the evaluation settings that are not given, for a run of `steps` steps on `trained` tokens. `read` maps a limit
    /// to the number of held-out tokens that an evaluation reads, which is at least one sequence.
    pub(super) fn settle_evaluations(&mut self, steps: u64, trained: u64, read: &dyn Fn(usize) -> u64) {
        if self.eval_every.is_some() && self.eval_tokens.is_some() {
            return;
        }
        let budget = (SHARE * trained as f64) as u64;
        let mut last = read(usize::MAX);
        if last > budget / 2 {
            let limit = within(budget / 2, read).max(self.eval_tokens.unwrap_or(1));
            (self.eval_last, last) = (Some(limit), read(limit));
        }
        let left = budget.saturating_sub(last);
        let smallest = self.eval_tokens.map_or_else(|| read(1), read).max(1);
        // Each evaluation also saves a checkpoint, so evaluations are made smaller before they are made fewer. The last
        // evaluation also reads the tokens of the earlier ones, so that all losses are compared over the same tokens.
        let fewest = steps.div_ceil((left / smallest).max(1));
        let every = self.eval_every.unwrap_or((steps / EVALUATIONS).max(fewest).max(1));
        self.eval_every = Some(every);
        self.eval_tokens = self.eval_tokens.or(Some(within(left / steps.div_ceil(every), read).min(MOST)));
    }

    /// Copies the evaluation settings that are not given from the settled settings of another process.
    pub(super) fn take_evaluations(&mut self, settled: &PretrainSettings) {
        self.eval_every = self.eval_every.or(settled.eval_every);
        self.eval_tokens = self.eval_tokens.or(settled.eval_tokens);
        self.eval_last = settled.eval_last;
    }

    /// Returns the steps between evaluations of a run of `steps` steps; a twentieth of it for older runs without the setting.
    pub(super) fn evaluates_every(&self, steps: u64) -> u64 {
        self.eval_every.unwrap_or((steps / EVALUATIONS).max(1))
    }

    /// Returns the maximum number of held-out tokens that an evaluation reads.
    pub(super) fn evaluated_tokens(&self, is_last: bool) -> usize {
        if is_last { self.eval_last.unwrap_or(usize::MAX) } else { self.eval_tokens.unwrap_or(MOST) }
    }
}

/// Returns the largest limit with which an evaluation reads at most `most` tokens; 1 to `most`. `read` must not decrease.
fn within(most: u64, read: &dyn Fn(usize) -> u64) -> usize {
    let (mut low, mut high) = (1, usize::try_from(most).unwrap_or(usize::MAX).max(1));
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if read(middle) <= most { low = middle } else { high = middle - 1 }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pretrain::PretrainOptions;

    /// Returns the settled settings of a run on windows of `context` tokens, and the number of tokens that its evaluations read.
    fn settled(text: &str, [steps, batch, context, held_out]: [u64; 4]) -> (PretrainSettings, u64) {
        let mut settings = toml::from_str::<PretrainOptions>(text).unwrap().settle().unwrap();
        let read = |limit: usize| ((limit as u64).div_ceil(context).max(1).saturating_mul(context)).min(held_out);
        settings.settle_evaluations(steps, steps * batch * context, &read);
        let every = settings.evaluates_every(steps);
        let [last, sample] = [true, false].map(|is_last| read(settings.evaluated_tokens(is_last)));
        let before = steps.div_ceil(every) - 1;
        let again = if before > 0 && sample != last { sample } else { 0 };
        (settings.clone(), before * sample + last + again)
    }

    #[test]
    fn evaluations_read_at_most_three_tenths_of_the_training_tokens() {
        for steps in [7, 20, 39, 100, 2000, 30_000] {
            for (batch, context) in [(1, 16), (12, 64), (64, 512)] {
                for held_out in [3 * context, 111_540, 90_000_000] {
                    let (settings, all) = settled("", [steps, batch, context, held_out]);
                    let trained = steps * batch * context;
                    let (every, tokens) = (settings.eval_every.unwrap(), settings.eval_tokens.unwrap());
                    assert!(all * 10 <= trained * 3 || trained * 3 < 10 * context, "{all} of {trained}: {settings:?}");
                    assert!(tokens <= MOST && every >= steps / 20 && every <= steps, "{settings:?}");
                }
            }
        }
        // Shakespeare's 1.5 million trained tokens: the last evaluation reads all held-out tokens, each of nineteen others
        // a sixth of them, which the last reads once more.
        let (settings, all) = settled("", [2000, 12, 64, 111_540]);
        assert_eq!((settings.eval_every, settings.eval_tokens, settings.eval_last), (Some(100), Some(17_408), None));
        assert_eq!(all, 20 * 17_408 + 111_540);
        // A long run has a twentieth of its steps between evaluations, and the largest ones.
        let (settings, _) = settled("", [30_000, 64, 512, 90_000_000]);
        assert_eq!((settings.eval_every, settings.eval_tokens, settings.eval_last), (Some(1500), Some(MOST), None));
    }

    #[test]
    fn evaluation_settings_override_the_defaults() {
        let short = [100, 2, 16, 50_000];
        let (both, _) = settled("eval_every = 3\neval_tokens = 70000", short);
        assert_eq!((both.eval_every, both.eval_tokens, both.eval_last), (Some(3), Some(70_000), None));
        let (every, all) = settled("eval_every = 10", short);
        assert_eq!(every.eval_every, Some(10));
        assert!(all <= 960, "{all} of 3,200");
        let (tokens, all) = settled("eval_tokens = 160", short);
        assert_eq!(tokens.eval_tokens, Some(160));
        assert!(all <= 960 && tokens.eval_every.unwrap() <= 34, "{all} of 3,200: {tokens:?}");
        // The last evaluation is not smaller than those before it.
        let (large, _) = settled("eval_tokens = 4000", short);
        assert_eq!((large.eval_tokens, large.eval_last, large.eval_every), (Some(4000), Some(4000), Some(100)));
    }

    #[test]
    fn another_process_takes_only_unset_evaluation_settings() {
        let (settled, _) = settled("", [100, 2, 16, 50_000]);
        let mut own = toml::from_str::<PretrainOptions>("eval_every = 7").unwrap().settle().unwrap();
        own.take_evaluations(&settled);
        assert_eq!((own.eval_every, own.eval_tokens, own.eval_last), (Some(7), settled.eval_tokens, settled.eval_last));
    }
}
