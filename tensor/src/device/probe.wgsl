// How a device rounds: a·b + c written so and by fma, a/b, and denormals d doubled.

struct Params { n: u32 }

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read_write> out: array<f32>;
@group(0) @binding(2) var<storage, read> a: array<f32>;
@group(0) @binding(3) var<storage, read> b: array<f32>;
@group(0) @binding(4) var<storage, read> c: array<f32>;
@group(0) @binding(5) var<storage, read> d: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) thread: u32) {
    let i = 64u * group_number(group, groups) + thread;
    if i >= p.n {
        return;
    }
    out[i] = a[i] * b[i] + c[i];
    out[p.n + i] = fma(a[i], b[i], c[i]);
    out[2u * p.n + i] = a[i] / b[i];
    out[3u * p.n + i] = d[i] + d[i];
}
