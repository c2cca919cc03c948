//! The paper's results (Radford et al. 2018, §4.2, §5): tables 2 to 5, and the sentences that the miniature can test.
//!
//! Scores are in points of 100. A figure that the paper does not give is `None`.

use gradus_study::Quote;

/// A table of the paper.
#[derive(Clone, Debug)]
pub struct Table {
    /// The number and subject of the table.
    pub title: &'static str,
    /// The columns: title and metric.
    pub columns: Vec<&'static str>,
    /// The rows; the last is the paper's own model, or in table 5 the ablations after it.
    pub systems: Vec<System>,
}

/// A row of a table.
#[derive(Clone, Debug)]
pub struct System {
    /// The name in the paper.
    pub name: &'static str,
    /// The scores, in the order of the table's columns.
    pub scores: Vec<Option<f64>>,
}

/// Returns tables 2 to 5, as in `tables.md`.
pub fn tables() -> [Table; 4] {
    let sections = include_str!("tables.md").split("## ").skip(1);
    sections.map(table).collect::<Vec<_>>().try_into().expect("four tables")
}

fn table(section: &'static str) -> Table {
    let cells = |line: &'static str| line.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>();
    let mut rows = section.lines().filter(|line| line.starts_with("| ")).map(cells);
    let columns = rows.next().expect("a line of heads").split_off(1);
    let system =
        |row: Vec<&'static str>| System { name: row[0], scores: row[1..].iter().map(|cell| cell.parse().ok()).collect() };
    Table { title: section.lines().next().expect("a title"), columns, systems: rows.map(system).collect() }
}

const fn quote(section: &'static str, text: &'static str) -> Quote {
    Quote { section, text }
}

pub const PRE_TRAINING: Quote = quote(
    "§5, table 5",
    "We observe that the lack of pre-training hurts performance across all the tasks, resulting in a 14.8% decrease compared to \
     our full model.",
);
pub const AUXILIARY: Quote = quote(
    "§5, table 5",
    "We observe that the auxiliary objective helps on the NLI tasks and QQP. Overall, the trend suggests that larger datasets \
     benefit from the auxiliary objective but smaller datasets do not.",
);
pub const RECURRENT: Quote =
    quote("§5, table 5", "We observe a 5.6 average score drop when using the LSTM instead of the Transformer.");
pub const LAYERS: Quote = quote(
    "§5, figure 2",
    "We observe the standard result that transferring embeddings improves performance and that each transformer layer provides \
     further benefits up to 9% for full transfer on MultiNLI.",
);
pub const HEURISTICS: Quote = quote(
    "§5, figure 2",
    "We observe the performance of these heuristics is stable and steadily increases over training suggesting that generative \
     pretraining supports the learning of a wide variety of task relevant functionality.",
);
pub const VARIANCE: Quote = quote(
    "§5, figure 2",
    "We also observe the LSTM exhibits higher variance in its zero-shot performance suggesting that the inductive bias of the \
     Transformer architecture assists in transfer.",
);
pub const LEARNING: Quote = quote(
    "§3.2",
    "We additionally found that including language modeling as an auxiliary objective to the fine-tuning helped learning by (a) \
     improving generalization of the supervised model, and (b) accelerating convergence.",
);
pub const SIZES: Quote = quote(
    "§4.2",
    "Our results also indicate that our approach works well across datasets of different sizes, from smaller datasets such as \
     STS-B (≈5.7k training examples) – to the largest one – SNLI (≈550k training examples).",
);
pub const CONTIGUOUS: Quote = quote(
    "§4.1",
    "Crucially, it contains long stretches of contiguous text, which allows the generative model to learn to condition on \
     long-range information.",
);
pub const FEATURES: Quote = quote(
    "§2",
    "Other approaches use hidden representations from a pre-trained language or machine translation model as auxiliary features \
     […]. This involves a substantial amount of new parameters for each separate target task, whereas we require minimal \
     changes to our model architecture during transfer.",
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_has_a_score_or_a_gap_in_each_column() {
        let scores = tables().map(|table| {
            assert!(table.systems.iter().all(|s| s.scores.len() == table.columns.len()), "{}", table.title);
            table.systems.iter().flat_map(|s| &s.scores).flatten().count()
        });
        assert_eq!(scores, [24, 12, 21, 36]);
    }

    /// The paper's introduction gives 5.5.
    #[test]
    fn the_gain_on_glue_is_3_9_points() {
        let [_, _, table_4, _] = tables();
        let glue = table_4.columns.iter().position(|column| *column == "GLUE").unwrap();
        let score = |system: &System| system.scores[glue];
        let (ours, others): (Vec<&System>, Vec<&System>) = table_4.systems.iter().partition(|system| system.name == "GPT-1");
        let best = others.into_iter().filter_map(score).fold(0.0, f64::max);
        assert!((score(ours[0]).unwrap() - best - 3.9).abs() < 1e-9, "over the best before, {best}");
    }

    /// The mean of the LSTM is 69.16, printed as 69.1: one of the paper's slips.
    #[test]
    fn the_averages_of_table_5_are_means_of_its_columns() {
        let [.., table_5] = tables();
        for System { name, scores } in &table_5.systems {
            let mean = scores[1..].iter().flatten().sum::<f64>() / 8.0;
            let (slip, printed) = if name.starts_with("LSTM") { (0.0625, 69.1) } else { (0.0, scores[0].unwrap()) };
            assert_eq!(scores[0], Some(printed), "{name}");
            assert!((mean - printed - slip).abs() < 0.0501, "{name}: {mean}");
        }
    }
}
