// What the other shaders of the VJP need of each query: lse and ⟨ō, o⟩. Eight threads have a row.

struct Params { o: vec4u, go: vec4u, rows: u32, heads: u32, queries: u32, width: u32, lse_at: u32 }

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read_write> out: array<vec2f>;
@group(0) @binding(2) var<storage, read> os: array<f32>;
@group(0) @binding(3) var<storage, read> gos: array<f32>;
@group(0) @binding(4) var<storage, read> lses: array<f32>;

var<workgroup> sums: array<f32, 64>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) thread: u32) {
    let row = 8u * group_number(group, groups) + thread / 8u;
    var sum = 0.0;
    if row < p.rows {
        let at = vec3u(row / (p.heads * p.queries), row / p.queries % p.heads, row % p.queries);
        let o = p.o.x + at.x * p.o.y + at.y * p.o.z + at.z * p.o.w;
        let go = p.go.x + at.x * p.go.y + at.y * p.go.z + at.z * p.go.w;
        for (var column = thread % 8u; column < p.width; column += 8u) {
            sum = fma(os[o + column], gos[go + column], sum);
        }
    }
    sums[thread] = sum;
    workgroupBarrier();
    if row < p.rows && thread % 8u == 0u {
        for (var c = 1u; c < 8u; c++) {
            sum += sums[thread + c];
        }
        // A query without keys has lse −∞, and all its scores are hidden: with any finite lse its probabilities are 0.
        let lse = lses[p.lse_at + row];
        out[row] = vec2f(select(lse, 0.0, bitcast<u32>(lse) == 0xFF800000u), sum);
    }
}
