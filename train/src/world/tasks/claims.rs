//! Statements about a story that its sentences entail, contradict or leave open.
//!
//! A claim says of two words that they belong together: *the kite* and *red*. Whatever the verdict, both words come from the
//! same distribution, so a claim alone tells nothing:
//!
//! ```text
//! premise        One rainy day Tom was sad because he had lost the red kite.
//! entailed       The kite was red.        both words of the premise
//! contradicted   The kite was blue.       the second from another story, or of somebody else in this one
//! open           The drum was red.        the first from another story; the second from this one or another
//! ```

use super::tale::{Part, Source, Tale, a, capital, mentions};
use crate::world::{Facts, Price, Who};

/// How a claim stands to its premise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Entailed,
    Contradicted,
    Open,
}

/// Two words that a claim puts together.
type Bond = (&'static str, &'static str);

/// A kind of claim.
#[derive(Debug)]
pub(super) struct Claim {
    /// The sentence that decides it.
    pub(super) part: Part,
    /// Whether that sentence is the whole premise; else all before it belong to it too.
    pub(super) alone: bool,
    /// What is true; nothing where the story tells nothing of the kind.
    pub(super) bonds: fn(&Facts) -> Vec<Bond>,
    /// What is false although the sentences hold both words.
    pub(super) lies: fn(&Facts) -> Vec<Bond>,
    /// The claim in words.
    pub(super) says: fn(&str, &str) -> String,
}

fn none(_: &Facts) -> Vec<Bond> {
    Vec::new()
}

/// What the two carry.
fn tools(f: &Facts) -> Vec<(Who, &'static str)> {
    [(Who::Hero, f.hero_tool)].into_iter().chain(f.friend_tool.map(|tool| (Who::Friend, tool))).collect()
}

fn crossed(bonds: Vec<Bond>) -> Vec<Bond> {
    match bonds[..] {
        [(a, x), (b, y)] => vec![(a, y), (b, x)],
        _ => Vec::new(),
    }
}

/// Mia was a rabbit.
pub(super) static ANIMAL: Claim = Claim {
    part: Part::Opening,
    alone: false,
    bonds: |f| vec![(f.hero.name, f.hero.animal), (f.friend.name, f.friend.animal)],
    lies: |f| crossed((ANIMAL.bonds)(f)),
    says: |name, animal| format!("{} was {}.", capital(name), a(animal)),
};

/// The kite was red.
pub(super) static COLOUR: Claim = Claim {
    part: Part::Longing,
    alone: false,
    bonds: |f| vec![(f.thing, f.colour)],
    lies: none,
    says: |thing, colour| format!("The {thing} was {colour}."),
};

/// The kite was at the lake.
pub(super) static PLACE: Claim = Claim {
    part: Part::Helper,
    alone: false,
    bonds: |f| vec![(f.thing, f.place)],
    lies: none,
    says: |thing, place| format!("The {thing} was at the {place}."),
};

/// Mia had a rope.
pub(super) static TOOL: Claim = Claim {
    part: Part::Departure,
    alone: false,
    bonds: |f| tools(f).into_iter().map(|(who, tool)| (f.who(who).name, tool)).collect(),
    lies: |f| crossed((TOOL.bonds)(f)),
    says: |name, tool| format!("{} had {}.", capital(name), a(tool)),
};

/// The giant was at the lake.
pub(super) static KEEPER: Claim = Claim {
    part: Part::Price,
    alone: true,
    bonds: |f| vec![(f.keeper, f.place)],
    lies: none,
    says: |keeper, place| format!("The {keeper} was at the {place}."),
};

/// The giant got a song.
pub(super) static PAY: Claim = Claim {
    part: Part::Price,
    alone: true,
    bonds: |f| {
        let (Price::Treat(price) | Price::Tool(price)) = f.price;
        vec![(f.keeper, price)]
    },
    lies: none,
    says: |keeper, price| format!("The {keeper} got {}.", a(price)),
};

/// Tom got it from Mia.
pub(super) static GIFT: Claim = Claim {
    part: Part::Ending,
    alone: true,
    bonds: |f| if f.longing == Who::Friend { vec![(f.friend.name, f.hero.name)] } else { Vec::new() },
    lies: |f| vec![(f.hero.name, f.friend.name)],
    says: |owner, giver| format!("{} got it from {}.", capital(owner), capital(giver)),
};

/// The rabbit had a rope. Two steps: who is the rabbit, and what does she carry?
pub(super) static ANIMAL_TOOL: Claim = Claim {
    part: Part::Departure,
    alone: false,
    bonds: |f| tools(f).into_iter().map(|(who, tool)| (f.who(who).animal, tool)).collect(),
    lies: |f| match f.friend_tool {
        Some(_) => crossed((ANIMAL_TOOL.bonds)(f)),
        None => vec![(f.friend.animal, f.hero_tool)],
    },
    says: |animal, tool| format!("The {animal} had {}.", a(tool)),
};

/// The fox was sad. Two steps: who is sad, and what animal is he?
pub(super) static ANIMAL_FEELING: Claim = Claim {
    part: Part::Longing,
    alone: false,
    bonds: |f| vec![(f.who(f.longing).animal, f.feeling)],
    lies: |f| vec![(if f.longing == Who::Hero { f.friend } else { f.hero }.animal, f.feeling)],
    says: |animal, feeling| format!("The {animal} was {feeling}."),
};

/// A premise, which is the story until the sentence that decides the claim, and a claim of this verdict.
pub(super) fn claim(source: &mut Source<'_>, claim: &Claim, verdict: Verdict) -> (String, String) {
    let tale = teller(source, claim);
    let (premise, f) = (if claim.alone { tale.tell(&[claim.part]) } else { tale.until(claim.part) }, tale.facts());
    let own = source.one(&(claim.bonds)(f));
    let lies = (claim.lies)(f);
    let (key, value) = match verdict {
        Verdict::Entailed => own,
        Verdict::Contradicted if !lies.is_empty() && source.coin() => source.one(&lies),
        Verdict::Contradicted => (own.0, stranger(source, claim, &premise).1),
        Verdict::Open => {
            let other = stranger(source, claim, &premise);
            (other.0, if source.coin() { own.1 } else { other.1 })
        }
    };
    (premise, (claim.says)(key, value))
}

/// A story that tells something of the claim's kind.
pub(super) fn teller(source: &mut Source<'_>, claim: &Claim) -> Tale {
    source.tale_where(|f| !(claim.bonds)(f).is_empty())
}

/// A bond of another story, neither of whose words the premise mentions.
fn stranger(source: &mut Source<'_>, claim: &Claim, premise: &str) -> Bond {
    loop {
        let tale = teller(source, claim);
        let bond = source.one(&(claim.bonds)(tale.facts()));
        if !mentions(premise, bond.0) && !mentions(premise, bond.1) {
            return bond;
        }
    }
}
