// Rows of n, a workgroup each: r = (mean x² + ε)^(−1/2),   y = gain ∘ x·r.

struct Params { rows: u32, n: u32, x_at: u32, gain_at: u32, inverse_n: f32, eps: f32 }

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read_write> ys: array<f32>;
@group(0) @binding(2) var<storage, read_write> rrmss: array<f32>;
@group(0) @binding(3) var<storage, read> xs: array<f32>;
@group(0) @binding(4) var<storage, read> gains: array<f32>;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) thread: u32) {
    let row = group_number(group, groups);
    if row >= p.rows {
        return;
    }
    let at = p.x_at + row * p.n;
    var squares = 0.0;
    for (var j = thread; j < p.n; j += THREADS) {
        let x = xs[at + j];
        squares += x * x;
    }
    let r = 1.0 / sqrt(tree_sum(thread, squares) * p.inverse_n + p.eps);
    for (var j = thread; j < p.n; j += THREADS) {
        ys[row * p.n + j] = xs[at + j] * r * gains[p.gain_at + j];
    }
    if thread == 0u {
        rrmss[row] = r;
    }
}
