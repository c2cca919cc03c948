// Y ← onto + A·B, matrices (m, k)·(k, n), in every batch; or U ← onto + A·B and Y ← gelu(U).
//
// A workgroup computes M × N elements of Y. It goes along k in stages of K: while one stage is multiplied from workgroup memory, the
// next is on its way into registers, and is then put beside the first. Here is how factors come and results go;
// matmul/threads.wgsl and matmul/cooperative.wgsl are two ways to multiply a stage, of which one follows this text.
//
// A factor is read along its contiguous axis, in lines: rows or columns. Lines go along k in one half of the layouts and across
// k in the other; in workgroup memory each p has its elements side by side, so 4 × 4 elements of lines along k are transposed.
//
// matmul.rs declares the constants in capitals, and writes each loop `for $i in …` out: a driver may not unroll one, and would
// then keep sums in memory.

struct Params {
    m: u32, n: u32, k: u32,
    row_tiles: u32, column_tiles: u32, batches: u32, inner_batches: u32,
    y_at: u32, y_outer: u32, y_inner: u32, y_row: u32,
    x_at: u32,
    // Of each factor: its first element, the distances of batches, the number of lines and their distance, the elements of a line
    // and their distance.
    a_at: u32, a_outer: u32, a_inner: u32, a_lines: u32, a_line: u32, a_run: u32, a_step: u32,
    b_at: u32, b_outer: u32, b_inner: u32, b_lines: u32, b_line: u32, b_run: u32, b_step: u32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read_write> y: array<TYPE_y>;
BINDING_u
@group(0) @binding(FIRST_READ) var<storage, read> a: array<TYPE_a>;
@group(0) @binding(FIRST_READ + 1) var<storage, read> b: array<TYPE_b>;
BINDING_x

// What stands beyond the last p: adding 0·(−0) = −0 changes no sum, not even the sign of one that is 0.
const NONE_a = vec4f(0.0);
const NONE_b = vec4f(-0.0);

// Where a workgroup is: the first elements of its batch in A and B, its first row of A and column of B.
struct Tile { start_a: u32, start_b: u32, across_a: u32, across_b: u32 }

for $f in [a, b] {
    // Which four across and which four along k block `number` of a stage is. Neighbouring threads take NEAR_$f blocks across.
    fn place_$f(number: u32) -> vec2u {
        let rest = number / NEAR_$f;
        return vec2u(rest / (K / 4) * NEAR_$f + number % NEAR_$f, rest % (K / 4));
    }

    // The first of a block's four lines, and the first of its elements there.
    fn corner_$f(number: u32, tile: Tile, stage: u32) -> vec2u {
        let place = 4 * place_$f(number) + vec2u(tile.across_$f, stage * K);
        return select(place.yx, place.xy, ALONG_K_$f);
    }

    // Four elements of a line from `first` on; any, where there are none.
    fn four_$f(start: u32, line: u32, first: u32) -> vec4f {
        let exists = line < p.$f_lines && first < p.$f_run;
        let step = p.$f_step;
        let i = start + select(0, line * p.$f_line + first * step, exists);
        let last = select(0, p.$f_run - 1 - first, exists); // elements after this one that exist
        return FOUR_$f;
    }

    // A block, line by line. Nothing is done with it before it is put, so the reads need not have ended until then.
    fn fetch_$f(number: u32, tile: Tile, stage: u32) -> mat4x4f {
        let at = corner_$f(number, tile, stage);
        return mat4x4f(
            four_$f(tile.start_$f, at.x, at.y),
            four_$f(tile.start_$f, at.x + 1, at.y),
            four_$f(tile.start_$f, at.x + 2, at.y),
            four_$f(tile.start_$f, at.x + 3, at.y),
        );
    }

    fn put_$f(number: u32, tile: Tile, stage: u32, lines: mat4x4f) {
        let at = corner_$f(number, tile, stage);
        let exist = vec4u(at.y, at.y + 1, at.y + 2, at.y + 3) < vec4u(p.$f_run);
        var block: mat4x4f;
        for $q in 0..4 {
            block[$q] = select(NONE_$f, lines[$q], exist & vec4<bool>(at.x + $q < p.$f_lines));
        }
        if ALONG_K_$f {
            block = transpose(block);
        }
        let place = place_$f(number);
        for $q in 0..4 {
            stage_$f((stage % 2 * K + 4 * place.y + $q) * FOURS_$f + place.x, block[$q]);
        }
    }
}

// Blocks of A come first, then those of B.
fn fetch(number: u32, tile: Tile, stage: u32) -> mat4x4f {
    if number < BLOCKS_a {
        return fetch_a(number, tile, stage);
    }
    if number < BLOCKS_a + BLOCKS_b {
        return fetch_b(number - BLOCKS_a, tile, stage);
    }
    return mat4x4f();
}

fn put(number: u32, tile: Tile, stage: u32, lines: mat4x4f) {
    if number < BLOCKS_a {
        put_a(number, tile, stage, lines);
    } else if number < BLOCKS_a + BLOCKS_b {
        put_b(number - BLOCKS_a, tile, stage, lines);
    }
}

// Tiles go down strips of eight rows of tiles, so that those that run together share what they read.
fn tile_of(number: u32, batch: u32) -> Tile {
    let top = number / (8 * p.column_tiles) * 8;
    let height = min(8, p.row_tiles - top);
    let within = number % (8 * p.column_tiles);
    let outer = batch / p.inner_batches;
    let inner = batch % p.inner_batches;
    let a = p.a_at + outer * p.a_outer + inner * p.a_inner;
    let b = p.b_at + outer * p.b_outer + inner * p.b_inner;
    return Tile(a, b, M * (top + within % height), N * (within / height));
}

// Four sums of a row of Y; `start` is its batch's first element.
fn store(start: u32, row: u32, first: u32, sum: vec4f) {
    for $q in 0..STORES {
        let j = first + $q;
        if row < p.m && j < p.n {
            let i = (start + row * p.y_row + j) / VECTOR_y;
            let sum_i = SUM;
            KEEP_u
            y[i] = RESULT;
        }
    }
}
