// Element i of a row-major view of at most eight axes, from one buffer to another, each through its own strides.

struct Params {
    n: u32,
    rank: u32,
    x_at: u32,
    y_at: u32,
    // Innermost axis first.
    extents: array<vec4u, 2>,
    x_strides: array<vec4u, 2>,
    y_strides: array<vec4u, 2>,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read_write> ys: array<f32>;
@group(0) @binding(2) var<storage, read> xs: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) thread: u32) {
    var i = 64u * group_number(group, groups) + thread;
    if i >= p.n {
        return;
    }
    var x_at = p.x_at;
    var y_at = p.y_at;
    for (var axis = 0u; axis < p.rank; axis++) {
        let extent = p.extents[axis / 4u][axis % 4u];
        let at = i % extent;
        x_at += at * p.x_strides[axis / 4u][axis % 4u];
        y_at += at * p.y_strides[axis / 4u][axis % 4u];
        i /= extent;
    }
    ys[y_at] = xs[x_at];
}
