// What the threads of a workgroup find together. Each of the THREADS threads brings a number; halves are joined until `kept` are
// left, a power of two, and thread t gets that of all threads t′ ≡ t (mod kept). The tree depends on nothing else, so the bits
// are the same in every run. All threads of a workgroup must call.

var<workgroup> sums: array<vec2f, THREADS>;
var<workgroup> keys: array<u32, THREADS>;

// Two sums at once.
fn tree_sums(thread: u32, x: vec2f, kept: u32) -> vec2f {
    sums[thread] = x;
    for (var half = THREADS / 2u; half >= kept; half /= 2u) {
        workgroupBarrier();
        if thread < half {
            sums[thread] += sums[thread + half];
        }
    }
    workgroupBarrier();
    let sum = sums[thread % kept];
    workgroupBarrier(); // all have read: `sums` may be written again
    return sum;
}

// Σ x over all threads.
fn tree_sum(thread: u32, x: f32) -> f32 {
    return tree_sums(thread, vec2f(x, 0.0), 1u).x;
}

// The largest key of all threads.
fn tree_max(thread: u32, key: u32) -> u32 {
    keys[thread] = key;
    for (var half = THREADS / 2u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if thread < half {
            keys[thread] = max(keys[thread], keys[thread + half]);
        }
    }
    return workgroupUniformLoad(&keys[0]);
}

// Integers in the order of numbers, so that NaN and ∞ need no arithmetic: a number's bits, a negative one's turned round.
const KEY_OF_INFINITY = 0xFF800000u;
const KEY_OF_MINUS_INFINITY = 0x007FFFFFu;

// NaN is above all.
fn key_of(x: f32) -> u32 {
    let bits = bitcast<u32>(x);
    let key = select(bits | 0x80000000u, ~bits, bits >= 0x80000000u);
    return select(key, 0xFFFFFFFFu, (bits & 0x7FFFFFFFu) > 0x7F800000u);
}

fn number_of(key: u32) -> f32 {
    return bitcast<f32>(select(~key, key & 0x7FFFFFFFu, key >= 0x80000000u));
}

// 1/s of a power of two s between 2⁻¹²⁶ and 2¹²⁶.
fn one_over_power(s: f32) -> f32 {
    return bitcast<f32>(0x7F000000u - bitcast<u32>(s));
}
