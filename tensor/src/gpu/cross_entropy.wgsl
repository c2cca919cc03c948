// Rows of n logits, a workgroup each: loss = lse z − zₜ,   lse z = max z + ln Σⱼ e^(zⱼ − max z).

struct Params { rows: u32, n: u32, z_at: u32, nan: f32 }

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read_write> losses: array<f32>;
@group(0) @binding(2) var<storage, read_write> lses: array<f32>;
@group(0) @binding(3) var<storage, read> xs: array<f32>;
@group(0) @binding(4) var<storage, read> classes: array<u32>;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) thread: u32) {
    let row = group_number(group, groups);
    if row >= p.rows {
        return;
    }
    let at = p.z_at + row * p.n;
    let e = exponentials(thread, at, p.n);
    if thread == 0u {
        let lse = fma(log2(e.sum), LN_2, e.largest);
        lses[row] = lse;
        losses[row] = lse - xs[at + classes[row]];
    }
}
