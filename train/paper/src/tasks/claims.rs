//! Statements about a story that its sentences entail, contradict or leave open.
//!
//! A claim says of a subject what is true of it, in the words in which stories sum up. Whatever the verdict, all its words
//! come from the same distributions, so a claim alone tells nothing:
//!
//! ```text
//! premise        One rainy day Tom was sad because he had lost the red kite. Rosa had seen the kite at the lake.
//! entailed       Once the red kite lay at the lake.
//! contradicted   Once the red kite lay at the mill.      one word from another story, or of somebody else in this one
//! open           Once the red drum lay at the lake.      a subject that the premise does not mention
//! ```

use gradus_world::{Facts, Gender, Price, Who};

use super::tale::{Part, Source, Tale, a, capital, mentions};

/// How a claim stands to its premise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Entailed,
    Contradicted,
    Open,
}

/// A subject, and then what is said of it.
type Words = Vec<&'static str>;

/// A kind of claim.
#[derive(Debug)]
pub(super) struct Claim {
    /// The sentences that decide it.
    pub(super) premise: &'static [Part],
    /// What is true; nothing where the story tells nothing of the kind.
    pub(super) truths: fn(&Facts) -> Vec<Words>,
    /// What is false although the premise holds all the words.
    pub(super) lies: fn(&Facts) -> Vec<Words>,
    /// The claim in words.
    pub(super) says: fn(&[&str]) -> String,
}

fn none(_: &Facts) -> Vec<Words> {
    Vec::new()
}

/// Those who carry something.
fn carriers(f: &Facts) -> Vec<(Who, &'static str)> {
    [(Who::Hero, f.hero_tool)].into_iter().chain(f.friend_tool.map(|tool| (Who::Friend, tool))).collect()
}

/// What is true of two subjects, said of the other.
fn crossed(mut truths: Vec<Words>) -> Vec<Words> {
    match &mut truths[..] {
        [one, other] => {
            std::mem::swap(&mut one[0], &mut other[0]);
            truths
        }
        _ => Vec::new(),
    }
}

/// Mia was a rabbit.
pub(super) static ANIMAL: Claim = Claim {
    premise: &[Part::Opening, Part::Longing, Part::Helper],
    truths: |f| vec![vec![f.hero.name, f.hero.animal], vec![f.friend.name, f.friend.animal]],
    lies: |f| crossed((ANIMAL.truths)(f)),
    says: |words| format!("{} was {}.", capital(words[0]), a(words[1])),
};

/// Once the red kite lay at the lake.
pub(super) static WHERE: Claim = Claim {
    premise: &[Part::Longing, Part::Helper],
    truths: |f| vec![vec![f.thing, f.colour, f.place]],
    lies: none,
    says: |words| format!("Once the {} {} lay at the {}.", words[1], words[0], words[2]),
};

/// Mia carried her rope to the lake.
pub(super) static TOOL: Claim = Claim {
    premise: &[Part::Departure],
    truths: |f| carriers(f).into_iter().map(|(who, tool)| vec![f.who(who).name, tool, f.place]).collect(),
    lies: |f| crossed((TOOL.truths)(f)),
    says: |words| {
        format!("{} carried {} {} to the {}.", capital(words[0]), Gender::of(words[0]).possessive(), words[1], words[2])
    },
};

/// Once the red kite lay at the lake. Mia carried her rope to the lake. What some sentences tell, and what another does.
pub(super) static BOTH: Claim = Claim {
    premise: &[Part::Longing, Part::Helper, Part::Departure],
    truths: |f| (TOOL.truths)(f).into_iter().map(|told| vec![f.thing, f.colour, f.place, told[0], told[1]]).collect(),
    lies: none,
    says: |words| format!("{} {}", (WHERE.says)(&words[..3]), (TOOL.says)(&[words[3], words[4], words[2]])),
};

/// The giant got a song.
pub(super) static PAY: Claim = Claim {
    premise: &[Part::Price],
    truths: |f| {
        let (Price::Treat(price) | Price::Tool(price)) = f.price;
        vec![vec![f.keeper, price]]
    },
    lies: none,
    says: |words| format!("The {} got {}.", words[0], a(words[1])),
};

/// Tom got it from Mia.
pub(super) static GIFT: Claim = Claim {
    premise: &[Part::Ending],
    truths: |f| if f.longing == Who::Friend { vec![vec![f.friend.name, f.hero.name]] } else { Vec::new() },
    lies: |f| vec![vec![f.hero.name, f.friend.name]],
    says: |words| format!("{} got it from {}.", capital(words[0]), capital(words[1])),
};

/// The sentences of a story that decide the claim, and a claim of this verdict.
pub(super) fn claim(source: &mut Source<'_>, claim: &Claim, verdict: Verdict) -> (String, String) {
    let tale = teller(source, claim);
    let (premise, f) = (tale.tell(claim.premise), tale.facts());
    let mut words = source.one(&(claim.truths)(f));
    let lies = (claim.lies)(f);
    match verdict {
        Verdict::Entailed => {}
        Verdict::Contradicted if !lies.is_empty() && source.coin() => words = source.one(&lies),
        Verdict::Contradicted => {
            let at = 1 + source.below(words.len() - 1);
            words[at] = stranger(source, claim, &premise, at);
        }
        Verdict::Open => {
            words[0] = stranger(source, claim, &premise, 0);
            if source.coin() {
                let at = 1 + source.below(words.len() - 1);
                words[at] = stranger(source, claim, &premise, at);
            }
        }
    }
    (premise, (claim.says)(&words))
}

/// A story that tells something of the claim's kind.
fn teller(source: &mut Source<'_>, claim: &Claim) -> Tale {
    source.tale_where(|f| !(claim.truths)(f).is_empty())
}

/// A word for this place of the claim that the premise does not mention, from another story.
fn stranger(source: &mut Source<'_>, claim: &Claim, premise: &str, at: usize) -> &'static str {
    loop {
        let tale = teller(source, claim);
        let word = source.one(&(claim.truths)(tale.facts()))[at];
        if !mentions(premise, word) {
            return word;
        }
    }
}
