// Attention by tiles of 32 queries and 32 keys (Dao, Fu, Ermon, Rudra, Ré, "FlashAttention", 2022); cpu/attention has the
// mathematics. What is T×T, scores, probabilities and their gradients, exists a tile at a time, in the registers of a workgroup: of
// its 64 threads, thread 8r + c holds rows 4r to 4r + 3 and columns 4c to 4c + 3, its block.
//
// All products are of two tiles in workgroup memory, laid so that neighbouring threads read neighbouring elements:
//
//     block(r, c) of X·Y = Σₑ xₑ yₑᵀ        xₑ: rows 4r to 4r + 3 of column e of X        yₑ: columns 4c to 4c + 3 of row e of Y
//
// A head is wider than a tile, or narrower: its columns are taken in chunks of 32, with zeros after the last. The text within
// `for each CHUNK` is written out for each of them (mod.rs), which keeps the sums o[0], o[1], … in registers.

// Where (0, 0, 0, 0) lies of q, k, v, o and the gradients, and elements from one sequence, head and position to the next.
struct Params {
    q: vec4u,
    k: vec4u,
    v: vec4u,
    o: vec4u,
    go: vec4u,
    gq: vec4u,
    gk: vec4u,
    gv: vec4u,
    // Elements from one sequence, head, query and key to the next.
    bias: vec4u,
    bias_at: u32,
    has_bias: u32,
    pairs: u32, // B·H
    heads: u32,
    queries: u32,
    keys: u32,
    width: u32,
    scale: f32,
    // Query i reaches no key from i + ahead on: Tk − Tq + 1 under a causal mask, else Tk.
    ahead: u32,
    // Are there lengths of sequences, and a mask? Its words begin at mask_at, and of_mask bits lie from one sequence to the next.
    has_lengths: u32,
    has_mask: u32,
    mask_at: u32,
    of_mask: u32,
    row0: u32,
    row0_high: u32,
    key: u32,
    key_high: u32,
    site: u32,
    threshold: u32,
    kept_scale: f32,
    minus_infinity: f32,
    // Sequences and heads of the bias.
    bias_batch: u32,
    bias_heads: u32,
}

@group(0) @binding(0) var<uniform> p: Params;

// The score of a key that a query does not see. It is so far below the lowest maximum that e^(HIDDEN − maximum) is 0.
const HIDDEN = -3.4e38;
const LOWEST = -1.7e38;

// Eight fours for each e.
var<workgroup> xs: array<vec4f, 256>;
var<workgroup> ys: array<vec4f, 256>;

// Thread 8r + c lays rows 4r to 4r + 3 and columns 4c to 4c + 3 of a tile whose row e is xₑ, or yₑ.
fn lay_x(block: mat4x4f, thread: u32) {
    let at = 32u * (thread / 8u) + thread % 8u;
    xs[at] = block[0];
    xs[at + 8u] = block[1];
    xs[at + 16u] = block[2];
    xs[at + 24u] = block[3];
}

fn lay_y(block: mat4x4f, thread: u32) {
    let at = 32u * (thread / 8u) + thread % 8u;
    ys[at] = block[0];
    ys[at + 8u] = block[1];
    ys[at + 16u] = block[2];
    ys[at + 24u] = block[3];
}

// The same of a tile whose column e is xₑ.
fn lay_x_across(block: mat4x4f, thread: u32) {
    lay_x(transpose(block), 8u * (thread % 8u) + thread / 8u);
}

// This thread's block of sum + xₑ yₑᵀ.
fn outer_onto(sum: mat4x4f, e: u32, thread: u32) -> mat4x4f {
    let x = xs[8u * e + thread / 8u];
    let y = ys[8u * e + thread % 8u];
    return mat4x4f(fma(x.xxxx, y, sum[0]), fma(x.yyyy, y, sum[1]), fma(x.zzzz, y, sum[2]), fma(x.wwww, y, sum[3]));
}

// This thread's block of X·Y, over the first e, rounded up to fours.
fn product(steps: u32, thread: u32) -> mat4x4f {
    var sum = mat4x4f();
    for (var e = 0u; e < steps; e += 4u) {
        sum = outer_onto(sum, e, thread);
        sum = outer_onto(sum, e + 1u, thread);
        sum = outer_onto(sum, e + 2u, thread);
        sum = outer_onto(sum, e + 3u, thread);
    }
    return sum;
}

// Each row times its factor.
fn by_row(factors: vec4f, block: mat4x4f) -> mat4x4f {
    return mat4x4f(factors.x * block[0], factors.y * block[1], factors.z * block[2], factors.w * block[3]);
}

// The sum and each row times its factor.
fn by_row_onto(sum: mat4x4f, factors: vec4f, block: mat4x4f) -> mat4x4f {
    return mat4x4f(
        fma(factors.xxxx, block[0], sum[0]),
        fma(factors.yyyy, block[1], sum[1]),
        fma(factors.zzzz, block[2], sum[2]),
        fma(factors.wwww, block[3], sum[3]),
    );
}

fn of_each(x: mat4x4f, y: mat4x4f) -> mat4x4f {
    return mat4x4f(x[0] * y[0], x[1] * y[1], x[2] * y[2], x[3] * y[3]);
}

// e^(s − shift), with a shift for each row.
fn exponentials(s: mat4x4f, shift: vec4f) -> mat4x4f {
    return mat4x4f(exp(s[0] - shift.x), exp(s[1] - shift.y), exp(s[2] - shift.z), exp(s[3] - shift.w));
}

fn four_from(first: u32) -> vec4u {
    return first + vec4u(0u, 1u, 2u, 3u);
}

// Number of keys of a sequence.
fn keys_of(b: u32) -> u32 {
    if p.has_lengths == 0u {
        return p.keys;
    }
    return sight[b];
}

// One more than the last key that any of 32 queries from i on reaches.
fn reach(b: u32, i: u32) -> u32 {
    return min(keys_of(b), min(i + 31u, p.queries - 1u) + p.ahead);
}

// Scores of query i with keys j to j + 3, of the `keys` of its sequence, from its products with them.
fn finished(products: vec4f, b: u32, h: u32, i: u32, j: u32, keys: u32) -> vec4f {
    if i >= p.queries {
        return vec4f(HIDDEN);
    }
    let columns = four_from(j);
    let inside = min(columns, vec4u(p.keys - 1u));
    var seen = columns < vec4u(min(keys, i + p.ahead));
    if p.has_mask != 0u {
        let bits = b * p.of_mask + i * p.keys + inside;
        let at = p.mask_at + bits / 32u;
        let words = vec4u(sight[at.x], sight[at.y], sight[at.z], sight[at.w]);
        seen &= ((words >> (bits % 32u)) & vec4u(1u)) == vec4u(1u);
    }
    var added = vec4f();
    if p.has_bias != 0u {
        let at = p.bias_at + b * p.bias.x + h * p.bias.y + i * p.bias.z + inside * p.bias.w;
        added = vec4f(bias[at.x], bias[at.y], bias[at.z], bias[at.w]);
    }
    return select(vec4f(HIDDEN), fma(vec4f(p.scale), products, added), seen);
}

// This thread's scores of 32 queries from i on with 32 keys from j on.
fn scores(b: u32, h: u32, i: u32, j: u32, thread: u32) -> mat4x4f {
    let keys = keys_of(b);
    var s = mat4x4f();
    // Column e of queries and keys is xₑ and yₑ: thread 8r + c reads rows 4c to 4c + 3 and columns 4r to 4r + 3, and transposes.
    for (var chunk = 0u; chunk < p.width; chunk += 32u) {
        let column = chunk + 4u * (thread / 8u);
        lay_x(transpose(q_block(b, h, i + 4u * (thread % 8u), p.queries, column)), thread);
        lay_y(transpose(k_block(b, h, j + 4u * (thread % 8u), keys, column)), thread);
        workgroupBarrier();
        s += product(min(32u, p.width - chunk), thread);
        workgroupBarrier();
    }
    let row = i + 4u * (thread / 8u);
    let column = j + 4u * (thread % 8u);
    return mat4x4f(
        finished(s[0], b, h, row, column, keys),
        finished(s[1], b, h, row + 1u, column, keys),
        finished(s[2], b, h, row + 2u, column, keys),
        finished(s[3], b, h, row + 3u, column, keys),
    );
}

// The decisions of dropout in a tile: bit n of word 4t + m is that of row t, column 8m + n.
var<workgroup> kept: array<u32, 128>;

// Draws them; they are there after the next barrier.
fn draw(b: u32, h: u32, i: u32, j: u32, thread: u32) {
    if p.threshold == 0u {
        return;
    }
    for (var at = thread; at < 128u; at += 64u) {
        let row = (b * p.heads + h) * p.queries + i + at / 4u;
        let low = p.row0 + row;
        let carry = select(0u, 1u, low < row);
        let words = philox(vec4u(j / 8u + at % 4u, low, p.row0_high + carry, p.site), vec2u(p.key, p.key_high));
        let evens = select(vec4u(), vec4u(1u, 4u, 16u, 64u), (words & vec4u(0xFFFFu)) >= vec4u(p.threshold));
        let odds = select(vec4u(), vec4u(2u, 8u, 32u, 128u), (words >> vec4u(16u)) >= vec4u(p.threshold));
        let bits = evens | odds;
        kept[at] = bits.x | bits.y | bits.z | bits.w;
    }
}

// A row of this thread's factors c.
fn factors_of(row: u32, thread: u32) -> vec4f {
    let bits = kept[4u * (4u * (thread / 8u) + row) + thread % 8u / 2u] >> (4u * (thread % 2u));
    return select(vec4f(), vec4f(p.kept_scale), (vec4u(bits) & vec4u(1u, 2u, 4u, 8u)) != vec4u());
}

// This thread's factors c of the tile drawn; ones without dropout.
fn factors(thread: u32) -> mat4x4f {
    if p.threshold == 0u {
        return mat4x4f(vec4f(1.0), vec4f(1.0), vec4f(1.0), vec4f(1.0));
    }
    return mat4x4f(factors_of(0u, thread), factors_of(1u, thread), factors_of(2u, thread), factors_of(3u, thread));
}

// out ← as many of four columns, from `column` on, as lie before `end`, in a row that begins at `at`.
fn write_four(at: u32, column: u32, end: u32, four: vec4f) {
    let first = at + column;
    if column < end {
        out[first] = four.x;
    }
    if column + 1u < end {
        out[first + 1u] = four.y;
    }
    if column + 2u < end {
        out[first + 2u] = four.z;
    }
    if column + 3u < end {
        out[first + 3u] = four.w;
    }
}

// out ← the rows of a block that lie before `end`, from position t on. The place is one of the parameters.
fn write_block(place: vec4u, b: u32, h: u32, t: u32, end: u32, column: u32, block: mat4x4f) {
    let at = place.x + b * place.y + h * place.z + t * place.w;
    if t < end {
        write_four(at, column, p.width, block[0]);
    }
    if t + 1u < end {
        write_four(at + place.w, column, p.width, block[1]);
    }
    if t + 2u < end {
        write_four(at + 2u * place.w, column, p.width, block[2]);
    }
    if t + 3u < end {
        write_four(at + 3u * place.w, column, p.width, block[3]);
    }
}

