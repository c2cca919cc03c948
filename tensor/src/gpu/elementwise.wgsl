// One element a thread: an expression of the elements x, y and z of at most three tensors, and of the constants a, b, c and d.

struct Params { n: u32, out_at: u32, x_at: u32, y_at: u32, z_at: u32, a: f32, b: f32, c: f32, d: f32 }

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read_write> out: array<f32>;
BINDINGS

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) thread: u32) {
    let i = 64u * group_number(group, groups) + thread;
    if i >= p.n {
        return;
    }
    let a = p.a;
    let b = p.b;
    let c = p.c;
    let d = p.d;
    ELEMENTS
    out[p.out_at + i] = EXPRESSION;
}
