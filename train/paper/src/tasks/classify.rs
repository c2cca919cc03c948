//! The tasks with one text and two classes.
//!
//! | task | text | label |
//! |-|-|-|
//! | CoLA | One rainy day Tom was sad because she had lost the red kite. | 0 (Tom is a *he*) |
//! | CoLA | Soon an icy wind met them. | 1 |
//! | SST-2 | *…* Soon a dark tunnel stopped her. She got lost without a lantern. | 0: the mood of the story, nine times in ten negative where something went wrong |

use gradus_data::sets::Split;
use gradus_world::Mood;

use super::Labelled;
use super::tale::{Scene, Tale, Teller, reword};

/// Makes an acceptable sentence of a story (1), or one with a single violation of grammar (0). The kind names the violation.
pub(super) fn cola(teller: &mut Teller<'_>, _: Split) -> Labelled {
    use Scene::{Departure, Ending, Helper, Longing, Obstacle, Outcome, Price};
    const PARTS: [Scene; 10] = [Longing, Longing, Longing, Departure, Departure, Helper, Obstacle, Outcome, Price, Ending];
    let part = teller.one(&PARTS);
    let tale = teller.tale();
    let label = teller.below(2);
    let (kind, text) = if label == 1 { ("", tale.tell(&[part])) } else { violate(teller, &tale, part) };
    Labelled { texts: vec![text], label, kind }
}

/// Returns a sentence that breaks one rule of English, chosen among the applicable rules; gender and case are more frequent.
fn violate(teller: &mut Teller<'_>, tale: &Tale, part: Scene) -> (&'static str, String) {
    let good = tale.tell(&[part]);
    let mut bad: Vec<(&'static str, String)> = Vec::new();
    let mut add = |kind: &'static str, text: String| {
        if text != good {
            bad.push((kind, text));
        }
    };
    // These sentences name the referent of the pronoun, which determines its gender.
    if matches!(part, Scene::Longing | Scene::Departure) || (part == Scene::Outcome && tale.facts().rescuer.is_some()) {
        for at in 0..2 {
            (0..3).for_each(|_| add("gender", swap_gender(&good, at)));
        }
    }
    if part == Scene::Obstacle || part == Scene::Outcome {
        let cases = [("them", "they"), ("they", "them"), ("him", "he"), ("he", "him"), ("she", "her")];
        // As an object only, because "her rope" is a possessive.
        let object = if part == Scene::Obstacle { vec![("her", "she")] } else { vec![] };
        (0..2).for_each(|_| add("case", reword(&good, &[&cases[..], &object[..]].concat())));
    }
    if part != Scene::Longing && part != Scene::Departure {
        add("article", reword(&good, &[("a", "an"), ("an", "a")]));
    }
    for (right, wrong) in VERBS {
        add("verb", good.replacen(&format!(" {right} "), &format!(" {wrong} "), 1));
    }
    for (first, second) in adjectives(tale, part) {
        add("order", good.replacen(&format!(" {first} {second}"), &format!(" {second} {first}"), 1));
    }
    teller.one(&bad)
}

/// Swaps the gender of pronoun number `at` in the sentence: she for he, his for her.
fn swap_gender(text: &str, at: usize) -> String {
    const PAIRS: [(&str, &str); 4] = [("she", "he"), ("he", "she"), ("her", "his"), ("his", "her")];
    let mut words: Vec<&str> = text.split(' ').collect();
    let swapped = |(place, word): (usize, &&str)| Some((place, PAIRS.iter().find(|(from, _)| from == word)?.1));
    if let Some((place, other)) = words.iter().enumerate().filter_map(swapped).nth(at) {
        words[place] = other;
    }
    words.join(" ")
}

/// Verbs, each with a replacement that is not an English verb phrase.
const VERBS: [(&str, &str); 16] = [
    ("took her", "had took her"),
    ("took his", "had took his"),
    ("knew of", "had knew of"),
    ("spoke of", "had spoke of"),
    ("had seen", "seen"),
    ("had lost", "was lost"),
    ("longed for", "was longed for"),
    ("wanted the", "was wanted the"),
    ("wanted to", "was wanted to"),
    ("liked to", "was liked to"),
    ("stayed", "was stayed"),
    ("gave", "had gave"),
    ("failed at", "was failed at"),
    ("used", "was used"),
    ("without", "because"),
    ("to share", "share"),
];

/// Returns adjectives, each with the noun that follows it.
fn adjectives(tale: &Tale, part: Scene) -> Vec<(&'static str, &'static str)> {
    let f = tale.facts();
    match part {
        Scene::Longing => vec![(f.colour, f.thing)],
        Scene::Obstacle => {
            let mut words = f.obstacle.split(' ').skip(1);
            words.next().zip(words.next()).into_iter().collect()
        }
        Scene::Price => vec![(f.temper, f.keeper)],
        Scene::Helper | Scene::Departure => vec![("the", f.place)],
        Scene::Ending => vec![("the", f.thing)],
        _ => vec![],
    }
}

/// Makes a story up to its outcome. The label is the mood, which the next sentence would give: positive (1) nine times in ten if
/// a carried tool overcomes the obstacle, negative (0) nine times in ten if none does. Each case has half of the rows, so the
/// best score is 0.9. Half of the heroes travel without a companion. As in reviews, some single words reveal most of the mood.
pub(super) fn sst2(teller: &mut Teller<'_>, _: Split) -> Labelled {
    let (prepared, together) = (teller.coin(), teller.coin());
    let tale = teller.tale_where(|f| f.rescuer.is_some() == prepared && f.friend_tool.is_some() == together);
    let label = usize::from(tale.facts().mood == Mood::Positive);
    Labelled { texts: vec![tale.until(Scene::Outcome)], label, kind: "" }
}
