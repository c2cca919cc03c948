//! Plots as SVG, drawn by `plotters` and coloured by a style sheet, for light and dark pages and for print.
//!
//! `plotters` draws only in colours and whole pixels. Each [`Ink`] is therefore drawn in a unique colour that is then replaced by
//! a CSS class, and the drawing is `FINE` times larger than the picture.

use std::ops::Range;
use std::path::Path;

use gradus_io::files::{FileError, write_atomically};
use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::markup::escape;
use crate::scale::Axis;

/// Drawing units per pixel.
const FINE: i32 = 10;
/// The font size in pixels.
const LETTERS: i32 = 13;
/// The smallest distance between two labels at the right edge, in pixels.
const LABEL_GAP: i32 = 17;
/// The size in pixels of a plot as wide as the page; its font size equals that of a [`HALF`] one.
pub const WIDE: (u32, u32) = (950, 400);
/// The size in pixels of a plot half as wide as the page.
pub const HALF: (u32, u32) = (467, 300);
/// The padding around a plot in a separate file, in pixels.
const PADDING: i32 = 20;
/// The largest number of points drawn for a curve.
const MOST_POINTS: usize = 800;

/// The role of a line; `plot.css` gives its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ink {
    /// Text and axes.
    Text,
    /// Less important text.
    Muted,
    /// Grid lines.
    Grid,
    /// Measurements at every step, unsmoothed.
    Raw,
    /// Measurements at every step, smoothed.
    Train,
    /// Measurements on held-out text.
    Validation,
    /// A limit that no model can exceed.
    Limit,
    /// The result of another model.
    Baseline,
}

impl Ink {
    const ALL: [(Self, &'static str); 8] = [
        (Self::Text, "text"),
        (Self::Muted, "muted"),
        (Self::Grid, "grid"),
        (Self::Raw, "raw"),
        (Self::Train, "train"),
        (Self::Validation, "validation"),
        (Self::Limit, "limit"),
        (Self::Baseline, "baseline"),
    ];

    /// Returns the unique colour of the ink, to be replaced by its class.
    fn colour(self) -> RGBColor {
        RGBColor(0, 0, 1 + self as u8)
    }
}

/// A line through measured points.
#[derive(Clone, Debug)]
pub struct Curve {
    /// The label at the right edge, or to the lower right of a single point; empty for none.
    pub name: String,
    /// The points (x, y) in the units of the axes, with increasing x. Non-finite points are skipped.
    pub points: Vec<(f64, f64)>,
    /// The role of the curve.
    pub ink: Ink,
    /// Whether each point is drawn as a dot.
    pub dots: bool,
}

/// A horizontal line for comparison.
#[derive(Clone, Debug)]
pub struct Level {
    /// The label at the right edge.
    pub name: String,
    /// The height in the units of the y axis.
    pub y: f64,
    /// The role of the line.
    pub ink: Ink,
}

/// A plot of curves and levels.
#[derive(Clone, Debug)]
pub struct Plot {
    /// The heading.
    pub title: String,
    /// A text alternative for readers who cannot see the plot.
    pub description: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The curves, in the order of drawing.
    pub curves: Vec<Curve>,
    /// The levels.
    pub levels: Vec<Level>,
    /// The width and height in pixels.
    pub size: (u32, u32),
}

/// A label and its position in drawing units: its left end and the middle of its height.
struct Label {
    x: i32,
    y: i32,
    text: String,
    ink: Ink,
}

impl Label {
    /// Returns the right end of the text.
    fn end(&self) -> i32 {
        self.x + width_of(self.text.chars().count()) * FINE
    }
}

/// The labels of a plot, each next to the curve, level or point that it names.
#[derive(Default)]
struct Labels {
    /// Labels of levels and of curves with at least two points, drawn in a column at the right edge.
    ends: Vec<Label>,
    /// Labels of curves with one point, drawn beside the point.
    points: Vec<Label>,
}

impl Labels {
    /// Returns the labels at positions where none covers another. `right` and `bottom` are the ends of the axes.
    ///
    /// A point at the right end has its label in the column. A point whose label would reach the column has it on its left.
    fn placed(mut self, right: i32, bottom: i32) -> Vec<Label> {
        let column = right + 8 * FINE;
        if !self.ends.is_empty() {
            let last: Vec<Label> = self.points.extract_if(.., |label| label.x + LABEL_GAP * FINE > right).collect();
            self.ends.extend(last);
        }
        for label in &mut self.points {
            label.x += 7 * FINE;
            label.y += 9 * FINE;
            if !self.ends.is_empty() && label.end() > column {
                label.x -= label.end() - label.x + 14 * FINE;
            }
        }
        below(&mut self.points, bottom);
        self.ends.iter_mut().for_each(|label| label.x = column);
        spread(&mut self.ends, bottom);
        self.points.into_iter().chain(self.ends).collect()
    }
}

impl Plot {
    /// Returns whether no curve has two points to draw.
    pub fn is_empty(&self) -> bool {
        self.visible().all(|(_, points)| points.len() < 2)
    }

    /// Renders the plot as an `<svg>` element for a page with [`STYLE`].
    pub fn inline(&self) -> String {
        self.render("", 0)
    }

    /// Renders the plot as a separate SVG file.
    pub fn standalone(&self) -> String {
        self.file("")
    }

    /// Renders the plot as an SVG file that a browser reloads after this many seconds.
    pub fn reloading(&self, seconds: u32) -> String {
        self.file(&format!("<script>setTimeout(() =&gt; location.reload(), {seconds}000)</script>\n"))
    }

    fn file(&self, head: &str) -> String {
        let [width, height] = [self.size.0, self.size.1].map(|pixels| (pixels as i32 + 2 * PADDING) * FINE);
        let (corner, round) = (-PADDING * FINE, PADDING * FINE / 2);
        let paper =
            format!("<rect class=\"paper\" x=\"{corner}\" y=\"{corner}\" width=\"{width}\" height=\"{height}\" rx=\"{round}\"/>");
        self.render(&format!("{head}<style>{STYLE}</style>\n{paper}\n"), PADDING)
    }

    /// Writes [`Plot::standalone`] to a file atomically.
    pub fn write(&self, path: &Path) -> Result<(), FileError> {
        write_atomically(path, |out| out.write_all(self.standalone().as_bytes()))
    }

    /// Returns the curves with the points that the axes can show, thinned to [`MOST_POINTS`].
    fn visible(&self) -> impl Iterator<Item = (&Curve, Vec<(f64, f64)>)> {
        self.curves.iter().map(|curve| {
            let shown = curve.points.iter().filter(|(x, y)| self.x.scale.shows(*x) && self.y.scale.shows(*y));
            (curve, thin(shown.copied().collect()))
        })
    }

    /// Renders the element, beginning with `head`, with `room` pixels of padding.
    fn render(&self, head: &str, room: i32) -> String {
        let mut drawn = String::new();
        let size = (self.size.0 * FINE as u32, self.size.1 * FINE as u32);
        {
            let area = SVGBackend::with_string(&mut drawn, size).into_drawing_area();
            self.draw(&area).and_then(|()| area.present()).expect("drawing into memory cannot fail");
        }
        for (ink, class) in Ink::ALL {
            let RGBColor(r, g, b) = ink.colour();
            for (attribute, form) in [("stroke", "line"), ("fill", "solid")] {
                let colour = format!("{attribute}=\"#{r:02X}{g:02X}{b:02X}\"");
                drawn = drawn.replace(&colour, &format!("class=\"{form} {class}\""));
            }
        }
        let drawn = drawn.replace(" opacity=\"1\"", "").replace(" font-family=\"sans-serif\"", "");
        let body = drawn.split_once(">\n").map_or("", |(_, body)| body);
        let (title, description) = (escape(&self.title), escape(&self.description));
        let (width, height) = (self.size.0 as i32 + 2 * room, self.size.1 as i32 + 2 * room);
        let view = [-room, -room, width, height].map(|pixels| (pixels * FINE).to_string()).join(" ");
        format!(
            "<svg class=\"plot\" role=\"img\" width=\"{width}\" height=\"{height}\" viewBox=\"{view}\" \
             xmlns=\"http://www.w3.org/2000/svg\">\n<title>{title}</title>\n<desc>{description}</desc>\n{head}{body}"
        )
    }

    fn draw(&self, area: &Area<'_>) -> Drawn {
        let curves: Vec<_> = self.visible().collect();
        let levels: Vec<_> = self.levels.iter().filter(|level| self.y.scale.shows(level.y)).collect();
        let points = || curves.iter().flat_map(|(_, points)| points);
        let x = self.x.range(points().map(|point| point.0).chain(Some(0.0).filter(|x| self.x.scale.shows(*x))), 0.0);
        let y = self.y.range(points().map(|point| point.1).chain(levels.iter().map(|level| level.y)), 0.04);

        let ticks = self.y.ticks(&y, self.size.1 as usize / 60);
        let widest = |letters: &mut dyn Iterator<Item = usize>| width_of(letters.max().unwrap_or(0));
        let named = curves.iter().map(|(curve, _)| &curve.name).chain(levels.iter().map(|level| &level.name));
        let right = widest(&mut named.map(|name| name.chars().count())) + 22;
        let left = widest(&mut ticks.iter().map(|tick| self.y.text(*tick).chars().count())) + 16;
        let (width, height) = (self.size.0 as i32, self.size.1 as i32);
        let (top, bottom) = (58, 46);
        let mut chart = ChartBuilder::on(area)
            .margin_left(left * FINE)
            .margin_right(right * FINE)
            .margin_top(top * FINE)
            .margin_bottom(bottom * FINE)
            .build_cartesian_2d(self.across(x.start)..self.across(x.end), self.up(y.start)..self.up(y.end))?;

        text(area, &self.title, (2 * FINE, 14 * FINE), Ink::Text, HPos::Left, VPos::Center)?;
        text(area, &self.y.label, (2 * FINE, 36 * FINE), Ink::Muted, HPos::Left, VPos::Center)?;
        text(area, &self.x.label, ((width - right) * FINE, (height - 10) * FINE), Ink::Muted, HPos::Right, VPos::Center)?;
        self.draw_axes(area, &mut chart, &x, &y, &ticks)?;

        let mut labels = Labels::default();
        for level in levels {
            let ends = [x.start, x.end].map(|x| (self.across(x), self.up(level.y)));
            chart.draw_series([PathElement::new(ends, level.ink.colour().stroke_width(15))])?;
            let (x, y) = chart.backend_coord(&ends[1]);
            labels.ends.push(Label { x, y, text: level.name.clone(), ink: level.ink });
        }
        for (curve, points) in &curves {
            let Some((x, y)) = self.draw_curve(&mut chart, curve, points)? else { continue };
            let labels = if points.len() == 1 { &mut labels.points } else { &mut labels.ends };
            labels.push(Label { x, y, text: curve.name.clone(), ink: curve.ink });
        }
        for label in labels.placed((width - right) * FINE, (height - bottom) * FINE) {
            text(area, &label.text, (label.x, label.y), label.ink, HPos::Left, VPos::Center)?;
        }
        Ok(())
    }

    fn across(&self, x: f64) -> f64 {
        self.x.scale.place(x)
    }

    fn up(&self, y: f64) -> f64 {
        self.y.scale.place(y)
    }

    /// Draws a grid line at each tick of y, a mark at each tick of x, and the base line.
    fn draw_axes(&self, area: &Area<'_>, chart: &mut Chart<'_>, x: &Range<f64>, y: &Range<f64>, ticks: &[f64]) -> Drawn {
        for &tick in ticks {
            let ends = [x.start, x.end].map(|x| (self.across(x), self.up(tick)));
            chart.draw_series([PathElement::new(ends, Ink::Grid.colour().stroke_width(FINE as u32))])?;
            let at = chart.backend_coord(&ends[0]);
            text(area, &self.y.text(tick), (at.0 - 8 * FINE, at.1), Ink::Muted, HPos::Right, VPos::Center)?;
        }
        for tick in self.x.ticks(x, self.size.0 as usize / 100) {
            let at = chart.backend_coord(&(self.across(tick), self.up(y.start)));
            let mark = [at, (at.0, at.1 + 5 * FINE)];
            area.draw(&PathElement::new(mark, Ink::Muted.colour().stroke_width(FINE as u32)))?;
            text(area, &self.x.text(tick), (at.0, at.1 + 9 * FINE), Ink::Muted, HPos::Center, VPos::Top)?;
        }
        let base = [x.start, x.end].map(|x| (self.across(x), self.up(y.start)));
        chart.draw_series([PathElement::new(base, Ink::Muted.colour().stroke_width(FINE as u32))])?;
        Ok(())
    }

    /// Draws the curve and returns its end if the curve has a label.
    fn draw_curve(
        &self,
        chart: &mut Chart<'_>,
        curve: &Curve,
        points: &[(f64, f64)],
    ) -> Result<Option<(i32, i32)>, DrawingError> {
        let places: Vec<_> = points.iter().map(|&(x, y)| (self.across(x), self.up(y))).collect();
        let Some(last) = places.last() else { return Ok(None) };
        let weight = if curve.ink == Ink::Raw { 10 } else { 22 };
        chart.draw_series(LineSeries::new(places.iter().copied(), curve.ink.colour().stroke_width(weight)))?;
        if curve.dots {
            chart.draw_series(places.iter().map(|&at| Circle::new(at, 32, curve.ink.colour().filled())))?;
        }
        Ok((!curve.name.is_empty()).then(|| chart.backend_coord(last)))
    }
}

/// Returns the approximate width of a text of this many letters, in pixels.
fn width_of(letters: usize) -> i32 {
    letters as i32 * LETTERS * 56 / 100
}

/// Draws text at a position; the line of the title is bold.
fn text(area: &Area<'_>, words: &str, at: (i32, i32), ink: Ink, h: HPos, v: VPos) -> Drawn {
    let bold = if at.1 == 14 * FINE { FontStyle::Bold } else { FontStyle::Normal };
    let font = ("sans-serif", f64::from(LETTERS * FINE) * 1.24, bold).into_font();
    area.draw(&Text::new(words, at, TextStyle::from(font).color(&ink.colour()).pos(Pos::new(h, v))))
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a> = ChartContext<'a, SVGBackend<'a>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;
type DrawingError = DrawingAreaErrorKind<std::io::Error>;
type Drawn = Result<(), DrawingError>;

/// Moves each label below those that it covers. None is placed below `bottom`, the axis.
fn below(labels: &mut [Label], bottom: i32) {
    let gap = LABEL_GAP * FINE;
    let cover = |a: &Label, b: &Label| a.x < b.end() && b.x < a.end();
    labels.sort_by_key(|label| label.y);
    for index in 0..labels.len() {
        let above = labels[..index].iter().filter(|other| cover(other, &labels[index]));
        labels[index].y = above.fold(labels[index].y, |y, other| y.max(other.y + gap));
    }
    for index in (0..labels.len()).rev() {
        let under = labels[index + 1..].iter().filter(|other| cover(other, &labels[index]));
        labels[index].y = under.fold(labels[index].y.min(bottom - gap / 2), |y, other| y.min(other.y - gap));
    }
}

/// Moves overlapping labels apart by the smallest amount: adjacent labels form a group around the mean of their intended
/// positions (isotonic regression by pooling adjacent violators). None is placed below `bottom`. Labels that are too many for the
/// picture are drawn closer together than a letter's height.
fn spread(labels: &mut [Label], bottom: i32) {
    let gap = (LABEL_GAP * FINE).min(bottom / (labels.len().max(2) as i32 - 1));
    labels.sort_by_key(|label| label.y);
    let mut groups: Vec<(i32, i32)> = Vec::new(); // (sum of the intended heights less the gaps above, members)
    for (index, label) in (0..).zip(labels.iter()) {
        let mut group = (label.y - index * gap, 1);
        while let Some(&(sum, members)) = groups.last().filter(|above| above.0 / above.1 > group.0 / group.1) {
            group = (group.0 + sum, group.1 + members);
            groups.pop();
        }
        groups.push(group);
    }
    let heights = groups.iter().flat_map(|&(sum, members)| (0..members).map(move |_| sum / members));
    for ((index, label), height) in (0..).zip(labels.iter_mut()).zip(heights) {
        label.y = height + index * gap;
    }
    let mut floor = bottom;
    for label in labels.iter_mut().rev() {
        label.y = label.y.min(floor);
        floor = label.y - gap;
    }
}

/// Reduces a curve to at most [`MOST_POINTS`] points with the same appearance: the lowest and the highest of each interval, and
/// the last.
fn thin(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    if points.len() <= MOST_POINTS {
        return points;
    }
    let stretch = points.len().div_ceil(MOST_POINTS / 2 - 1);
    let mut kept = Vec::with_capacity(MOST_POINTS);
    for part in points.chunks(stretch) {
        let by_height = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
        if let (Some(&low), Some(&high)) = (part.iter().min_by(by_height), part.iter().max_by(by_height)) {
            kept.extend(if low.0 <= high.0 { [low, high] } else { [high, low] });
        }
    }
    kept.extend(points.last());
    kept
}

/// Returns each value's mean with its neighbours, up to 1/60 of the points on either side. The window is symmetric, so there is
/// no lag; near the beginning, where a loss falls fastest, it is narrower.
pub(crate) fn smooth(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    const BLOCK: usize = 128; // block sums keep the time from growing quadratically with the length of a run
    let total = |points: &[(f64, f64)]| {
        points.iter().filter(|p| p.1.is_finite()).fold((0.0, 0.0), |(sum, number), p| (sum + p.1, number + 1.0))
    };
    let blocks: Vec<(f64, f64)> = points.chunks(BLOCK).map(total).collect();
    let reach = points.len() / 60;
    let window = |index: usize| {
        let side = reach.min(index);
        let (from, to) = (index - side, (index + side + 1).min(points.len()));
        let (first, last) = (from.div_ceil(BLOCK), to / BLOCK);
        if first >= last {
            let (sum, number) = total(&points[from..to]);
            return sum / number;
        }
        let ends = [total(&points[from..first * BLOCK]), total(&points[last * BLOCK..to])];
        let (sum, number) =
            ends.iter().chain(&blocks[first..last]).fold((0.0, 0.0), |all, part| (all.0 + part.0, all.1 + part.1));
        sum / number
    };
    points.iter().enumerate().map(|(index, &(x, _))| (x, window(index))).collect()
}

/// The style sheet of all plots.
pub const STYLE: &str = include_str!("plot.css");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scale::Scale;

    #[test]
    fn labels_never_cover_each_other() {
        let label = |y| Label { x: 0, y, text: String::new(), ink: Ink::Text };
        let mut labels: Vec<_> = [900, 100, 905, 110, 890, 120].map(label).into();
        spread(&mut labels, 1000);
        let heights: Vec<_> = labels.iter().map(|label| label.y).collect();
        assert!(heights.windows(2).all(|pair| pair[1] - pair[0] >= LABEL_GAP * FINE), "{heights:?}");
        assert!(heights.iter().all(|y| *y <= 1000) && heights[0] < 100, "{heights:?}");
        let mut many: Vec<_> = [500; 40].map(label).into();
        spread(&mut many, 1000);
        assert!(many.windows(2).all(|pair| pair[0].y < pair[1].y) && many.iter().all(|label| (0..=1000).contains(&label.y)));
    }

    #[test]
    fn labels_of_points_never_cover_each_other() {
        let (width, gap) = (width_of(4) * FINE, LABEL_GAP * FINE);
        let label = |(x, y)| Label { x, y, text: "four".into(), ink: Ink::Text };
        let points = [(0, 900), (100, 905), (150, 980), (100, 100), (120, 90), (5000, 95), (0, 985)];
        let labels = Labels { points: points.map(label).into(), ..Labels::default() }.placed(9000, 1000);
        for (index, a) in labels.iter().enumerate() {
            assert!(a.y <= 1000 - gap / 2, "under the axis");
            for b in &labels[..index] {
                assert!((a.x - b.x).abs() >= width || (a.y - b.y).abs() >= gap, "{} {}, {} {}", a.x, a.y, b.x, b.y);
            }
        }
        let alone = labels.iter().find(|label| label.x > 5000).unwrap();
        assert_eq!((alone.x, alone.y), (5000 + 7 * FINE, 95 + 9 * FINE), "one that covers none stays at its point");
    }

    /// A held-out curve of one point, at the end of the training curve, at its middle, and close to the end.
    #[test]
    fn the_label_of_a_point_covers_none_of_those_at_the_right_edge() {
        let label = |x, y, text: &str| Label { x, y, text: text.into(), ink: Ink::Text };
        let (right, bottom) = (7000, 3000);
        for x in (0..=right).step_by(100) {
            for y in (0..=bottom).step_by(50) {
                let ends = vec![label(right, 1500, "train: 3.100"), label(right, 2800, "exact limit: 0.500")];
                let points = vec![label(x, y, "held-out: 3.098"), label(right / 2, 1500, "another point")];
                let placed = Labels { ends, points }.placed(right, bottom);
                assert_eq!(placed.len(), 4);
                for (index, a) in placed.iter().enumerate() {
                    for b in &placed[..index] {
                        let are_beside = a.end() <= b.x || b.end() <= a.x;
                        assert!(are_beside || (a.y - b.y).abs() >= LABEL_GAP * FINE, "point at {x}, {y}: {}, {}", a.text, b.text);
                    }
                }
            }
        }
    }

    #[test]
    fn a_plot_with_one_held_out_point_at_its_end_has_both_labels_apart() {
        let curve = |name: &str, points: Vec<(f64, f64)>| Curve { name: name.into(), points, ink: Ink::Train, dots: true };
        let train = (1..=30).map(|step| (f64::from(step), 3.4 - 0.01 * f64::from(step))).collect();
        let plot = Plot {
            title: "Loss".into(),
            description: String::new(),
            x: Axis::new("tokens seen", Scale::Linear),
            y: Axis::new("loss", Scale::Log),
            curves: vec![curve("train: 3.100", train), curve("held-out: 3.098", vec![(30.0, 3.098)])],
            levels: Vec::new(),
            size: WIDE,
        };
        let svg = plot.inline();
        let height = |name: &str| -> i32 {
            let before = &svg[..svg.find(name).expect("the label")];
            let element = &before[before.rfind("<text").expect("its element")..];
            let y = element.split_once(" y=\"").expect("its height").1;
            y[..y.find('"').unwrap()].parse().unwrap()
        };
        let apart = (height("train: 3.100") - height("held-out: 3.098")).abs();
        assert!(apart >= LABEL_GAP * FINE, "{apart}");
    }

    #[test]
    fn thinning_keeps_extremes_and_the_end() {
        let mut points: Vec<_> = (0..100_000).map(|i| (f64::from(i), f64::from(i % 7))).collect();
        (points[31_415].1, points[27_182].1) = (50.0, -50.0);
        let kept = thin(points.clone());
        assert!(kept.len() <= MOST_POINTS, "{}", kept.len());
        assert!(kept.contains(&points[31_415]) && kept.contains(&points[27_182]));
        assert_eq!(kept.last(), points.last());
        assert!(kept.windows(2).all(|pair| pair[0].0 <= pair[1].0));
    }

    #[test]
    fn smoothing_keeps_lines_and_removes_noise() {
        let line: Vec<_> = (0..600).map(|i| (f64::from(i), 3.0 * f64::from(i))).collect();
        let smoothed = smooth(&line);
        assert!(smoothed[..590].iter().zip(&line).all(|(a, b)| (a.1 - b.1).abs() < 1e-9));
        let noise: Vec<_> = (0..600).map(|i| (f64::from(i), f64::from(i % 2))).collect();
        assert!(smooth(&noise)[20..].iter().all(|point| (point.1 - 0.5).abs() < 0.1));
        // With enough values to use the block sums, the result is the plain mean.
        let long: Vec<_> =
            (0..40_000).map(|i| (f64::from(i), if i % 7 == 0 { f64::NAN } else { f64::from(i * 31 % 101) })).collect();
        for (index, found) in smooth(&long).into_iter().enumerate().step_by(997) {
            let side = index.min(long.len() / 60);
            let near: Vec<f64> =
                long[index - side..long.len().min(index + side + 1)].iter().map(|p| p.1).filter(|y| !y.is_nan()).collect();
            let mean = near.iter().sum::<f64>() / near.len() as f64;
            assert!((found.1 - mean).abs() < 1e-9 || near.is_empty(), "{index}: {found:?}, {mean}");
        }
        assert_eq!(smooth(&[(1.0, 2.0)]), [(1.0, 2.0)]);
        assert!(smooth(&[]).is_empty());
    }

    #[test]
    fn degenerate_data_is_drawn_without_nan() {
        for values in [vec![], vec![1.0], vec![2.0; 3], vec![f64::NAN, 1.0, f64::INFINITY], vec![-1.0, 0.0, 1.0]] {
            for scale in [Scale::Linear, Scale::Log, Scale::Root] {
                let points = values.iter().enumerate().map(|(i, v)| (i as f64 + 0.5, *v)).collect();
                let plot = Plot {
                    title: "a < b & \"c\"".into(),
                    description: "d > e".into(),
                    x: Axis::new("x", scale),
                    y: Axis::new("y", scale),
                    curves: vec![Curve { name: "<name>".into(), points, ink: Ink::Train, dots: true }],
                    levels: vec![Level { name: "level".into(), y: -3.0, ink: Ink::Limit }],
                    size: (480, 240),
                };
                let svg = plot.standalone();
                assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"), "{svg}");
                assert!(svg.contains("<title>a &lt; b &amp; &quot;c&quot;</title>"), "{svg}");
                assert!(!svg.contains("<name>") && !svg.contains("NaN") && !svg.contains("#0000"), "{svg}");
            }
        }
    }
}
