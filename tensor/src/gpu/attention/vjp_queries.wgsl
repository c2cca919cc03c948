// A workgroup has 32 queries, and passes over the keys that they reach: q̄ᵢ = scale·Σⱼ s̄ᵢⱼ·kⱼ.

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) thread: u32) {
    let number = group_number(group, groups);
    let tiles = (p.queries + 31u) / 32u;
    let pair = number / tiles;
    if pair >= p.pairs {
        return;
    }
    let b = pair / p.heads;
    let h = pair % p.heads;
    let i = 32u * (tiles - 1u - number % tiles); // the last queries, whose keys are the most under a causal mask, begin first

    var gq = array<mat4x4f, CHUNKS>();
    let end = reach(b, i);
    for (var j = 0u; j < end; j += 32u) {
        let block = score_gradients(b, h, i, j, thread);
        lay_x_across(of_each(block.p, block.difference), thread);
        for each CHUNK {
            lay_y(k_block(b, h, j + 4u * (thread / 8u), keys_of(b), 32u * CHUNK + 4u * (thread % 8u)), thread);
            workgroupBarrier();
            gq[CHUNK] += product(min(32u, end - j), thread);
            workgroupBarrier();
        }
    }

    for each CHUNK {
        let column = 32u * CHUNK + 4u * (thread % 8u);
        write_block(p.gq, b, h, i + 4u * (thread / 8u), p.queries, column, p.scale * gq[CHUNK]);
    }
}
