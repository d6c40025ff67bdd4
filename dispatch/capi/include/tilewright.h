/* tilewright: run the matrix multiplications of a model with the kernels tuned for them. See tilewright-capi.
 *
 * D[M,N] = A[M,K] * B[N,K]^T (+ bias), A and D row-major f32, B a weight that is quantised and laid out once.
 *
 * An engine and its weights may be used by any number of threads at once, each with a workspace of its own; they are
 * freed when no thread uses them any more. A function that fails says so by its result, and tw_last_error() says why.
 * No function may be given a null pointer where it does not say so.
 */
#ifndef TILEWRIGHT_H
#define TILEWRIGHT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of this header. */
#define TW_ABI_VERSION 1

typedef struct tw_engine tw_engine;
typedef struct tw_weight tw_weight;

/* How a choice is known. */
enum {
    TW_EXACT = 0,        /* measured at this M */
    TW_INTERVAL = 1,     /* measured below and above this M */
    TW_EXTRAPOLATED = 2, /* measured, but only below or only above this M */
    TW_NEAREST = 3,      /* a similar weight was measured */
    TW_ANALYTIC = 4,     /* the table's kernel with the least estimate */
    TW_DEFAULT = 5       /* a kernel that runs everywhere */
};

/* What runs a problem. */
typedef struct tw_choice {
    uint64_t kernel_id; /* hash of the kernel's text */
    int32_t rung;       /* TW_EXACT ... TW_DEFAULT */
    uint32_t rank;      /* 0: the row's kernel; 1, 2: its runner-up */
    float distance;     /* octaves to the measured weight, for TW_NEAREST */
    uint32_t reserved;
    char kernel[256];   /* the kernel's text, ends with 0 */
} tw_choice;

/* TW_ABI_VERSION of the library. */
uint32_t tw_abi_version(void);

/* Why the last failed call of this thread failed; valid until its next failed call. Empty if none has. */
const char *tw_last_error(void);

/* Binds the built-in table of a model (tuned on this device, else on another) to this processor. Without such a table, or
 * with model NULL, every answer is a default. miss_capacity: how many different requests to remember that no measurement
 * answers; 0: none. Where the environment variable TILEWRIGHT_RECORD names a file, every request is recorded there: it is
 * written when the engine is freed, and before that each time the number of calls has doubled. NULL on failure. */
tw_engine *tw_engine_open(const char *model, size_t miss_capacity);
void tw_engine_free(tw_engine *engine); /* NULL is allowed */

/* 1 if the engine's table was made on this kind of device, else 0. */
int32_t tw_engine_is_tuned_here(const tw_engine *engine);

/* Quantises and lays out a weight of the table, by its plan. values: row-major N x K, `count` of them. NULL on failure. */
tw_weight *tw_weight_load(const tw_engine *engine, const char *name, const float *values, size_t count);

/* The same for a weight that the table does not know, in a format ("bf16", "fp8_e4m3", "mxfp6_e2m3", ...) and a layout
 * ("row_major", "panel16", ...). values: row-major n x k. NULL on failure. */
tw_weight *tw_weight_load_unplanned(const tw_engine *engine, uint32_t n, uint32_t k, const char *format,
                                    const char *layout, const float *values, size_t count);
void tw_weight_free(tw_weight *weight); /* NULL is allowed */

/* Bytes of workspace that any run with 1 to max_m rows may need. 0 on success, else -1. */
int32_t tw_workspace_bytes(const tw_engine *engine, const tw_weight *weight, uint32_t max_m, size_t *bytes);

/* What would run m rows, without bias. 0 on success, else -1. */
int32_t tw_choose(const tw_engine *engine, const tw_weight *weight, uint32_t m, tw_choice *choice);

/* Multiplies. activation: m x K; bias: N, or NULL; output: m x N, apart from all else; workspace: may be NULL if
 * workspace_bytes is 0; choice: what ran, or NULL. 0 on success, else -1. */
int32_t tw_run(const tw_engine *engine, const tw_weight *weight, const float *activation, uint32_t m,
               const float *bias, float *output, void *workspace, size_t workspace_bytes, tw_choice *choice);

/* Writes the requests that no measurement answered as a model declaration, ready to tune. 1: written; 0: there were none,
 * no file is written; -1: failure. */
int32_t tw_write_misses(const tw_engine *engine, const char *path);

#ifdef __cplusplus
}
#endif

#endif
