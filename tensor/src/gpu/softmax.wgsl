// Rows of n, a workgroup each: yⱼ = e^(xⱼ − max x) / Σₖ e^(xₖ − max x).
// If LOG, the logarithm of it: yⱼ = xⱼ − lse x,   lse x = max x + ln Σₖ e^(xₖ − max x).

struct Params { rows: u32, n: u32, x_at: u32, nan: f32 }

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read_write> ys: array<f32>;
@group(0) @binding(2) var<storage, read> xs: array<f32>;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) thread: u32) {
    let row = group_number(group, groups);
    if row >= p.rows {
        return;
    }
    let at = p.x_at + row * p.n;
    let e = exponentials(thread, at, p.n);
    let inverse = 1.0 / e.sum;
    let lse = fma(log2(e.sum), LN_2, e.largest);
    for (var j = thread; j < p.n; j += THREADS) {
        if LOG {
            ys[row * p.n + j] = xs[at + j] - lse;
        } else {
            ys[row * p.n + j] = exp(xs[at + j] - e.largest) * inverse;
        }
    }
}
