//! The report: the paper's tables and figure 2 with the miniature's results added, and the table of claims.

use gradus_data::sets::Task;
use gradus_data::sets::scores::Metric;
use gradus_io::numbers::{count, count_of, duration};
use gradus_report::svg::{Curve, HALF, Ink, Level, Plot, WIDE};
use gradus_report::{Axis, Block, Document, Figure, Row, Scale};
use gradus_study::plan::Plan;
use gradus_study::rule::{self, DecisionRule};
use gradus_study::{Claim, Mean, pointing};

use crate::claims;
use crate::opening::{self, Opening};
use crate::paper::{self, Table};
use crate::plan::{EXPERIMENTS, PARTS, Sizes, TASKS, TRANSFERRED};
use crate::results::{Body, PretrainResult, Results, TaskResult, Variant, base};
use crate::stage::{self, ZERO_SHOT};
use crate::tasks::{bayes, entropy};

/// The miniature's columns of tables 3 and 4, in the order of the paper's.
const COLUMNS_3: [&str; 4] = ["story-cloze", "race-middle", "race-high", "race"];
const COLUMNS_4: [&str; 6] = ["cola", "sst-2", "mrpc", "sts-b", "qqp", "glue"];

/// The ablations of table 5.
const ABLATIONS: [(&str, Variant); 4] = [
    ("full", Variant::Full),
    ("no pre-training", Variant::NoPretraining),
    ("no auxiliary LM", Variant::NoAux),
    ("LSTM", Variant::Lstm),
];

/// The bodies of figure 2 (right).
const BODIES: [(Body, &str, Ink); 2] = [(Body::Gpt, "Transformer", Ink::Validation), (Body::Lstm, "LSTM", Ink::Baseline)];

/// Builds the report from the records only: an opening with a story and learning curves, the paper's tables, and the claims.
pub fn report(results: &Results, sizes: &Sizes, claims: &[Claim], opening: &Opening) -> Document {
    let over = match results.seeds().len() {
        1 => "one seed, so without deviations".into(),
        n => format!("mean ± sample standard deviation over {n} seeds"),
    };
    let again = if sizes.retold { ", each ending with a short, sometimes wrong retelling" } else { "" };
    let world = &sizes.world;
    let mut report = Document {
        kicker: "Gradus · the paper in miniature".into(),
        title: "GPT-1: every table, in a world whose answers are known".into(),
        lead: format!(
            "A Transformer and an LSTM of about the same size were pre-trained on stories of a made-up world{again} ({world}), then \
             fine-tuned on twelve tasks made from such stories in the formats of the original data sets. The paper's figures \
             are for real text and a model of 117 million parameters; ours are for the miniature, test splits, {over}. Only \
             the direction of an effect can be compared, not its size."
        ),
        foot: "Scores in points of 100: accuracy, F1, Matthews' (mc) and Pearson's (pc) correlation. Each fine-tuned model \
               is the one with the best dev score; its scores are on test rows, which neither training nor that choice has \
               seen (for MNLI, on both test sets). Guessing is the best constant answer. A task counts as learnt suddenly or never by a model where no \
               seed is between 30 and 70 % of the way from guessing to the best possible score, and at least two are on either side. Its scores by \
               every model then stand with the number of seeds that came more than half of the way, and the shares of all seeds that fit this number \
               (95 %, Clopper and Pearson). Zero-shot scores are on 200 dev \
               rows, with CoLA's threshold chosen on 200 training rows; short rows, of CoLA and DPRD, may appear word for \
               word, without their labels, in a story of the pre-training. The best possible score is an \
               expectation: on the rows drawn, a score can be higher. Rates, epochs and the world itself were chosen on dev \
               scores of earlier runs on seeds 1 to 3. GLUE is the mean of eight tasks here, without WNLI, which is \
               not fine-tuned; the paper's is the mean of nine."
            .into(),
        ..Document::default()
    };
    report.section("", sizes.scaled().map(Block::Text).into_iter().collect());
    report.section("A story, and a question about another", opening::story(sizes));
    report.section("Loss during pre-training", opening.learning(sizes));
    report.section("Zero-shot answers of the Transformer", zero_shot(results));
    let [table_2, table_3, table_4, ablations] = paper::tables();
    let scores = vec![Block::Figures(figures(results, sizes)), table_5(results, &ablations)];
    report.section(ablations.title, scores);
    for (table, columns) in [(table_2, &claims::TABLE_2[..]), (table_3, &COLUMNS_3), (table_4, &COLUMNS_4)] {
        report.section(table.title, vec![beside(results, &table, columns)]);
    }
    report.section("Figure 2", figure_2(results, sizes));
    report.section("Every task in every ablation", vec![every_task(results)]);
    report.section("In nats", in_nats(results));
    report.section("Convergence and generalisation", learning(results, sizes));
    if sizes.full {
        report.section("By size of the labelled set, order of sentences, and what is trained", vec![experiments(results, sizes)]);
    }
    report.section("Pre-training", vec![pretraining(results)]);
    report.section("Claims of the paper, and results", judged(claims, sizes));
    let commands = format!("{}\n{AGAIN}   # this page, from the records", sizes.line());
    report.section("How to reproduce it", vec![Block::Text(format!("{sizes}.")), Block::Listing(commands)]);
    report
}

/// Returns the main results in a few lines: losses, zero-shot scores, table 5 and, with too few seeds for verdicts, the signs of
/// the differences.
pub fn summary(results: &Results, sizes: &Sizes, claims: &[Claim], opening: &Opening) -> Vec<String> {
    let mut lines: Vec<String> = sizes.scaled().into_iter().collect();
    let over = |body: Body| {
        let of = |seed| results.pretraining(seed, body).map(|p| p.loss / p.limit - 1.0);
        told(&results.each(of))
    };
    let (gpt, lstm) = (over(Body::Gpt), over(Body::Lstm));
    lines.push(format!("loss above the exact limit, %: Transformer {gpt}, LSTM {lstm}"));
    let curve = mean_curve(results, Body::Gpt, &ZERO_SHOT);
    if let (Some((_, first)), Some((_, last))) = (curve.first(), curve.last()) {
        let minus = |value: f64| format!("{value:.0}").replace('-', "−");
        let (first, last) = (minus(*first), minus(*last));
        lines.push(format!(
            "zero-shot, % of the way from guessing to the best possible: {first} before the first step, {last} after the last"
        ));
    }
    let average = |variant| told(&results.each(|seed| results.average(seed, &claims::TABLE_5, variant)));
    let [full, none, lstm] = [Variant::Full, Variant::NoPretraining, Variant::Lstm].map(average);
    lines.push(format!("table 5's average: {full} pre-trained, {none} without pre-training, {lstm} by the LSTM"));
    let least = sizes.rule.least_seeds;
    if sizes.seeds < least as u64 {
        let seeds = count_of(sizes.seeds as usize, "seed");
        lines.push(format!(
            "what we measured {} claims; {seeds} cannot decide them, {least} or more can: --seeds {least}",
            pointing(claims)
        ));
    }
    lines.extend(opening.page().map(|page| format!("the Transformer's report, with generated texts: {}", page.display())));
    lines
}

/// The command that regenerates the output of [`markdown`].
const AGAIN: &str = "gradus reproduce --resume DIR --markdown FILE --overwrite";

/// Renders the report as a page of the repository, which begins with the command that writes it.
pub fn markdown(report: &Document) -> String {
    format!("<!-- Written by `{AGAIN}`: not by hand. -->\n\n{}", report.markdown())
}

fn figures(results: &Results, sizes: &Sizes) -> Vec<Figure> {
    let figure = |name: &str, value: String, hint: &str| Figure { name: name.into(), value, hint: hint.into() };
    let average = |variant| told(&results.each(|seed| results.average(seed, &claims::TABLE_5, variant)));
    let work: f64 = results.tasks.iter().map(|t| t.seconds).chain(results.pretrained.iter().map(|p| p.seconds)).sum();
    vec![
        figure("Pre-trained", average(Variant::Full), "average of table 5's columns"),
        figure("No pre-training", average(Variant::NoPretraining), "the same"),
        figure("LSTM", average(Variant::Lstm), "the same"),
        figure("Seeds", results.seeds().len().to_string(), "each with stories, tasks and models of its own"),
        figure("Rows", count(sizes.rows as u64), "for training, at most; tasks with long rows, and easy tasks, have fewer"),
        figure("Work", duration(work), "sum over all stages; fine-tunings run side by side, so the whole takes less time"),
    ]
}

/// Formats one value per seed as a cell, or a dash without values.
fn told(values: &[f64]) -> String {
    cell(Mean::of(values))
}

fn cell(value: Option<impl ToString>) -> String {
    value.map_or("–".into(), |value| value.to_string())
}

/// Returns the test scores of some columns as cells.
fn scores<'r>(results: &'r Results, columns: &'r [&str], variant: Variant) -> impl Iterator<Item = String> + 'r {
    columns.iter().map(move |column| score(results, column, variant))
}

/// Formats the test score of a column; for a task that is learnt suddenly or never, the number of seeds that learnt it.
fn score(results: &Results, column: &str, variant: Variant) -> String {
    let mean = cell(results.score(column, variant));
    claims::learnt(results, column, variant).map_or(mean.clone(), |learnt| format!("{mean}; {learnt}"))
}

/// Returns a table of the paper with the miniature's rows below, one cell per column.
fn below(table: &Table, mark: &str, ours: impl IntoIterator<Item = Row>) -> Block {
    let score = |score: &Option<f64>| score.map_or(String::new(), |score| format!("{score:.1}"));
    let row = |system: &paper::System| Row::new(format!("{mark}{}", system.name), system.scores.iter().map(score));
    Block::table([&[""], &table.columns[..]].concat(), table.systems.iter().map(row).chain(ours))
}

/// Returns a table of the paper with the miniature's scores after pre-training, those of guessing and the best possible scores.
fn beside(results: &Results, table: &Table, columns: &[&str]) -> Block {
    let of = |limit: fn(&str) -> Option<String>| columns.iter().map(move |column| cell(limit(column)));
    let full = Row { own: true, ..Row::new("miniature, pre-trained", scores(results, columns, Variant::Full)) };
    let fresh = Row::new("miniature, no pre-training", scores(results, columns, Variant::NoPretraining));
    let limits = [Row::new("miniature, guessing", of(guessing)), Row::new("miniature, best possible", of(best_possible))];
    below(table, "", [full, fresh].into_iter().chain(limits))
}

fn table_5(results: &Results, table: &Table) -> Block {
    let row = |(name, variant): (&str, Variant)| {
        let average = told(&results.each(|seed| results.average(seed, &claims::TABLE_5, variant)));
        let cells = std::iter::once(average).chain(scores(results, &claims::TABLE_5, variant));
        Row { own: true, ..Row::new(format!("miniature: {name}"), cells) }
    };
    below(table, "paper: ", ABLATIONS.map(row))
}

/// Returns the mean score of guessing in a column of this name.
fn guessing(column: &str) -> Option<String> {
    if column.ends_with("-accuracy") {
        return Some("50.0".into()); // two equally frequent classes
    }
    bayes(base(column)).map(|_| format!("{:.1}", 100.0 * claims::chance(base(column))))
}

/// Returns the best possible score of a column. With equally frequent classes the best F1 equals the best accuracy, which depends
/// on the label noise only.
fn best_possible(column: &str) -> Option<String> {
    bayes(base(column)).map(|b| format!("{:.1}", 100.0 * b))
}

/// Returns the paper's title for a column, with its metric.
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

/// Returns the claims with their verdicts or, with too few seeds for verdicts, with the signs of their differences.
fn judged(claims: &[Claim], sizes: &Sizes) -> Vec<Block> {
    match claims::too_few(sizes.seeds, sizes.rule.least_seeds) {
        None => vec![Block::Text(rule::RULE.into()), claims_table(claims, &sizes.rule)],
        Some(few) => {
            let points = Block::Text(format!("What we measured {} claims.", pointing(claims)));
            vec![points, Block::Text(few), directions(claims)]
        }
    }
}

/// Returns a table of the claims with the signs of their differences.
fn directions(claims: &[Claim]) -> Block {
    let row = |(at, c): (usize, &Claim)| {
        let points = c.points().map_or("–", |ours| if ours { "the paper's way" } else { "the other way" });
        Row {
            own: c.judgement.primary,
            ..Row::new(&c.statement, [sentence(claims, at), c.section.into(), c.paper.clone(), c.ours.clone(), points.into()])
        }
    };
    let heads = ["Claim", "The paper's sentence", "Where", "Its figure", "Here", "Points"];
    Block::Words(heads.map(String::from).into(), claims.iter().enumerate().map(row).collect())
}

/// Returns the paper's sentence of a claim, or `the same` if the preceding claim has it.
fn sentence(claims: &[Claim], at: usize) -> String {
    let again = at > 0 && claims[at - 1].sentence == claims[at].sentence;
    if again { "the same".into() } else { format!("“{}”", claims[at].sentence) }
}

fn claims_table(claims: &[Claim], rule: &DecisionRule) -> Block {
    let heads =
        ["Claim", "The paper's sentence", "Where", "Its figure", "Here", "Interval", "Seeds on the mean's side", "Verdict"];
    let row = |(at, c): (usize, &Claim)| {
        let (agreeing, verdict) = (c.agreeing(), c.judgement.words());
        let cells =
            [sentence(claims, at), c.section.into(), c.paper.clone(), c.ours.clone(), c.interval(rule), agreeing, verdict];
        Row { own: c.judgement.primary, ..Row::new(&c.statement, cells) }
    };
    Block::Words(heads.map(String::from).into(), claims.iter().enumerate().map(row).collect())
}

/// Returns a plot with linear axes.
fn plot(title: &str, description: &str, [x, y]: [&str; 2], curves: Vec<Curve>, levels: Vec<Level>, size: (u32, u32)) -> Plot {
    let [x, y] = [x, y].map(|label| Axis::new(label, Scale::Linear));
    Plot { title: title.into(), description: description.into(), x, y, curves, levels, size }
}

/// Returns a task's title.
fn name(task: &str) -> &str {
    Task::named(task).map_or(task, |task| task.title)
}

fn figure_2(results: &Results, sizes: &Sizes) -> Vec<Block> {
    let transferred = transferred(sizes);
    let layers = |task: &str| {
        let score = |&(_, variant): &(String, Variant)| Some(100.0 * results.score(task, variant)?.mean);
        let points = (0..).map(f64::from).zip(transferred.iter().map(score));
        let points = points.filter_map(|(n, score)| Some((n, score?))).collect();
        let metric = match Task::named(task).map(|task| task.metric) {
            Ok(Metric::Accuracy) => "accuracy",
            Ok(Metric::Matthews) => "Matthews' correlation",
            _ => "score",
        };
        plot(
            &format!("Layers transferred: {}", name(task)),
            "Test score by what was transferred: nothing, embeddings, then block by block",
            ["0: nothing, 1: embeddings, then blocks", &format!("{metric}, points of 100")],
            vec![Curve { name: String::new(), points, ink: Ink::Validation, dots: true }],
            Vec::new(),
            HALF,
        )
    };
    let each = ZERO_SHOT.map(|task| {
        let description = format!("Normalised zero-shot score of {task} over tokens of pre-training");
        let axes = ["tokens of pre-training", "% of the way from guessing to the best possible"];
        plot(name(task), &description, axes, curves(results, &[task], false), vec![guessing_level()], HALF)
    });
    let caption = "Left in the paper: score on test rows by what was transferred from the pre-trained model, the rest fresh; means over seeds.";
    let row = |task: &str| Row::new(task, transferred.iter().map(|&(_, variant)| score(results, task, variant)));
    let heads = ["Transferred"].into_iter().chain(transferred.iter().map(|(name, _)| name.as_str()));
    vec![
        Block::Plots(TRANSFERRED.map(layers).into(), caption.into()),
        Block::Plots(each.into(), "Right in the paper: the four heuristics, one by one.".into()),
        Block::table(heads, TRANSFERRED.map(row)),
        zero_shot_ends(results),
    ]
}

/// Returns figure 2 (right): the mean zero-shot score during pre-training.
fn zero_shot(results: &Results) -> Vec<Block> {
    let best = Level { name: "best possible".into(), y: 100.0, ink: Ink::Limit };
    let plot = plot(
        "Zero-shot, mean of four tasks",
        "Normalised zero-shot score over tokens of pre-training",
        ["tokens of pre-training", "% of the way from guessing to the best possible"],
        curves(results, &ZERO_SHOT, true),
        vec![guessing_level(), best],
        WIDE,
    );
    let caption = "Each of four heuristics, which use only the language model, is normalised between guessing and the best \
                   possible score, which is known here (the paper: the best single model), then averaged; means over seeds.";
    if plot.is_empty() { Vec::new() } else { vec![Block::Plots(vec![plot], caption.into())] }
}

/// Returns the normalised zero-shot scores of both bodies during pre-training.
fn curves(results: &Results, tasks: &[&str], dots: bool) -> Vec<Curve> {
    BODIES.map(|(body, name, ink)| Curve { name: name.into(), points: mean_curve(results, body, tasks), ink, dots }).into()
}

fn guessing_level() -> Level {
    Level { name: "guessing".into(), y: 0.0, ink: Ink::Muted }
}

/// Returns the variants of figure 2 (left) with their labels, from no transferred layers to all.
fn transferred(sizes: &Sizes) -> Vec<(String, Variant)> {
    let name = |n: usize| if n == 0 { "embeddings".into() } else { format!("… and {}", count_of(n, "block")) };
    let layers = (0..sizes.layers).map(|n| (name(n), Variant::Layers(n)));
    let (none, all) = (("nothing".into(), Variant::NoPretraining), ("all".into(), Variant::Full));
    [none].into_iter().chain(layers).chain([all]).collect()
}

/// Returns the zero-shot scores at the end of pre-training (figure 2, right, in numbers).
fn zero_shot_ends(results: &Results) -> Block {
    let end = |task: &str, body| {
        told(&results.each(|seed| results.pretraining(seed, body)?.zero_shot.last()?.scores.get(task).copied()))
    };
    let row = |task: &str| {
        Row::new(task, [cell(guessing(task)), end(task, Body::Gpt), end(task, Body::Lstm), cell(best_possible(task))])
    };
    Block::table(["Zero-shot, at the end", "guessing", "Transformer", "LSTM", "best possible"], ZERO_SHOT.map(row))
}

/// Returns the experiments of `--full`, task by task.
fn experiments(results: &Results, sizes: &Sizes) -> Block {
    let rows = |task: &'static str| {
        let score = move |variant| cell(results.score(task, variant));
        let part = move |part| {
            let n = sizes.part(task, part);
            let [with, without] = [Variant::Rows(n), Variant::NoPretrainingRows(n)].map(score);
            Row::new(format!("{task}, {}", count(n as u64)), [with, without, String::new(), String::new()])
        };
        let all = [Variant::Full, Variant::NoPretraining, Variant::Shuffled, Variant::Frozen].map(score);
        let all = Row { own: true, ..Row::new(format!("{task}, {}", count(sizes.rows(task) as u64)), all) };
        PARTS.into_iter().map(part).chain([all])
    };
    let heads = ["Rows", "pre-trained", "no pre-training", "on shuffled sentences", "frozen features"];
    Block::table(heads, EXPERIMENTS.into_iter().flat_map(rows))
}

/// Returns the mean over seeds of the normalised zero-shot scores, in percent.
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
    let columns = |&(task, _): &(&'static str, f64)| match task {
        "mnli" => vec!["mnli", "mnli-mm"],
        "mrpc" => vec!["mrpc", "mrpc-accuracy"],
        "qqp" => vec!["qqp", "qqp-accuracy"],
        task => vec![task],
    };
    let row = |column: &str| {
        let scores = ABLATIONS.map(|(_, variant)| score(results, column, variant));
        let limits = [guessing(column), best_possible(column)].map(cell);
        Row::new(title(column), [&limits[..1], &scores, &limits[1..]].concat())
    };
    let heads = ["Task", "guessing", "full", "no pre-training", "no auxiliary LM", "LSTM", "best possible"];
    Block::table(heads, TASKS.iter().flat_map(columns).map(row))
}

/// Returns losses above the smallest possible and the divergence of zero-shot answers from the exact ones, which accuracies hide.
fn in_nats(results: &Results) -> Vec<Block> {
    let columns = TASKS.iter().flat_map(|&(task, _)| if task == "mnli" { vec!["mnli", "mnli-mm"] } else { vec![task] });
    let row = |column: &str| {
        let excess = |variant| results.each(|seed| results.excess(seed, column, variant));
        let cells = ABLATIONS.map(|(_, variant)| cell(Mean::of(&excess(variant)).map(|m| m.told(1.0, 3))));
        let guessing = claims::uniform(base(column)).map(|nats| format!("{nats:.3}"));
        Row::new(title_of(column), [&[cell(guessing)], &cells[..]].concat())
    };
    let heads =
        ["L₂ on test rows, nats above the smallest possible", "guessing", "full", "no pre-training", "no auxiliary LM", "LSTM"];
    let kl = |task: &str, body| {
        let of = |seed| {
            let last = results.pretraining(seed, body)?.zero_shot.last()?;
            Some(last.scores.get(&stage::in_nats(task))? - entropy(task)?)
        };
        cell(Mean::of(&results.each(of)).map(|m| m.told(1.0, 3)))
    };
    let zero_shot = |task: &str| {
        let guessing = claims::uniform(task).map(|nats| format!("{nats:.3}"));
        Row::new(title_of(task), [cell(guessing), kl(task, Body::Gpt), kl(task, Body::Lstm)])
    };
    let heads_of_kl = ["Zero-shot, KL from the exact answer's distribution, nats", "guessing", "Transformer", "LSTM"];
    vec![
        Block::table(heads, columns.map(row)),
        Block::Text(
            "Where labels have noise, we subtract its expected entropy, so that a figure may be below 0. Zero-shot, a model's distribution is the softmax of its \
             log-probabilities of what is compared; CoLA's heuristic has a threshold instead of one."
                .into(),
        ),
        Block::table(heads_of_kl, claims::IN_NATS.map(zero_shot)),
    ]
}

/// Returns the paper's title for the task of a column.
fn title_of(column: &str) -> String {
    let title = title(column);
    title.split_once(", ").map_or(title.clone(), |(task, _metric)| task.into())
}

/// Returns the effect of the auxiliary objective on learning (§3.2), as curves and in numbers: the loss L₂ in nats per example,
/// averaged over tasks.
fn learning(results: &Results, sizes: &Sizes) -> Vec<Block> {
    let with = [
        (Variant::Full, "λ = 0.5", Ink::Validation),
        (Variant::NoAux, "λ = 0", Ink::Train),
        (Variant::NoPretraining, "λ = 0.5, no pre-training", Ink::Baseline),
    ];
    let mean = |variant: Variant, value: &dyn Fn(&TaskResult) -> Option<f64>| {
        Mean::of(&results.each(|seed| results.over_tasks(seed, variant, value)))
    };
    let at = |epoch: u64| move |r: &TaskResult| r.curve.iter().find(|p| p.epoch >= epoch as f64).map(|p| p.dev.loss);
    let curve = |(variant, name, ink): (Variant, &str, Ink)| {
        let points = (1..=sizes.epochs).filter_map(|epoch| Some((epoch as f64, mean(variant, &at(epoch))?.mean)));
        Curve { name: name.into(), points: points.collect(), ink, dots: true }
    };
    let plot = plot(
        "Loss on dev rows",
        "Mean loss of the twelve tasks on their dev rows, epoch by epoch",
        ["epochs", "L₂, nats"],
        with.map(curve).into(),
        Vec::new(),
        WIDE,
    );
    let row = |(variant, name, _): (Variant, &str, Ink)| {
        let nats = |value: &dyn Fn(&TaskResult) -> Option<f64>| cell(mean(variant, value).map(|m| m.told(1.0, 3)));
        let (train, test) = (|r: &TaskResult| Some(r.train.loss), |r: &TaskResult| Some(r.test.loss));
        Row::new(name, [nats(&at(1)), nats(&train), nats(&test), nats(&|r| Some(r.test.loss - r.train.loss))])
    };
    let heads = ["L₂, nats per example", "dev, after one epoch", "training rows", "test", "gap from training to test"];
    let caption = "Mean over tasks and seeds. Training rows and test by the model with the best dev score.";
    vec![Block::Plots(vec![plot], caption.into()), Block::table(heads, with.map(row))]
}

fn pretraining(results: &Results) -> Block {
    let row = |(body, name): (Body, &str)| {
        let all: Vec<&PretrainResult> = results.pretrained.iter().filter(|p| p.body == body).collect();
        let mean = |of: fn(&PretrainResult) -> f64| Mean::of(&all.iter().map(|p| of(p)).collect::<Vec<_>>());
        let cells = [
            count(all.first()?.parameters as u64),
            mean(|p| p.loss)?.told(1.0, 4),
            mean(|p| p.limit)?.told(1.0, 4),
            format!("{} %", mean(|p| p.loss / p.limit - 1.0)?),
            duration(mean(|p| p.seconds)?.mean),
        ];
        Some(Row { own: body == Body::Gpt, ..Row::new(name, cells) })
    };
    let bodies = [(Body::Gpt, "Transformer"), (Body::Lstm, "LSTM"), (Body::Shuffled, "Transformer, shuffled sentences")];
    let heads = ["Model", "Parameters", "Loss on held-out stories, nats per token", "Exact limit", "Above it", "Time per seed"];
    Block::table(heads, bodies.into_iter().filter_map(row))
}
