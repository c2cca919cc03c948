// A workgroup has a tile of the bias's gradient, the sum of s̄ over the sequences and heads that share it, in their order.

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) thread: u32) {
    let number = group_number(group, groups);
    let across = (p.keys + 31u) / 32u;
    let tiles = (p.queries + 31u) / 32u * across;
    let slice = number / tiles;
    if slice >= p.bias_batch * p.bias_heads {
        return;
    }
    let i = number % tiles / across * 32u;
    let j = number % across * 32u;

    var sum = mat4x4f();
    for (var b = slice / p.bias_heads; b < p.pairs / p.heads; b += p.bias_batch) {
        if j >= reach(b, i) {
            continue;
        }
        for (var h = slice % p.bias_heads; h < p.heads; h += p.bias_heads) {
            let block = score_gradients(b, h, i, j, thread);
            for (var a = 0u; a < 4u; a++) {
                sum[a] = fma(block.p[a], block.difference[a], sum[a]);
            }
            workgroupBarrier(); // the decisions of dropout are read before the next are drawn
        }
    }

    let row = i + 4u * (thread / 8u);
    let column = j + 4u * (thread % 8u);
    for (var a = 0u; a < min(4u, p.queries - min(p.queries, row)); a++) {
        write_four((slice * p.queries + row + a) * p.keys, column, p.keys, sum[a]);
    }
}
