/* wrong_blas.c - stands before the BLAS and spoils one entry of every sgemm, as a broken kernel would. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

typedef void (*sgemm_function)(int, int, int, int, int, int, float, const float *, int, const float *, int,
                               float, float *, int);

void cblas_sgemm(int order, int op_a, int op_b, int m, int n, int k, float alpha, const float *a, int lda,
                 const float *b, int ldb, float beta, float *c, int ldc);

void cblas_sgemm(int order, int op_a, int op_b, int m, int n, int k, float alpha, const float *a, int lda,
                 const float *b, int ldb, float beta, float *c, int ldc)
{
    /* POSIX lets dlsym's answer be used as a function; C only lets it be copied into one. */
    union {
        void *object;
        sgemm_function function;
    } next = {dlsym(RTLD_NEXT, "cblas_sgemm")};
    next.function(order, op_a, op_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    c[0] *= 1.01f;
}
