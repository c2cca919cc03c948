// Sums along the middle axis of (outer, n, inner) in blocks of its elements: (outer, blocks, inner), of a product of two factors for each element.
//
// A workgroup takes `width` neighbouring lines and one block. Thread t adds up every (THREADS/width)th element of line
// t mod width, so neighbouring threads read neighbouring lines; then a tree joins the threads of each line.

struct Params {
    lines: u32,
    n: u32,
    inner: u32,
    width: u32,
    block: u32,
    blocks: u32,
    x_at: u32,
    y_at: u32,
    z_at: u32,
    w_at: u32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read_write> out: array<f32>;
BINDINGS

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) thread: u32) {
    let number = group_number(group, groups);
    let tiles = (p.lines + p.width - 1u) / p.width;
    if number >= tiles * p.blocks {
        return;
    }
    let line = number % tiles * p.width + thread % p.width;
    let block = number / tiles;
    let first = line / p.inner * p.n * p.inner + line % p.inner;
    let end = select(0u, min(p.n, (block + 1u) * p.block), line < p.lines);
    var sum = 0.0;
    for (var k = block * p.block + thread / p.width; k < end; k += THREADS / p.width) {
        let i = first + k * p.inner;
        ELEMENTS
        sum = fma(LEFT, RIGHT, sum);
    }
    let total = tree_sums(thread, vec2f(sum, 0.0), p.width).x;
    if thread < p.width && line < p.lines {
        out[(line / p.inner * p.blocks + block) * p.inner + line % p.inner] = total;
    }
}
