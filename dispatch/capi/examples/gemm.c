/* One linear layer through tilewright, checked against a plain loop.
 *
 *   cc -I dispatch/capi/include dispatch/capi/examples/gemm.c -L target/release -ltilewright_capi -lm -o gemm
 *
 * The argument names a file for what the table had no measurement of. */
#include "tilewright.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { M = 5, N = 48, K = 96 };

/* Halves and quarters, which bf16 holds exactly. */
static float value(int i) { return (float)(i * 37 % 17 - 8) / 4.0f; }

static int fail(const char *what) {
    fprintf(stderr, "%s: %s\n", what, tw_last_error());
    return 1;
}

int main(int argc, char **argv) {
    static float weights[N * K], x[M * K], bias[N], y[M * N];
    tw_choice choice, planned;
    size_t bytes;
    int i, m, n, k;

    if (tw_abi_version() != TW_ABI_VERSION) return fail("another version of the library");
    for (i = 0; i < N * K; i++) weights[i] = value(i);
    for (i = 0; i < M * K; i++) x[i] = value(i + 5);
    for (i = 0; i < N; i++) bias[i] = value(i + 11);

    tw_engine *engine = tw_engine_open("smollm2-135m", 256);
    if (!engine) return fail("open");
    tw_weight *weight = tw_weight_load_unplanned(engine, N, K, "bf16", "panel16", weights, N * K);
    if (!weight) return fail("load");
    if (tw_workspace_bytes(engine, weight, M, &bytes)) return fail("workspace");
    if (tw_choose(engine, weight, M, &planned)) return fail("choose");
    void *workspace = malloc(bytes ? bytes : 1);
    if (tw_run(engine, weight, x, M, bias, y, workspace, bytes, &choice)) return fail("run");
    printf("tuned here: %d, rung %d, %s\n", tw_engine_is_tuned_here(engine), choice.rung, choice.kernel);

    for (m = 0; m < M; m++)
        for (n = 0; n < N; n++) {
            double sum = bias[n];
            for (k = 0; k < K; k++) sum += (double)x[m * K + k] * weights[n * K + k];
            if (!(fabs(sum - y[m * N + n]) <= 1e-3)) {
                fprintf(stderr, "y[%d][%d] is %g, not %g\n", m, n, y[m * N + n], sum);
                return 1;
            }
        }

    /* What cannot work says why. */
    if (tw_weight_load_unplanned(engine, N, K, "fp7", "panel16", weights, N * K)) return 1;
    printf("expected: %s\n", tw_last_error());
    if (tw_weight_load(engine, "no such weight", weights, N * K)) return 1;
    printf("expected: %s\n", tw_last_error());

    if (argc > 1 && tw_write_misses(engine, argv[1]) != 1) return fail("misses");
    free(workspace);
    tw_weight_free(weight);
    tw_engine_free(engine);
    return 0;
}
