//! A run to evaluate, with its stories.

use std::convert::Infallible;
use std::path::Path;

use gradus_io::progress::Monitor;
use gradus_tensor::rng::Philox;
use gradus_train::answers::{Answers, Causal, Counts};
use gradus_train::pretrain::{Counted, PretrainError, PretrainManifest, Split, Stored, TextSource};
use gradus_train::run::Manifest;
use gradus_world::World;

use crate::answers::WordAnswers;
use crate::counts::Window;
use crate::error::SurveyError;
use crate::lexicon::Lexicon;
use crate::measure::{Understanding, divergences, understanding};
use crate::story::Story;

/// The maximum number of words on each side that are counted.
pub(crate) const REACH: usize = 2;

/// A run on the micro-world, with its held-out stories.
pub struct Subject {
    run: Run,
    /// The world of the run.
    pub world: World,
    /// The world's words as tokens of the run.
    pub lexicon: Lexicon,
    /// The held-out stories.
    pub stories: Vec<Story>,
}

/// A run.
enum Run {
    Network(Box<Stored>),
    Counts(Box<Counted>),
}

impl Run {
    fn source(&self) -> &dyn TextSource {
        match self {
            Run::Network(run) => &*run.source,
            Run::Counts(run) => &*run.source,
        }
    }
}

impl Subject {
    /// Reads a run and its first `stories` held-out stories.
    ///
    /// # Errors
    /// Returns an error if there is no run, if it is damaged, or if it is not on the micro-world.
    pub fn read(dir: &Path, stories: usize, monitor: &dyn Monitor) -> Result<Self, SurveyError> {
        let manifest = PretrainManifest::read(dir).map_err(PretrainError::from)?;
        if manifest.corpus.is_some() {
            return Err(SurveyError::Corpus { run: dir.to_owned() });
        }
        let run = match manifest.settings.order {
            Some(_) => Run::Counts(Box::new(Counted::read(dir, dir, monitor)?)),
            None => Run::Network(Box::new(Stored::read(dir, dir, monitor)?)),
        };
        let world = World::named(manifest.settings.retold);
        let lexicon = Lexicon::of(run.source())?;
        let stories = Story::held_out(run.source(), &world, &lexicon, stories)?;
        Ok(Subject { run, world, lexicon, stories })
    }

    /// Returns the number of steps that the model was trained for; 0 for counts.
    pub fn done(&self) -> u64 {
        if let Run::Network(run) = &self.run { run.trainer.done() } else { 0 }
    }

    /// Returns whether the model predicts a hidden word by Bayes' rule, with one pass per word of the world.
    pub fn is_by_bayes(&self) -> bool {
        if let Run::Network(run) = &self.run { run.manifest.settings.view.is_next() } else { true }
    }

    /// Returns the model for evaluation.
    pub fn model(&self) -> WordAnswers<'_> {
        let (lexicon, separator) = (&self.lexicon, self.run.source().separator());
        let (model, separator): (Box<dyn Answers + '_>, _) = match &self.run {
            Run::Counts(run) => (Box::new(Counts(&run.counts)), separator),
            Run::Network(run) if self.is_by_bayes() => (Box::new(Causal::new(&run.trainer.params)), separator),
            Run::Network(run) => {
                // A length that is independent of the story: the length of a shorter story would reveal its end.
                let length = self.world.properties().max_tokens.min(run.viewer.longest());
                (Box::new(run.viewer.masked(&run.trainer.params).with_length(length)), None)
            }
        };
        WordAnswers { model, separator, lexicon }
    }

    /// Draws `n` different positions at random from those of all stories, as a function of the seed.
    pub fn drawn(&self, n: usize, seed: u64) -> Vec<Vec<usize>> {
        let everywhere = self.everywhere();
        let mut all: Vec<(usize, usize)> =
            everywhere.iter().enumerate().flat_map(|(story, at)| at.iter().map(move |&at| (story, at))).collect();
        Philox::new(seed).shuffle(&mut all);
        let mut drawn = vec![Vec::new(); self.stories.len()];
        all.into_iter().take(n).for_each(|(story, at)| drawn[story].push(at));
        drawn.iter_mut().for_each(|at| at.sort_unstable());
        drawn
    }

    /// Returns all positions of each story.
    pub fn everywhere(&self) -> Vec<Vec<usize>> {
        self.stories.iter().map(|story| (0..story.words.len()).collect()).collect()
    }

    /// Computes U of counts in the training stories: of no neighbours, of one word on each side, of two.
    pub fn counted(&self) -> Vec<Understanding> {
        let source = self.run.source();
        let words = |number| source.text(Split::Train, number).into_iter().map(|token| self.lexicon.of_token(token)).collect();
        let train: Vec<Vec<usize>> = (0..source.texts(Split::Train)).map(words).collect();
        let all = self.everywhere();
        let of_reach = |reach| {
            let window = Window::count(train.iter().map(Vec::as_slice), self.lexicon.len(), reach);
            let answer = |story: &[usize], at: &[usize]| Ok(at.iter().map(|&at| window.answer(story, at)).collect());
            let found = divergences::<Infallible>(&self.stories, &all, answer).unwrap_or_else(|never| match never {});
            understanding(&self.stories, &all, &found)
        };
        (0..=REACH).map(of_reach).collect()
    }
}
