// The VJP of one step of long short-term memory, rows of so many units, a thread for each unit of each row:
//
// s = c̄′ + h̄·o·(1 − t²),  t = tanh c′          all that reaches c′
// z̄ᵢ = s·g·i(1 − i)     z̄_f = s·c·f(1 − f)     z̄_g = s·i·(1 − g²)     z̄ₒ = h̄·t·o(1 − o)
// c̄ = s·f

struct Params {
    n: u32,
    units: u32,
    gz_at: u32,
    gates_at: u32,
    before_at: u32,
    after_at: u32,
    gh_at: u32,
    gc_after_at: u32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read_write> gz: array<f32>;
@group(0) @binding(2) var<storage, read_write> gc: array<f32>;
@group(0) @binding(3) var<storage, read> gates: array<f32>;
@group(0) @binding(4) var<storage, read> befores: array<f32>; // c
@group(0) @binding(5) var<storage, read> afters: array<f32>; // c′
@group(0) @binding(6) var<storage, read> ghs: array<f32>;
@group(0) @binding(7) var<storage, read> gc_afters: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) thread: u32) {
    let n = 64u * group_number(group, groups) + thread;
    if n >= p.n {
        return;
    }
    let in_row = n / p.units * 4u * p.units + n % p.units;
    let at = p.gates_at + in_row;
    let i = gates[at];
    let f = gates[at + p.units];
    let g = gates[at + 2u * p.units];
    let o = gates[at + 3u * p.units];
    let t = tanh_safe(afters[p.after_at + n]);
    let gh = ghs[p.gh_at + n];
    let s = fma(gh * o, fma(-t, t, 1.0), gc_afters[p.gc_after_at + n]);
    let to = p.gz_at + in_row;
    gz[to] = s * g * (i * (1.0 - i));
    gz[to + p.units] = s * befores[p.before_at + n] * (f * (1.0 - f));
    gz[to + 2u * p.units] = s * i * fma(-g, g, 1.0);
    gz[to + 3u * p.units] = gh * t * (o * (1.0 - o));
    gc[n] = s * f;
}
