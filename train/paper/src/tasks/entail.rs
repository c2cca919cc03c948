//! Natural language inference: does the second text follow from the first? Texts: premise (or question), hypothesis (or
//! sentence). The hypothesis alone tells nothing (see [`claims`](super::claims)).
//!
//! | task | premise | hypothesis | label |
//! |-|-|-|-|
//! | MNLI | So Mia took her rope to the lake, but Tom stayed behind. | Mia carried her key to the lake. | contradiction |
//! | MNLI, mismatched | At the lake a grumpy giant sold the happy rabbit the kite for a song. | The giant got a song. | entailment |
//! | SNLI | One rainy day Tom was sad because he had lost the red kite. Rosa had seen the kite at the lake. | Once the red drum lay at the lake. | neutral |
//! | SciTail | So Mia took her rope to the lake, but Tom stayed behind. Soon a dark tunnel stopped her. | She got lost. | entails |
//! | RTE | *the premise of SNLI* So Mia took her rope to the lake, but Tom stayed behind. | Once the red kite lay at the lake. Mia carried her key to the lake. | not_entailment |
//! | QNLI | Where was the kite? | Rosa had seen the kite at the lake. | entailment |
//! | WNLI | Mia gave Lily the kite because she wanted it. | Lily wanted it. | 1 |

use gradus_world::{Facts, Who};

use super::claims::{ANIMAL, BOTH, Claim, GIFT, PAY, TOOL, Verdict, WHERE, claim};
use super::pronouns;
use super::tale::{Part, Source, Tale, capital, mentions};
use super::{Row, Split};

/// The labels of [`mnli`] and [`snli`].
pub(super) const THREE: &[&str] = &["entailment", "neutral", "contradiction"];
/// The labels of [`rte`] and [`qnli`].
pub(super) const TWO: &[&str] = &["entailment", "not_entailment"];
/// The labels of [`scitail`].
pub(super) const SCIENCE: &[&str] = &["entails", "neutral"];

const VERDICTS: [Verdict; 3] = [Verdict::Entailed, Verdict::Open, Verdict::Contradicted];

/// Three classes; in *mismatched* other genres, with claims of other kinds.
pub(super) fn mnli(source: &mut Source<'_>, split: Split) -> Row {
    const GENRES: [(&str, &Claim); 4] = [("home", &WHERE), ("home", &WHERE), ("journey", &TOOL), ("journey", &TOOL)];
    const OTHERS: [(&str, &Claim); 4] = [("people", &ANIMAL), ("people", &ANIMAL), ("keeper", &PAY), ("ending", &GIFT)];
    let (genre, kind) = source.one(if split.mismatched() { &OTHERS } else { &GENRES });
    let label = source.below(3);
    let (premise, hypothesis) = claim(source, kind, VERDICTS[label]);
    Row { texts: vec![premise, hypothesis], label, kind: genre }
}

/// Three classes, one kind of scene, like the captions of the original.
pub(super) fn snli(source: &mut Source<'_>, _: Split) -> Row {
    let kind = &WHERE;
    let label = source.below(3);
    let (premise, hypothesis) = claim(source, kind, VERDICTS[label]);
    Row { texts: vec![premise, hypothesis], label, kind: "" }
}

/// Two facts, and few rows.
pub(super) fn rte(source: &mut Source<'_>, _: Split) -> Row {
    let label = source.below(2);
    let verdict = if label == 0 { Verdict::Entailed } else { source.one(&[Verdict::Open, Verdict::Contradicted]) };
    let (premise, hypothesis) = claim(source, &BOTH, verdict);
    Row { texts: vec![premise, hypothesis], label, kind: "" }
}

/// The science is the world's physics: which tool overcomes which obstacle, and what becomes of those who lack it.
pub(super) fn scitail(source: &mut Source<'_>, _: Split) -> Row {
    let label = source.below(2);
    let (tale, hypothesis) = if source.coin() { used(source, label == 0) } else { got(source, label == 0) };
    Row { texts: vec![tale.tell(&[Part::Departure, Part::Obstacle]), hypothesis], label, kind: "" }
}

/// *Tom used his key*, who carries it: it follows if a locked gate is in the way.
fn used(source: &mut Source<'_>, follows: bool) -> (Tale, String) {
    let tale = source.tale_where(|f| f.rescuer.is_some() || !follows);
    let f = tale.facts();
    let carriers = if f.friend_tool.is_some() { vec![Who::Hero, Who::Friend] } else { vec![Who::Hero] };
    let idle: Vec<Who> = carriers.into_iter().filter(|&who| f.rescuer != Some(who)).collect();
    match (follows, f.rescuer) {
        (true, Some(who)) => (tale.clone(), uses(f, who)),
        // A hero alone with the right tool: no false use to tell of; another story.
        _ if idle.is_empty() => used(source, follows),
        _ => (tale.clone(), uses(f, source.one(&idle))),
    }
}

fn uses(f: &Facts, who: Who) -> String {
    let one = f.who(who);
    let tool = if who == Who::Hero { f.hero_tool } else { f.friend_tool.unwrap_or(f.hero_tool) };
    format!("{} used {} {tool}.", capital(one.name), one.gender.possessive())
}

/// *They got lost*: it follows if a dark tunnel is in the way and nobody has a lantern.
fn got(source: &mut Source<'_>, follows: bool) -> (Tale, String) {
    let saved = !follows && source.coin();
    let tale = source.tale_where(|f| f.rescuer.is_some() == saved);
    let f = tale.facts();
    let own = f.threat();
    let mishap = if follows || saved {
        own
    } else {
        loop {
            let other = source.tale().facts().threat();
            if other != own {
                break other;
            }
        }
    };
    (tale.clone(), format!("{} got {mishap}.", capital(f.travellers())))
}

/// Does the sentence answer the question? Where not, it tells of another, or of the same but not what was asked: each
/// sentence answers one question and not the other, so that it alone tells nothing.
pub(super) fn qnli(source: &mut Source<'_>, _: Split) -> Row {
    let label = source.below(2);
    let tale = source.tale();
    let kind = source.below(4);
    let key = |f: &Facts| if kind == 2 { f.hero_tool } else { f.thing };
    let (answers, beside) = match kind {
        0 => (Part::Helper, Some(Part::Longing)),
        1 => (Part::Longing, Some(Part::Helper)),
        2 => (Part::Departure, None),
        _ => (Part::Price, None),
    };
    let mut word = key(tale.facts());
    let mut part = answers;
    if label == 1 {
        match beside {
            Some(beside) if source.coin() => part = beside,
            _ => {
                while mentions(&tale.tell(&[answers]), word) {
                    word = key(source.tale().facts());
                }
            }
        }
    }
    let question = match kind {
        0 => format!("Where was the {word}?"),
        1 => format!("Who wanted the {word}?"),
        2 => format!("Who took the {word}?"),
        _ => format!("Who had the {word}?"),
    };
    Row { texts: vec![question, tale.tell(&[part])], label, kind: "" }
}

/// A sentence of [`pronouns`], and one with a name in the pronoun's place: the right one (1) or not (0).
pub(super) fn wnli(source: &mut Source<'_>, _: Split) -> Row {
    let riddle = pronouns::riddle(source);
    let label = source.below(2);
    let chosen = if label == 1 { riddle.answer } else { 1 - riddle.answer };
    let claim = format!("{} {}.", capital(&riddle.candidates[chosen]), riddle.reason);
    Row { texts: vec![riddle.sentence, claim], label, kind: "" }
}
