// One number becomes NaN where one of n others is not finite; otherwise it stays. By its bits, whoever writes first.

struct Params { n: u32, x_at: u32, mark_at: u32 }

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read_write> mark: array<atomic<u32>>;
@group(0) @binding(2) var<storage, read> xs: array<f32>;

const THREADS = 64u;
const EACH = 16u; // numbers of a thread, a workgroup's width apart

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) thread: u32) {
    let start = group_number(group, groups) * EACH * THREADS + thread;
    let end = min(p.n, start + EACH * THREADS);
    var finite = true;
    for (var i = start; i < end; i += THREADS) {
        finite = finite && is_finite(xs[p.x_at + i]);
    }
    if !finite {
        atomicStore(&mark[p.mark_at], 0x7FC00000u);
    }
}
