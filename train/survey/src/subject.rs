//! A run to evaluate, with its stories.

use std::convert::Infallible;
use std::path::Path;

use gradus_io::progress::Monitor;
use gradus_tensor::rng::Philox;
use gradus_train::answers::Causal;
use gradus_train::pretrain::{PretrainError, PretrainManifest, Split, Stored};
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
    /// The run.
    pub run: Stored,
    /// The world of the run.
    pub world: World,
    /// The world's words as tokens of the run.
    pub lexicon: Lexicon,
    /// The held-out stories.
    pub stories: Vec<Story>,
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
        let run = Stored::read(dir, dir, monitor)?;
        let world = World::named(run.manifest.settings.retold);
        let lexicon = Lexicon::of(&*run.source)?;
        let stories = Story::held_out(&*run.source, &world, &lexicon, stories)?;
        Ok(Subject { run, world, lexicon, stories })
    }

    /// Returns whether the model predicts a hidden word by Bayes' rule, with one pass per word of the world.
    pub fn is_by_bayes(&self) -> bool {
        self.run.manifest.settings.view.is_next()
    }

    /// Returns the model for evaluation.
    pub fn model(&self) -> WordAnswers<'_> {
        let (model, lexicon) = (&self.run.trainer.params, &self.lexicon);
        if self.is_by_bayes() {
            let separator = self.run.source.separator();
            return WordAnswers { model: Box::new(Causal::new(model)), separator, lexicon };
        }
        // A length that is independent of the story: the length of a shorter story would reveal its end.
        let length = self.world.properties().max_tokens.min(self.run.viewer.longest());
        WordAnswers { model: Box::new(self.run.viewer.masked(model).with_length(length)), separator: None, lexicon }
    }

    /// Draws `n` different places at random from those of all stories, as a function of the seed.
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

    /// Returns all places of each story.
    pub fn everywhere(&self) -> Vec<Vec<usize>> {
        self.stories.iter().map(|story| (0..story.words.len()).collect()).collect()
    }

    /// Computes U of counts in the training stories: of no neighbours, of one word on each side, of two.
    pub fn counted(&self) -> Vec<Understanding> {
        let source = &*self.run.source;
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
