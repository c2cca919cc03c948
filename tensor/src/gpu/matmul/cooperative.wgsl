// A stage, multiplied by subgroups: each computes ROWS × COLUMNS elements of Y as cooperative matrices of SIZE × SIZE, whose
// factors are in f16 and whose sums are in f32. The device adds in an order of its own.
//
// Loops and returns are the same for all threads of a workgroup; that is not checked, since naga takes no loop for uniform.

for $f in [a, b] {
    // Two stages, by p and then by rows of A or columns of B.
    var<workgroup> stages_$f: array<f16, 2 * K * 4 * FOURS_$f>;

    fn stage_$f(at: u32, four: vec4f) {
        let rounded = vec4<f16>(four);
        for $i in 0..4 {
            stages_$f[4 * at + $i] = rounded[$i];
        }
    }
}

// A matrix of each subgroup, on its way to Y.
var<workgroup> results: array<f32, SUBGROUPS * SIZE * SIZE>;

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3u,
    @builtin(num_workgroups) groups: vec3u,
    @builtin(local_invocation_index) thread: u32,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(subgroup_invocation_id) lane: u32,
) {
    let number = group_number(group, groups);
    let tiles = p.row_tiles * p.column_tiles;
    let batch = number / tiles;
    if batch >= p.batches {
        return;
    }
    let tile = tile_of(number % tiles, batch);
    let stages = (p.k + K - 1) / K;
    var next: array<mat4x4f, READS>;

    let own = min(subgroup, SUBGROUPS - 1); // subgroups that are not full would be more than SUBGROUPS
    let row = own / (N / COLUMNS) * ROWS;
    let column = own % (N / COLUMNS) * COLUMNS;
    var sums: array<coop_matSIZExSIZE<f32, C>, (ROWS / SIZE) * (COLUMNS / SIZE)>;
    for (var stage = 0u; stage <= stages; stage++) {
        if stage < stages {
            for $r in 0..READS {
                next[$r] = fetch(thread + $r * THREADS, tile, stage);
            }
        }
        if stage > 0 {
            for (var first = 0u; first < K; first += SIZE) {
                let at = (stage - 1) % 2 * K + first;
                for $i in 0..MATRIX_ROWS {
                    let at_a = at * M + row + $i * SIZE;
                    let a_i = coopLoad<coop_matSIZExSIZE<f16, A>>(&stages_a[at_a], M);
                    for $j in 0..MATRIX_COLUMNS {
                        let at_b = at * N + column + $j * SIZE;
                        let b_j = coopLoadT<coop_matSIZExSIZE<f16, B>>(&stages_b[at_b], N);
                        sums[$i * MATRIX_COLUMNS + $j] = coopMultiplyAdd(a_i, b_j, sums[$i * MATRIX_COLUMNS + $j]);
                    }
                }
            }
        }
        if stage < stages {
            for $r in 0..READS {
                put(thread + $r * THREADS, tile, stage, next[$r]);
            }
        }
        workgroupBarrier();
    }

    let start = p.y_at + batch / p.inner_batches * p.y_outer + batch % p.inner_batches * p.y_inner;
    let at = own * SIZE * SIZE;
    for $i in 0..MATRIX_ROWS {
        for $j in 0..MATRIX_COLUMNS {
            coopStoreT(sums[$i * MATRIX_COLUMNS + $j], &results[at], SIZE);
            workgroupBarrier();
            for (var e = lane; e < SIZE * SIZE / 4; e += SUBGROUP) {
                let i = e / (SIZE / 4);
                let j = 4 * (e % (SIZE / 4));
                let e_at = at + i * SIZE + j;
                let four = vec4f(results[e_at], results[e_at + 1], results[e_at + 2], results[e_at + 3]);
                store(start, tile.across_a + row + $i * SIZE + i, tile.across_b + column + $j * SIZE + j, four);
            }
            workgroupBarrier();
        }
    }
}
