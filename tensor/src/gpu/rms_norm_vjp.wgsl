// Rows of n, a workgroup each: with x̂ = x·r and a = gain ∘ ȳ,   x̄ = r·(a − x̂·mean(a ∘ x̂)).

struct Params { rows: u32, n: u32, x_at: u32, gain_at: u32, rrms_at: u32, gy_at: u32, inverse_n: f32 }

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read_write> gxs: array<f32>;
@group(0) @binding(2) var<storage, read> xs: array<f32>;
@group(0) @binding(3) var<storage, read> gains: array<f32>;
@group(0) @binding(4) var<storage, read> rrmss: array<f32>;
@group(0) @binding(5) var<storage, read> gys: array<f32>;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) thread: u32) {
    let row = group_number(group, groups);
    if row >= p.rows {
        return;
    }
    let x_at = p.x_at + row * p.n;
    let gy_at = p.gy_at + row * p.n;
    let r = rrmss[p.rrms_at + row];
    var sum = 0.0;
    for (var j = thread; j < p.n; j += THREADS) {
        sum += gains[p.gain_at + j] * gys[gy_at + j] * (xs[x_at + j] * r);
    }
    let mean_ax = tree_sum(thread, sum) * p.inverse_n;
    for (var j = thread; j < p.n; j += THREADS) {
        gxs[row * p.n + j] = r * (gains[p.gain_at + j] * gys[gy_at + j] - xs[x_at + j] * r * mean_ax);
    }
}
