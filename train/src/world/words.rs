//! Who and what there is in the world. A [`WorldConfig`] takes the first few
//! of each list; no word stands in two lists.

use super::WorldConfig;

/// How a character is spoken of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Gender {
    /// she, her
    She,
    /// he, his, him
    He,
}

impl Gender {
    pub(super) fn of(name: &str) -> Self {
        if NAMES.contains(&(name, He)) { He } else { She }
    }
    pub(super) fn subject(self) -> &'static str {
        match self {
            Gender::She => "she",
            Gender::He => "he",
        }
    }
    pub(super) fn object(self) -> &'static str {
        match self {
            Gender::She => "her",
            Gender::He => "him",
        }
    }
    pub(super) fn possessive(self) -> &'static str {
        match self {
            Gender::She => "her",
            Gender::He => "his",
        }
    }
}

use Gender::{He, She};

pub(super) const NAMES: [(&str, Gender); 12] = [
    ("mia", She),
    ("tom", He),
    ("lily", She),
    ("ben", He),
    ("nora", She),
    ("max", He),
    ("rosa", She),
    ("leo", He),
    ("anna", She),
    ("finn", He),
    ("ella", She),
    ("hugo", He),
];

pub(super) const TRAITS: [&str; 8] = ["brave", "shy", "kind", "clever", "sleepy", "proud", "gentle", "curious"];

pub(super) const ANIMALS: [&str; 10] = ["rabbit", "fox", "bear", "mouse", "cat", "dog", "pig", "goat", "duck", "frog"];

pub(super) const PLACES: [&str; 10] = ["mill", "lake", "castle", "farm", "tower", "bridge", "cave", "harbor", "market", "garden"];

pub(super) const FEELINGS: [&str; 6] = ["sad", "lonely", "angry", "bored", "worried", "gloomy"];

pub(super) const COLOURS: [&str; 8] = ["red", "blue", "green", "yellow", "white", "black", "golden", "silver"];

pub(super) const THINGS: [&str; 12] =
    ["kite", "drum", "ball", "bell", "book", "hat", "cup", "ring", "flute", "doll", "clock", "crown"];

pub(super) const KEEPERS: [&str; 6] = ["giant", "witch", "troll", "wizard", "dragon", "pirate"];

pub(super) const MOODS: [&str; 8] = ["grumpy", "friendly", "greedy", "lazy", "cheerful", "tiny", "mighty", "strange"];

pub(super) const WEATHERS: [&str; 8] = ["sunny", "rainy", "windy", "foggy", "snowy", "stormy", "cloudy", "warm"];

/// The words that a world has, kind by kind.
pub(super) struct Words {
    pub(super) names: Vec<&'static str>,
    pub(super) traits: &'static [&'static str],
    pub(super) animals: &'static [&'static str],
    pub(super) places: &'static [&'static str],
    pub(super) feelings: &'static [&'static str],
    pub(super) colours: &'static [&'static str],
    pub(super) things: &'static [&'static str],
    pub(super) keepers: &'static [&'static str],
    pub(super) moods: &'static [&'static str],
    pub(super) weathers: &'static [&'static str],
    pub(super) tools: &'static [Tool],
    pub(super) tool_names: Vec<&'static str>,
    pub(super) mishaps: Vec<&'static str>,
}

impl Words {
    pub(super) fn of(config: &WorldConfig) -> Self {
        let tools = &TOOLS[..config.tools];
        Words {
            names: NAMES[..config.names].iter().map(|&(name, _)| name).collect(),
            traits: &TRAITS[..config.traits],
            animals: &ANIMALS[..config.animals],
            places: &PLACES[..config.places],
            feelings: &FEELINGS[..config.feelings],
            colours: &COLOURS[..config.colours],
            things: &THINGS[..config.things],
            keepers: &KEEPERS[..config.keepers],
            moods: &MOODS[..config.moods],
            weathers: &WEATHERS[..config.weathers],
            tools,
            tool_names: tools.iter().map(|tool| tool.name).collect(),
            mishaps: tools.iter().map(|tool| tool.mishap).collect(),
        }
    }
}

/// The physics of the world: what each tool overcomes, and what happens without it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Tool {
    pub(super) name: &'static str,
    pub(super) article: &'static str,
    /// The obstacle that the tool overcomes, with its article.
    pub(super) obstacle: &'static str,
    /// What one becomes who meets the obstacle without the tool.
    pub(super) mishap: &'static str,
}

impl Tool {
    /// The adjective and the noun of the obstacle.
    pub(super) fn obstacle_words(&self) -> (&'static str, &'static str) {
        let mut words = self.obstacle.split(' ').skip(1);
        (words.next().unwrap_or(""), words.next().unwrap_or(""))
    }
}

const fn tool(name: &'static str, article: &'static str, obstacle: &'static str, mishap: &'static str) -> Tool {
    Tool { name, article, obstacle, mishap }
}

pub(super) const TOOLS: [Tool; 6] = [
    tool("lantern", "a", "a dark tunnel", "lost"),
    tool("umbrella", "an", "a wild storm", "wet"),
    tool("rope", "a", "a steep cliff", "scratched"),
    tool("key", "a", "a locked gate", "hungry"),
    tool("ladder", "a", "a high wall", "tired"),
    tool("blanket", "a", "an icy wind", "cold"),
];

/// What a keeper takes instead of a tool.
pub(super) const TREATS: [&str; 4] = ["song", "story", "dance", "joke"];
