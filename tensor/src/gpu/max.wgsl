// The first of the largest of each line along the middle axis of (outer, n, inner); NaN is passed over unless it comes first.
// `indicate`: 1 at its place and 0 elsewhere. Otherwise its value.
//
// A workgroup takes `width` neighbouring lines, cut among its threads as in reduce.wgsl.

struct Params { lines: u32, n: u32, inner: u32, width: u32, x_at: u32, indicate: u32 }

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read_write> out: array<f32>;
@group(0) @binding(2) var<storage, read> xs: array<f32>;

struct Candidate { key: u32, at: u32 }

var<workgroup> candidates: array<Candidate, THREADS>;

// Of two candidates the larger, of equals the earlier.
fn better(a: Candidate, b: Candidate) -> Candidate {
    if b.key > a.key || (b.key == a.key && b.at < a.at) {
        return b;
    }
    return a;
}

// Element k of a line: −0 counts as 0, and NaN, unless first, below all.
fn candidate(x: f32, k: u32) -> Candidate {
    let magnitude = bitcast<u32>(x) & 0x7FFFFFFFu;
    let key = select(key_of(x), 0x80000000u, magnitude == 0u);
    return Candidate(select(key, 0u, magnitude > 0x7F800000u && k > 0u), k);
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) thread: u32) {
    let tile = group_number(group, groups);
    if tile * p.width >= p.lines {
        return;
    }
    let line = tile * p.width + thread % p.width;
    let first = line / p.inner * p.n * p.inner + line % p.inner;
    let start = thread / p.width;
    let end = select(0u, p.n, line < p.lines);
    var best = Candidate(0u, 0xFFFFFFFFu);
    for (var k = start; k < end; k += THREADS / p.width) {
        best = better(best, candidate(xs[p.x_at + first + k * p.inner], k));
    }
    candidates[thread] = best;
    for (var half = THREADS / 2u; half >= p.width; half /= 2u) {
        workgroupBarrier();
        if thread < half {
            candidates[thread] = better(candidates[thread], candidates[thread + half]);
        }
    }
    workgroupBarrier();
    let at = candidates[thread % p.width].at;
    if p.indicate == 1u {
        for (var k = start; k < end; k += THREADS / p.width) {
            out[first + k * p.inner] = select(0.0, 1.0, k == at);
        }
    } else if thread < p.width && line < p.lines {
        out[line] = xs[p.x_at + first + at * p.inner];
    }
}
