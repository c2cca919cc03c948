//! Numbers formatted for display.

/// Formats an integer with its thousands separated: `116,534,784`.
pub fn count(number: u64) -> String {
    match number {
        0..1000 => number.to_string(),
        _ => format!("{},{:03}", count(number / 1000), number % 1000),
    }
}

/// Formats a number of things: `1 thread`, `1,000 threads`.
pub fn count_of(number: usize, one: &str) -> String {
    format!("{} {one}{}", count(number as u64), if number == 1 { "" } else { "s" })
}

/// Formats a positive measurement with about three digits: `9,480`, `23.4`, `0.0213`.
pub fn figure(value: f64) -> String {
    match value.abs() {
        _ if !value.is_finite() => "–".into(),
        0.0 => "0".into(),
        size if size >= 100.0 => count(value.round().max(0.0) as u64),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        size if size >= 1e-3 => format!("{value:.4}"),
        _ => format!("{value:.2e}"),
    }
}

/// Formats e^`log` in scientific notation with this many decimals: `9.7·10⁻²⁹`. The value itself may be too small or too large
/// for an `f64`.
pub fn scientific(log: f64, decimals: usize) -> String {
    let places = log / std::f64::consts::LN_10;
    let mut exponent = places.floor() as i64;
    let mut digits = format!("{:.decimals$}", 10f64.powf(places - places.floor()));
    if digits.starts_with("10") {
        (digits, exponent) = (format!("{:.decimals$}", 1.0), exponent + 1);
    }
    let raised = |letter: char| match letter {
        '-' => '⁻',
        digit => ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'][digit as usize - '0' as usize],
    };
    format!("{digits}·10{}", exponent.to_string().chars().map(raised).collect::<String>())
}

/// Formats a duration: `8 s`, `3 min 20 s`, `2 h 05 min`.
pub fn duration(seconds: f64) -> String {
    let whole = seconds.round().max(0.0) as u64;
    match whole {
        0..60 => format!("{whole} s"),
        60..3600 => format!("{} min {:02} s", whole / 60, whole % 60),
        _ => format!("{} h {:02} min", whole / 3600, whole / 60 % 60),
    }
}

/// Returns the median, or the upper of the two middle values; 0 without values. Sorts the numbers.
pub fn median(numbers: &mut [f64]) -> f64 {
    numbers.sort_unstable_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_durations_are_formatted() {
        assert_eq!([0, 999, 1000, 116_534_784].map(count), ["0", "999", "1,000", "116,534,784"]);
        assert_eq!([8.4, 59.6, 200.0, 7500.0].map(duration), ["8 s", "1 min 00 s", "3 min 20 s", "2 h 05 min"]);
        assert_eq!([9480.2, 23.44, 1.234, 0.0213, 2.5e-5, 0.0].map(figure), ["9,480", "23.4", "1.23", "0.0213", "2.50e-5", "0"]);
        assert_eq!(figure(f64::NAN), "–");
    }

    #[test]
    fn scientific_notation_has_one_digit_before_the_point() {
        let of = |value: f64, decimals| scientific(value.ln(), decimals);
        assert_eq!([of(3e-5, 0), of(1e-4, 0), of(2.5e7, 1), of(1.0, 2)], ["3·10⁻⁵", "1·10⁻⁴", "2.5·10⁷", "1.00·10⁰"]);
        assert_eq!(of(9.96e-9, 1), "1.0·10⁻⁸", "rounded up to the next power");
        assert_eq!(scientific(-64.5, 1), "9.7·10⁻²⁹");
        assert_eq!(scientific(-2_302.585_092_994_046, 0), "1·10⁻¹⁰⁰⁰", "below the smallest f64");
    }

    #[test]
    fn the_median_is_the_upper_of_two_in_the_middle() {
        assert_eq!(
            [median(&mut []), median(&mut [7.0]), median(&mut [3.0, 1.0, 2.0]), median(&mut [4.0, 1.0, 3.0, 2.0])],
            [0.0, 7.0, 2.0, 3.0]
        );
    }
}
