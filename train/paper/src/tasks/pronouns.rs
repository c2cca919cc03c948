//! Pronouns that only the meaning resolves (DPRD, zero-shot; WNLI, with labels).
//!
//! Both candidates have one gender and number. The stories repeat the name where these sentences have a pronoun, so a model of
//! the stories gives the right name a higher probability. The sentences begin as sentences of the stories do. A bare name at the
//! beginning would not work: the stories use it to introduce neighbours, and a model scores below chance after it.
//!
//! ```text
//! Then Mia gave Lily the kite because she wanted it.                      she   Mia, Lily              Lily
//! At last Mia showed Lily the kite because she liked to boast.            she   Mia, Lily              Mia
//! One foggy day the rope failed at the tunnel because it was dark.        it    the rope, the tunnel   the tunnel
//! One warm day the rope failed at the tunnel because it was no lantern.   it    the rope, the tunnel   the rope
//! ```

use gradus_data::sets::Split;
use gradus_world::Gender;
use gradus_world::words::{NAMES, THINGS, TOOLS, WEATHERS};

use super::Labelled;
use super::tale::{Teller, capital};

/// A sentence with a pronoun.
#[derive(Clone, Debug)]
pub(super) struct Riddle {
    pub(super) sentence: String,
    pub(super) pronoun: &'static str,
    /// The candidates as they appear in the sentence.
    pub(super) candidates: [String; 2],
    /// The right candidate.
    pub(super) answer: usize,
    /// The words after the pronoun.
    pub(super) reason: String,
}

/// Makes a riddle: one in three on physics (there are 1,440, and no row is in two splits), the others on people.
pub(super) fn riddle(teller: &mut Teller<'_>) -> Riddle {
    let first_is_meant = teller.coin();
    let (told, pronoun, candidates, reason) =
        if teller.below(3) == 0 { physics(teller, first_is_meant) } else { people(teller, first_is_meant) };
    let sentence = format!("{told} because {pronoun} {reason}.");
    Riddle { sentence, pronoun, candidates, answer: usize::from(!first_is_meant), reason }
}

type Phrases = (String, &'static str, [String; 2], String);

fn people(teller: &mut Teller<'_>, first_is_meant: bool) -> Phrases {
    let gender = teller.one(&[Gender::She, Gender::He]);
    let names: Vec<&'static str> = NAMES.iter().filter(|(_, g)| *g == gender).map(|&(name, _)| name).collect();
    let two: Vec<String> = teller.others(&names, &[], 2).into_iter().map(capital).collect();
    let [first, second] = [two[0].clone(), two[1].clone()];
    let thing = teller.one(&THINGS);
    let wanted = teller.one(&["had lost it", "wanted it"]);
    let (told, of_first, of_second) = match teller.below(3) {
        0 => (format!("{first} gave {second} the {thing}"), "liked to share", wanted),
        1 => (format!("{first} got the {thing} from {second}"), wanted, "liked to share"),
        _ => (format!("{first} showed {second} the {thing}"), "liked to boast", "wanted to look"),
    };
    let reason = if first_is_meant { of_first } else { of_second };
    let told = format!("{} {told}", teller.one(&["At last", "That night", "Now", "Then"]));
    (told, gender.subject(), [first, second], reason.into())
}

fn physics(teller: &mut Teller<'_>, first_is_meant: bool) -> Phrases {
    let needed = &TOOLS[teller.below(TOOLS.len())];
    let tool = loop {
        let tool = &TOOLS[teller.below(TOOLS.len())];
        if tool.name != needed.name {
            break tool;
        }
    };
    let (adjective, obstacle) = needed.obstacle_words();
    let reason = if first_is_meant { format!("was no {}", needed.name) } else { format!("was {adjective}") };
    let candidates = [format!("the {}", tool.name), format!("the {obstacle}")];
    let opener = format!("One {} {}", teller.one(&WEATHERS), teller.one(&["day", "morning", "evening"]));
    (format!("{opener} {} failed at {}", candidates[0], candidates[1]), "it", candidates, reason)
}

/// Makes a row with the texts sentence, pronoun and two candidates; the label is the right candidate.
pub(super) fn dprd(teller: &mut Teller<'_>, _: Split) -> Labelled {
    let Riddle { sentence, pronoun, candidates: [first, second], answer, .. } = riddle(teller);
    Labelled { texts: vec![sentence, pronoun.into(), first, second], label: answer, kind: "" }
}
