//! The order of the remainder after the linear term.

use super::Case;
use super::line::Line;
use super::report::{Comparison, Ledger, Outcome};

/// The tolerance of the slope around 2: third derivatives and rounding at the ends bend the line a little.
const TOLERANCE: f64 = 0.05;
/// The smallest meaningful remainder, in rounding errors of φ.
const ROUNDINGS: f64 = 512.0;
/// The number of lines. On one line φ″ may be small and hidden by higher derivatives; on three lines this is unlikely.
const LINES: u64 = 3;

/// Checks the order of the remainder after the linear term.
///
/// ```text
/// |φ(h) − φ(0) − h φ′(0)| = ½h²|φ″(0)| + O(h³)        φ(h) = ⟨u, f(x + hv)⟩,  |v| = 1,  φ′(0) = ⟨Jᵀu, v⟩
/// ```
///
/// On logarithmic axes the remainder is a line of slope 2, or of slope 1 for small h if φ′(0) is wrong, however slightly. The
/// slope nearest to 2 among three lines counts; its points are in the report. A steeper slope is correct too, since φ″ may
/// vanish. If all remainders are rounding errors, as for a linear function, nothing is fitted.
pub fn taylor(case: &Case) -> Outcome {
    taylor_on(case, LINES, &(0..=16).map(|i| 10f64.powf(-2.0 - 0.25 * f64::from(i))).collect::<Vec<_>>())
}

/// Runs [`taylor`] on this many lines at these step sizes, largest first, for functions that are slow to evaluate.
pub fn taylor_on(case: &Case, lines: u64, steps: &[f64]) -> Outcome {
    Ledger::of("taylor", case, |mut ledger| {
        let mut best: Option<(f64, Vec<(f64, f64)>)> = None;
        for number in 0..lines {
            let line = match Line::through(case, number) {
                Ok(line) if line.is_empty() => return ledger.close(),
                Ok(line) => line,
                Err(rule) => return ledger.broken(rule),
            };
            let here = line.at(0.0);
            if !here.is_finite() || !line.slope.is_finite() {
                return ledger.broken(format!("φ(0) = {here:e} and φ′(0) = {:e}: both must be finite", line.slope));
            }
            let curve = remainders(&line, here, steps);
            // The third derivative affects the smallest steps least.
            let last = &curve[curve.len().saturating_sub(9)..];
            if last.len() < 4 {
                continue;
            }
            let slope = fit(&last.iter().map(|(h, r)| (h.ln(), r.ln())).collect::<Vec<_>>());
            if best.as_ref().is_none_or(|(other, _)| (slope - 2.0).abs() < (other - 2.0).abs()) {
                best = Some((slope, curve));
            }
        }
        if let Some((slope, curve)) = best {
            let expected = slope.max(2.0);
            ledger.compare(TOLERANCE, Comparison { input: None, element: 0, value: slope, expected, scale: 1.0 });
            ledger.draw(curve);
        }
        ledger.close()
    })
}

/// Returns each h with its remainder, if that exceeds rounding.
fn remainders(line: &Line<'_>, here: f64, steps: &[f64]) -> Vec<(f64, f64)> {
    // Both φ(h) and h φ′(0) round.
    let visible = |h: f64| ROUNDINGS * f64::EPSILON * (line.size + h * line.terms);
    steps.iter().map(|&h| (h, (line.at(h) - here - h * line.slope).abs())).filter(|&(h, r)| r > visible(h)).collect()
}

/// Returns the slope of the least-squares line through the points.
fn fit(points: &[(f64, f64)]) -> f64 {
    let n = points.len() as f64;
    let (mx, my) = points.iter().fold((0.0, 0.0), |(a, b), (x, y)| (a + x / n, b + y / n));
    let (sxy, sxx) = points.iter().fold((0.0, 0.0), |(a, b), (x, y)| (a + (x - mx) * (y - my), b + (x - mx) * (x - mx)));
    sxy / sxx
}
