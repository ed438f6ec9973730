/*
 * cpu.h - the parts of the CPU device: what a BLAS multiplies, and the loops around it.
 */
#ifndef CARAT_CPU_CPU_H
#define CARAT_CPU_CPU_H

#include "../device.h"

/* The whole problem, batch and epilogue (gemm.c). */
carat_status cpu_gemm(const struct problem *problem, const struct operands *operands);

/* How cpu_gemm() computes the problem, in one sentence. */
void cpu_gemm_explain(const struct problem *problem, char *text, size_t size);

/* ---- The epilogue (epilogue.c) ---- */

/* A block of D whose products are summed: rows x columns of it, from (row, column) on. */
struct block {
    int64_t row;
    int64_t column;
    int64_t rows;
    int64_t columns;
    const void *sums; /* packed, of problem_sum_type(); NULL where all are 0 */
};

/* D from the sums of a block, for the operands of one problem of the batch. */
void cpu_finish(const struct problem *problem, const struct operands *operands, const struct block *block);

/* Bias and activation, where D of f32 or f64 holds alpha * sum + beta * C already. */
void cpu_finish_in_place(const struct problem *problem, const struct operands *operands);

/* ---- Elements (convert.c): any type whose arithmetic is f32 ---- */

/* Without loss. */
void cpu_widen(carat_type type, const void *from, int64_t count, float *to);

/* Rounded once, to nearest even; e4m3 and s8 saturate. */
void cpu_narrow(carat_type type, const float *from, int64_t count, void *to);
void cpu_narrow_f64(carat_type type, const double *from, int64_t count, void *to);

/* ---- Around the product (elementwise.c) ---- */

void cpu_scale_add(const struct elementwise *work);
void cpu_transpose(const struct elementwise *work);

#endif
