//! The report: the paper's tables and figure 2 with a line of our own, and the table of claims.

use gradus_data::sets::Task;
use gradus_data::sets::scores::glue_average;
use gradus_io::numbers::{count, duration};
use gradus_report::svg::{Curve, Ink, Level, Plot};
use gradus_report::{Axis, Block, Figure, Report, Row, Scale};

use crate::claims::{self, Claim};
use crate::paper::{self, Table};
use crate::plan::{EXPERIMENTS, PARTS, Sizes, TRANSFERRED};
use crate::results::{Body, Mean, Results, TaskResult, Variant};
use crate::stage::ZERO_SHOT;
use crate::tasks::bayes;

/// Our columns of each table, in the order of the paper's.
const COLUMNS_2: [&str; 6] = ["mnli", "mnli-mm", "snli", "scitail", "qnli", "rte"];
const COLUMNS_3: [&str; 4] = ["story-cloze", "race-middle", "race-high", "race"];
const COLUMNS_4: [&str; 6] = ["cola", "sst-2", "mrpc", "sts-b", "qqp", "glue"];

/// The ablations of table 5.
const ABLATIONS: [(&str, Variant); 4] = [
    ("full", Variant::Full),
    ("no pre-training", Variant::NoPretraining),
    ("no auxiliary LM", Variant::NoAux),
    ("LSTM", Variant::Lstm),
];

/// The whole report.
pub fn report(results: &Results, sizes: &Sizes, claims: &[Claim], seconds: f64) -> Report {
    let seeds = results.seeds();
    let mut report = Report {
        kicker: "Gradus · the paper in miniature".into(),
        title: "GPT-1: every table, in a world whose answers are known".into(),
        lead: format!(
            "A Transformer and an LSTM of as many parameters were pre-trained on stories of a made-up world, then fine-tuned on twelve \
             tasks made from such stories in the formats of the original data sets. The paper's figures are for real text and a \
             model of 117 million parameters; ours are for the miniature, test splits, {}. What can be compared is directions, \
             not heights.",
            if seeds.len() == 1 { "one seed, so without deviations".into() } else { format!("mean ± sample standard deviation over {} seeds", seeds.len()) }
        ),
        foot: "Scores in points of 100: accuracy, F1, Matthews' (mc) and Pearson's (pc) correlation. The model of each fine-tuning is \
               the one with the best dev score; its scores are on test rows (of MNLI on both test sets). Scores without training are \
               on 200 dev rows, CoLA's threshold on 200 training rows. The best possible score is an expectation: on the rows drawn, more can \
               be had. Rates, epochs and the world itself were chosen on dev scores of earlier runs, most of them of seed 1. GLUE is the mean of eight tasks here, without WNLI, which is not trained on here; the paper's counts nine. "
            .to_owned()
            + claims::RULE,
        ..Report::default()
    };
    report.section("", vec![Block::Figures(figures(results, sizes, seconds))]);
    report.section("What the paper claims, and what came out", vec![claims_table(claims)]);
    for (table, columns) in [(paper::TABLE_2, &COLUMNS_2[..]), (paper::TABLE_3, &COLUMNS_3[..]), (paper::TABLE_4, &COLUMNS_4[..])]
    {
        report.section(table.title, vec![beside(results, &table, columns)]);
    }
    report.section(paper::TABLE_5.title, vec![table_5(results)]);
    report.section("Figure 2", figure_2(results, sizes));
    report.section("Every task in every ablation", vec![every_task(results)]);
    report.section("Convergence and generalisation", learning(results, sizes));
    if sizes.full {
        report.section("By size of the labelled set, order of sentences, and what is trained", vec![experiments(results, sizes)]);
    }
    report.section("Pre-training", vec![pretraining(results)]);
    report.section(
        "How to repeat it",
        vec![Block::Listing(format!(
            "{}   # updates {}, rows {}, epochs {}, rate {}",
            sizes.command(),
            sizes.updates,
            sizes.rows,
            sizes.epochs,
            sizes.lr
        ))],
    );
    report
}

fn figures(results: &Results, sizes: &Sizes, seconds: f64) -> Vec<Figure> {
    let figure = |name: &str, value: String, hint: &str| Figure { name: name.into(), value, hint: hint.into() };
    let average = |variant| {
        let each = results.each(|seed| results.average(seed, &claims::TABLE_5, variant));
        Mean::of(&each).map_or("–".into(), |m| m.to_string())
    };
    let work: f64 = results.tasks.iter().map(|t| t.seconds).chain(results.pretrained.iter().map(|p| p.seconds)).sum();
    vec![
        figure("Pre-trained", average(Variant::Full), "average of table 5's columns"),
        figure("No pre-training", average(Variant::NoPretraining), "the same"),
        figure("LSTM", average(Variant::Lstm), "the same"),
        figure("Seeds", results.seeds().len().to_string(), "each with stories, tasks and models of its own"),
        figure("Rows", count(sizes.rows as u64), "to train on, at most; tasks of long rows, and easy ones, have fewer"),
        figure("Work", duration(work.max(seconds)), "of all stages; fine-tunings run side by side, so the whole takes less"),
    ]
}

/// A cell, or a dash.
fn cell(value: Option<String>) -> String {
    value.unwrap_or_else(|| "–".into())
}

fn paper_rows(table: &Table) -> Vec<Row> {
    let row = |line: &paper::Line| Row {
        head: line.system.into(),
        cells: line.scores.iter().map(|s| s.map_or(String::new(), |s| format!("{s:.1}"))).collect(),
        own: false,
    };
    table.lines.iter().map(row).collect()
}

fn heads(first: &str, table: &Table) -> Vec<String> {
    std::iter::once(first).chain(table.columns.iter().copied()).map(str::to_owned).collect()
}

/// A table of the paper with our lines below.
fn beside(results: &Results, table: &Table, columns: &[&str]) -> Block {
    let mut rows = paper_rows(table);
    for (name, variant) in [("miniature, pre-trained", Variant::Full), ("miniature, no pre-training", Variant::NoPretraining)] {
        let score = |column: &&str| match *column {
            "glue" => Mean::of(&results.each(|seed| glue(results, seed, variant))).map(|m| m.to_string()),
            column => results.score(column, variant).map(|m| m.to_string()),
        };
        rows.push(Row {
            head: name.into(),
            cells: columns.iter().map(|c| cell(score(c))).collect(),
            own: variant == Variant::Full,
        });
    }
    for (name, limit) in [("miniature, guessing", guessing as Limit), ("miniature, best possible", best_possible)] {
        rows.push(Row { head: name.into(), cells: columns.iter().map(|c| cell(limit(c))).collect(), own: false });
    }
    Block::Table(heads("", table), rows)
}

/// What guessing, or the best possible answerer, scores on average in a column of this name.
type Limit = fn(&str) -> Option<String>;

fn guessing(column: &str) -> Option<String> {
    if column.ends_with("-accuracy") {
        return Some("50.0".into()); // two classes, as frequent as one another
    }
    bayes(base(column)).map(|_| format!("{:.1}", 100.0 * claims::chance(base(column))))
}

/// Of classes as frequent as one another the best F1 and the best accuracy are one: what noise in the labels leaves.
fn best_possible(column: &str) -> Option<String> {
    bayes(base(column)).map(|b| format!("{:.1}", 100.0 * b))
}

/// How a column is called in the paper, with its metric.
fn title(column: &str) -> String {
    let Ok(task) = Task::named(base(column)) else { return column.into() };
    if column.ends_with("-accuracy") {
        return format!("{}, accuracy", task.title);
    }
    let genres = match column {
        "mnli" => "-m",
        "mnli-mm" => "-mm",
        _ => "",
    };
    format!("{}{genres}, {}", task.title, task.metric)
}

/// The task of a column.
fn base(column: &str) -> &str {
    match column {
        "mnli-mm" | "mnli-both" => "mnli",
        "race-middle" | "race-high" => "race",
        other => other.strip_suffix("-accuracy").unwrap_or(other),
    }
}

/// The benchmark's average of one seed: tasks with two metrics count their mean, MNLI that of both test sets; without WNLI, on
/// which nobody trains here.
fn glue(results: &Results, seed: u64, variant: Variant) -> Option<f64> {
    let metrics = |task: &str, names: &[&str]| -> Option<Vec<f64>> {
        let found = &results.task(seed, task, variant)?.test.metrics;
        names.iter().map(|n| found.get(*n).copied()).collect()
    };
    let all = [
        metrics("cola", &["matthews"])?,
        metrics("sst-2", &["accuracy"])?,
        metrics("mrpc", &["f1", "accuracy"])?,
        metrics("sts-b", &["pearson", "spearman"])?,
        metrics("qqp", &["f1", "accuracy"])?,
        vec![results.one(seed, "mnli", variant)?, results.one(seed, "mnli-mm", variant)?],
        metrics("qnli", &["accuracy"])?,
        metrics("rte", &["accuracy"])?,
    ];
    Some(glue_average(&all.iter().map(Vec::as_slice).collect::<Vec<_>>()))
}

fn table_5(results: &Results) -> Block {
    let mut rows = paper_rows(&paper::TABLE_5);
    for row in &mut rows {
        row.head = format!("paper: {}", row.head);
    }
    for (name, variant) in ABLATIONS {
        let average = results.each(|seed| results.average(seed, &claims::TABLE_5, variant));
        let mut cells = vec![cell(Mean::of(&average).map(|m| m.to_string()))];
        cells.extend(claims::TABLE_5.iter().map(|column| cell(results.score(column, variant).map(|m| m.to_string()))));
        rows.push(Row { head: format!("miniature: {name}"), cells, own: true });
    }
    Block::Table(heads("", &paper::TABLE_5), rows)
}

fn claims_table(claims: &[Claim]) -> Block {
    let heads = ["Claim", "The paper's sentence", "Where", "Its figure", "Here", "Verdict"].map(str::to_owned).to_vec();
    let row = |(at, c): (usize, &Claim)| {
        let again = at > 0 && claims[at - 1].sentence == c.sentence;
        let sentence = if again { "the same".into() } else { format!("“{}”", c.sentence) };
        Row {
            head: c.statement.clone(),
            cells: vec![sentence, c.section.into(), c.paper.clone(), c.ours.clone(), c.verdict.words().into()],
            own: false,
        }
    };
    Block::Words(heads, claims.iter().enumerate().map(row).collect())
}

fn figure_2(results: &Results, sizes: &Sizes) -> Vec<Block> {
    let mut layers = Vec::new();
    for (task, ink) in TRANSFERRED.iter().zip([Ink::Validation, Ink::Train]) {
        let at = |n: usize| match n {
            0 => Variant::NoPretraining,
            n if n == sizes.layers + 1 => Variant::Full,
            n => Variant::Layers(n - 1),
        };
        let points = (0..=sizes.layers + 1).filter_map(|n| Some((n as f64, 100.0 * results.score(task, at(n))?.mean)));
        let name = Task::named(task).map_or(*task, |t| t.title);
        layers.push(Curve { name: name.into(), points: points.collect(), ink, dots: true });
    }
    let left = Plot {
        title: "Layers transferred".into(),
        description: "Test score by what was transferred: nothing, embeddings, then block by block".into(),
        x: Axis::new("0: nothing, 1: embeddings, then blocks", Scale::Linear),
        y: Axis::new("score", Scale::Linear),
        curves: layers,
        levels: Vec::new(),
        size: (520, 340),
    };
    let mut curves = Vec::new();
    for (body, name, ink) in [(Body::Gpt, "Transformer", Ink::Validation), (Body::Lstm, "LSTM", Ink::Baseline)] {
        curves.push(Curve { name: name.into(), points: mean_curve(results, body, &ZERO_SHOT), ink, dots: true });
    }
    let level = |y: f64, name: &str, ink| Level { name: name.into(), y, ink };
    let levels = vec![level(0.0, "guessing", Ink::Muted), level(100.0, "best possible", Ink::Limit)];
    let right = Plot {
        title: "Zero-shot, mean of four tasks".into(),
        description: "Normalised zero-shot score over tokens of pre-training".into(),
        x: Axis::new("tokens of pre-training", Scale::Linear),
        y: Axis::new("% from guessing to the best possible", Scale::Linear),
        curves,
        levels: levels.clone(),
        size: (520, 340),
    };
    let each = |task: &&str| {
        let of =
            |body, name: &str, ink| Curve { name: name.into(), points: mean_curve(results, body, &[task]), ink, dots: false };
        Plot {
            title: Task::named(task).map_or(*task, |t| t.title).into(),
            description: format!("Normalised zero-shot score of {task} over tokens of pre-training"),
            x: Axis::new("tokens", Scale::Linear),
            y: Axis::new("% of the best", Scale::Linear),
            curves: vec![of(Body::Gpt, "Transformer", Ink::Validation), of(Body::Lstm, "LSTM", Ink::Baseline)],
            levels: vec![level(0.0, "guessing", Ink::Muted)],
            size: (380, 260),
        }
    };
    let caption = "Left: score on test rows by what was transferred from the pre-trained model, the rest fresh. Right: each score is \
                   normalised between guessing and the best possible, which is known here (the paper: the best single model), then \
                   averaged; means over seeds.";
    vec![
        Block::Plots(vec![left, right], caption.into()),
        Block::Plots(ZERO_SHOT.iter().map(each).collect(), "The four heuristics one by one.".into()),
        layers_transferred(results, sizes),
        zero_shot_ends(results),
    ]
}

/// Figure 2, left, in numbers.
fn layers_transferred(results: &Results, sizes: &Sizes) -> Block {
    let blocks = (0..sizes.layers).map(Variant::Layers);
    let variants: Vec<Variant> = [Variant::NoPretraining].into_iter().chain(blocks).chain([Variant::Full]).collect();
    let name = |variant: &Variant| match variant {
        Variant::NoPretraining => "nothing".to_owned(),
        Variant::Layers(0) => "embeddings".into(),
        Variant::Layers(n) => format!("… and {n} block{}", if *n == 1 { "" } else { "s" }),
        _ => "all".into(),
    };
    let row = |task: &&str| Row {
        head: (*task).into(),
        cells: variants.iter().map(|&v| cell(results.score(task, v).map(|m| m.to_string()))).collect(),
        own: false,
    };
    let heads = ["Transferred".to_owned()].into_iter().chain(variants.iter().map(name)).collect();
    Block::Table(heads, TRANSFERRED.iter().map(row).collect())
}

/// Figure 2, right, in numbers: scores at the end of pre-training.
fn zero_shot_ends(results: &Results) -> Block {
    let points = |x: f64| format!("{:.1}", 100.0 * x);
    let row = |task: &&str| {
        let end = |body| {
            let of = |seed| {
                let run = results.pretrained.iter().find(|p| (p.seed, p.body) == (seed, body))?;
                run.zero_shot.last()?.scores.get(*task).copied()
            };
            cell(Mean::of(&results.each(of)).map(|m| m.to_string()))
        };
        let best = cell(bayes(task).map(points));
        Row { head: (*task).into(), cells: vec![points(claims::chance(task)), end(Body::Gpt), end(Body::Lstm), best], own: false }
    };
    let heads = ["Zero-shot, at the end", "guessing", "Transformer", "LSTM", "best possible"].map(str::to_owned).to_vec();
    Block::Table(heads, ZERO_SHOT.iter().map(row).collect())
}

/// The experiments of `--full`, task by task.
fn experiments(results: &Results, sizes: &Sizes) -> Block {
    let heads =
        ["Rows", "pre-trained", "no pre-training", "on shuffled sentences", "frozen features"].map(str::to_owned).to_vec();
    let score = |task: &str, variant| cell(results.score(task, variant).map(|m| m.to_string()));
    let mut rows = Vec::new();
    for task in EXPERIMENTS {
        for part in PARTS {
            let n = sizes.part(task, part);
            let cells =
                vec![score(task, Variant::Rows(n)), score(task, Variant::NoPretrainingRows(n)), String::new(), String::new()];
            rows.push(Row { head: format!("{task}, {n}"), cells, own: false });
        }
        let all = [Variant::Full, Variant::NoPretraining, Variant::Shuffled, Variant::Frozen];
        let cells = all.map(|variant| score(task, variant)).to_vec();
        rows.push(Row { head: format!("{task}, {}", sizes.rows(task)), cells, own: true });
    }
    Block::Table(heads, rows)
}

/// The mean over seeds of normalised zero-shot scores, in percent.
fn mean_curve(results: &Results, body: Body, tasks: &[&str]) -> Vec<(f64, f64)> {
    let curves: Vec<_> = results.seeds().into_iter().map(|s| claims::normalised(results, s, body, tasks)).collect();
    let curves: Vec<_> = curves.into_iter().filter(|c| !c.is_empty()).collect();
    let length = curves.iter().map(Vec::len).min().unwrap_or(0);
    let mean = |i: usize| {
        let n = curves.len() as f64;
        let sum = curves.iter().fold((0.0, 0.0), |(x, y), c| (x + c[i].0 / n, y + 100.0 * c[i].1 / n));
        (sum.0, sum.1)
    };
    (0..length).map(mean).collect()
}

fn every_task(results: &Results) -> Block {
    let heads = ["Task", "guessing", "full", "no pre-training", "no auxiliary LM", "LSTM", "best possible"];
    let columns = [
        "mnli",
        "mnli-mm",
        "snli",
        "scitail",
        "qnli",
        "rte",
        "story-cloze",
        "race",
        "cola",
        "sst-2",
        "mrpc",
        "mrpc-accuracy",
        "sts-b",
        "qqp",
        "qqp-accuracy",
    ];
    let row = |column: &&str| {
        let score = |(_, variant): &(&str, Variant)| cell(results.score(column, *variant).map(|m| m.to_string()));
        let mut cells = vec![cell(guessing(column))];
        cells.extend(ABLATIONS.iter().map(score));
        cells.push(cell(best_possible(column)));
        Row { head: title(column), cells, own: false }
    };
    Block::Table(heads.map(str::to_owned).to_vec(), columns.iter().map(row).collect())
}

/// §3.2: what the auxiliary objective does for learning, as curves and in numbers: the loss L₂ in nats an example, mean over tasks.
fn learning(results: &Results, sizes: &Sizes) -> Vec<Block> {
    let with = [Variant::Full, Variant::NoAux, Variant::NoPretraining];
    let names = ["λ = 0.5", "λ = 0", "λ = 0.5, no pre-training"];
    let mean = |variant: Variant, value: &dyn Fn(&TaskResult) -> Option<f64>| {
        Mean::of(&results.each(|seed| results.over_tasks(seed, variant, value)))
    };
    let at = |epoch: u64| move |r: &TaskResult| r.curve.iter().find(|p| p.epoch >= epoch as f64).map(|p| p.dev.loss);
    let curve = |(variant, (name, ink)): (&Variant, (&&str, Ink))| {
        let points = (1..=sizes.epochs).filter_map(|epoch| Some((epoch as f64, mean(*variant, &at(epoch))?.mean)));
        Curve { name: (*name).into(), points: points.collect(), ink, dots: true }
    };
    let inks = [Ink::Validation, Ink::Train, Ink::Baseline];
    let plot = Plot {
        title: "Loss on dev rows".into(),
        description: "Mean loss of the twelve tasks on their dev rows, epoch by epoch".into(),
        x: Axis::new("epochs", Scale::Linear),
        y: Axis::new("L₂, nats", Scale::Linear),
        curves: with.iter().zip(names.iter().zip(inks)).map(curve).collect(),
        levels: Vec::new(),
        size: (520, 340),
    };
    let row = |(variant, name): (&Variant, &&str)| {
        let nats = |value: &dyn Fn(&TaskResult) -> Option<f64>| {
            cell(
                mean(*variant, value)
                    .map(|m| m.deviation.map_or(format!("{:.3}", m.mean), |d| format!("{:.3} ± {d:.3}", m.mean))),
            )
        };
        let (train, test) = (|r: &TaskResult| Some(r.train.loss), |r: &TaskResult| Some(r.test.loss));
        let cells = vec![nats(&at(1)), nats(&train), nats(&test), nats(&|r| Some(r.test.loss - r.train.loss))];
        Row { head: (*name).into(), cells, own: false }
    };
    let heads = ["L₂, nats an example", "dev, after one epoch", "training rows", "test", "gap from training to test"];
    vec![
        Block::Plots(
            vec![plot],
            "Mean over tasks and seeds. Training rows and test by the model with the best dev score.".into(),
        ),
        Block::Table(heads.map(str::to_owned).to_vec(), with.iter().zip(&names).map(row).collect()),
    ]
}

fn pretraining(results: &Results) -> Block {
    let heads = ["Model", "Parameters", "Loss, nats a token", "Limit", "Above it", "Time"].map(str::to_owned).to_vec();
    let row = |p: &crate::results::PretrainResult| Row {
        head: format!("{}, seed {}", p.body.name(), p.seed),
        cells: vec![
            count(p.parameters as u64),
            format!("{:.4}", p.loss),
            format!("{:.4}", p.limit),
            format!("{:.1} %", 100.0 * (p.loss / p.limit - 1.0)),
            duration(p.seconds),
        ],
        own: false,
    };
    Block::Table(heads, results.pretrained.iter().map(row).collect())
}
