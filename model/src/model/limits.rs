//! The check that a model can compute the loss of a batch.

use super::ModelConfig;
use crate::batch::{Batch, ClassLoss, Input, LossTerm, Sight, TokenLoss};
use crate::head::{Form, HeadConfig};

impl Batch {
    /// Checks that a model with this configuration can compute the loss of the batch.
    ///
    /// # Errors
    /// Returns a description of the first part of the batch that does not fit.
    pub fn check(&self, config: &ModelConfig) -> Result<(), String> {
        self.input.check(config)?;
        if self.losses.is_empty() {
            return Err("expected at least one loss term, found none".into());
        }
        self.losses.iter().try_for_each(|term| match term {
            LossTerm::Tokens(tokens) => tokens.check(&self.input, config),
            LossTerm::Classes(classes) => classes.check(&self.input, config),
        })
    }
}

impl Input {
    fn check(&self, config: &ModelConfig) -> Result<(), String> {
        let (n, t, context) = (self.tokens.len(), self.length(), config.sizes.context);
        if n == 0 || !n.is_multiple_of(self.sequences) || (t > context && self.positions.is_none()) {
            let sequences = self.sequences;
            return Err(format!(
                "expected sequences of one length, at most the context of {context}; found {sequences} sequences, {n} tokens"
            ));
        }
        check_tokens(&self.tokens, config)?;
        let lengths = |all: &[usize], least| all.len() == self.sequences && all.iter().all(|m| (least..=t).contains(m));
        let is_recurrent = config.transformer().is_none();
        let fits = match &self.sight {
            Sight::Causal if is_recurrent => self.positions.is_none() && self.query_only == 0,
            _ if is_recurrent => false,
            Sight::Causal | Sight::Full(None) => true,
            Sight::Full(Some(all)) => lengths(all, 1),
            Sight::Prefix(all) => lengths(all, 0),
            Sight::Allowed(mask) => mask.len() == n * t,
        };
        let fits = fits && (self.query_only == 0 || self.query_only < t);
        if !self.positions.as_deref().is_none_or(|all| all.len() == n && all.iter().all(|&p| (p as usize) < context)) {
            return Err(format!("expected a position below {context} for each of the {n} tokens"));
        }
        let known = config.body.segments();
        let segmented = |segments: &[u32]| segments.len() == n && segments.iter().all(|&s| (s as usize) < known);
        if fits && self.segments.as_deref().is_none_or(segmented) {
            return Ok(());
        }
        Err("found segments or an attention mask that do not match these sequences or this model".into())
    }
}

impl TokenLoss {
    fn check(&self, input: &Input, config: &ModelConfig) -> Result<(), String> {
        let n = input.tokens.len();
        if self.output >= config.outputs.len() {
            return Err(format!(
                "expected an output below {}, the number of the model's, found {}",
                config.outputs.len(),
                self.output
            ));
        }
        let (slots, targets, weights) =
            (self.slots.as_ref().map_or(n, |slots| slots.len()), self.targets.len(), self.weights.len());
        if targets != slots || weights != slots {
            return Err(format!(
                "expected a target and a weight for each predicted token; found {slots} tokens, {targets} targets, {weights} weights"
            ));
        }
        let increasing = |slots: &[u32]| slots.is_sorted_by(|a, b| a < b) && slots.last().is_none_or(|&last| (last as usize) < n);
        if !self.slots.as_deref().is_none_or(increasing) {
            return Err(format!("expected the slots of predicted tokens in increasing order, all below {n}"));
        }
        check_tokens(&self.targets, config)
    }
}

impl ClassLoss {
    fn check(&self, input: &Input, config: &ModelConfig) -> Result<(), String> {
        let fits = |head: &HeadConfig| {
            let (examples, t) = (self.examples(), input.length());
            let one_each = self.slots.iter().enumerate().all(|(s, &slot)| slot as usize / t == s);
            let (group, classes) = match head.form {
                Form::Classify => (1, head.classes),
                Form::Similar => (2, head.classes),
                Form::Choose => (self.group, self.group),
            };
            let whole = examples.checked_mul(self.group) == Some(input.sequences) && self.slots.len() == input.sequences;
            one_each && whole && self.group == group && self.targets.len() == examples * classes
        };
        match config.heads.get(self.head) {
            Some(head) if fits(head) => Ok(()),
            _ => Err("found classes that do not match these sequences or this model".into()),
        }
    }
}

fn check_tokens(ids: &[u32], config: &ModelConfig) -> Result<(), String> {
    let vocab = config.sizes.vocab;
    match ids.iter().find(|&&id| id as usize >= vocab) {
        Some(id) => Err(format!("expected token ids below {vocab}, the model's vocabulary, found {id}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{tiny_bert, tiny_gpt, tiny_lstm};

    fn of(form: Option<Form>) -> ModelConfig {
        ModelConfig { heads: form.into_iter().map(|form| HeadConfig::new(form, 3)).collect(), ..tiny_gpt() }
    }

    /// Returns four sequences of three tokens.
    fn plain() -> Batch {
        Batch::next(4, [1; 12], [2; 12], [0.5; 12])
    }

    fn with_input(input: Input) -> Batch {
        Batch { input, ..plain() }
    }

    fn classes(group: usize, examples: usize, classes: usize) -> ClassLoss {
        ClassLoss {
            head: 0,
            slots: [0, 4, 8, 11].into(),
            group,
            targets: vec![0.5; examples * classes].into(),
            weights: vec![0.5; examples].into(),
        }
    }

    #[test]
    fn valid_batches_pass_the_check() {
        assert_eq!(plain().check(&of(None)), Ok(()));
        let with = |form, term| plain().with_classes(term).check(&of(Some(form)));
        assert_eq!(with(Form::Classify, classes(1, 4, 3)), Ok(()));
        assert_eq!(with(Form::Similar, classes(2, 2, 3)), Ok(()));
        assert_eq!(with(Form::Choose, classes(2, 2, 2)), Ok(()));
        assert_eq!(with(Form::Choose, classes(4, 1, 4)), Ok(()));
        let context = tiny_gpt().sizes.context;
        let long = Batch::next(1, vec![1; context], vec![1; context], vec![1.0; context]);
        assert_eq!(long.check(&of(None)), Ok(()));
    }

    #[test]
    fn batches_with_invalid_sequences_or_tokens_are_rejected() {
        let found = |batch: Batch| batch.check(&of(None)).unwrap_err();
        let context = tiny_gpt().sizes.context;
        for wrong in [
            with_input(Input { sequences: 0, ..plain().input }),
            with_input(Input { sequences: 5, ..plain().input }),
            Batch::next(0, [], [], []),
            Batch::next(4, [], [], []),
            Batch::next(1, vec![1; context + 1], vec![1; context + 1], vec![1.0; context + 1]),
        ] {
            let (n, sequences) = (wrong.input.tokens.len(), wrong.input.sequences);
            let found = found(wrong);
            assert!(found.contains(&format!("found {sequences} sequences, {n} tokens")), "{found}");
        }
        let beyond = tiny_gpt().sizes.vocab as u32;
        assert!(found(with_input(Input::causal(4, [beyond; 12]))).contains("below 19, the model's vocabulary, found 19"));
        assert!(found(Batch::next(4, [1; 12], [beyond; 12], [0.5; 12])).contains("found 19"));
        assert_eq!(with_input(Input::causal(4, [beyond - 1; 12])).check(&of(None)), Ok(()));
        assert!(found(Batch::of(plain().input)).contains("at least one loss term"));
    }

    #[test]
    fn segments_must_be_known_and_one_per_token() {
        let config = tiny_bert();
        assert_eq!(config.body.segments(), 2);
        let fits =
            |segments: &[u32]| with_input(Input { segments: Some(segments.into()), ..plain().input }).check(&config).is_ok();
        assert!(fits(&[0, 1, 1, 0, 0, 0, 1, 1, 1, 0, 0, 1]) && !fits(&[0, 1]) && !fits(&[2; 12]) && !fits(&[0; 13]));
    }

    #[test]
    fn batches_with_invalid_slots_or_segments_are_rejected() {
        let seeing = |sight| with_input(Input { sight, ..plain().input });
        let predicting = |slots: &[u32]| {
            Batch::of(plain().input).with_tokens(Some(slots.into()), vec![2; slots.len()], vec![0.5; slots.len()])
        };
        let (gpt, lstm) = (of(None), tiny_lstm());
        assert_eq!(plain().check(&lstm), Ok(()));
        let full = |lengths: &[usize]| seeing(Sight::Full(Some(lengths.into())));
        let placed = |positions: &[u32]| with_input(Input { positions: Some(positions.into()), ..plain().input });
        let queried = |query_only| with_input(Input { query_only, ..plain().input });
        let context = tiny_gpt().sizes.context as u32;
        for fine in [
            seeing(Sight::Full(None)),
            full(&[3, 1, 2, 3]),
            seeing(Sight::Prefix([0, 1, 2, 3].into())),
            seeing(Sight::Allowed([true; 36].into())),
            placed(&[context - 1; 12]),
            queried(2),
            predicting(&[]),
            predicting(&[0, 4, 11]),
        ] {
            assert_eq!(fine.check(&gpt), Ok(()));
        }
        let long = vec![1; context as usize + 3];
        let at_any_position = Input { positions: Some(vec![0; long.len()].into()), ..Input::causal(1, &long) };
        assert_eq!(Batch::of(at_any_position).with_tokens(Some([0].into()), [1], [1.0]).check(&gpt), Ok(()));
        let segmented = with_input(Input { segments: Some([0; 12].into()), ..plain().input });
        let short =
            |targets: &[u32], weights: &[f64]| Batch::of(plain().input).with_tokens(Some([1, 2].into()), targets, weights);
        for (wrong, config, expected) in [
            (predicting(&[4, 4]), &gpt, "in increasing order"),
            (predicting(&[12]), &gpt, "all below 12"),
            (short(&[2], &[0.5; 2]), &gpt, "2 tokens, 1 targets, 2 weights"),
            (short(&[2; 2], &[0.5; 3]), &gpt, "2 tokens, 2 targets, 3 weights"),
            (Batch::next(4, [1; 12], [2; 11], [0.5; 12]), &gpt, "12 tokens, 11 targets, 12 weights"),
            (full(&[3, 3, 3]), &gpt, "an attention mask"),
            (full(&[3, 3, 3, 4]), &gpt, "an attention mask"),
            (full(&[3, 3, 3, 0]), &gpt, "an attention mask"),
            (seeing(Sight::Full(None)), &lstm, "or this model"),
            (seeing(Sight::Prefix([1; 4].into())), &lstm, "or this model"),
            (seeing(Sight::Prefix([0, 1, 2, 4].into())), &gpt, "an attention mask"),
            (seeing(Sight::Allowed([true; 12].into())), &gpt, "an attention mask"),
            (queried(3), &gpt, "an attention mask"),
            (queried(1), &lstm, "or this model"),
            (placed(&[0; 12]), &lstm, "or this model"),
            (placed(&[0; 11]), &gpt, "a position below 9 for each of the 12 tokens"),
            (placed(&[context; 12]), &gpt, "a position below 9"),
            (segmented, &gpt, "segments"),
        ] {
            let found = wrong.check(config).unwrap_err();
            assert!(found.contains(expected), "{found}");
        }
    }

    #[test]
    fn classes_of_another_model_are_rejected() {
        let refused = |term, form| {
            let found = plain().with_classes(term).check(&of(form)).unwrap_err();
            assert_eq!(found, "found classes that do not match these sequences or this model");
        };
        refused(classes(1, 4, 3), None);
        refused(ClassLoss { head: 1, ..classes(1, 4, 3) }, Some(Form::Classify));
        for (wrong, form) in [
            (classes(2, 2, 3), Form::Classify),
            (classes(1, 4, 3), Form::Similar),
            (classes(4, 1, 3), Form::Similar),
            (classes(1, 4, 2), Form::Classify),
            (classes(1, 3, 3), Form::Classify),
            (classes(2, 2, 3), Form::Choose),
            (classes(2, 1, 2), Form::Choose),
            (classes(1, 0, 3), Form::Classify),
            (ClassLoss { slots: [0, 4, 8].into(), ..classes(1, 4, 3) }, Form::Classify),
            (ClassLoss { slots: [0, 4, 8, 12].into(), ..classes(1, 4, 3) }, Form::Classify),
            (ClassLoss { slots: [0, 4, 5, 11].into(), ..classes(1, 4, 3) }, Form::Classify),
            (ClassLoss { targets: [].into(), ..classes(1, 4, 3) }, Form::Classify),
            (ClassLoss { group: usize::MAX, ..classes(2, 2, 2) }, Form::Choose),
        ] {
            refused(wrong, Some(form));
        }
    }
}
