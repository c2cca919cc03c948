//! Hypotheses that are entailed, contradicted or left open by the sentences of a story.
//!
//! A hypothesis states a fact about a subject, in the words of the stories' summaries. For each relation, its words come from the
//! same distributions, so a hypothesis without its premise carries no information on the label:
//!
//! ```text
//! premise        One rainy day Tom was sad because he had lost the red kite. Rosa had seen the kite at the lake.
//! entailed       Once the red kite lay at the lake.
//! contradicted   Once the red kite lay at the mill.      one word from another story, or of somebody else in this one
//! open           Once the red drum lay at the lake.      a subject that the premise does not mention
//! ```

use gradus_world::{Facts, Gender, Price, Who};

use super::tale::{Scene, Teller, a, capital, carriers, mentions};

/// The relation of a hypothesis to its premise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    Entailed,
    Contradicted,
    Open,
}

/// The words of a statement: the subject first, then the predicate.
type Words = Vec<&'static str>;

/// A kind of hypothesis.
#[derive(Debug)]
pub(super) struct Hypothesis {
    /// The sentences that decide the hypothesis.
    pub(super) premise: &'static [Scene],
    /// The true statements; empty if the story has none of this kind.
    pub(super) truths: fn(&Facts) -> Vec<Words>,
    /// The false statements whose words all occur in the premise.
    pub(super) lies: fn(&Facts) -> Vec<Words>,
    /// The hypothesis as text.
    pub(super) says: fn(&[&str]) -> String,
}

/// Exchanges the predicates of two subjects.
fn crossed(mut truths: Vec<Words>) -> Vec<Words> {
    match &mut truths[..] {
        [one, other] => {
            std::mem::swap(&mut one[0], &mut other[0]);
            truths
        }
        _ => Vec::new(),
    }
}

/// A hypothesis on an animal: Mia was a rabbit.
pub(super) static ANIMAL: Hypothesis = Hypothesis {
    premise: &[Scene::Opening, Scene::Longing, Scene::Helper],
    truths: |f| vec![vec![f.hero.name, f.hero.animal], vec![f.friend.name, f.friend.animal]],
    lies: |f| crossed((ANIMAL.truths)(f)),
    says: |words| format!("{} was {}.", capital(words[0]), a(words[1])),
};

/// A hypothesis on a place: Once the red kite lay at the lake.
pub(super) static WHERE: Hypothesis = Hypothesis {
    premise: &[Scene::Longing, Scene::Helper],
    truths: |f| vec![vec![f.thing, f.colour, f.place]],
    lies: |_| Vec::new(),
    says: |words| format!("Once the {} {} lay at the {}.", words[1], words[0], words[2]),
};

/// A hypothesis on a tool: Mia carried her rope to the lake.
pub(super) static TOOL: Hypothesis = Hypothesis {
    premise: &[Scene::Departure],
    truths: |f| carriers(f).into_iter().map(|(who, tool)| vec![f.who(who).name, tool, f.place]).collect(),
    lies: |f| crossed((TOOL.truths)(f)),
    says: |words| {
        format!("{} carried {} {} to the {}.", capital(words[0]), Gender::of(words[0]).possessive(), words[1], words[2])
    },
};

/// A hypothesis of two facts from different sentences: Once the red kite lay at the lake. Mia carried her rope to the lake.
pub(super) static BOTH: Hypothesis = Hypothesis {
    premise: &[Scene::Longing, Scene::Helper, Scene::Departure],
    truths: |f| (TOOL.truths)(f).into_iter().map(|told| vec![f.thing, f.colour, f.place, told[0], told[1]]).collect(),
    lies: |_| Vec::new(),
    says: |words| format!("{} {}", (WHERE.says)(&words[..3]), (TOOL.says)(&[words[3], words[4], words[2]])),
};

/// A hypothesis on a price: The giant got a song.
pub(super) static PAY: Hypothesis = Hypothesis {
    premise: &[Scene::Price],
    truths: |f| {
        let (Price::Treat(price) | Price::Tool(price)) = f.price;
        vec![vec![f.keeper, price]]
    },
    lies: |_| Vec::new(),
    says: |words| format!("The {} got {}.", words[0], a(words[1])),
};

/// A hypothesis on a gift: Tom got it from Mia.
pub(super) static GIFT: Hypothesis = Hypothesis {
    premise: &[Scene::Ending],
    truths: |f| if f.longing == Who::Friend { vec![vec![f.friend.name, f.hero.name]] } else { Vec::new() },
    lies: |f| vec![vec![f.hero.name, f.friend.name]],
    says: |words| format!("{} got it from {}.", capital(words[0]), capital(words[1])),
};

/// Returns the sentences of a story that decide a hypothesis of this kind, and one in this relation to them.
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

/// Returns a word for this place of the hypothesis that the premise does not mention, from another story.
fn stranger(teller: &mut Teller<'_>, kind: &Hypothesis, premise: &str, at: usize) -> &'static str {
    loop {
        let tale = teller.tale_where(|f| !(kind.truths)(f).is_empty());
        let word = teller.one(&(kind.truths)(tale.facts()))[at];
        if !mentions(premise, word) {
            return word;
        }
    }
}
