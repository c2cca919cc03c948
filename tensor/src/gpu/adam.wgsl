// One step of Adam (Kingma and Ba 2015, algorithm 1), a thread for each parameter; nothing changes where clip is NaN:
//
// g ← clip·g + l2·p,   m ← β₁m + (1 − β₁)g,   v ← β₂v + (1 − β₂)g²,   p ← p − step·m/(√v·v_scale + ε) − decay·p

struct Params {
    n: u32,
    p_at: u32,
    m_at: u32,
    v_at: u32,
    g_at: u32,
    clip_at: u32,
    beta1: f32,
    one_less_beta1: f32,
    beta2: f32,
    one_less_beta2: f32,
    l2: f32,
    step: f32,
    v_scale: f32,
    eps: f32,
    decay: f32,
}

@group(0) @binding(0) var<uniform> s: Params;
@group(0) @binding(1) var<storage, read_write> ps: array<f32>;
@group(0) @binding(2) var<storage, read_write> ms: array<f32>;
@group(0) @binding(3) var<storage, read_write> vs: array<f32>;
@group(0) @binding(4) var<storage, read> gs: array<f32>;
@group(0) @binding(5) var<storage, read> clips: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) thread: u32) {
    let i = 64u * group_number(group, groups) + thread;
    let clip = clips[s.clip_at];
    if i >= s.n || !is_number(clip) {
        return;
    }
    let p = ps[s.p_at + i];
    let g = fma(gs[s.g_at + i], clip, s.l2 * p);
    let m = fma(s.one_less_beta1, g, s.beta1 * ms[s.m_at + i]);
    let v = fma(s.one_less_beta2, g * g, s.beta2 * vs[s.v_at + i]);
    ms[s.m_at + i] = m;
    vs[s.v_at + i] = v;
    ps[s.p_at + i] = fma(-s.decay, p, fma(-s.step, m / fma(sqrt(v), s.v_scale, s.eps), p));
}
