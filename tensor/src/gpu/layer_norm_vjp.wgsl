// Rows of n, a workgroup each: with x̂ = (x − μ)·r and a = gain ∘ ȳ,   x̄ = r·(a − mean a − x̂·mean(a ∘ x̂)).
// Unless CENTRED, the VJP of the RMS norm: μ is 0 and not read, and mean a is left out.

struct Params { rows: u32, n: u32, x_at: u32, gain_at: u32, mean_at: u32, r_at: u32, gy_at: u32, inverse_n: f32 }

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read_write> gxs: array<f32>;
@group(0) @binding(2) var<storage, read> xs: array<f32>;
@group(0) @binding(3) var<storage, read> gains: array<f32>;
@group(0) @binding(4) var<storage, read> means: array<f32>;
@group(0) @binding(5) var<storage, read> rs: array<f32>;
@group(0) @binding(6) var<storage, read> gys: array<f32>;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) thread: u32) {
    let row = group_number(group, groups);
    if row >= p.rows {
        return;
    }
    let x_at = p.x_at + row * p.n;
    let gy_at = p.gy_at + row * p.n;
    let r = rs[p.r_at + row];
    var mean = 0.0;
    if CENTRED {
        mean = means[p.mean_at + row];
    }
    var sum_a = 0.0;
    var sum_ax = 0.0; // Σ a ∘ x̂
    for (var j = thread; j < p.n; j += THREADS) {
        let gain = gains[p.gain_at + j];
        let gy = gys[gy_at + j];
        if CENTRED {
            sum_a = fma(gain, gy, sum_a);
        }
        sum_ax = fma(gain * gy, (xs[x_at + j] - mean) * r, sum_ax);
    }
    let means_of_a = tree_sums(thread, vec2f(sum_a, sum_ax), 1u) * p.inverse_n;
    for (var j = thread; j < p.n; j += THREADS) {
        let x_hat = (xs[x_at + j] - mean) * r;
        gxs[row * p.n + j] = r * fma(-x_hat, means_of_a.y, fma(gains[p.gain_at + j], gys[gy_at + j], -means_of_a.x));
    }
}
