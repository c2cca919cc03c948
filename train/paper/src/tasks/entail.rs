//! Natural language inference: whether the second text follows from the first. The texts are premise (or question) and hypothesis
//! (or sentence). The hypothesis without its premise carries no information on the label (see [`hypotheses`](super::hypotheses)).
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

use gradus_data::sets::Split;
use gradus_world::{Facts, Who};

use super::Labelled;
use super::hypotheses::{ANIMAL, BOTH, GIFT, Hypothesis, PAY, Relation, TOOL, WHERE, pair};
use super::pronouns;
use super::tale::{Scene, Tale, Teller, capital, carriers, got, mentions, uses};

/// The labels of [`mnli`] and [`snli`].
pub(super) const THREE: &[&str] = &["entailment", "neutral", "contradiction"];
/// The labels of [`rte`] and [`qnli`].
pub(super) const TWO: &[&str] = &["entailment", "not_entailment"];
/// The labels of [`scitail`].
pub(super) const SCIENCE: &[&str] = &["entails", "neutral"];

const RELATIONS: [Relation; 3] = [Relation::Entailed, Relation::Open, Relation::Contradicted];

/// Makes a row with three classes; the *mismatched* split has other genres, with hypotheses of other kinds.
pub(super) fn mnli(teller: &mut Teller<'_>, split: Split) -> Labelled {
    const GENRES: [(&str, &Hypothesis); 4] = [("home", &WHERE), ("home", &WHERE), ("journey", &TOOL), ("journey", &TOOL)];
    const OTHERS: [(&str, &Hypothesis); 4] = [("people", &ANIMAL), ("people", &ANIMAL), ("keeper", &PAY), ("ending", &GIFT)];
    let (genre, kind) = teller.one(if matches!(split, Split::DevMismatched | Split::TestMismatched) { &OTHERS } else { &GENRES });
    let label = teller.below(3);
    let (premise, hypothesis) = pair(teller, kind, RELATIONS[label]);
    Labelled { texts: vec![premise, hypothesis], label, kind: genre }
}

/// Makes a row with three classes and one kind of scene, like the captions of the original.
pub(super) fn snli(teller: &mut Teller<'_>, _: Split) -> Labelled {
    let label = teller.below(3);
    let (premise, hypothesis) = pair(teller, &WHERE, RELATIONS[label]);
    Labelled { texts: vec![premise, hypothesis], label, kind: "" }
}

/// Makes a row on two facts; the task has few rows.
pub(super) fn rte(teller: &mut Teller<'_>, _: Split) -> Labelled {
    let label = teller.below(2);
    let relation = if label == 0 { Relation::Entailed } else { teller.one(&[Relation::Open, Relation::Contradicted]) };
    let (premise, hypothesis) = pair(teller, &BOTH, relation);
    Labelled { texts: vec![premise, hypothesis], label, kind: "" }
}

/// Makes a row on the world's physics: which tool overcomes which obstacle, and the mishap without it.
pub(super) fn scitail(teller: &mut Teller<'_>, _: Split) -> Labelled {
    let label = teller.below(2);
    let (tale, hypothesis) = if teller.coin() { used(teller, label == 0) } else { lost(teller, label == 0) };
    Labelled { texts: vec![tale.tell(&[Scene::Departure, Scene::Obstacle]), hypothesis], label, kind: "" }
}

/// Makes *Tom used his key* with a subject who carries the tool: it follows if a locked gate is in the way.
fn used(teller: &mut Teller<'_>, follows: bool) -> (Tale, String) {
    let tale = teller.tale_where(|f| f.rescuer.is_some() || !follows);
    let f = tale.facts();
    let idle: Vec<(Who, &str)> = carriers(f).into_iter().filter(|(who, _)| f.rescuer != Some(*who)).collect();
    let (who, tool) = match (follows, f.rescuer) {
        (true, Some(who)) => (who, f.needed_tool()),
        // A hero without a companion has the right tool, so no false use is possible: take another story.
        _ if idle.is_empty() => return used(teller, follows),
        _ => teller.one(&idle),
    };
    let hypothesis = uses(f, who, tool);
    (tale, hypothesis)
}

/// Makes *They got lost*: it follows if a dark tunnel is in the way and nobody has a lantern.
fn lost(teller: &mut Teller<'_>, follows: bool) -> (Tale, String) {
    let saved = !follows && teller.coin();
    let tale = teller.tale_where(|f| f.rescuer.is_some() == saved);
    let own = tale.facts().threat();
    let mishap = if follows || saved { own } else { teller.tale_where(|f| f.threat() != own).facts().threat() };
    let hypothesis = got(tale.facts(), mishap);
    (tale, hypothesis)
}

/// Makes a row on whether the sentence answers the question. If not, it concerns another subject, or another aspect of the
/// subject. Each sentence answers one question and not the other, so the sentence without its question carries no information.
pub(super) fn qnli(teller: &mut Teller<'_>, _: Split) -> Labelled {
    let label = teller.below(2);
    let tale = teller.tale();
    let kind = teller.below(4);
    let key = |f: &Facts| if kind == 2 { f.hero_tool } else { f.thing };
    let (asked, answers, beside) = match kind {
        0 => ("Where was", Scene::Helper, Some(Scene::Longing)),
        1 => ("Who wanted", Scene::Longing, Some(Scene::Helper)),
        2 => ("Who took", Scene::Departure, None),
        _ => ("Who had", Scene::Price, None),
    };
    let mut word = key(tale.facts());
    let mut part = answers;
    if label == 1 {
        match beside {
            Some(beside) if teller.coin() => part = beside,
            _ => {
                while mentions(&tale.tell(&[answers]), word) {
                    word = key(teller.tale().facts());
                }
            }
        }
    }
    Labelled { texts: vec![format!("{asked} the {word}?"), tale.tell(&[part])], label, kind: "" }
}

/// Makes a sentence of [`pronouns`], and one with a name in the pronoun's place: the right one (1) or not (0).
pub(super) fn wnli(teller: &mut Teller<'_>, _: Split) -> Labelled {
    let riddle = pronouns::riddle(teller);
    let label = teller.below(2);
    let chosen = if label == 1 { riddle.answer } else { 1 - riddle.answer };
    let hypothesis = format!("{} {}.", capital(&riddle.candidates[chosen]), riddle.reason);
    Labelled { texts: vec![riddle.sentence, hypothesis], label, kind: "" }
}
