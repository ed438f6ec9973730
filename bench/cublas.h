/* cublas.h - the few numbers of cuBLAS that its two contenders share. */
#ifndef CARAT_BENCH_CUBLAS_H
#define CARAT_BENCH_CUBLAS_H

#include <stdbool.h>
#include <stdint.h>

#include "carat/carat.h"

/* cudaDataType */
enum {
    CUBLAS_F32 = 0,
    CUBLAS_F64 = 1,
    CUBLAS_F16 = 2,
    CUBLAS_S8 = 3,
    CUBLAS_S32 = 10,
    CUBLAS_BF16 = 14,
    CUBLAS_E4M3 = 28,
    CUBLAS_E5M2 = 29
};

/* cublasComputeType_t: 32F does not use tf32 */
enum {
    CUBLAS_COMPUTE_32F = 68,
    CUBLAS_COMPUTE_64F = 70,
    CUBLAS_COMPUTE_32I = 72,
    CUBLAS_COMPUTE_32F_FAST_TF32 = 77
};

enum { CUBLAS_GEMM_DEFAULT = -1 };

#define CUBLAS_WORKSPACE_BYTES ((size_t)64 << 20)

union cublas_scalar {
    float f32;
    double f64;
    int32_t s32;
};

/* How cuBLAS calls the types of a problem; zero is 0 in every scalar type. */
struct cublas_types {
    int a;
    int b;
    int cd;
    int scalar;
    int compute;
    bool float8; /* which cublasLt alone has; it takes scales, and is told whether sums stay in the unit */
    bool fast_sums;
    union cublas_scalar one;
    union cublas_scalar zero;
};

/* CARAT_UNSUPPORTED where neither of the two libraries has such types. */
carat_status cublas_types_of(const carat_gemm_problem *problem, struct cublas_types *types);

/* The newest of stem.so.13, .so.12 and .so on the loader's path or in the toolkit's folder, or NULL. */
void *cublas_open_library(const char *stem);

#endif
