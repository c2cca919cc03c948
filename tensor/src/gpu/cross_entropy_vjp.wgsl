// Rows of n logits, a thread for each: z̄ⱼ = ȳ·e^(zⱼ − lse) − [j = t]·ȳ.

struct Params { elements: u32, n: u32, z_at: u32, lse_at: u32, gy_at: u32 }

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read_write> gzs: array<f32>;
@group(0) @binding(2) var<storage, read> zs: array<f32>;
@group(0) @binding(3) var<storage, read> classes: array<u32>;
@group(0) @binding(4) var<storage, read> lses: array<f32>;
@group(0) @binding(5) var<storage, read> gys: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) thread: u32) {
    let i = 64u * group_number(group, groups) + thread;
    if i >= p.elements {
        return;
    }
    let row = i / p.n;
    let gy = gys[p.gy_at + row];
    let e = exp(zs[p.z_at + i] - lses[p.lse_at + row]);
    gzs[i] = select(gy * e, fma(gy, e, -gy), i % p.n == classes[row]);
}
