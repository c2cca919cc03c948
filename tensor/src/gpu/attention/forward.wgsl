// A workgroup has 32 queries, and passes over the keys that they reach. Of each row it keeps the maximum m of the scores so far,
// the sum l of e^(s − m), and o, the sum of c·e^(s − m)·v. Where a tile raises m, what was summed shrinks by e^(m before − m).
//
//     o ← o/l        lse = m + log l

@group(0) @binding(1) var<storage, read_write> out: array<f32>;
@group(0) @binding(2) var<storage, read_write> lses: array<f32>;
@group(0) @binding(3) var<storage, read> qs: array<ELEMENT>;
@group(0) @binding(4) var<storage, read> ks: array<ELEMENT>;
@group(0) @binding(5) var<storage, read> vs: array<ELEMENT>;
@group(0) @binding(6) var<storage, read> bias: array<f32>;
@group(0) @binding(7) var<storage, read> sight: array<u32>;

// A number of each thread's rows.
var<workgroup> of_rows: array<vec4f, 64>;

fn largest(x: vec4f) -> f32 {
    return max(max(x.x, x.y), max(x.z, x.w));
}

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
    let first_of_row = thread / 8u * 8u;

    var most = vec4f(LOWEST);
    var sum = vec4f(); // of this thread's columns
    var o = array<mat4x4f, CHUNKS>();
    let end = reach(b, i);
    for (var j = 0u; j < end; j += 32u) {
        let s = scores(b, h, i, j, thread);
        draw(b, h, i, j, thread);
        of_rows[thread] = vec4f(largest(s[0]), largest(s[1]), largest(s[2]), largest(s[3]));
        workgroupBarrier();
        let before = most;
        for (var c = 0u; c < 8u; c++) {
            most = max(most, of_rows[first_of_row + c]);
        }
        let shrunk = exp(before - most);
        let powers = exponentials(s, most);
        let columns = transpose(powers);
        sum = fma(shrunk, sum, (columns[0] + columns[1]) + (columns[2] + columns[3]));
        lay_x_across(of_each(factors(thread), powers), thread);
        for each CHUNK {
            lay_y(v_block(b, h, j + 4u * (thread / 8u), keys_of(b), 32u * CHUNK + 4u * (thread % 8u)), thread);
            workgroupBarrier();
            o[CHUNK] = by_row_onto(product(min(32u, end - j), thread), shrunk, o[CHUNK]);
            workgroupBarrier();
        }
    }

    of_rows[thread] = sum;
    workgroupBarrier();
    sum = vec4f();
    for (var c = 0u; c < 8u; c++) {
        sum += of_rows[first_of_row + c];
    }
    let blind = sum == vec4f();
    let inverse = select(1.0 / sum, vec4f(), blind);
    let row = i + 4u * (thread / 8u);
    for each CHUNK {
        write_block(p.o, b, h, row, p.queries, 32u * CHUNK + 4u * (thread % 8u), by_row(inverse, o[CHUNK]));
    }
    let lse = select(fma(log2(sum), vec4f(LN_2), most), vec4f(p.minus_infinity), blind);
    if thread % 8u == 0u {
        for (var a = 0u; a < min(4u, p.queries - min(p.queries, row)); a++) {
            lses[pair * p.queries + row + a] = lse[a];
        }
    }
}
