/*
 * no_blas.c - stands in for the CPU device's BLAS in the programs that check a GPU: they are carried to another
 * machine, and have no business on the CPU.
 */
#include <stdio.h>
#include <stdlib.h>

void cblas_sgemm(void);
void cblas_dgemm(void);

void cblas_sgemm(void)
{
    fprintf(stderr, "a product went to the CPU\n");
    abort();
}

void cblas_dgemm(void) { cblas_sgemm(); }
