// Rows of n, a workgroup each: x̄ⱼ = yⱼ·(ȳⱼ − Σₖ ȳₖyₖ). If LOG, x̄ⱼ = ȳⱼ − e^yⱼ·Σₖ ȳₖ.

struct Params { rows: u32, n: u32, y_at: u32, gy_at: u32 }

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read_write> gxs: array<f32>;
@group(0) @binding(2) var<storage, read> ys: array<f32>;
@group(0) @binding(3) var<storage, read> gys: array<f32>;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) thread: u32) {
    let row = group_number(group, groups);
    if row >= p.rows {
        return;
    }
    let y_at = p.y_at + row * p.n;
    let gy_at = p.gy_at + row * p.n;
    var sum = 0.0;
    for (var j = thread; j < p.n; j += THREADS) {
        if LOG {
            sum += gys[gy_at + j];
        } else {
            sum = fma(ys[y_at + j], gys[gy_at + j], sum);
        }
    }
    sum = tree_sum(thread, sum);
    for (var j = thread; j < p.n; j += THREADS) {
        if LOG {
            gxs[row * p.n + j] = fma(-exp(ys[y_at + j]), sum, gys[gy_at + j]);
        } else {
            gxs[row * p.n + j] = ys[y_at + j] * (gys[gy_at + j] - sum);
        }
    }
}
