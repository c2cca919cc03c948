// A stage, multiplied by threads: each computes ROWS × COLUMNS elements of Y in registers.
//
// Each sum is one chain from 0 on, c ← fma(aᵢₚ, bₚⱼ, c) for p = 0, 1, …, so its bits are the same for every tile. Where all threads
// of a subgroup compute the same rows, one of them may read A for all.

for $f in [a, b] {
    // Two stages, by p and then by fours of rows of A or columns of B.
    var<workgroup> stages_$f: array<Staged, 2 * K * FOURS_$f>;

    fn stage_$f(at: u32, four: vec4f) {
        stages_$f[at] = Staged(four);
    }
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) thread: u32) {
    let number = group_number(group, groups);
    let tiles = p.row_tiles * p.column_tiles;
    let batch = number / tiles;
    if batch >= p.batches {
        return;
    }
    let tile = tile_of(number % tiles, batch);
    let stages = (p.k + K - 1) / K;
    var next: array<mat4x4f, READS>;

    // Rows side by side; of columns fours, ACROSS of them apart, so that neighbouring threads read and write neighbouring fours.
    let computes = thread < ACROSS * (M / ROWS);
    let row = thread / ACROSS * ROWS;
    let four = thread % ACROSS;
    var sums: array<vec4f, ROWS * FOURS>;
    for (var stage = 0u; stage <= stages; stage++) {
        if stage < stages {
            for $r in 0..READS {
                next[$r] = fetch(thread + $r * THREADS, tile, stage);
            }
        }
        if computes && stage > 0 {
            let at_a = (stage - 1) % 2 * K * FOURS_a + row / 4;
            let at_b = (stage - 1) % 2 * K * FOURS_b + four;
            for (var first = 0u; first < K; first += 8) {
                for $p in 0..8 {
                    var b_p: array<vec4f, FOURS>;
                    for $j in 0..FOURS {
                        b_p[$j] = vec4f(stages_b[at_b + (first + $p) * FOURS_b + $j * ACROSS]);
                    }
                    for $h in 0..ROW_FOURS {
                        let a_p = SHARED(vec4f(stages_a[at_a + (first + $p) * FOURS_a + $h]));
                        for $i in 0..ROWS_OF_FOUR {
                            let a_ip = vec4f(a_p[FIRST_OF_FOUR + $i]);
                            for $j in 0..FOURS {
                                sums[(4 * $h + $i) * FOURS + $j] = fma(a_ip, b_p[$j], sums[(4 * $h + $i) * FOURS + $j]);
                            }
                        }
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
    if computes {
        for $i in 0..ROWS {
            for $j in 0..FOURS {
                store(start, tile.across_a + row + $i, tile.across_b + 4 * (four + $j * ACROSS), sums[$i * FOURS + $j]);
            }
        }
    }
}
