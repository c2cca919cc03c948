//! Where a run on the micro-world stands: U, G and the share of its own stories that are stories.
//!
//! `cargo run --release -p gradus-survey --example point -- RUN [stories] [places per story, for models that answer by Bayes]`

use std::convert::Infallible;
use std::path::Path;

use gradus_io::progress::Silent;
use gradus_survey::{
    Answers, Causal, DISTANCES, Estimate, Lexicon, Masked, Story, Understanding, Window, generation, told, understanding,
};
use gradus_tensor::rng::Philox;
use gradus_train::pretrain::{Part, PretrainManifest, SEPARATOR, Stored};
use gradus_train::run::Manifest;
use gradus_world::World;

fn shown(name: &str, estimate: &Estimate) {
    println!("{name:<34} {:.4} ± {:.4}   {} places", estimate.mean, estimate.error, estimate.places);
}

fn shown_by_distance(name: &str, found: &Understanding) {
    shown(&format!("U {name}"), &found.given_all);
    for (class, estimate) in found.by_distance.iter().enumerate() {
        let words = match class {
            0 => format!("last said below {} words ago", DISTANCES[0]),
            c if c < DISTANCES.len() => format!("… {} to {}", DISTANCES[c - 1], DISTANCES[c] - 1),
            c if c == DISTANCES.len() => format!("… {} or more", DISTANCES[c - 1]),
            _ => "never said before".into(),
        };
        shown(&format!("    {words}"), estimate);
    }
}

/// Answers that cannot fail.
fn sure(answers: Vec<Vec<f64>>) -> Result<Vec<Vec<f64>>, Infallible> {
    Ok(answers)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let run = args.first().ok_or("give the directory of a run")?;
    let number = |at: usize, default: usize| args.get(at).map_or(Ok(default), |arg| arg.parse());
    let (n, each) = (number(1, 200)?, number(2, 5)?);
    if PretrainManifest::read(Path::new(run))?.corpus.is_some() {
        return Err("expected a run on the micro-world, found one on a corpus".into());
    }
    let stored = Stored::read(Path::new(run), Path::new("."), &Silent)?;
    let world = World::named(stored.manifest.settings.retold);
    let (source, model) = (&*stored.source, &stored.trainer.params);
    let lexicon = Lexicon::of(source)?;
    let stories = Story::held_out(source, &world, &lexicon, n)?;
    println!("{} words, {} stories", lexicon.len(), stories.len());
    let all: Vec<Vec<usize>> = stories.iter().map(|story| (0..story.words.len()).collect()).collect();

    let train: Vec<Vec<usize>> = (0..source.texts(Part::Train))
        .map(|number| source.text(Part::Train, number).into_iter().map(|token| lexicon.of_token(token)).collect())
        .collect();
    for reach in [0, 1, 2] {
        let window = Window::count(train.iter().map(Vec::as_slice), lexicon.len(), reach);
        let found = understanding(&stories, &all, |story, at| sure(at.iter().map(|&at| window.answer(story, at)).collect()))?;
        shown_by_distance(&format!("counted ±{reach}"), &found);
    }
    let masked;
    let causal;
    let (answers, places): (&dyn Answers, _) = match &stored.viewer {
        Some(viewer) => {
            masked = Masked { model, viewer, lexicon: &lexicon, length: world.properties().mean_tokens.round() as usize };
            (&masked, all)
        }
        None => {
            let separator = source.tokenizer().token_id(SEPARATOR).ok_or("a run on the micro-world has its separator")?;
            causal = Causal { model, separator, lexicon: &lexicon };
            let mut rng = Philox::new(1);
            let some = |mut at: Vec<usize>| {
                rng.shuffle(&mut at);
                at.truncate(each);
                at
            };
            (&causal, all.into_iter().map(some).collect())
        }
    };
    let g = generation(&stories, |story| sure(answers.along(story)))?;
    shown("G", &g.before);
    shown("U, left only", &g.left_only);
    println!("{} of 100 stories told are stories", told(answers, &world, &lexicon, 100, 1));
    shown_by_distance("", &understanding(&stories, &places, |story, at| sure(answers.cloze(story, at)))?);
    Ok(())
}
