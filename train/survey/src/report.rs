//! The report: the plane of U and G, and its data.

use gradus_io::numbers::{count, count_of, duration};
use gradus_report::svg::{Curve, Ink, Plot};
use gradus_report::{self as page, Axis, Block, Document, Row, Scale};
use gradus_study::plan::Plan;
use gradus_study::rule;
use gradus_study::rule::statistics::half_width;
use gradus_study::{Claim, Mean};
use gradus_train::pretrain::{OPENED_ANYWHERE, PretrainOptions};
use gradus_train::systems::{Card, Figure};
use gradus_world::World;

use crate::claims::OURS;
use crate::measure::{Estimate, Understanding};
use crate::plan::{SEARCH_SEED, Survey};
use crate::results::{Asked, Results, Trained};
use crate::story::DISTANCES;

/// The colours of the systems, in their order.
const INKS: [Ink; 5] = [Ink::Validation, Ink::Baseline, Ink::Train, Ink::Limit, Ink::Text];
/// The 97.5 % quantile of the normal distribution, for intervals of 95 %.
const NORMAL: f64 = 1.96;
/// The command that regenerates the output of [`markdown`].
const AGAIN: &str = "gradus survey --resume DIR --markdown FILE --overwrite";

/// Builds the whole report from the records only.
pub fn report(results: &Results, survey: &Survey, claims: &[Claim]) -> Document {
    let over = match survey.seeds {
        1 => "one seed, ± the standard error over stories".into(),
        n => format!("mean ± sample standard deviation over {n} seeds"),
    };
    let mut report = Document {
        kicker: "Gradus · GPT-1 and its relatives".into(),
        title: "Understanding and generation: every system in exact nats".into(),
        lead: format!(
            "{} The world's own probabilities are known, so each figure is a distance from a perfect model, which would be at the \
             origin; {over}.",
            compared(results, survey)
        ),
        ..Document::default()
    };
    let reduced = survey.reduced().map(Block::Text);
    report.section("", reduced.into_iter().chain([Block::Figures(figures(results, survey))]).collect());
    let caption = "Each system after each budget of work, joined by a line that ends in a dot after the largest; whiskers are 95 % intervals of the mean: over seeds \
                   (Student's t), or of one seed over stories.";
    report.section("The plane", vec![Block::Plots(vec![plane(results, survey)], caption.into()), standing(results, survey)]);
    report.section("By the distance to the word's last mention", vec![by_distance(results, survey)]);
    report.section("Claims of the papers, and results", judged(claims, survey));
    report.section("Training", training(results, survey));
    report.section("What is measured", vec![measured(survey)]);
    let commands = format!("{}\n{AGAIN}   # this page, from the records", survey.line());
    report.section("How to reproduce it", vec![Block::Text(format!("{survey}.")), Block::Listing(commands)]);
    report
}

/// Describes the training and evaluation that the systems have in common, and names the systems that count n-grams.
fn compared(results: &Results, survey: &Survey) -> String {
    let counts: Vec<&str> = survey.cards().filter(|card| counts(card)).map(|card| card.title).collect();
    let trained = (counts.len() < survey.cards().count()).then(|| {
        format!(
            "Systems of as many parameters (within 2 %), each head counted, were trained on stories of a made-up world ({}) for \
             as many floating-point operations{}, and evaluated on held-out stories.",
            survey.world,
            within(results)
        )
    });
    let counted = (!counts.is_empty()).then(|| {
        let (names, world) = (counts.join(" and "), &survey.world);
        format!("{names}: n-grams were counted in all training stories ({world}), once, without parameters or steps.")
    });
    trained.into_iter().chain(counted).collect::<Vec<_>>().join(" ")
}

fn counts(card: &Card) -> bool {
    card.axes.body.network().is_none()
}

/// Describes the largest deviation of a system's work from the planned work, which is due to whole steps.
fn within(results: &Results) -> String {
    let off = |t: &Trained| (t.steps as f64 * t.flops / t.work - 1.0).abs();
    let most = results.trained.iter().map(off).fold(0.0, f64::max);
    format!(" (within {:.1} %)", 100.0 * most)
}

/// Returns the measures and their definitions.
fn measured(survey: &Survey) -> Block {
    let terms = understanding(survey).into_iter().chain(the_rest(survey)).map(|(term, how)| Row::new(term, [how])).collect();
    Block::Words(vec![String::new(), "definition".into()], terms)
}

fn understanding(survey: &Survey) -> [(&'static str, String); 4] {
    let places = count(survey.places as u64);
    [
        (
            "U, understanding",
            format!(
                "the mean of KL(world ∥ model) over positions in held-out stories, one word masked and all others given; \
                 {places} positions per seed, drawn at random, the same for all models"
            ),
        ),
        (
            "… of a model that predicts the next token",
            "by Bayes' rule, from the probability of the whole story with each word of the world at that position; at all \
             positions this would take longer than its training"
                .into(),
        ),
        ("… of a model that fills masks", "in the format that it was trained on; also at all positions".into()),
        (
            "U, left only",
            "predictions from the preceding words, at the same positions, compared with the world's given all other words; for \
             exact predictions, the figure is the information in the words after"
                .into(),
        ),
    ]
}

fn the_rest(survey: &Survey) -> [(&'static str, String); 7] {
    let rates = match survey.rates.len() {
        1 => "the usual ones; none was searched for",
        _ => {
            "chosen by the loss on held-out stories of a seed that is not reported; where the best was the largest or the smallest, more \
             were tried, from an eighth to eight times the usual rate"
        }
    };
    let long = World::default().properties().mean_tokens;
    let (anywhere, rest) = (OPENED_ANYWHERE, OPENED_ANYWHERE - 1);
    let rows = PretrainOptions::micro_world().settle().expect("the recipe of a survey").batch;
    [
        (
            "G, generation",
            "the mean of KL(world ∥ model) for the next word, given the preceding words. A model that fills masks was not \
             trained for that: it reads these words and a mask for each word up to the length of the longest story, in the \
             format of a whole one, and predicts the first mask"
                .into(),
        ),
        (
            "… its minimum",
            format!(
                "one training story in {anywhere} begins at a later sentence, the held-out ones do not: a model that fits its \
                 training text exactly may have up to ln({anywhere}/{rest}) = {:.2} nats a story, or {:.4} a word",
                opened_elsewhere(),
                opened_elsewhere() / long
            ),
        ),
        (
            "generated stories",
            format!(
                "sampled word by word from the world's words; a text counts as a story as soon as its words form one, and \
                 generation ends there; a single wrong word of about {long:.0} makes it invalid"
            ),
        ),
        ("distributions", "over the world's words only".into()),
        (
            "operations",
            "those that the ops state, padding and heads included; the rows of a model that fills masks are sorted by length, so that it \
             has the least padding"
                .into(),
        ),
        (
            "recipe",
            format!(
                "except for its card and its rate, each system is trained as GPT-1 is on the micro-world, {rows} stories per \
                 step: the results hold for this recipe, and another may suit another system better"
            ),
        ),
        ("rates", rates.into()),
    ]
}

/// Returns −log of the probability that a training story begins at its beginning.
fn opened_elsewhere() -> f64 {
    (OPENED_ANYWHERE as f64 / (OPENED_ANYWHERE - 1) as f64).ln()
}

/// Renders the report as a page of the repository. It begins with the command that writes it, and shows the plane from `picture`.
pub fn markdown(report: &Document, picture: &str) -> String {
    let mut report = report.clone();
    for block in report.sections.iter_mut().flat_map(|(_, blocks)| blocks) {
        if let Block::Plots(_, caption) = block {
            *block = Block::Text(format!("![The plane of U and G](<{picture}>)\n\n{caption}"));
        }
    }
    format!("<!-- Written by `{AGAIN}`: not by hand. -->\n\n{}", report.markdown())
}

fn figures(results: &Results, survey: &Survey) -> Vec<page::Figure> {
    let figure = |name: &str, value: String, hint: &str| page::Figure { name: name.into(), value, hint: hint.into() };
    let searched = results.searched.iter().flat_map(|searched| &searched.tried);
    let trained = searched.chain(&results.trained).map(|t| t.seconds);
    let work: f64 = trained.chain(results.asked.iter().map(|asked| asked.seconds)).sum();
    let parameters = results.trained.iter().filter(|t| t.steps > 0).map(|t| t.parameters);
    let range = parameters.clone().min().zip(parameters.max());
    vec![
        figure("Systems", survey.systems.len().to_string(), "each with a card: `gradus systems NAME`"),
        figure(
            "Parameters",
            range.map_or("–".into(), |(a, b)| format!("{} to {}", count(a as u64), count(b as u64))),
            "all heads counted",
        ),
        figure("Seeds", survey.seeds.to_string(), "each with stories and models of its own"),
        figure("Stories", count(survey.stories as u64), "held out, to evaluate each model"),
        figure("Work", duration(work), "sum over all stages"),
    ]
}

/// Returns the plot of the plane of U and G.
pub fn plane(results: &Results, survey: &Survey) -> Plot {
    let mut curves = vec![Curve { name: "perfect".into(), points: vec![(0.0, 0.0)], ink: Ink::Muted, dots: true }];
    for (card, &ink) in survey.cards().zip(INKS.iter().cycle()) {
        let line = |name: &str, points: Vec<(f64, f64)>, dots| Curve { name: name.into(), points, ink, dots };
        let mut path = Vec::new();
        for &budget in &survey.budgets {
            let all: Vec<&Asked> = results.of(card.name, budget).collect();
            let (Some((x, dx)), Some((y, dy))) = (interval(&all, Figure::Understanding), interval(&all, Figure::Generation))
            else {
                continue;
            };
            path.push((x, y));
            curves.push(line("", vec![((x - dx).max(0.0), y), (x + dx, y)], false));
            curves.push(line("", vec![(x, (y - dy).max(0.0)), (x, y + dy)], false));
        }
        let end: Vec<(f64, f64)> = path.last().copied().into_iter().collect();
        path.sort_by(|a, b| a.0.total_cmp(&b.0));
        curves.push(line("", path, false));
        curves.push(line(card.name, end, true)); // the dot marks the largest budget
    }
    // Square-root axes include the origin, where a perfect model is, and separate the best models.
    let [x, y] = ["a masked word", "the next word"]
        .map(|word| Axis::new(&format!("KL divergence of predictions of {word}, nats (square-root scale)"), Scale::Root));
    let most = count(survey.most());
    let path = match &survey.budgets[..] {
        [first, .., _] => format!("from {} to {most} steps of GPT (the dot)", count(*first)),
        _ => format!("after the work of {most} steps of GPT"),
    };
    Plot {
        title: format!("Understanding and generation: {path}"),
        description: "Each system by the KL divergence of its predictions of a masked word and of the next word from the \
                      world's, in nats, with intervals of 95 %; axes by the square root"
            .into(),
        x,
        y,
        curves,
        levels: Vec::new(),
        size: (640, 420),
    }
}

/// Returns the mean of a figure over the seeds whose training completed, and half of its interval.
fn interval(all: &[&Asked], figure: Figure) -> Option<(f64, f64)> {
    let estimates: Vec<&Estimate> = all.iter().map(|asked| asked.figure(figure)).filter(|e| e.mean.is_finite()).collect();
    let Mean { mean, deviation } = Mean::of(&estimates.iter().map(|e| e.mean).collect::<Vec<_>>())?;
    let half = match deviation {
        Some(s) => half_width(estimates.len(), s, 0.95),
        None => NORMAL * estimates[0].error,
    };
    Some((mean, if half.is_finite() { half } else { 0.0 }))
}

/// Formats a figure over seeds; for a survey of one seed, with its error over stories.
fn told<'a>(all: impl Iterator<Item = &'a Estimate>) -> String {
    let all: Vec<&Estimate> = all.collect();
    let finite: Vec<&Estimate> = all.iter().copied().filter(|estimate| estimate.mean.is_finite()).collect();
    match &finite[..] {
        [one] if all.len() == 1 => Mean { mean: one.mean, deviation: Some(one.error).filter(|e| e.is_finite()) }.told(1.0, 3),
        some => Mean::of(&some.iter().map(|e| e.mean).collect::<Vec<_>>()).map_or("–".into(), |mean| mean.told(1.0, 3)),
    }
}

/// Returns each system at each budget. Counts, which are the same at each budget, occur once.
fn each(survey: &Survey) -> impl Iterator<Item = (&'static Card, u64)> + '_ {
    let all = survey.budgets.iter().flat_map(|&budget| survey.cards().map(move |card| (card, budget)));
    all.filter(|&(card, budget)| !counts(card) || budget == survey.most())
}

fn name(card: &Card, budget: u64) -> String {
    if counts(card) { card.title.into() } else { format!("{}, {}", card.title, count_of(budget as usize, "step")) }
}

fn standing(results: &Results, survey: &Survey) -> Block {
    let row = |(card, budget): (&'static Card, u64)| {
        let all: Vec<&Asked> = results.of(card.name, budget).collect();
        let of = |figure| told(all.iter().map(|asked| asked.figure(figure)));
        let everywhere = told(all.iter().filter_map(|asked| asked.everywhere.as_ref()).map(|it| &it.given_all));
        let (stories, of_all) = all.iter().fold((0, 0), |(a, b), asked| (a + asked.told.0, b + asked.told.1));
        let diverged = all.iter().filter(|asked| asked.understanding.given_all.mean.is_nan()).count();
        let note =
            if diverged > 0 { format!(" ({diverged} of {} diverged)", count_of(all.len(), "seed")) } else { String::new() };
        let cells = [
            of(Figure::Understanding),
            everywhere,
            of(Figure::UnderstandingFar),
            of(Figure::Generation),
            of(Figure::UnderstandingLeftOnly),
            format!("{stories} of {of_all}"),
        ];
        Row { own: budget == survey.most(), ..Row::new(name(card, budget) + &note, cells) }
    };
    let least = told(results.of_stories(survey.most()).map(|asked| &asked.generation.least_left_only));
    let exact = Row::new("the world's own predictions", ["0", "0", "0", "0", &least, "all"]);
    let far = format!("… last mentioned at least {} words ago", DISTANCES[DISTANCES.len() - 1]);
    let heads = ["Work, in steps of GPT", "U", "… at all positions", &far, "G", "U, left only", "Valid generated stories"];
    Block::table(heads, each(survey).map(row).chain([exact]))
}

fn by_distance(results: &Results, survey: &Survey) -> Block {
    let classes = DISTANCES.len() + 2;
    let cells = |of: &dyn Fn(usize) -> String| (0..classes).map(of).collect::<Vec<_>>();
    let counted = [
        "counts of words, at all positions",
        "counts between one word on each side, at all positions",
        "… between two words on each side",
    ];
    let of_counts = counted.iter().enumerate().map(|(reach, name)| {
        let class = |c: usize| told(results.counted.iter().map(|counted| &counted.by_reach[reach].by_distance[c]));
        let all = told(results.counted.iter().map(|counted| &counted.by_reach[reach].given_all));
        Row::new(*name, [vec![all], cells(&class)].concat())
    });
    let of = |label: String, budget: u64, all: Vec<&Understanding>| {
        let class = |c: usize| told(all.iter().map(|understanding| &understanding.by_distance[c]));
        let whole = told(all.iter().map(|understanding| &understanding.given_all));
        (!all.is_empty()).then(|| Row { own: budget == survey.most(), ..Row::new(label, [vec![whole], cells(&class)].concat()) })
    };
    let of_systems = each(survey).flat_map(|(card, budget)| {
        let all: Vec<&Asked> = results.of(card.name, budget).collect();
        let everywhere = all.iter().filter_map(|asked| asked.everywhere.as_ref()).collect();
        let drawn = all.iter().map(|asked| &asked.understanding).collect();
        let label = name(card, budget);
        [of(label.clone(), budget, drawn), of(format!("{label}, at all positions"), budget, everywhere)].into_iter().flatten()
    });
    let mut heads = vec!["U, nats".to_owned(), "all words".into(), format!("less than {} words ago", DISTANCES[0])];
    heads.extend(DISTANCES.windows(2).map(|w| format!("{} to {}", w[0], w[1] - 1)));
    heads.extend([format!("{} or more", DISTANCES[DISTANCES.len() - 1]), "never before".into()]);
    let first: Vec<&Asked> = results.of_stories(survey.most()).collect();
    let sum = |of: &dyn Fn(&Understanding) -> usize| count(first.iter().map(|asked| of(&asked.understanding) as u64).sum());
    let class = |c: usize| sum(&|understanding| understanding.by_distance[c].places);
    let places =
        Row::new("number of positions, the same for all systems", [vec![sum(&|it| it.given_all.places)], cells(&class)].concat());
    Block::table(heads, of_counts.chain(of_systems).chain([places]))
}

fn judged(claims: &[Claim], survey: &Survey) -> Vec<Block> {
    if claims.is_empty() {
        return Vec::new();
    }
    let heads = ["Claim", "The paper's sentence", "Where", "Here", "Interval", "Seeds on the mean's side", "Verdict"];
    let row = |(at, c): (usize, &Claim)| {
        let again = at > 0 && claims[at - 1].sentence == c.sentence;
        let sentence = match c.sentence {
            ours if ours == OURS.text => ours.into(),
            _ if again => "the same".into(),
            said => format!("“{said}”"),
        };
        let cells = [sentence, c.section.into(), c.ours.clone(), c.interval(&survey.rule), c.agreeing(), c.judgement.words()];
        Row { own: c.judgement.primary, ..Row::new(&c.statement, cells) }
    };
    let least = survey.rule.least_seeds;
    let few = (survey.seeds < least as u64).then(|| {
        let (seeds, verb) = (count_of(survey.seeds as usize, "seed"), if survey.seeds == 1 { "places" } else { "place" });
        Block::Text(format!(
            "{seeds} {verb} the systems; no claim is decided by fewer than {least}: begin another survey with `--seeds {least}`."
        ))
    });
    let fewer = claims.iter().any(|c| c.differences.len() < survey.seeds as usize).then(|| {
        Block::Text(format!(
            "Some claims are judged on fewer than {}: on the others a training diverged, or no position of their kind was drawn.",
            count_of(survey.seeds as usize, "seed")
        ))
    });
    let unit = Block::Text("Differences, and δ, are in nats per word; a positive difference supports the claim.".into());
    let table = Block::Words(heads.map(String::from).into(), claims.iter().enumerate().map(row).collect());
    [Block::Text(rule::RULE.into())].into_iter().chain([unit]).chain(few).chain(fewer).chain([table]).collect()
}

fn outcome(tried: &Trained) -> String {
    if tried.loss.is_finite() { format!("{}: {:.4}", tried.lr, tried.loss) } else { format!("{}: diverged", tried.lr) }
}

fn training(results: &Results, survey: &Survey) -> Vec<Block> {
    let row = |(card, budget): (&'static Card, u64)| {
        let own: Vec<&Trained> = results.trained.iter().filter(|t| t.system == card.name && t.budget == budget).collect();
        let mean = |of: fn(&Trained) -> f64| Mean::of(&own.iter().map(|t| of(t)).collect::<Vec<_>>());
        let first = own.first()?;
        let of_network = |cell: String| if counts(card) { "–".into() } else { cell };
        let cells = [
            if counts(card) { count_of(first.parameters, "n-gram") } else { count(first.parameters as u64) },
            of_network(count(first.steps)),
            of_network(format!("{:.2}", first.flops / 1e9)),
            of_network(format!("{:.3}", first.flops * first.steps as f64 / 1e12)),
            of_network(first.lr.to_string()),
            Mean::of(&own.iter().map(|t| t.loss).filter(|l| l.is_finite()).collect::<Vec<_>>())
                .map_or("diverged".into(), |m| m.told(1.0, 4)),
            duration(mean(|t| t.seconds)?.mean),
        ];
        Some(Row { own: budget == survey.most(), ..Row::new(name(card, budget), cells) })
    };
    let heads = [
        "Work, in steps of GPT",
        "parameters",
        "steps, first seed",
        "10⁹ operations a step",
        "10¹² in all",
        "peak rate",
        "loss, nats per token",
        "time",
    ];
    let losses = "A loss is over the tokens that a system predicts. Losses of systems that predict the next token are \
                  comparable, and so are those of systems that fill masks, but not one of each.";
    let mut blocks = vec![Block::Text(losses.into()), Block::table(heads, each(survey).filter_map(row))];
    if !results.searched.is_empty() {
        let tried = |(card, budget): (&'static Card, u64)| {
            let own = results.searched(card.name, budget);
            let mut tried: Vec<&Trained> = own.iter().flat_map(|searched| &searched.tried).collect();
            tried.sort_by(|a, b| a.lr.total_cmp(&b.lr));
            Row::new(name(card, budget), [tried.into_iter().map(outcome).collect::<Vec<_>>().join(" · ")])
        };
        let heads = ["Work, in steps of GPT".to_owned(), format!("rates that were tried, and losses, seed {SEARCH_SEED}")];
        blocks.push(Block::table(heads, each(survey).map(tried)));
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_one_seed_is_that_over_stories() {
        let estimate = |mean, error| Estimate { mean, error, places: 9 };
        assert_eq!(told([estimate(0.5, 0.02)].iter()), "0.500 ± 0.020");
        assert_eq!(told([estimate(0.5, f64::NAN)].iter()), "0.500");
        assert_eq!(told([estimate(0.5, 0.02), estimate(0.7, 0.02)].iter()), "0.600 ± 0.141");
        assert_eq!(told([estimate(f64::NAN, f64::NAN)].iter()), "–");
        assert_eq!(told([estimate(0.5, 0.02), estimate(f64::NAN, f64::NAN)].iter()), "0.500", "not that of seeds");
    }
}
