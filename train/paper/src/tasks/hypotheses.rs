//! Hypotheses about a story that its sentences entail, contradict or leave open.
//!
//! A hypothesis says what is true of a subject, in the words in which stories sum up. Whatever the relation, all its words
//! come from the same distributions, so a hypothesis alone tells nothing:
//!
//! ```text
//! premise        One rainy day Tom was sad because he had lost the red kite. Rosa had seen the kite at the lake.
//! entailed       Once the red kite lay at the lake.
//! contradicted   Once the red kite lay at the mill.      one word from another story, or of somebody else in this one
//! open           Once the red drum lay at the lake.      a subject that the premise does not mention
//! ```

use gradus_world::{Facts, Gender, Price, Who};

use super::tale::{Scene, Teller, a, capital, carriers, mentions};

/// How a hypothesis relates to its premise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    Entailed,
    Contradicted,
    Open,
}

/// A subject, and then what is said of it.
type Words = Vec<&'static str>;

/// A kind of hypothesis.
#[derive(Debug)]
pub(super) struct Hypothesis {
    /// The sentences that decide it.
    pub(super) premise: &'static [Scene],
    /// What is true; empty if the story tells nothing of the kind.
    pub(super) truths: fn(&Facts) -> Vec<Words>,
    /// What is false although the premise holds all the words.
    pub(super) lies: fn(&Facts) -> Vec<Words>,
    /// The hypothesis in words.
    pub(super) says: fn(&[&str]) -> String,
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
pub(super) static ANIMAL: Hypothesis = Hypothesis {
    premise: &[Scene::Opening, Scene::Longing, Scene::Helper],
    truths: |f| vec![vec![f.hero.name, f.hero.animal], vec![f.friend.name, f.friend.animal]],
    lies: |f| crossed((ANIMAL.truths)(f)),
    says: |words| format!("{} was {}.", capital(words[0]), a(words[1])),
};

/// Once the red kite lay at the lake.
pub(super) static WHERE: Hypothesis = Hypothesis {
    premise: &[Scene::Longing, Scene::Helper],
    truths: |f| vec![vec![f.thing, f.colour, f.place]],
    lies: |_| Vec::new(),
    says: |words| format!("Once the {} {} lay at the {}.", words[1], words[0], words[2]),
};

/// Mia carried her rope to the lake.
pub(super) static TOOL: Hypothesis = Hypothesis {
    premise: &[Scene::Departure],
    truths: |f| carriers(f).into_iter().map(|(who, tool)| vec![f.who(who).name, tool, f.place]).collect(),
    lies: |f| crossed((TOOL.truths)(f)),
    says: |words| {
        format!("{} carried {} {} to the {}.", capital(words[0]), Gender::of(words[0]).possessive(), words[1], words[2])
    },
};

/// Once the red kite lay at the lake. Mia carried her rope to the lake. What some sentences tell, and what another does.
pub(super) static BOTH: Hypothesis = Hypothesis {
    premise: &[Scene::Longing, Scene::Helper, Scene::Departure],
    truths: |f| (TOOL.truths)(f).into_iter().map(|told| vec![f.thing, f.colour, f.place, told[0], told[1]]).collect(),
    lies: |_| Vec::new(),
    says: |words| format!("{} {}", (WHERE.says)(&words[..3]), (TOOL.says)(&[words[3], words[4], words[2]])),
};

/// The giant got a song.
pub(super) static PAY: Hypothesis = Hypothesis {
    premise: &[Scene::Price],
    truths: |f| {
        let (Price::Treat(price) | Price::Tool(price)) = f.price;
        vec![vec![f.keeper, price]]
    },
    lies: |_| Vec::new(),
    says: |words| format!("The {} got {}.", words[0], a(words[1])),
};

/// Tom got it from Mia.
pub(super) static GIFT: Hypothesis = Hypothesis {
    premise: &[Scene::Ending],
    truths: |f| if f.longing == Who::Friend { vec![vec![f.friend.name, f.hero.name]] } else { Vec::new() },
    lies: |f| vec![vec![f.hero.name, f.friend.name]],
    says: |words| format!("{} got it from {}.", capital(words[0]), capital(words[1])),
};

/// The sentences of a story that decide a hypothesis of this kind, and one in this relation to them.
pub(super) fn pair(teller: &mut Teller<'_>, kind: &Hypothesis, relation: Relation) -> (String, String) {
    let tale = teller.tale_where(|f| !(kind.truths)(f).is_empty());
    let (premise, f) = (tale.tell(kind.premise), tale.facts());
    let mut words = teller.one(&(kind.truths)(f));
    let lies = (kind.lies)(f);
    match relation {
        Relation::Entailed => {}
        Relation::Contradicted if !lies.is_empty() && teller.coin() => words = teller.one(&lies),
        _ => {
            if relation == Relation::Open {
                words[0] = stranger(teller, kind, &premise, 0);
            }
            if relation == Relation::Contradicted || teller.coin() {
                let at = 1 + teller.below(words.len() - 1);
                words[at] = stranger(teller, kind, &premise, at);
            }
        }
    }
    (premise, (kind.says)(&words))
}

/// A word for this place of the hypothesis that the premise does not mention, from another story.
fn stranger(teller: &mut Teller<'_>, kind: &Hypothesis, premise: &str, at: usize) -> &'static str {
    loop {
        let tale = teller.tale_where(|f| !(kind.truths)(f).is_empty());
        let word = teller.one(&(kind.truths)(tale.facts()))[at];
        if !mentions(premise, word) {
            return word;
        }
    }
}
