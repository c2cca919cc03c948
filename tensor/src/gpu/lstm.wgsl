// One step of long short-term memory, rows of so many units, a thread for each unit of each row:
//
// i = σ(zᵢ),  f = σ(z_f),  g = tanh(z_g),  o = σ(zₒ)          z = [zᵢ | z_f | z_g | zₒ]
// c′ = f·c + i·g          h = o·tanh c′
//
// The gates overwrite z. lstm.rs puts in the buffers of c (BEFORE), c′ (AFTER) and h (OUTPUT), of which some may be one.

struct Params { n: u32, units: u32, gates_at: u32, before_at: u32, after_at: u32, output_at: u32, is_first: u32 }

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read_write> gates: array<f32>;
BINDINGS

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) thread: u32) {
    let n = 64u * group_number(group, groups) + thread;
    if n >= p.n {
        return;
    }
    let at = p.gates_at + n / p.units * 4u * p.units + n % p.units;
    let i = sigmoid(gates[at]);
    let f = sigmoid(gates[at + p.units]);
    let g = tanh_safe(gates[at + 2u * p.units]);
    let o = sigmoid(gates[at + 3u * p.units]);
    var before = 0.0;
    if p.is_first == 0u {
        before = BEFORE[p.before_at + n];
    }
    let c = fma(f, before, i * g);
    AFTER[p.after_at + n] = c;
    OUTPUT[p.output_at + n] = o * tanh_safe(c);
    gates[at] = i;
    gates[at + p.units] = f;
    gates[at + 2u * p.units] = g;
    gates[at + 3u * p.units] = o;
}
