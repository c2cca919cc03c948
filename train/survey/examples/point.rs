//! Measures for a run on the micro-world: U, by distance and for the words with the largest total loss; G; and the share of
//! generated stories that are stories of the world.
//!
//! `cargo run --release -p gradus-survey --example point -- RUN [stories] [places in all, for models that answer by Bayes]`

use std::convert::Infallible;
use std::path::Path;

use gradus_io::progress::Silent;
use gradus_survey::{DISTANCES, Estimate, Subject, Understanding, by_word, divergences, generation, told, understanding};

fn shown(name: &str, estimate: &Estimate) {
    println!("{name:<34} {:.4} ± {:.4}   {} places", estimate.mean, estimate.error, estimate.places);
}

fn shown_by_distance(name: &str, found: &Understanding) {
    shown(&format!("U {name}"), &found.given_all);
    for (class, estimate) in found.by_distance.iter().enumerate() {
        let words = match class {
            0 => format!("last mentioned less than {} words ago", DISTANCES[0]),
            c if c < DISTANCES.len() => format!("… {} to {}", DISTANCES[c - 1], DISTANCES[c] - 1),
            c if c == DISTANCES.len() => format!("… {} or more", DISTANCES[c - 1]),
            _ => "never mentioned before".into(),
        };
        shown(&format!("    {words}"), estimate);
    }
}

/// Wraps infallible answers in a `Result`.
fn sure(answers: Vec<Vec<f64>>) -> Result<Vec<Vec<f64>>, Infallible> {
    Ok(answers)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let run = args.first().ok_or("give the directory of a run")?;
    let number = |at: usize, default: usize| args.get(at).map_or(Ok(default), |arg| arg.parse());
    let (n, each) = (number(1, 200)?, number(2, 600)?);
    let subject = Subject::read(Path::new(run), n, &Silent)?;
    println!("{} words, {} stories", subject.lexicon.len(), subject.stories.len());
    for (reach, found) in subject.counted().iter().enumerate() {
        shown_by_distance(&format!("counted ±{reach}"), found);
    }
    let (stories, model) = (&subject.stories, subject.model());
    let places = if subject.is_by_bayes() { subject.drawn(each, 1) } else { subject.everywhere() };
    let g = generation(stories, &places, |story| sure(model.along(story)))?;
    shown("G", &g.before);
    shown("U, left only", &g.left_only);
    let whole = told(&subject.world, &subject.lexicon, (100, 1), |beginnings| sure(model.next(beginnings)))?;
    println!("{whole} of 100 generated stories are valid");
    let found = divergences(stories, &places, |story, at| sure(model.cloze(story, at)))?;
    shown_by_distance("", &understanding(stories, &places, &found));
    for (word, estimate) in by_word(stories, &places, &found).iter().take(12) {
        shown(&format!("    where {} stands", subject.lexicon.word(*word)), estimate);
    }
    Ok(())
}
