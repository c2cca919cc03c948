// Functions of one number that WGSL lacks, or leaves to overflow.

// (1 − t)/(1 + t), t = e^(−2|x|), with the sign of x; near 0, where 1 − t cancels, Lambert's continued fraction.
fn tanh_safe(x: f32) -> f32 {
    let s = x * x;
    let t = exp(-2.0 * abs(x));
    let far = sign(x) * (1.0 - t) / (1.0 + t);
    let near = x / fma(s, 1.0 / fma(s, 1.0 / fma(s, 1.0 / fma(s, 1.0 / 9.0, 7.0), 5.0), 3.0), 1.0);
    return select(far, near, s < 0.25);
}

// 1/(1 + e^−x), of whose two forms the one is taken whose power of e is at most 1.
fn sigmoid(x: f32) -> f32 {
    let t = exp(-abs(x));
    return select(t, 1.0, x >= 0.0) / (1.0 + t);
}

// ln(1 + x): 2 artanh(s) for small x, s = x/(2 + x).
fn ln_1p(x: f32) -> f32 {
    let s = x / (2.0 + x);
    let q = s * s;
    var series = 0.0;
    for (var n = 17.0; n >= 1.0; n -= 2.0) {
        series = fma(series, q, 1.0 / n);
    }
    return select(log(1.0 + x), 2.0 * s * series, abs(x) <= 1.0);
}

// 2/√π ∫₀ˣ e^(−t²) dt: below 2 a series of terms of one sign (Abramowitz and Stegun, 7.1.6), then 1 less a continued fraction (7.1.14).
fn erf(x: f32) -> f32 {
    if !is_number(x) {
        return x;
    }
    let r = abs(x);
    let s = r * r;
    let scale = exp(-s) * 1.1283791670955126; // 2/√π
    if r < 2.0 {
        var sum = 1.0;
        for (var n = 25.0; n >= 1.0; n -= 1.0) {
            sum = fma(sum, 2.0 * s / (2.0 * n + 1.0), 1.0);
        }
        return x * scale * sum;
    }
    var tail = r;
    for (var n = 20.0; n >= 1.0; n -= 1.0) {
        tail = fma(0.5 * n, 1.0 / tail, r);
    }
    return sign(x) * fma(-0.5 * scale, 1.0 / tail, 1.0);
}

// ½x(1 + tanh u), u = √(2/π)(x + 0.044715x³).
fn gelu(x: f32) -> f32 {
    return 0.5 * x * (1.0 + tanh_safe(0.7978845608028654 * x * fma(0.044715 * x, x, 1.0)));
}

fn gelu_derivative(x: f32) -> f32 {
    let t = tanh_safe(0.7978845608028654 * x * fma(0.044715 * x, x, 1.0));
    return fma(0.5, 1.0 + t, 0.5 * x * fma(-t, t, 1.0) * 0.7978845608028654 * fma(0.134145 * x, x, 1.0));
}
