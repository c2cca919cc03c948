// Rows of n logits, a workgroup each: loss = lse z − zₜ, and where gradients are wanted
// z ← z̄,   z̄ⱼ = weight·e^(zⱼ − lse z) − [j = t]·weight.

struct Params {
    rows: u32,
    n: u32,
    // Of losses, classes and weights, the first that belong to these rows.
    first: u32,
    weights_at: u32,
    wants_gradients: u32,
    nan: f32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read_write> xs: array<f32>;
@group(0) @binding(2) var<storage, read_write> losses: array<f32>;
@group(0) @binding(3) var<storage, read> classes: array<u32>;
@group(0) @binding(4) var<storage, read> weights: array<f32>;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) thread: u32) {
    let row = group_number(group, groups);
    if row >= p.rows {
        return;
    }
    let at = row * p.n;
    let e = exponentials(thread, at, p.n);
    let t = classes[p.first + row];
    if thread == t % THREADS { // which alone writes the logit of t
        losses[p.first + row] = fma(log2(e.sum), LN_2, e.largest) - xs[at + t];
    }
    if p.wants_gradients == 0u {
        return;
    }
    let weight = weights[p.weights_at + p.first + row];
    let factor = weight / e.sum;
    for (var j = thread; j < p.n; j += THREADS) {
        let power = exp(xs[at + j] - e.largest);
        xs[at + j] = select(factor * power, fma(factor, power, -weight), j == t);
    }
}
