// Σ x² where x² may overflow or vanish: three words, a power of two s, the sum Σ (x/s)², and the largest |x|, whose bits tell
// whether all are finite (NaN's are above those of ∞) and whether any is other than 0.
//
// Each workgroup finds them of one block of the numbers. A second run joins what it is given, rows of such words:
// Σ (sᵢ/s)²·sumᵢ. Division by a power of two is exact, so nothing is lost.

struct Params { n: u32, block: u32, blocks: u32, x_at: u32, out_at: u32, join: u32 }

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read_write> out: array<u32>;
@group(0) @binding(2) var<storage, read> xs: array<u32>;

fn magnitude(i: u32) -> u32 {
    if p.join == 1u {
        return xs[p.x_at + 3u * i + 2u];
    }
    return xs[p.x_at + i] & 0x7FFFFFFFu;
}

fn share_onto(sum: f32, i: u32, inverse: f32) -> f32 {
    if p.join == 1u {
        let ratio = bitcast<f32>(xs[p.x_at + 3u * i]) * inverse;
        return fma(bitcast<f32>(xs[p.x_at + 3u * i + 1u]) * ratio, ratio, sum);
    }
    let x = bitcast<f32>(xs[p.x_at + i]) * inverse;
    return fma(x, x, sum);
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) thread: u32) {
    let block = group_number(group, groups);
    if block >= p.blocks {
        return;
    }
    let start = block * p.block + thread;
    let end = min(p.n, (block + 1u) * p.block);
    var largest = 0u;
    for (var i = start; i < end; i += THREADS) {
        largest = max(largest, magnitude(i));
    }
    largest = tree_max(thread, largest);
    // The power of two at or below the largest, in the range where neither it nor its inverse is denormal.
    let scale = bitcast<f32>(clamp(largest >> 23u, 1u, 253u) << 23u);
    let inverse = one_over_power(scale);
    var sum = 0.0;
    for (var i = start; i < end; i += THREADS) {
        sum = share_onto(sum, i, inverse);
    }
    sum = tree_sum(thread, sum);
    if thread == 0u {
        let at = p.out_at + 3u * block;
        out[at] = bitcast<u32>(scale);
        out[at + 1u] = bitcast<u32>(sum);
        out[at + 2u] = largest;
    }
}
