// ‖x‖ of all rows of a table of squares together, by its words s, Σ (x/s)² and the largest |x|; NaN, of the bits that are given,
// where a row's largest or one of the numbers after the rows is not finite. One workgroup.

struct Params { rows: u32, numbers: u32, nan: u32 }

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read_write> norm: array<u32>;
@group(0) @binding(2) var<storage, read> table: array<u32>;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) thread: u32) {
    if group.x + group.y > 0u {
        return;
    }
    var largest = 0u; // the bits of a scale, or of ∞ and more
    for (var row = thread; row < p.rows; row += THREADS) {
        let most = table[3u * row + 2u];
        largest = max(largest, select(table[3u * row], most, most >= 0x7F800000u));
    }
    for (var i = thread; i < p.numbers; i += THREADS) {
        largest = max(largest, select(0u, 0x7F800000u, (table[3u * p.rows + i] & 0x7F800000u) == 0x7F800000u));
    }
    largest = tree_max(thread, largest);
    let all_finite = largest < 0x7F800000u;
    let scale = bitcast<f32>(clamp(largest >> 23u, 1u, 253u) << 23u);
    let inverse = one_over_power(scale);
    var sum = 0.0;
    if all_finite {
        for (var row = thread; row < p.rows; row += THREADS) {
            let ratio = bitcast<f32>(table[3u * row]) * inverse;
            sum = fma(bitcast<f32>(table[3u * row + 1u]) * ratio, ratio, sum);
        }
    }
    sum = tree_sum(thread, sum);
    if thread == 0u {
        norm[0] = select(p.nan, bitcast<u32>(sqrt(sum) * scale), all_finite);
    }
}
