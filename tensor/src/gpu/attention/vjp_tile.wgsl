// What the passes of the VJP share: their buffers, and a tile of them. A pass writes `out`; `sight` has lengths and mask, `rows`
// each query's lse and ⟨ō, o⟩.

@group(0) @binding(1) var<storage, read_write> out: array<f32>;
@group(0) @binding(2) var<storage, read> qs: array<ELEMENT>;
@group(0) @binding(3) var<storage, read> ks: array<ELEMENT>;
@group(0) @binding(4) var<storage, read> vs: array<ELEMENT>;
@group(0) @binding(5) var<storage, read> gos: array<ELEMENT>;
@group(0) @binding(6) var<storage, read> bias: array<f32>;
@group(0) @binding(7) var<storage, read> sight: array<u32>;
@group(0) @binding(8) var<storage, read> rows: array<vec2f>;

// A thread's block of a tile in the VJP: c·p, and the factors p and c·⟨ō, v⟩ − ⟨ō, o⟩ of the gradient of the scores.
struct Block {
    cp: mat4x4f,
    p: mat4x4f,
    difference: mat4x4f,
}

// lse and ⟨ō, o⟩ of a query; zeros past the last.
fn of_query(b: u32, h: u32, i: u32) -> vec2f {
    if i >= p.queries {
        return vec2f();
    }
    return rows[(b * p.heads + h) * p.queries + i];
}

// Of 32 queries from i on and 32 keys from j on:
//
//     p = e^(s − lse)        s̄ = p·(c·⟨ō, v⟩ − ⟨ō, o⟩)
fn score_gradients(b: u32, h: u32, i: u32, j: u32, thread: u32) -> Block {
    draw(b, h, i, j, thread);
    workgroupBarrier();
    let s = scores(b, h, i, j, thread);
    var gp = mat4x4f();
    for (var chunk = 0u; chunk < p.width; chunk += 32u) {
        let column = chunk + 4u * (thread / 8u);
        lay_x(transpose(go_block(b, h, i + 4u * (thread % 8u), p.queries, column)), thread);
        lay_y(transpose(v_block(b, h, j + 4u * (thread % 8u), keys_of(b), column)), thread);
        workgroupBarrier();
        gp += product(min(32u, p.width - chunk), thread);
        workgroupBarrier();
    }
    let row = i + 4u * (thread / 8u);
    let of_queries = transpose(mat4x2f(
        of_query(b, h, row),
        of_query(b, h, row + 1u),
        of_query(b, h, row + 2u),
        of_query(b, h, row + 3u),
    ));
    let means = of_queries[1];
    let probabilities = exponentials(s, of_queries[0]);
    let c = factors(thread);
    return Block(
        of_each(c, probabilities),
        probabilities,
        mat4x4f(
            fma(c[0], gp[0], vec4f(-means.x)),
            fma(c[1], gp[1], vec4f(-means.y)),
            fma(c[2], gp[2], vec4f(-means.z)),
            fma(c[3], gp[3], vec4f(-means.w)),
        ),
    );
}

