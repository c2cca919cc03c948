//! Fills masked tokens in a text.
//!
//! ```text
//! a model that fills masks     P(xᵢ | x̃), in each gap separately
//! a causal model               P(xᵢ = w | the rest) = P(x with w) / Σ_v P(x with v)       Bayes, one gap, over all tokens
//! ```

use gradus_io::exit::{self, Exit};
use gradus_text::{TextError, Tokenizer};

use crate::answers::Answers;
use crate::tasks::probabilities;
use crate::views::SEPARATOR;

/// The text that marks a gap.
pub const GAP: &str = "[MASK]";

/// The reason why a text could not be filled.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
#[non_exhaustive]
pub enum FillError {
    #[error(transparent)]
    Text(#[from] TextError),
    #[error("expected a text with a gap, {GAP}, found none: write {GAP} where a word is missing")]
    NoGap,
    #[error(
        "expected one gap, found {gaps}: a model that predicts the next token fills one gap, by Bayes' rule; give one gap at a \
         time"
    )]
    Gaps { gaps: usize },
    #[error("the text has {found} tokens, the model reads at most {room} at once: give a shorter text")]
    TooLong { found: usize, room: usize },
    #[error("expected {GAP} in each gap, found {own}, the mask token of the model's tokenizer: write {GAP} instead")]
    OwnMask { own: String },
    #[error(
        "expected finite probabilities, found infinite or NaN values: the model diverged in training or its file is damaged; \
         check it with `gradus verify`"
    )]
    NotFinite,
}

impl Exit for FillError {
    fn exit_code(&self) -> u8 {
        match self {
            FillError::NoGap | FillError::Gaps { .. } | FillError::OwnMask { .. } => exit::USAGE,
            _ => exit::FAILED,
        }
    }
}

/// A gap, with the probability of each token in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Gap {
    /// The position of the gap among the text's tokens, gaps included.
    pub at: usize,
    /// The probabilities by id: 0 for an id without a token or without a row in the model.
    pub probabilities: Vec<f64>,
    /// The ids that may fill the gap, in increasing order.
    tokens: Vec<u32>,
}

impl Gap {
    /// Returns a gap with the probabilities of these ids.
    fn new(at: usize, tokens: &[u32], found: &[f64]) -> Self {
        let mut probabilities = vec![0.0; tokens.last().map_or(0, |&last| last as usize + 1)];
        tokens.iter().zip(found).for_each(|(&id, &p)| probabilities[id as usize] = p);
        Gap { at, probabilities, tokens: tokens.to_vec() }
    }

    /// Returns the k most probable tokens, with their probabilities; ties go to the lower id.
    pub fn top(&self, k: usize) -> Vec<(u32, f64)> {
        let mut all: Vec<(u32, f64)> = self.tokens.iter().map(|&id| (id, self.probabilities[id as usize])).collect();
        all.sort_by(|a, b| b.1.total_cmp(&a.1));
        all.truncate(k);
        all
    }
}

/// The distributions over the tokens in a text's gaps.
pub struct Filled {
    /// The gaps, in the order of the text.
    pub gaps: Vec<Gap>,
    /// Whether the probabilities come from Bayes' rule.
    pub by_bayes: bool,
    /// With Bayes' rule: whether no token precedes the gap. Then all tokens have equal prior probability.
    pub is_first: bool,
}

/// Fills the gaps of a text. `reach` receives the number of the vocabulary's tokens tried so far.
///
/// # Errors
/// Returns an error for no gap or too many, a text that is too long or cannot be encoded, or a non-finite answer.
pub fn fill(model: &dyn Answers, tokenizer: &Tokenizer, text: &str, reach: &mut dyn FnMut(usize)) -> Result<Filled, FillError> {
    let gaps = text.matches(GAP).count();
    // Where a token includes the blank before its word, the blank before a gap is part of the gap.
    let (mut pieces, mut start) = (Vec::new(), 0);
    for (number, piece) in text.split(GAP).enumerate() {
        let read = if number < gaps && tokenizer.blanks_lead() { piece.trim_end() } else { piece };
        pieces.push(tokenizer.encode(read).map_err(|e| e.after(start))?);
        start += piece.len() + GAP.len();
    }
    let by_bayes = model.mask().is_none();
    match (gaps, model.mask().and_then(|mask| tokenizer.token(mask))) {
        (0, _) => return Err(FillError::NoGap),
        (gaps, _) if by_bayes && gaps > 1 => return Err(FillError::Gaps { gaps }),
        (_, Some(own)) if own != GAP && text.contains(&own) => return Err(FillError::OwnMask { own }),
        _ => {}
    }
    // The text gets one separator before it if the training texts had one.
    let separator =
        tokenizer.token_id(SEPARATOR).filter(|id| by_bayes && tokenizer.has_row(*id) && pieces[0].first() != Some(id));
    let opening = separator.map_or(0, |_| 1);
    let (mut tokens, mut at): (Vec<u32>, Vec<usize>) = (separator.into_iter().collect(), Vec::new());
    for (number, piece) in pieces.iter().enumerate() {
        if number > 0 {
            at.push(tokens.len());
            tokens.push(model.mask().unwrap_or(0));
        }
        tokens.extend(piece);
    }
    // The last token is only predicted by a model that predicts the next token.
    let found = tokens.len() - usize::from(by_bayes);
    if let Some(room) = model.room().filter(|&room| found > room) {
        return Err(FillError::TooLong { found, room });
    }
    // A vocabulary may have unused ids.
    let is_known = |id: &u32| tokenizer.has_row(*id) && tokenizer.token(*id).is_some_and(|token| !token.is_empty());
    let known: Vec<u32> = (0..tokenizer.vocab_size() as u32).filter(is_known).collect();
    let found: Vec<Vec<f64>> = model.cloze(&tokens, &at, &known, reach).iter().map(|logits| probabilities(logits)).collect();
    if by_bayes {
        reach(tokenizer.vocab_size()); // ids without a token count as tried
    }
    if found.iter().flatten().any(|p| !p.is_finite()) {
        return Err(FillError::NotFinite);
    }
    let is_first = by_bayes && at[0] == 0;
    let gaps = at.iter().zip(found).map(|(at, found)| Gap::new(at - opening, &known, &found)).collect();
    Ok(Filled { gaps, by_bayes, is_first })
}

#[cfg(test)]
mod tests {
    use gradus_model::check::{tiny_bert, tiny_gpt};
    use gradus_model::{Batch, LstmConfig, Model, ModelConfig, Sizes, Tree};
    use gradus_tensor::Tensor;

    use super::*;
    use crate::answers;

    /// Fills a text by the answers of a model.
    fn fill(model: &Model<Tensor>, tokenizer: &Tokenizer, text: &str, reach: &mut dyn FnMut(usize)) -> Result<Filled, FillError> {
        super::fill(&*answers::of(model, Some(tokenizer), 0).unwrap(), tokenizer, text, reach)
    }

    fn tokenizer() -> Tokenizer {
        let mut tokenizer = Tokenizer::characters(["abcd"]);
        for special in [SEPARATOR, "[CLS]", "[SEP]", "[MASK]"] {
            tokenizer.add_special(special).unwrap();
        }
        tokenizer
    }

    fn filled(config: ModelConfig, text: &str) -> Result<Filled, FillError> {
        fill(&Model::init(&config, 3), &tokenizer(), text, &mut |_| {})
    }

    fn bert() -> ModelConfig {
        ModelConfig { sizes: Sizes { vocab: 8, context: 9, width: 12 }, ..tiny_bert() }
    }

    #[test]
    fn an_unknown_character_is_located_in_the_whole_text() {
        let error = filled(bert(), "ab[MASK]cx").err().unwrap().to_string();
        assert!(error.starts_with("byte 9 of the text: the character 'x' is not among"), "{error}");
    }

    #[test]
    fn a_text_without_a_gap_is_an_error_of_usage() {
        let error = filled(bert(), "abc").err().unwrap();
        assert_eq!((error.exit_code(), FillError::NotFinite.exit_code()), (exit::USAGE, exit::FAILED));
    }

    #[test]
    fn every_gap_has_a_distribution() {
        let gpt = ModelConfig { sizes: Sizes { vocab: 8, context: 9, width: 12 }, ..tiny_gpt() };
        let lstm = ModelConfig::new(Sizes { vocab: 8, context: 9, width: 4 }, LstmConfig { units: 5, ..Default::default() });
        let one = [filled(bert(), "a[MASK]cd"), filled(gpt, "a[MASK]cd"), filled(lstm, "a[MASK]cd")].map(Result::unwrap);
        assert_eq!([false, true, true], one.each_ref().map(|filled| filled.by_bayes));
        for Filled { gaps, .. } in one {
            assert_eq!((gaps.len(), gaps[0].at), (1, 1));
            assert!((gaps[0].probabilities.iter().sum::<f64>() - 1.0).abs() < 1e-12 && gaps[0].probabilities.len() == 8);
            let top = gaps[0].top(3);
            assert!(top.len() == 3 && top[0].1 >= top[1].1 && top[1].1 >= top[2].1);
        }
        let two = filled(bert(), "[MASK]b[MASK]").unwrap();
        assert_eq!(two.gaps.iter().map(|gap| gap.at).collect::<Vec<_>>(), [0, 2]);
    }

    /// P(b | a _ c) of a causal model, from the probabilities of single texts.
    #[test]
    fn bayes_normalizes_the_probabilities_of_whole_texts() {
        let model: Model<Tensor> =
            Model::init(&ModelConfig { sizes: Sizes { vocab: 8, context: 9, width: 12 }, ..tiny_gpt() }, 3);
        let text = |word: u32| -> f64 {
            let batch = Batch::next(1, [4, 0, word], [0, word, 2], [1.0; 3]); // opened by the separator
            -model.token_losses(&batch).to_vec().iter().map(|&loss| f64::from(loss)).sum::<f64>()
        };
        let all: Vec<f64> = (0..8).map(|word| text(word).exp()).collect();
        let found = fill(&model, &tokenizer(), "a[MASK]c", &mut |_| {}).unwrap();
        for (word, p) in all.iter().enumerate() {
            assert!((found.gaps[0].probabilities[word] - p / all.iter().sum::<f64>()).abs() < 1e-5);
        }
    }

    #[test]
    fn a_separator_opens_a_text_once_and_a_first_gap_is_marked() {
        let config = || ModelConfig { sizes: Sizes { vocab: 8, context: 9, width: 12 }, ..tiny_gpt() };
        let [bare, opened] = ["a[MASK]c", "<story>a[MASK]c"].map(|text| filled(config(), text).unwrap());
        assert_eq!(bare.gaps[0].probabilities, opened.gaps[0].probabilities);
        assert_eq!((bare.gaps[0].at, opened.gaps[0].at, bare.is_first), (1, 2, false));
        let model = Model::init(&config(), 3);
        let (mut plain, mut reached) = (Tokenizer::characters(["abcd"]), 0);
        plain.add_special("[MASK]").unwrap();
        let alone = fill(&model, &plain, "[MASK]", &mut |done| reached = done).unwrap();
        assert!(alone.is_first && reached == plain.vocab_size());
        let equal = 1.0 / plain.vocab_size() as f64;
        assert!(alone.gaps[0].probabilities.iter().all(|p| (p - equal).abs() < 1e-12));
    }

    #[test]
    fn the_tokenizers_own_mask_is_not_accepted_as_a_gap() {
        let mut tokenizer = Tokenizer::characters(["abcd"]);
        ["<s>", "</s>", "<mask>"].into_iter().for_each(|special| _ = tokenizer.add_special(special).unwrap());
        let model = Model::init(&bert(), 3);
        let fill = |text| fill(&model, &tokenizer, text, &mut |_| {});
        assert_eq!(fill("a[MASK]c").unwrap().gaps.len(), 1);
        let error = fill("a<mask>[MASK]").err().unwrap().to_string();
        assert!(error.starts_with("expected [MASK] in each gap, found <mask>"), "{error}");
    }

    /// Where tokens begin with a blank, the blank before a gap is part of the gap.
    #[test]
    fn the_blank_before_a_gap_belongs_to_it_in_byte_level_bpe() {
        let tokens = (0..=255).map(|byte| Tokenizer::letter(byte).to_string()).collect();
        let mut tokenizer = Tokenizer::byte_bpe(gradus_text::ByteBpe::new(tokens, &[]).unwrap());
        for special in ["[CLS]", "[SEP]", "[MASK]"] {
            tokenizer.add_special(special).unwrap();
        }
        let model = Model::init(&ModelConfig { sizes: Sizes { vocab: 259, context: 9, width: 12 }, ..tiny_bert() }, 3);
        let gaps = fill(&model, &tokenizer, "ab [MASK] cd [MASK]", &mut |_| {}).unwrap().gaps;
        assert_eq!(gaps.iter().map(|gap| gap.at).collect::<Vec<_>>(), [2, 6]);
        let [plain, blank] = ["a[MASK]c", "a[MASK]c "].map(|text| fill(&model, &tokenizer, text, &mut |_| {}).unwrap().gaps);
        assert_ne!(plain, blank, "the blank at the end of the text is read");
    }

    /// Ids without a token, as in a vocabulary with unused ids, and ids without a row never fill a gap.
    #[test]
    fn ids_without_a_token_or_row_never_fill_a_gap() {
        let dir = tempfile::tempdir().unwrap();
        let vocabulary = r#"{"<unk>": 0, "a</w>": 1, "b</w>": 4, "<story>": 5, "[CLS]": 6, "[SEP]": 7, "[MASK]": 8}"#;
        std::fs::write(dir.path().join("vocab.json"), vocabulary).unwrap();
        std::fs::write(dir.path().join("merges.txt"), "#version: 0.2\n").unwrap();
        let decoder =
            r#"{"5": {"content": "<story>"}, "6": {"content": "[CLS]"}, "7": {"content": "[SEP]"}, "8": {"content": "[MASK]"}}"#;
        std::fs::write(dir.path().join("tokenizer_config.json"), format!(r#"{{"added_tokens_decoder": {decoder}}}"#)).unwrap();
        let mut tokenizer = Tokenizer::load(dir.path()).unwrap();
        tokenizer.add_special("<x>").unwrap();
        let tokenizer = tokenizer.with_rows(9);
        let configs: [ModelConfig; 2] = [
            ModelConfig { sizes: Sizes { vocab: 12, context: 9, width: 12 }, ..tiny_bert() },
            ModelConfig { sizes: Sizes { vocab: 12, context: 9, width: 12 }, ..tiny_gpt() },
        ];
        for config in configs {
            let filled = fill(&Model::init(&config, 3), &tokenizer, "a [MASK] b", &mut |_| {}).unwrap();
            let mut ids: Vec<u32> = filled.gaps[0].top(100).into_iter().map(|(id, _)| id).collect();
            ids.sort_unstable();
            assert_eq!(ids, [0, 1, 4, 5, 6, 7, 8]);
            assert!((filled.gaps[0].probabilities.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            assert_eq!(filled.gaps[0].probabilities[2..4], [0.0; 2]);
        }
    }

    #[test]
    fn texts_that_cannot_be_filled_are_rejected() {
        let message = |config: ModelConfig, text: &str| filled(config, text).err().unwrap().to_string();
        let gpt = || ModelConfig { sizes: Sizes { vocab: 8, context: 9, width: 12 }, ..tiny_gpt() };
        assert!(message(bert(), "abc").starts_with("expected a text with a gap, [MASK], found none"));
        assert!(message(gpt(), "[MASK]a[MASK]").starts_with("expected one gap, found 2"));
        assert!(message(bert(), "a[MASK]bcdabc").starts_with("the text has 8 tokens, the model reads at most 7 at once"));
        assert!(message(gpt(), "a[MASK]bcdabcda").starts_with("the text has 10 tokens, the model reads at most 9 at once"));
        let bare = Tokenizer::characters(["abcd"]);
        for config in [bert(), gpt()] {
            let broken = Model::init(&config, 1).map(|_, p: Tensor| p.full_like(*p.shape(), f32::NAN));
            let error = fill(&broken, &tokenizer(), "a[MASK]", &mut |_| {}).err().unwrap();
            assert!(error.to_string().starts_with("expected finite probabilities"), "{error}");
        }
        let model: Model<Tensor> = Model::init(&bert(), 1);
        let refused = |tokenizer: &Tokenizer| answers::of(&model, Some(tokenizer), 0).err().unwrap().to_string();
        let error = refused(&bare);
        assert!(error.starts_with("expected a tokenizer with [CLS]"));
        assert!(error.contains("found none of them: copy"), "{error}");
        let mut some = bare;
        ["[CLS]", "[SEP]", "[MASK]"].into_iter().for_each(|mark| _ = some.add_special(mark).unwrap());
        let error = refused(&some.with_rows(6));
        assert!(error.contains("found only [CLS], [SEP], [MASK] (without a row in the model): copy"), "{error}");
    }
}
