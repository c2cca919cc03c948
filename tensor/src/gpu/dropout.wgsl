// Rows of n: y = x ∘ keep/(1 − p). A thread takes eight columns, whose decisions are the halves of one block of Philox's words.

struct Params { rows: u32, n: u32, x_at: u32, row0: u32, row0_high: u32, key: u32, key_high: u32, site: u32, threshold: u32, scale: f32 }

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read_write> ys: array<f32>;
@group(0) @binding(2) var<storage, read> xs: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) thread: u32) {
    let i = 64u * group_number(group, groups) + thread;
    let blocks = (p.n + 7u) / 8u;
    let row = i / blocks;
    if row >= p.rows {
        return;
    }
    let block = i % blocks;
    let low = p.row0 + row;
    let carry = select(0u, 1u, low < row);
    let words = philox(vec4u(block, low, p.row0_high + carry, p.site), vec2u(p.key, p.key_high));
    for (var j = 0u; j < min(8u, p.n - 8u * block); j++) {
        let at = row * p.n + 8u * block + j;
        let draw = (words[j / 2u] >> (16u * (j % 2u))) & 0xFFFFu;
        ys[at] = xs[p.x_at + at] * select(0.0, p.scale, draw >= p.threshold);
    }
}
