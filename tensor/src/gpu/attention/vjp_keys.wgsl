// A workgroup has 32 keys, and passes over the queries that reach them: v̄ⱼ = Σᵢ cᵢⱼpᵢⱼ·ōᵢ, k̄ⱼ = scale·Σᵢ s̄ᵢⱼ·qᵢ.

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) thread: u32) {
    let number = group_number(group, groups);
    let tiles = (p.keys + 31u) / 32u;
    let pair = number / tiles;
    if pair >= p.pairs {
        return;
    }
    let b = pair / p.heads;
    let h = pair % p.heads;
    let j = 32u * (number % tiles);

    var gk = array<mat4x4f, CHUNKS>();
    var gv = array<mat4x4f, CHUNKS>();
    let first = max(j + 1u, p.ahead) - p.ahead; // reaches key j, as all after it do
    let end = select(0u, p.queries, j < keys_of(b));
    for (var i = first / 32u * 32u; i < end; i += 32u) {
        let block = score_gradients(b, h, i, j, thread);
        lay_x(block.cp, thread);
        for each CHUNK {
            lay_y(go_block(b, h, i + 4u * (thread / 8u), p.queries, 32u * CHUNK + 4u * (thread % 8u)), thread);
            workgroupBarrier();
            gv[CHUNK] += product(min(32u, end - i), thread);
            workgroupBarrier();
        }
        lay_x(of_each(block.p, block.difference), thread);
        for each CHUNK {
            lay_y(q_block(b, h, i + 4u * (thread / 8u), p.queries, 32u * CHUNK + 4u * (thread % 8u)), thread);
            workgroupBarrier();
            gk[CHUNK] += product(min(32u, end - i), thread);
            workgroupBarrier();
        }
    }

    for each CHUNK {
        let column = 32u * CHUNK + 4u * (thread % 8u);
        write_block(p.gk, b, h, j + 4u * (thread / 8u), p.keys, column, p.scale * gk[CHUNK]);
        write_block(p.gv, b, h, j + 4u * (thread / 8u), p.keys, column, gv[CHUNK]);
    }
}
