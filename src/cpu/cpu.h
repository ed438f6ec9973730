/*
 * cpu.h - the parts of the CPU device: what a BLAS multiplies, and the loops around it.
 */
#ifndef CARAT_CPU_CPU_H
#define CARAT_CPU_CPU_H

#include "../device.h"

/* D = alpha * op(A) * op(B) + beta * C for the whole batch. */
carat_status cpu_gemm(const struct problem *problem, const struct operands *operands);

/* How cpu_gemm() computes the problem, in one sentence. */
void cpu_gemm_explain(const struct problem *problem, char *text, size_t size);

void cpu_scale_add(const struct elementwise *work);
void cpu_transpose(const struct elementwise *work);

#endif
