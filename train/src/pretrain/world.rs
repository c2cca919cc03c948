//! The text source of a run on the micro-world: stories, and the exact smallest loss on them.

use std::sync::LazyLock;

use gradus_data::Rows;
use gradus_model::KneserNey;
use gradus_report::Baseline;
use gradus_tensor::rng::Philox;
use gradus_text::{BpeTrainer, Tokenizer};
use gradus_world::{Story, World};
use rayon::prelude::*;

use super::source::{Split, TextSource};
use super::{PretrainError, PretrainSettings, viewer};
use crate::run::RunError;
use crate::views::SEPARATOR;

/// The number of training stories.
const TRAINING_STORIES: usize = 60_000;
/// The number of held-out stories.
pub const HELD_OUT_STORIES: usize = 500;
/// The vocabulary size of the world's BPE: enough for every word to be one token.
pub const VOCABULARY: usize = 1000;
/// Returns the least context of a run on the micro-world, which holds every story and its separator.
pub fn context(retold: bool) -> usize {
    if retold { 235 } else { 207 }
}

/// A text source of stories, one per row, between separators: training stories, in their order, and held-out stories.
pub struct WorldSource {
    tokenizer: Tokenizer,
    separator: u32,
    seed: u64,
    /// Whether every token is predicted.
    predicts_all: bool,
    world: World,
    train: Rows,
    held_out: Rows,
    /// The held-out stories.
    stories: Vec<Story>,
    /// The total loss of 5-grams on the held-out stories, in nats; computed on first use.
    baseline: LazyLock<f64, Box<dyn FnOnce() -> f64 + Send>>,
}

impl WorldSource {
    /// Generates the stories of a seed and trains their tokenizer, unless one is given.
    pub fn new(settings: &PretrainSettings, tokenizer: Option<Tokenizer>) -> Result<Self, PretrainError> {
        let world = World::named(settings.retold);
        let tell = |stream, n| world.corpus(&mut Philox::with_stream(settings.seed, stream), n);
        let (train, stories) = (tell(1, TRAINING_STORIES), tell(2, HELD_OUT_STORIES));
        let tokenizer = match tokenizer {
            Some(t) => t,
            None => {
                let mut trainer = BpeTrainer::new(VOCABULARY);
                trainer.specials.push(SEPARATOR.into());
                trainer.specials.extend(viewer::specials(&settings.view).iter().map(|&special| special.to_owned()));
                let mut words = trainer.word_counts();
                // All stories are one text, whose words the threads count in parallel; no word crosses the end of a line.
                words.add(&train.iter().map(|s| s.text.as_str()).collect::<Vec<_>>().join("\n"));
                trainer.train(&words, |_, _| {})?
            }
        };
        let separator = tokenizer.token_id(SEPARATOR).ok_or_else(|| RunError::Resume {
            problem: format!(
                "expected the token {SEPARATOR}, which opens a story, in the run's tokenizer; put the tokenizer of the run back"
            ),
        })?;
        let encode = |stories: &[Story]| -> Result<Vec<Vec<u32>>, PretrainError> {
            stories.par_iter().map(|s| Ok(tokenizer.encode(&s.text)?)).collect()
        };
        let (mut train_ids, held_out_ids) = (encode(&train)?, encode(&stories)?);
        let baseline = baseline(train_ids.clone(), held_out_ids.clone(), tokenizer.vocab_size());
        let stop = tokenizer.encode(".")?.first().copied();
        if settings.shuffle_sentences {
            train_ids = shuffled(train_ids, stop, settings.seed);
            train_ids.iter_mut().for_each(|ids| ids.truncate(settings.model.sizes.context - 1));
        }
        train_ids = opened_anywhere(train_ids, stop, settings.seed);
        let rows = |ids| Rows::new(ids, separator, true, settings.model.sizes.context, tokenizer.vocab_size());
        let (train, held_out) = (rows(train_ids)?, rows(held_out_ids)?);
        let predicts_all = settings.view.is_next();
        Ok(WorldSource { tokenizer, separator, seed: settings.seed, predicts_all, world, train, held_out, stories, baseline })
    }

    fn part(&self, part: Split) -> &Rows {
        match part {
            Split::Train => &self.train,
            Split::HeldOut => &self.held_out,
        }
    }
}

/// Computes Σ −log P of held-out texts by Kneser and Ney's 5-grams, on first use.
fn baseline(train: Vec<Vec<u32>>, held_out: Vec<Vec<u32>>, vocab: usize) -> LazyLock<f64, Box<dyn FnOnce() -> f64 + Send>> {
    LazyLock::new(Box::new(move || {
        let counted = KneserNey::train(5, train.iter().map(Vec::as_slice), vocab);
        held_out.iter().map(|text| counted.nll(text)).sum()
    }))
}

/// One story in this many begins at a random sentence.
pub const OPENED_ANYWHERE: usize = 4;

/// Begins some stories at a random sentence, so that the model also learns single sentences, as in tasks.
fn opened_anywhere(mut stories: Vec<Vec<u32>>, stop: Option<u32>, seed: u64) -> Vec<Vec<u32>> {
    let mut rng = Philox::with_stream(seed, 4);
    for story in stories.iter_mut().step_by(OPENED_ANYWHERE) {
        let ends: Vec<usize> = (1..story.len()).filter(|&at| Some(story[at - 1]) == stop).collect();
        if !ends.is_empty() {
            story.drain(..ends[rng.below(ends.len() as u64) as usize]);
        }
    }
    stories
}

/// Shuffles the sentences of all stories, and cuts them into texts with the same numbers of sentences as the stories. A sentence
/// ends with a full stop.
fn shuffled(stories: Vec<Vec<u32>>, stop: Option<u32>, seed: u64) -> Vec<Vec<u32>> {
    let sentences = |story: &[u32]| story.split_inclusive(|id| Some(*id) == stop).map(<[u32]>::to_vec).collect::<Vec<_>>();
    let split: Vec<Vec<Vec<u32>>> = stories.iter().map(|story| sentences(story)).collect();
    let counts: Vec<usize> = split.iter().map(Vec::len).collect();
    let mut all: Vec<Vec<u32>> = split.into_iter().flatten().collect();
    Philox::with_stream(seed, 3).shuffle(&mut all);
    let mut all = all.into_iter();
    counts.into_iter().map(|n| all.by_ref().take(n).flatten().collect()).collect()
}

impl TextSource for WorldSource {
    fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }
    fn tokens(&self) -> u64 {
        self.train.predicted() as u64
    }
    fn tokens_per_step(&self, batch: usize) -> f64 {
        batch as f64 * self.train.predicted() as f64 / self.train.len() as f64
    }
    fn digest(&self) -> String {
        // Digests of the first world do not contain its name.
        let world = if self.world == World::default() { "world".into() } else { self.world.name() };
        format!("{world}-{}-{}", self.seed, self.tokenizer.fingerprint())
    }
    fn texts(&self, part: Split) -> usize {
        self.part(part).len()
    }
    fn text(&self, part: Split, number: usize) -> Vec<u32> {
        self.part(part).sequence(number).to_vec()
    }
    fn held_out_length(&self, number: usize) -> usize {
        self.held_out.sequence(number).len()
    }
    fn drawn(&self, t: u64, rows: usize) -> Vec<(usize, u64)> {
        let (first, all) = (t.saturating_sub(1).wrapping_mul(rows as u64), self.train.len() as u64);
        (0..rows as u64).map(|row| first.wrapping_add(row)).map(|at| ((at % all) as usize, at / all)).collect()
    }
    /// Returns the first stories if all of their tokens are predicted, else stories that are spread evenly.
    fn evaluated(&self, limit: usize) -> Vec<usize> {
        let all = self.held_out.len();
        let mean = self.held_out.predicted().div_ceil(all.max(1));
        if self.predicts_all {
            return (0..limit.div_ceil(mean).clamp(1, all)).collect();
        }
        let n = limit.div_ceil(self.held_out.sequence(0).len().max(1)).clamp(1, all);
        (0..n).map(|i| i * all / n).collect()
    }
    fn known(&self, texts: &[usize], tokens: u64) -> (Option<u64>, Option<f64>) {
        let stories = || texts.iter().map(|&number| &self.stories[number]);
        let limit = stories().map(|s| -s.log_prob).sum::<f64>() / tokens as f64;
        (Some(stories().map(|s| s.text.len() as u64).sum()), Some(limit))
    }
    fn separator(&self) -> Option<u32> {
        Some(self.separator)
    }
    fn prompt(&self) -> Vec<u32> {
        vec![self.separator]
    }
    fn baselines(&self) -> Vec<Baseline> {
        let nll = *self.baseline / self.held_out.predicted() as f64;
        vec![Baseline { name: "Kneser–Ney 5-gram".into(), nll }]
    }
}

#[cfg(test)]
mod tests {
    use gradus_model::check::tiny_gpt;
    use gradus_model::{Model, ModelConfig, Sizes};

    use super::*;
    use crate::pretrain::{PretrainOptions, Viewer};

    /// Sentences of one, two and three tokens, each with a stop (9) at its end.
    const STORY: [u32; 9] = [1, 9, 2, 2, 9, 3, 3, 3, 9];

    #[test]
    fn the_least_context_is_that_of_the_longest_story() {
        for retold in [false, true] {
            assert_eq!(context(retold), World::named(retold).properties().max_tokens + 1);
            assert!(PretrainOptions::world_context(retold) >= context(retold));
        }
    }

    #[test]
    fn evaluations_read_the_counted_number_of_tokens() {
        let mut tokenizer = Tokenizer::bytes();
        let separator = tokenizer.add_special(SEPARATOR).unwrap();
        let config = ModelConfig { sizes: Sizes { vocab: tokenizer.vocab_size(), context: 2000, width: 12 }, ..tiny_gpt() };
        let world = World::named(false);
        let stories = world.corpus(&mut Philox::with_stream(1, 2), 5);
        let ids = stories.iter().map(|story| tokenizer.encode(&story.text).unwrap()).collect();
        let rows = Rows::new(ids, separator, true, config.sizes.context, config.sizes.vocab).unwrap();
        let (train, held_out, baseline) = (rows.clone(), rows, baseline(Vec::new(), Vec::new(), config.sizes.vocab));
        let source = WorldSource { tokenizer, separator, seed: 1, predicts_all: true, world, train, held_out, stories, baseline };
        let settings = PretrainOptions::micro_world().settle().unwrap();
        let (viewer, model) = (Viewer::new(&settings, &source).unwrap(), Model::init(&config, 1));
        for limit in [1, 300, 1000, usize::MAX] {
            assert_eq!(viewer.validate(&source, &model, limit).unwrap().tokens, viewer.validated(&source, limit), "{limit}");
        }
    }

    #[test]
    fn some_stories_begin_at_a_later_sentence() {
        let stories = opened_anywhere(vec![STORY.to_vec(); 400], Some(9), 1);
        for (at, story) in stories.iter().enumerate() {
            assert!(STORY.ends_with(story), "{story:?}");
            if at % OPENED_ANYWHERE > 0 {
                assert_eq!(story.len(), STORY.len());
            }
        }
        let opened = stories.iter().step_by(OPENED_ANYWHERE);
        let lengths: std::collections::BTreeSet<usize> = opened.map(Vec::len).collect();
        // A story opens after its first or second sentence: the rest is never empty.
        assert_eq!(lengths.into_iter().collect::<Vec<_>>(), [4, 7]);
        assert_eq!(opened_anywhere(vec![vec![1, 2]], Some(9), 1), [[1, 2]]);
    }

    #[test]
    fn shuffled_stories_keep_their_sentences_and_their_numbers() {
        let stories: Vec<Vec<u32>> = (0..20).map(|i| vec![i, 99, i + 50, i, 99]).collect();
        let mixed = shuffled(stories.clone(), Some(99), 1);
        assert_eq!(mixed[..2], [vec![58, 8, 99, 68, 18, 99], vec![50, 0, 99, 15, 99]], "of other stories");
        let sentences = |stories: &[Vec<u32>]| {
            let mut all: Vec<Vec<u32>> =
                stories.iter().flat_map(|story| story.split_inclusive(|&id| id == 99).map(<[u32]>::to_vec)).collect();
            all.sort();
            all
        };
        assert_eq!(sentences(&mixed), sentences(&stories));
        assert!(mixed.iter().all(|story| story.iter().filter(|&&id| id == 99).count() == 2));
    }
}
