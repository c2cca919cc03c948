//! The cards as text: the entries of one system, the differences between two, and a page of all.

use gradus_model::NormPlace;
use gradus_report::{Block, Document, Row};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::{ALL, Axes, Card, Density, SystemBody, named, transformer_axes};

impl Axes {
    /// Returns the axes' values by the names of their flags.
    pub fn flags(&self) -> Vec<(String, String)> {
        let mut all = vec![("backbone", json!(self.body.name()))];
        if let SystemBody::Ngram { order } = self.body {
            all.push(("order", json!(order)));
        }
        if self.body.transformer().is_some() {
            all.extend(self.of_transformer());
            all.push(("transform", json!(self.transform)));
        }
        all.push(("view", json!(self.view)));
        all.into_iter().map(|(name, value)| (name.replace('_', "-"), plain(&value))).collect()
    }

    /// Returns the axes of a Transformer by the names of their options; those of GPT-1 for any other body.
    fn of_transformer(&self) -> Vec<(&'static str, Value)> {
        macro_rules! values {
            ($c:ident; $($option:ident $field:ident),*) => { vec![$((stringify!($option), json!($c.$field))),*] };
        }
        let c = self.body.transformer().copied().unwrap_or_default();
        transformer_axes!(values!(c))
    }
}

impl Serialize for Axes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let SystemBody::Ngram { order } = self.body {
            return json!({ "backbone": self.body.name(), "order": order, "view": self.view }).serialize(serializer);
        }
        let mut parts: Map<String, Value> =
            self.of_transformer().into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let [activation, epsilon] = ["activation", "epsilon"].map(|name| parts.remove(name));
        let Axes { transform, view, .. } = self;
        json!({
            "backbone": self.body.name(), "activation": activation, "epsilon": epsilon, "parts": parts, "transform": transform,
            "view": view,
        })
        .serialize(serializer)
    }
}

/// Formats a value as a flag accepts it.
fn plain(value: &Value) -> String {
    match (value, value.as_f64()) {
        (Value::String(word), _) => word.clone(),
        (_, Some(number)) if 0.0 < number && number < 1e-3 => format!("{number:e}"),
        _ => value.to_string(),
    }
}

impl Density {
    /// Returns a description.
    pub fn words(self) -> &'static str {
        match self {
            Density::Joint => "joint: the probabilities of all texts of one length sum to 1",
            Density::Pseudo => "pseudo: each token is predicted from all others, and the products do not sum to 1",
        }
    }
}

impl Card {
    /// Describes the body and the view in a sentence.
    fn made_of(&self) -> String {
        let Axes { body, transform, view } = &self.axes;
        let c = body.transformer().copied().unwrap_or_default();
        let body = match body {
            SystemBody::Network(network) => network.words().into(),
            SystemBody::Ngram { order } => format!("counts of n-grams of at most {order} tokens"),
        };
        let parts = [
            (c.norm == NormPlace::Before, "norms before its branches"),
            (c.final_norm, "a norm after the last block"),
            (c.embedding_norm, "a norm after the embeddings"),
            (c.segments > 1, "segments"),
            (*transform, "a layer before the output"),
        ];
        let parts: Vec<&str> = parts.into_iter().filter(|(there, _)| *there).map(|(_, words)| words).collect();
        let parts = match parts.split_last() {
            None => String::new(),
            Some((last, [])) => format!(" with {last}"),
            Some((last, others)) => format!(" with {} and {last}", others.join(", ")),
        };
        format!("{body}{parts}; {}.", view.words())
    }

    /// Returns the picture of the tokens that each prediction may depend on, one line per token.
    pub fn picture(&self) -> String {
        let line = |(asked, sees): &(char, &str)| format!("{asked} ← {sees}");
        self.sight.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    /// Returns the entries of the card that are not empty, by name.
    pub fn entries(&self) -> Vec<(&'static str, String)> {
        let settled = |s: &super::Settled| format!("{}: {}, by {}", s.what, s.here, s.by);
        let axes = self.axes.flags().iter().map(|(flag, value)| format!("--{flag} {value}")).collect::<Vec<_>>().join(" ");
        let mut all = vec![
            ("learns", self.equation.to_owned()),
            ("is", self.made_of()),
            ("sources", self.sources.join("\n")),
            ("settled", self.settled.iter().map(settled).collect::<Vec<_>>().join("\n")),
            ("axes", axes),
            ("sees", self.picture()),
            ("density", self.density.words().to_owned()),
            ("relatives", self.relatives.iter().map(|name| self.becomes(name)).collect::<Vec<_>>().join("\n")),
            ("saved as", self.model_type.to_owned()),
            ("claims", self.claims.join("\n")),
            ("survey", self.compared.iter().map(|compared| compared.statement).collect::<Vec<_>>().join("\n")),
        ];
        all.retain(|(_, text)| !text.is_empty());
        all
    }

    /// Returns the flags that turn this system into a relative, in words.
    fn becomes(&self, relative: &str) -> String {
        let other = named(relative).expect("a system");
        let theirs = self.against(other).into_iter().filter(|(_, _, its)| its != "–");
        let flags: Vec<String> = theirs.map(|(flag, _, its)| format!("--{flag} {its}")).collect();
        format!("with {} it is {relative}", flags.join(" "))
    }

    /// Returns the axes in which two systems differ: the flag, this system's value, the other's; `–` for an axis that one lacks.
    pub fn against(&self, other: &Card) -> Vec<(String, String, String)> {
        let (ours, theirs) = (self.axes.flags(), other.axes.flags());
        let value = |all: &[(String, String)], flag: &str| {
            all.iter().find(|(name, _)| *name == flag).map_or("–".to_owned(), |(_, value)| value.clone())
        };
        let mut flags: Vec<&String> = ours.iter().chain(&theirs).map(|(flag, _)| flag).collect();
        let mut seen = std::collections::BTreeSet::new();
        flags.retain(|flag| seen.insert(*flag));
        let all = flags.into_iter().map(|flag| (flag.clone(), value(&ours, flag), value(&theirs, flag)));
        all.filter(|(_, ours, theirs)| ours != theirs).collect()
    }
}

/// Returns all cards as a document.
pub fn page() -> Document {
    let mut page = Document {
        kicker: "Gradus".into(),
        title: "GPT-1 and its relatives".into(),
        lead: "A system combines a view of texts, a network that reads them, and what the network predicts. `gradus pretrain \
               --system NAME` trains it; each of its axes is a flag too. Below, `d ← abc···` means that the prediction of the \
               fourth token of `abcdef`, masked in a masked view, may depend on the first three. Tests check the networks \
               against these pictures."
            .into(),
        ..Document::default()
    };
    let row = |card: &&Card| {
        let density = if card.density == Density::Joint { "joint" } else { "pseudo" };
        Row::new(format!("{} (`{}`)", card.title, card.name), [card.year.to_string(), card.made_of(), density.into()])
    };
    let heads = ["System", "Year", "It is", "Density"].map(String::from).into();
    page.section("", vec![Block::Words(heads, ALL.iter().map(row).collect())]);
    for card in ALL {
        let entries = card.entries().into_iter().filter(|(name, _)| *name != "sees");
        let of_lines =
            |(name, text): (&str, String)| text.lines().map(|line| Row::new(name, [line.to_owned()])).collect::<Vec<_>>();
        let rows = entries.flat_map(of_lines).collect();
        let blocks = vec![Block::Words(["", ""].map(String::from).into(), rows), Block::Listing(card.picture())];
        page.section(&format!("{} ({})", card.title, card.year), blocks);
    }
    page
}

#[cfg(test)]
mod tests {
    use super::super::named;
    use super::*;

    #[test]
    fn two_systems_differ_in_their_axes() {
        let [gpt, lstm, bert, roberta] = ["gpt", "lstm", "bert", "roberta"].map(|name| named(name).unwrap());
        assert_eq!(gpt.against(gpt), []);
        assert_eq!(gpt.against(lstm)[0], ("backbone".into(), "transformer".into(), "lstm".into()));
        assert_eq!(gpt.against(lstm)[1], ("activation".into(), "gelu".into(), "–".into()));
        let differences: Vec<_> = bert.against(roberta).into_iter().map(|(flag, ..)| flag).collect();
        assert_eq!(differences, ["activation", "epsilon", "segments", "view"]);
    }

    #[test]
    fn every_card_is_on_the_page() {
        let page = page().markdown();
        for card in ALL {
            let expected = [format!("## {} ({})", card.title, card.year), card.picture().lines().next().unwrap().to_owned()];
            assert!(expected.iter().all(|text| page.contains(text)), "{}: {page}", card.name);
        }
    }
}
