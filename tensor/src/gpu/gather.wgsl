// Row i of (n, d) is the table's row idᵢ; a thread for each element.

struct Params { elements: u32, d: u32, table_at: u32, row_stride: u32, column_stride: u32 }

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read_write> ys: array<f32>;
@group(0) @binding(2) var<storage, read> rows: array<f32>;
@group(0) @binding(3) var<storage, read> ids: array<u32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) thread: u32) {
    let i = 64u * group_number(group, groups) + thread;
    if i >= p.elements {
        return;
    }
    ys[i] = rows[p.table_at + ids[i / p.d] * p.row_stride + i % p.d * p.column_stride];
}
