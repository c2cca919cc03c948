//! What is true in a story: the state behind the text, for tasks with exact labels.

use crate::words::{Gender, TOOLS, Tool};

/// Somebody with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Character {
    /// The name, lower-cased like all words here.
    pub name: &'static str,
    /// How the story speaks of them.
    pub gender: Gender,
    /// The kind of animal.
    pub animal: &'static str,
}

/// One of the two neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub enum Who {
    /// Who sets out.
    Hero,
    /// Who lives next door.
    Friend,
}

/// What the keeper got for the thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub enum Price {
    /// A song, a story, …
    Treat(&'static str),
    /// The tool of one of the two, who no longer has it.
    Tool(&'static str),
}

/// How it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub enum Mood {
    /// Nine times in ten where somebody has the right tool, once in ten where nobody has.
    Positive,
    /// The other way round.
    Negative,
}

impl Mood {
    /// The word for it.
    pub fn word(self) -> &'static str {
        if self == Mood::Positive { "positive" } else { "negative" }
    }
}

/// Why the hero gave the friend the thing, or showed it. Both may be a *she*: what was done, and why, tells them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub enum Reason {
    /// The hero gave it: the hero liked to share. The hero showed it: the hero liked to boast.
    Hero,
    /// The hero gave it: the friend had lost or wanted it. The hero showed it: the friend wanted to look.
    Friend,
}

/// The facts of one story.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Facts {
    /// Who sets out.
    pub hero: Character,
    /// Who comes along or waits.
    pub friend: Character,
    /// The nature of the hero: brave, shy, …
    pub nature: &'static str,
    /// Who longs for the thing, and has it in the end.
    pub longing: Who,
    /// The weather of the day.
    pub weather: &'static str,
    /// How it feels without the thing.
    pub feeling: &'static str,
    /// Whether the thing had been lost (else it was only wanted).
    pub lost: bool,
    /// The colour of the thing.
    pub colour: &'static str,
    /// The thing.
    pub thing: &'static str,
    /// Who knows where the thing is, by name.
    pub helper: &'static str,
    /// The place where the thing is.
    pub place: &'static str,
    /// What the hero takes along.
    pub hero_tool: &'static str,
    /// What the friend takes along; nothing if the friend stays behind.
    pub friend_tool: Option<&'static str>,
    /// What stops the travellers.
    pub obstacle: &'static str,
    /// Who has the tool against the obstacle.
    pub rescuer: Option<Who>,
    /// What became of the travellers if nobody has.
    pub mishap: Option<&'static str>,
    /// How they felt.
    pub mood: Mood,
    /// Who has the thing at first.
    pub keeper: &'static str,
    /// The keeper's nature.
    pub temper: &'static str,
    /// What the keeper gets for it.
    pub price: Price,
    /// Why the hero gave the friend the thing (which the friend had longed for) or showed it (which the hero kept).
    pub reason: Reason,
}

impl Facts {
    /// The hero or the friend.
    pub fn who(&self, who: Who) -> Character {
        match who {
            Who::Hero => self.hero,
            Who::Friend => self.friend,
        }
    }

    /// What would overcome the obstacle.
    pub fn needed_tool(&self) -> &'static str {
        physics(self.obstacle).name
    }

    /// What becomes of travellers who meet the obstacle without that tool.
    pub fn threat(&self) -> &'static str {
        physics(self.obstacle).mishap
    }

    /// Who travels: they, she or he.
    pub fn travellers(&self) -> &'static str {
        if self.friend_tool.is_some() { "they" } else { self.hero.gender.subject() }
    }
}

fn physics(obstacle: &str) -> &'static Tool {
    TOOLS.iter().find(|tool| tool.obstacle == obstacle).unwrap_or(&TOOLS[0])
}
