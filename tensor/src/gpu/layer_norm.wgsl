// Rows of n, a workgroup each: μ = mean x,   r = (mean (x − μ)² + ε)^(−1/2),   y = gain ∘ (x − μ)·r + bias.
// Unless CENTRED, the RMS norm: μ is 0 and not written, and there is no bias.

struct Params { rows: u32, n: u32, x_at: u32, gain_at: u32, bias_at: u32, inverse_n: f32, eps: f32 }

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read_write> ys: array<f32>;
@group(0) @binding(2) var<storage, read_write> means: array<f32>;
@group(0) @binding(3) var<storage, read_write> rs: array<f32>;
@group(0) @binding(4) var<storage, read> xs: array<f32>;
@group(0) @binding(5) var<storage, read> gains: array<f32>;
@group(0) @binding(6) var<storage, read> biases: array<f32>;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) thread: u32) {
    let row = group_number(group, groups);
    if row >= p.rows {
        return;
    }
    let at = p.x_at + row * p.n;
    var total = 0.0;
    if CENTRED {
        for (var j = thread; j < p.n; j += THREADS) {
            total += xs[at + j];
        }
        total = tree_sum(thread, total);
    }
    var squares = 0.0;
    for (var j = thread; j < p.n; j += THREADS) {
        let d = fma(-total, p.inverse_n, xs[at + j]);
        squares = fma(d, d, squares);
    }
    let r = 1.0 / sqrt(fma(tree_sum(thread, squares), p.inverse_n, p.eps));
    for (var j = thread; j < p.n; j += THREADS) {
        let d = fma(-total, p.inverse_n, xs[at + j]);
        if CENTRED {
            ys[row * p.n + j] = fma(d * r, gains[p.gain_at + j], biases[p.bias_at + j]);
        } else {
            ys[row * p.n + j] = d * r * gains[p.gain_at + j];
        }
    }
    if thread == 0u {
        rs[row] = r;
        if CENTRED {
            means[row] = total * p.inverse_n;
        }
    }
}
