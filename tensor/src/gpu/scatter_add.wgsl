// The table's row idᵢ ← itself + row i of x (n, d), in the order of i. A thread for each column of each id that occurs, so no two
// threads write one element.
//
// `plan`: the ids that occur; where the places of each begin, and where the last ones end; the rows i by ids, ascending.

struct Params { count: u32, d: u32, table_at: u32, x_at: u32 }

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read_write> rows: array<f32>;
@group(0) @binding(2) var<storage, read> xs: array<f32>;
@group(0) @binding(3) var<storage, read> plan: array<u32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) thread: u32) {
    let i = 64u * group_number(group, groups) + thread;
    let id = i / p.d;
    if id >= p.count {
        return;
    }
    let column = i % p.d;
    let at = p.table_at + plan[id] * p.d + column;
    let places = 2u * p.count + 1u;
    var sum = rows[at];
    for (var k = plan[p.count + id]; k < plan[p.count + id + 1u]; k++) {
        sum += xs[p.x_at + plan[places + k] * p.d + column];
    }
    rows[at] = sum;
}
