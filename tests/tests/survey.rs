//! The plane of U and G: the exact answers are its origin, and a model's answers follow from its own logits.

use std::convert::Infallible;
use std::path::Path;

use gradus_autograd::Tape;
use gradus_io::progress::Silent;
use gradus_model::{Input, KneserNey, Tree};
use gradus_survey::{Lexicon, Story, Subject, Window, WordAnswers, divergences, generation, told, understanding};
use gradus_train::answers::fill;
use gradus_train::answers::{self, Causal};
use gradus_train::pretrain::{Counted, PretrainControl, PretrainOptions, Split, Stored, begin};
use gradus_train::run::Control;
use gradus_train::views::SEPARATOR;
use gradus_train::views::{Given, SpecialTokens, Text};
use gradus_world::World;

/// A model that answers with the world's own probabilities.
struct Exact<'l>(&'l World, &'l Lexicon);

impl Exact<'_> {
    fn dense(&self, all: impl IntoIterator<Item = (usize, f64)>) -> Vec<f64> {
        let mut p = vec![0.0; self.1.len()];
        all.into_iter().for_each(|(word, share)| p[word] = share);
        p
    }

    /// Computes the answers by Bayes' rule from the probability of the story with each word of the world, unlike the tested code.
    fn cloze(&self, story: &[usize], places: &[usize]) -> Vec<Vec<f64>> {
        let of_place = |&at: &usize| {
            let with = |word: usize| {
                let whole = [&story[..at], &[word], &story[at + 1..]].concat();
                self.0.read(&self.1.text(&whole)).map_or(f64::NEG_INFINITY, |story| story.log_prob)
            };
            let all: Vec<f64> = (0..self.1.len()).map(with).collect();
            let most = all.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = all.iter().map(|log_p| (log_p - most).exp()).sum();
            all.iter().map(|log_p| (log_p - most).exp() / sum).collect()
        };
        places.iter().map(of_place).collect()
    }

    fn next(&self, beginnings: &[&[usize]]) -> Vec<Vec<f64>> {
        let after = |words: &&[usize]| self.0.next_words(&self.1.text(words)).unwrap();
        let named = |(word, p): (String, f64)| (self.1.number(&word).unwrap(), p);
        beginnings.iter().map(|words| self.dense(after(words).into_iter().map(named))).collect()
    }

    fn along(&self, story: &[usize]) -> Vec<Vec<f64>> {
        self.next(&(0..story.len()).map(|at| &story[..at]).collect::<Vec<_>>())
    }
}

fn run(dir: &Path, system: &str, pairs: Option<bool>) -> Stored {
    let options = PretrainOptions {
        system: Some(system.into()),
        layers: Some(1),
        width: Some(16),
        heads: Some(2),
        steps: Some(4),
        batch: Some(4),
        eval_tokens: Some(200),
        pairs,
        init_std: Some(0.3), // makes answers that differ
        ..PretrainOptions::micro_world()
    };
    let control = PretrainControl::new(Control::new(&Silent), dir);
    let run = dir.join(format!("{system}-{pairs:?}"));
    begin(options.settle().unwrap(), None, &run, &control).unwrap();
    Stored::read(&run, dir, &Silent).unwrap()
}

/// Returns answers without an error.
fn sure(answers: Vec<Vec<f64>>) -> Result<Vec<Vec<f64>>, Infallible> {
    Ok(answers)
}

#[test]
fn exact_answers_have_distance_0_and_models_follow_their_logits() {
    let dir = tempfile::tempdir().unwrap();
    let (gpt, bert) = (run(dir.path(), "gpt", None), run(dir.path(), "bert", Some(false)));
    let (world, lexicon) = (World::default(), Lexicon::of(&*gpt.source).unwrap());
    let stories = Story::held_out(&*gpt.source, &world, &lexicon, 4).unwrap();
    let places: Vec<Vec<usize>> = stories.iter().map(|story| (0..story.words.len()).collect()).collect();

    let exact = Exact(&world, &lexicon);
    let u = |found: Vec<Vec<f64>>| understanding(&stories, &places, &found).given_all.mean;
    let found = u(divergences(&stories, &places, |story, at| sure(exact.cloze(story, at))).unwrap());
    assert!(found.abs() < 1e-12, "{found}");
    let left = generation(&stories, &places, |story| sure(exact.along(story))).unwrap();
    assert!(left.before.mean.abs() < 1e-12 && left.left_only.mean > 0.1, "what follows counts: {left:?}");
    assert_eq!(left.left_only, left.least_left_only, "no answers from the words before are nearer");
    let some: Vec<Vec<usize>> = stories.iter().map(|_| vec![7, 30]).collect();
    let in_some = generation(&stories, &some, |story| sure(exact.along(story))).unwrap();
    assert_eq!(
        (in_some.before, in_some.left_only.places),
        (left.before, 2 * stories.len()),
        "G in all places, left only in these"
    );
    assert_eq!(told(&world, &lexicon, (20, 1), |beginnings| sure(exact.next(beginnings))), Ok(20));

    // Counts of neighbouring words give better answers than counts of single words, but not exact ones.
    let train: Vec<Vec<usize>> =
        (0..5000).map(|n| gpt.source.text(Split::Train, n).iter().map(|&id| lexicon.of_token(id)).collect()).collect();
    let [none, one, two] = [0, 1, 2].map(|reach| {
        let window = Window::count(train.iter().map(Vec::as_slice), lexicon.len(), reach);
        let answer = |story: &[usize], at: &[usize]| sure(at.iter().map(|&at| window.answer(story, at)).collect());
        u(divergences(&stories, &places, answer).unwrap())
    });
    assert!(none > 3.0 && one < 1.3 && two < one && two > 0.3, "{none} {one} {two}");

    by_bayes(&gpt, &lexicon, &stories[0]);
    by_counts(dir.path());
    by_masks(&bert, &stories[0]);
    in_pairs(&run(dir.path(), "bert", None), &stories[0]);
}

/// Compares P(word at 50 | the rest) from whole texts, and P(word | beginning) from only a beginning.
fn by_bayes(gpt: &Stored, lexicon: &Lexicon, story: &Story) {
    let (model, separator) = (&gpt.trainer.params, gpt.source.tokenizer().token_id(SEPARATOR).unwrap());
    let causal = WordAnswers { model: Box::new(Causal::new(model)), separator: Some(separator), lexicon };
    let log_softmax = |tokens: Vec<u32>| -> Vec<Vec<f64>> {
        let tape = Tape::off();
        let logits = model.constants(&tape).logits(&Input::causal(1, tokens.clone()));
        let vocab = logits.shape()[2];
        let all: Vec<f64> = logits.value().to_vec().into_iter().map(f64::from).collect();
        let row = |z: &[f64]| {
            let lse = z.iter().map(|z| z.exp()).sum::<f64>().ln();
            z.iter().map(|z| z - lse).collect()
        };
        all.chunks(vocab).map(row).collect()
    };
    let (at, words) = (50, &story.words);
    let with = |word: usize| -> f64 {
        let mut words = words.clone();
        words[at] = word;
        let tokens = [&[separator], &lexicon.encode(&words)[..], &[separator]].concat();
        let log_p = log_softmax(tokens[..tokens.len() - 1].to_vec());
        (0..log_p.len()).map(|i| log_p[i][tokens[i + 1] as usize]).sum()
    };
    let all: Vec<f64> = (0..lexicon.len()).map(with).collect();
    let most = all.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = all.iter().map(|log_p| (log_p - most).exp()).sum();
    let found = &causal.cloze(words, &[at])[0];
    for word in 0..lexicon.len() {
        // Sums of some 130 losses of about 6 nats in f32, each off by 5e-7.
        assert!((found[word] - (all[word] - most).exp() / sum).abs() < 1e-4, "{word}: {}", found[word]);
    }
    let alone = log_softmax([&[separator], &lexicon.encode(&words[..at])[..]].concat());
    let own: Vec<f64> = (0..lexicon.len()).map(|word| alone[at][lexicon.token(word) as usize].exp()).collect();
    let sum: f64 = own.iter().sum();
    let (along, next) = (&causal.along(words)[at], &causal.next(&[&words[..at], &words[..3]])[0]);
    for word in 0..lexicon.len() {
        assert!((along[word] - own[word] / sum).abs() < 1e-5 && (next[word] - along[word]).abs() < 1e-5);
    }
}

/// Compares the answers of counted n-grams with the probabilities of [`KneserNey`] on the same stories, and their measures with those of
/// exact answers.
fn by_counts(dir: &Path) {
    let options = PretrainOptions { system: Some("kneser-ney".into()), ..Default::default() };
    let control = PretrainControl::new(Control::new(&Silent), dir);
    let run = dir.join("counts");
    let outcome = begin(options.settle().unwrap(), None, &run, &control).unwrap();
    let subject = Subject::read(&run, 4, &Silent).unwrap();
    let source = Counted::read(&run, dir, &Silent).unwrap().source;
    let texts: Vec<Vec<u32>> = (0..source.texts(Split::Train)).map(|number| source.text(Split::Train, number)).collect();
    let separator = source.separator().unwrap();
    assert_eq!(separator as usize + 1, source.tokenizer().vocab_size(), "the end symbol's number below");
    let counted = KneserNey::train(5, texts.iter().map(Vec::as_slice), separator as usize);

    let (lexicon, model, story) = (&subject.lexicon, subject.model(), &subject.stories[0].words);
    let opened = [&[counted.begin()], &lexicon.encode(story)[..]].concat();
    for (at, found) in model.along(story).iter().enumerate() {
        let own: Vec<f64> = lexicon.tokens().iter().map(|&token| counted.probability(&opened[..=at], token)).collect();
        let sum: f64 = own.iter().sum();
        assert!(found.iter().zip(&own).all(|(found, own)| (found - own / sum).abs() < 1e-12), "after {at}");
    }
    let at = 30;
    let with = |&token: &u32| {
        let mut words = lexicon.encode(story);
        words[at] = token;
        -counted.nll(&words)
    };
    let all: Vec<f64> = lexicon.tokens().iter().map(with).collect();
    let most = all.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = all.iter().map(|log_p| (log_p - most).exp()).sum();
    let found = &model.cloze(story, &[at])[0];
    assert!(found.iter().zip(&all).all(|(found, log_p)| (found - (log_p - most).exp() / sum).abs() < 1e-10));

    let left = generation(&subject.stories, &subject.everywhere(), |story| sure(model.along(story))).unwrap();
    let excess = outcome.validation.unwrap().excess.unwrap();
    assert!(left.before.mean > 0.1 && left.before.mean < 2.0 && excess > 0.1, "{left:?} {excess}");
}

/// Returns the answers of a model that fills masks, in the format of its run, with whole texts of 20 tokens.
fn by_viewer<'m>(bert: &'m Stored, lexicon: &'m Lexicon) -> WordAnswers<'m> {
    WordAnswers { model: Box::new(bert.viewer.masked(&bert.trainer.params).with_length(20)), separator: None, lexicon }
}

/// Compares the answers with those of `gradus fill`, over the world's words.
fn by_masks(bert: &Stored, story: &Story) {
    let (model, tokenizer) = (&bert.trainer.params, bert.source.tokenizer());
    let lexicon = Lexicon::of(&*bert.source).unwrap();
    let masked = by_viewer(bert, &lexicon);
    let filler = answers::of(model, Some(tokenizer), 0).unwrap();
    let shares = |text: &str, gap: usize| -> Vec<f64> {
        let filled = fill::fill(&*filler, tokenizer, text, &mut |_| {}).unwrap();
        let own: Vec<f64> = (0..lexicon.len()).map(|word| filled.gaps[gap].probabilities[lexicon.token(word) as usize]).collect();
        let sum: f64 = own.iter().sum();
        own.iter().map(|p| p / sum).collect()
    };
    // The same slots of the same rows, in batches of another size.
    let near = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-5);
    let text = |words: &[usize]| lexicon.text(words);
    let hidden = format!("{} [MASK] {}", text(&story.words[..30]), text(&story.words[31..]));
    let found = masked.cloze(&story.words, &[7, 30]);
    assert!(near(&found[1], &shares(&hidden, 0)));
    // After five words, fifteen masks more; after nineteen and more, one.
    for (n, masks) in [(5, 15), (19, 1), (40, 1)] {
        let beginning = format!("{}{}", text(&story.words[..n]), " [MASK]".repeat(masks));
        assert!(near(&masked.next(&[&story.words[..n], &story.words[..2]])[0], &shares(&beginning, 0)), "after {n}");
    }
}

/// Hides the full stop nearest to the middle; the text is divided as if another word were there.
fn in_pairs(bert: &Stored, story: &Story) {
    let (settings, lexicon) = (&bert.manifest.settings, Lexicon::of(&*bert.source).unwrap());
    let masked = by_viewer(bert, &lexicon);
    let special = SpecialTokens::of(bert.source.tokenizer());
    let scheme = settings.view.scheme(None, special, settings.model.sizes.context - 2);
    let first = |words: &[usize]| {
        let ends = (1..=words.len()).filter(|&n| n == words.len() || lexicon.word(words[n - 1]) == ".").collect();
        let text = Text { number: 0, epoch: 0, tokens: lexicon.encode(words), sentences: ends };
        let whole = scheme.eval_view(&text, &[], Given::All).unwrap();
        whole.segments.iter().filter(|&&segment| segment == 0).count() - 2
    };
    let stop = first(&story.words) - 1;
    let mut other = story.words.clone();
    other[stop] = other[0];
    assert_ne!(first(&other), first(&story.words));
    assert_eq!(masked.cloze(&story.words, &[stop]), masked.cloze(&other, &[stop]));
    assert_ne!(masked.cloze(&story.words, &[stop + 1]), masked.cloze(&other, &[stop + 1]), "control");
}
