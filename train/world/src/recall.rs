//! Repetitions of earlier facts of a story: predictable words, slips, remarks and questions.
//!
//! A repetition adds no new fact, and no later decision depends on it. It trains a model to *compare*: sometimes a predictable
//! word is wrong, and is corrected, either at once within a sentence ([`SURE`]: *her, no, his rope*), or after a sentence that is
//! entirely predictable ([`SURE_OF_A_SENTENCE`]: *Once the blue kite lay at the lake. No, red.*). To predict the *no*, a model
//! must detect that the word before it does not fit, as entailment, paraphrase and multiple choice require.

use crate::choose::{Choose, Phrase};
use crate::error::WorldError;
use crate::facts::Character;
use crate::words::Words;

/// The odds of no slip within a sentence, to 1 for a slip in each predictable word.
const SURE: u32 = 15;
/// The odds of no slip in a sentence that is entirely predictable, to 1 for a slip in each of its words.
const SURE_OF_A_SENTENCE: u32 = 5;

/// A predictable word, with the list of words that it is chosen from.
pub(crate) type Slot<'a> = (&'a str, &'a [&'a str]);

/// A common multiple of the numbers of wrong words in all lists.
const SHARES: u32 = 27_720;

/// Writes a repetition: `template`, its braces filled with `slots`, with at most one slip. A whole sentence is corrected after
/// its full stop: *Once the blue kite lay at the lake. No, red.*
pub(crate) fn recall(c: &mut impl Choose, template: &str, slots: &[Slot<'_>]) -> Result<(), WorldError> {
    let sure = if template.ends_with('.') { SURE_OF_A_SENTENCE } else { SURE };
    recall_as_sure(c, sure, template, slots)
}

/// Writes a repetition as [`recall`] does, with odds of `sure` to 1 for each slot.
fn recall_as_sure(c: &mut impl Choose, sure: u32, template: &str, slots: &[Slot<'_>]) -> Result<(), WorldError> {
    let fill = |at: usize, word: &str| {
        let mut words = (0..slots.len()).map(|i| if i == at { word } else { slots[i].0 });
        let mut parts = template.split("{}");
        let first = parts.next().unwrap_or("").to_owned();
        parts.fold(first, |told, part| told + words.next().unwrap_or("") + part)
    };
    if c.careful() {
        return c.say(&fill(slots.len(), ""));
    }
    let sentence = template.ends_with('.');
    let mut slips: Vec<(usize, &str)> = Vec::new();
    let mut weights = vec![sure * SHARES];
    for (at, &(right, words)) in slots.iter().enumerate() {
        let wrong = words.iter().copied().filter(|&word| word != right);
        let share = SHARES / wrong.clone().count().max(1) as u32;
        slips.extend(wrong.map(|word| (at, word)));
        weights.resize(1 + slips.len(), share);
    }
    c.vary_among(&weights, |way| match way.checked_sub(1).map(|slip| slips[slip]) {
        None => fill(slots.len(), ""),
        Some((at, word)) if sentence => format!("{} no , {} .", fill(at, word), slots[at].0),
        Some((at, word)) => fill(at, &format!("{word} , no , {}", slots[at].0)),
    })
}

/// Chooses one of several subjects with equal probability. For a name, another name may come first, as a slip.
fn subject(c: &mut impl Choose, subjects: &[&str], names: &[&str]) -> Result<usize, WorldError> {
    let stranger = |name: &&str| !c.careful() && !subjects.contains(name);
    let slips: Vec<&str> = names.iter().copied().filter(stranger).collect();
    let sure = if slips.is_empty() { 1 } else { SURE * slips.len() as u32 };
    let right = subjects.iter().map(|&subject| (subject, sure));
    let share = subjects.len() as u32;
    let all: Vec<Phrase<'_>> = right.chain(slips.into_iter().map(|name| (name, share))).collect();
    let taken = c.branch(&all)?;
    if taken < subjects.len() {
        return Ok(taken);
    }
    c.say(", no ,")?;
    let named: Vec<Phrase<'_>> = subjects[1..].iter().map(|&subject| (subject, 1)).collect();
    Ok(1 + c.branch(&named)?)
}

/// The facts that can be repeated at a point of the story.
pub(crate) struct Known {
    pub(crate) hero: Character,
    pub(crate) friend: Character,
    pub(crate) helper: &'static str,
    pub(crate) colour: &'static str,
    pub(crate) thing: &'static str,
    pub(crate) place: &'static str,
    /// The characters who travel, each with a tool; empty before they set out.
    pub(crate) carried: Vec<(Character, &'static str)>,
}

impl Known {
    /// Returns whether both characters set out.
    pub(crate) fn are_two(&self) -> bool {
        self.carried.len() > 1
    }
}

/// Writes a remark, such as: Mia was a rabbit. Or: Mia carried her rope to the lake. Rosa knew of the kite at the lake. Once the
/// red kite lay at the lake.
pub(crate) fn remark(words: &Words, known: &Known, c: &mut impl Choose) -> Result<(), WorldError> {
    let (colour, thing, place) = ((known.colour, words.colours), (known.thing, words.things), (known.place, words.places));
    c.aside(|c| {
        let mut subjects = vec!["once", known.hero.name, known.friend.name];
        if !known.carried.is_empty() {
            subjects.push(known.helper);
        }
        let one = match subject(c, &subjects, &words.names)? {
            0 => return recall(c, "the {} {} lay at the {} .", &[colour, thing, place]),
            1 => known.hero,
            2 => known.friend,
            _ => {
                c.vary(&KNOWING)?;
                return recall(c, "the {} at the {} .", &[thing, place]);
            }
        };
        let tool = known.carried.iter().find(|(who, _)| who.name == one.name).map(|&(_, tool)| tool);
        if let Some(tool) = tool
            && c.branch(&[("was a", 1), ("took", 2), ("carried", 1), ("brought", 1)])? > 0
        {
            let slots: [Slot<'_>; 3] = [(one.gender.possessive(), &["his", "her"]), (tool, &words.tool_names), place];
            return recall(c, "{} {} to the {} .", &slots);
        }
        if tool.is_none() {
            c.say("was a")?;
        }
        recall(c, "{} .", &[(one.animal, words.animals)])
    })
}

/// Writes a summary, such as: In short, a rabbit went to the lake with her rope for a red kite, and a giant owned it. With
/// probability 1/2 one of its six facts is wrong, and corrected at the end. To predict the correction, a model must compare all
/// six with the story before. Only these six words are taken from the story.
pub(crate) fn retelling(
    words: &Words,
    known: &Known,
    (keeper, tool): (&str, &str),
    c: &mut impl Choose,
) -> Result<(), WorldError> {
    let (animal, place, tool) = ((known.hero.animal, words.animals), (known.place, words.places), (tool, &words.tool_names[..]));
    let (colour, thing, keeper) = ((known.colour, words.colours), (known.thing, words.things), (keeper, words.keepers));
    let with = format!("with {} {{}}", known.hero.gender.possessive());
    c.aside(|c| {
        c.vary(&[("in short ,", 2), ("all in all ,", 1), ("in other words ,", 1)])?;
        let (template, slots): (String, [Slot<'_>; 6]) = match c.branch(&[("a", 1), ("from", 1)])? {
            0 => {
                let template = format!("{{}} went to the {{}} {with} for a {{}} {{}} , and a {{}} owned it .");
                (template, [animal, place, tool, colour, thing, keeper])
            }
            _ => {
                let template = format!("a {{}} at the {{}} came a {{}} {{}} , and a {{}} had come {with} .");
                (template, [keeper, place, colour, thing, animal, tool])
            }
        };
        recall_as_sure(c, slots.len() as u32, &template, &slots)
    })
}

/// The ways to know of a thing.
pub(crate) const KNOWING: [Phrase<'static>; 3] = [("had seen", 2), ("knew of", 1), ("spoke of", 1)];

/// Writes a question and its answer: "Where was the kite?" "At the lake." Other questions are about the owner, the tool and the
/// feeling.
pub(crate) fn question(
    words: &Words,
    known: &Known,
    (keeper, longing, feeling): (&str, Character, &str),
    c: &mut impl Choose,
) -> Result<(), WorldError> {
    let (thing, place) = ((known.thing, words.things), (known.place, words.places));
    c.aside(|c| {
        c.say("\"")?;
        match c.branch(&[("where was", 1), ("who had", 1), ("who took the", 1), ("who was", 1)])? {
            0 => recall(c, "the {} ? \" \" at the {} . \"", &[thing, place]),
            1 => recall(c, "the {} ? \" \" a {} at the {} . \"", &[thing, (keeper, words.keepers), place]),
            2 => {
                let asked: Vec<Phrase<'_>> = known.carried.iter().map(|&(_, tool)| (tool, 1)).collect();
                let at = c.branch(&asked)?;
                recall(c, "? \" \" {} . \"", &[(known.carried[at].0.name, &words.names)])
            }
            _ => {
                let slots: [Slot<'_>; 3] =
                    [(feeling, words.feelings), (longing.name, &words.names), (longing.animal, words.animals)];
                recall(c, "{} ? \" \" {} the {} . \"", &slots)
            }
        }
    })
}
