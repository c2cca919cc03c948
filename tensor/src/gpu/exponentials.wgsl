// The largest of a row, and Σ e^(x − largest), in which no summand overflows. Where the row holds NaN or ∞, or only −∞, the sum
// is NaN, as one of the differences is; such rows are found by bits, since a device need not keep NaN and ∞ in arithmetic.

struct Exponentials { largest: f32, sum: f32 }

// Of xs[at .. at + n].
fn exponentials(thread: u32, at: u32, n: u32) -> Exponentials {
    var key = 0u;
    for (var j = thread; j < n; j += THREADS) {
        key = max(key, key_of(xs[at + j]));
    }
    key = tree_max(thread, key);
    if key == KEY_OF_MINUS_INFINITY || key >= KEY_OF_INFINITY {
        return Exponentials(0.0, p.nan);
    }
    let largest = number_of(key);
    var sum = 0.0;
    for (var j = thread; j < n; j += THREADS) {
        sum += exp(xs[at + j] - largest);
    }
    return Exponentials(largest, tree_sum(thread, sum));
}
