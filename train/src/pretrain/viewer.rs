//! Batches of views of a source's texts.

use gradus_model::{Batch, Model, Objective};
use gradus_report::metrics::Follows;
use gradus_tensor::Tensor;
use gradus_tensor::rng::Philox;
use gradus_text::Tokenizer;

use super::source::{Split, TextSource, Validation};
use super::{PretrainError, PretrainSettings, SettingsError};
use crate::answers::Masked;
use crate::hyperparameters::{RangeError, require};
use crate::tasks::largest;
use crate::views::{self, Corrupt, Draw, Given, Redraw, Scheme, SpecialTokens, Text, View, ViewPlan};

/// The number of rows of an evaluation batch.
const ROWS: usize = 16;
/// The number of texts that are searched for ends of sentences.
const LOOKED_AT: usize = 64;

/// The views of a run's texts.
pub struct Viewer {
    scheme: Box<dyn Scheme>,
    plan: ViewPlan,
    objective: Objective,
    seed: u64,
    special: Option<SpecialTokens>,
    segmented: bool,
    longest: usize,
    /// Whether each token ends a sentence.
    ends: Vec<bool>,
}

/// Returns the special tokens of a masked view, to be added to a vocabulary; none if the objective is the next token.
pub(super) fn specials(view: &ViewPlan) -> &'static [&'static str] {
    if view.is_next() { &[] } else { &SpecialTokens::BERT }
}

/// Returns the maximum number of tokens of a text in a masked view.
pub(super) fn room(settings: &PretrainSettings) -> usize {
    settings.model.sizes.context.saturating_sub(Corrupt::SPECIAL_SLOTS)
}

impl Viewer {
    /// Returns the viewer of these settings and a source's tokenizer.
    ///
    /// # Errors
    /// Returns an error if the tokenizer lacks the special tokens of a masked view, or if views are pairs and no sentence ends.
    pub fn new(settings: &PretrainSettings, source: &dyn TextSource) -> Result<Self, PretrainError> {
        let (plan, tokenizer) = (settings.view, source.tokenizer());
        let expected = format!("a tokenizer with the tokens {}", SpecialTokens::BERT.join(", "));
        let special = SpecialTokens::of(tokenizer);
        require("tokenizer", tokenizer.kind(), plan.is_next() || special.is_some(), expected).map_err(range)?;
        let pairs = plan.has_pairs();
        let viewer = Viewer {
            scheme: plan.scheme(source.separator(), special, room(settings)),
            plan,
            objective: settings.objective,
            seed: settings.seed,
            special,
            segmented: !plan.is_next() && settings.model.body.segments() > 0,
            longest: room(settings).saturating_sub(usize::from(pairs)),
            ends: (0..tokenizer.vocab_size() as u32).map(|id| ends_sentence(tokenizer, id)).collect(),
        };
        let mut first = 0..source.texts(Split::Train).min(LOOKED_AT);
        let is_cut = |number: usize| viewer.text(source, Split::Train, number, 0).sentences.len() > 1;
        let fits = !pairs || first.any(is_cut);
        let expected = "texts of several sentences, each ending with a token `.`, `!` or `?`, or --view masked, without pairs";
        require("view", "pairs", fits, expected).map_err(range)?;
        Ok(viewer)
    }

    /// Returns rows 0 .. `rows` of step `t`: a function of the seed, `t` and `rows`. Rows of a masked view are sorted by length
    /// to save padding.
    pub fn batch(&self, source: &dyn TextSource, t: u64, rows: usize) -> Batch {
        let view = |(row, (number, epoch)): (usize, (usize, u64))| {
            let text = self.text(source, Split::Train, number, epoch);
            let redraw = self.plan.corrupt().map_or(Redraw::Static, |corrupt| corrupt.redraw);
            let rng = redraw.rng(self.seed, &text, t, row);
            self.view(source, Split::Train, &text, rng)
        };
        let mut views: Vec<View> = source.drawn(t, rows).into_iter().enumerate().map(view).collect();
        if !self.plan.is_next() {
            views.sort_by_key(|view| view.tokens.len());
        }
        self.gathered(&views, self.objective)
    }

    /// Computes the mean of −log P over the targets in about `limit` tokens of held-out text, in nats, with one fixed mask per
    /// text in a masked view; and the loss and accuracy on pairs. `None` if no text is held out.
    pub fn validate(&self, source: &dyn TextSource, model: &Model<Tensor>, limit: usize) -> Option<Validation> {
        let numbers = source.evaluated(limit);
        let (mut total, mut tokens) = (0.0, 0);
        let mut follows = Follows::default();
        for numbers in numbers.chunks(ROWS) {
            let views: Vec<View> = numbers.iter().map(|&number| self.held_out(source, number)).collect();
            let batch = self.gathered(&views, Objective::TokenMean);
            let losses = if self.scheme.classes() > 0 {
                let (losses, logits) = model.losses_and_class_logits(&batch);
                told_apart(&logits, &views, &mut follows);
                losses
            } else {
                model.token_losses(&batch)
            };
            let weights = batch.tokens().flat_map(|tokens| tokens.weights.iter());
            for (loss, _) in losses.to_vec().into_iter().zip(weights).filter(|(_, weight)| **weight > 0.0) {
                total += f64::from(loss);
                tokens += 1;
            }
        }
        let follows = (follows.pairs > 0).then(|| Follows { nll: follows.nll / follows.pairs as f64, ..follows });
        let (bytes, limit) = if self.plan.is_next() { source.known(&numbers, tokens) } else { (None, None) };
        (tokens > 0).then(|| Validation { nll: total / tokens as f64, tokens, bytes, limit, follows })
    }

    /// Returns the number of held-out tokens that [`Viewer::validate`] reads with this limit ([`Scheme::evaluated`]).
    pub fn validated(&self, source: &dyn TextSource, limit: usize) -> u64 {
        source.evaluated(limit).into_iter().map(|number| self.scheme.evaluated(source.held_out_length(number)) as u64).sum()
    }

    /// Returns the view of a held-out text, with its fixed mask.
    fn held_out(&self, source: &dyn TextSource, number: usize) -> View {
        let text = self.text(source, Split::HeldOut, number, 0);
        self.view(source, Split::HeldOut, &text, Redraw::Static.rng(!self.seed, &text, 0, 0))
    }

    /// Returns the first held-out text with the most probable token in each slot with a target.
    pub fn sample(&self, source: &dyn TextSource, model: &Model<Tensor>) -> Option<Vec<u32>> {
        let mut view = self.held_out(source, *source.evaluated(1).first()?);
        let input = views::input(std::slice::from_ref(&view), self.segmented);
        let slots: Vec<u32> = view.targets.iter().map(|(slot, _)| *slot as u32).collect();
        for (slot, z) in slots.clone().into_iter().zip(views::logits(model, &input, slots)) {
            view.tokens[slot as usize] = largest(&z) as u32;
        }
        Some(view.tokens)
    }

    /// Returns the answers of a model that fills masks, with texts in the format of the run.
    pub fn masked<'m>(&'m self, model: &'m Model<Tensor>) -> Masked<'m> {
        let hide = |tokens: &[u32], at: &[usize]| self.scheme.eval_view(&self.cut(0, 0, tokens.to_vec()), at, Given::All);
        Masked::new(model, self.special.expect("a run that fills masks")).viewed_by(self.segmented, hide)
    }

    /// Returns the maximum number of tokens of a text that is viewed whole, and divided if views are pairs.
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// Returns views as one batch.
    fn gathered(&self, views: &[View], objective: Objective) -> Batch {
        views::batch(views, self.scheme.classes(), self.segmented, objective)
    }

    fn view(&self, source: &dyn TextSource, part: Split, text: &Text, rng: Philox) -> View {
        let other = |rng: &mut Philox| {
            // Draws a text other than this one, if there is another.
            let (own, others) = (text.number as usize, source.texts(part).saturating_sub(1).max(1));
            let drawn = rng.below(others as u64) as usize;
            let number = if drawn >= own && source.texts(part) > 1 { drawn + 1 } else { drawn };
            self.text(source, part, number, text.epoch)
        };
        self.scheme.train_view(text, &mut Draw { rng, other: &other })
    }

    fn text(&self, source: &dyn TextSource, part: Split, number: usize, epoch: u64) -> Text {
        self.cut(number as u64, epoch, source.text(part, number))
    }

    /// Returns a text with the ends of its sentences.
    fn cut(&self, number: u64, epoch: u64, tokens: Vec<u32>) -> Text {
        let ends = |at: &usize| *at == tokens.len() || self.ends[tokens[at - 1] as usize];
        Text { number, epoch, sentences: (1..=tokens.len()).filter(ends).collect(), tokens }
    }
}

/// Adds to `sum` the −log P of the classes of these views under the logits (rows, classes), and counts pairs and right answers.
fn told_apart(logits: &Tensor, views: &[View], sum: &mut Follows) {
    let log_p = logits.log_softmax();
    for (row, class) in views.iter().enumerate().filter_map(|(row, view)| Some((row, view.class?))) {
        let of_row = log_p.slice(0, row..row + 1).to_vec();
        sum.nll -= f64::from(of_row[class]);
        sum.right += u64::from(largest(&of_row.iter().map(|&p| f64::from(p)).collect::<Vec<_>>()) == class);
        sum.pairs += 1;
    }
}

fn range(error: RangeError) -> PretrainError {
    SettingsError::from(error).into()
}

/// Returns whether a token ends a sentence.
fn ends_sentence(tokenizer: &Tokenizer, id: u32) -> bool {
    let token = tokenizer.token(id).unwrap_or_default();
    // GPT-1's BPE marks the end of a word, GPT-2's the blank before it.
    let token = token.strip_suffix("</w>").unwrap_or(&token);
    [".", "!", "?"].contains(&token.strip_prefix('Ġ').unwrap_or(token))
}

#[cfg(test)]
mod tests {
    use gradus_model::Sight;
    use gradus_text::{ByteBpe, Cleaning, WordPiece};

    use super::*;
    use crate::pretrain::world::WorldSource;
    use crate::pretrain::{PretrainControl, PretrainOptions, begin};

    #[test]
    fn rows_of_a_step_are_sorted_by_length() {
        let options = PretrainOptions { view: Some("masked".into()), ..PretrainOptions::micro_world() };
        let settings = options.settle().unwrap();
        let source = WorldSource::new(&settings, None).unwrap();
        let viewer = Viewer::new(&settings, &source).unwrap();
        for t in 1..4 {
            let batch = viewer.batch(&source, t, 16);
            let Sight::Full(Some(lengths)) = &batch.input.sight else { panic!("rows of their own lengths") };
            assert!(lengths.is_sorted() && lengths.first() < lengths.last(), "{lengths:?}");
            let texts = source.drawn(t, 16).into_iter().map(|(number, _)| source.text(Split::Train, number).len());
            let mut expected: Vec<usize> = texts.map(|n| n + Corrupt::SPECIAL_SLOTS).collect();
            expected.sort_unstable();
            assert_eq!(*lengths, expected.into());
        }
    }

    /// The longest story has 206 tokens; a masked view has a slot more at each end, a causal view at one end.
    #[test]
    fn a_context_must_hold_the_longest_story_in_its_view() {
        for (view, context, least) in [("masked", 207, "at least 208"), ("next", 206, "at least 207")] {
            let options = PretrainOptions { view: Some(view.into()), context: Some(context), ..PretrainOptions::micro_world() };
            let dir = tempfile::tempdir().unwrap();
            let run = crate::run::Control::new(&gradus_io::progress::Silent);
            let control = PretrainControl::new(run, dir.path());
            let error = begin(options.settle().unwrap(), None, &dir.path().join("run"), &control).err().unwrap().to_string();
            assert!(error.starts_with(&format!("--context {context}: expected {least}, to hold")), "{error}");
        }
    }

    /// P = (0.8, 0.2), (0.5, 0.5) and (0.1, 0.9), and the classes 0, none, 0.
    #[test]
    fn predictions_of_pairs_are_counted() {
        let logits = Tensor::new([3, 2], [0.8_f32, 0.2, 0.5, 0.5, 0.1, 0.9].map(f32::ln).to_vec());
        let views = [Some(0), None, Some(0)].map(|class| View { class, ..View::default() });
        let mut sum = Follows::default();
        told_apart(&logits, &views, &mut sum);
        assert_eq!((sum.right, sum.pairs), (1, 2));
        assert!((sum.nll + f64::ln(0.8) + f64::ln(0.1)).abs() < 1e-6, "{sum:?}");
    }

    #[test]
    fn sentence_ends_are_found_in_every_kind_of_vocabulary() {
        let ends = |tokenizer: &Tokenizer| -> Vec<String> {
            let ends = (0..tokenizer.vocab_size() as u32).filter(|&id| ends_sentence(tokenizer, id));
            ends.map(|id| tokenizer.token(id).unwrap()).collect()
        };
        let pieces = ["[UNK]", "a", ".", "##.", "?", ".a", "!"].map(str::to_owned).into();
        assert_eq!(ends(&Tokenizer::word_piece(WordPiece::new(pieces, Cleaning::ALL).unwrap())), [".", "?", "!"]);
        let tokens = (0..=255).map(|byte| Tokenizer::letter(byte).to_string()).chain(["Ġ.".to_owned()]).collect();
        let bytes = ByteBpe::new(tokens, &[("Ġ".to_owned(), ".".to_owned())]).unwrap();
        assert_eq!(ends(&Tokenizer::byte_bpe(bytes)), ["!", ".", "?", "Ġ."]);
    }
}
