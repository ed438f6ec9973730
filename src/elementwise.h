/* elementwise.h - the checks of scale_add and transpose, and their canonical (column-major) form. */
#ifndef CARAT_ELEMENTWISE_H
#define CARAT_ELEMENTWISE_H

#include "device.h"

/* A scale_add or transpose as its caller wrote it. */
struct elementwise_call {
    carat_order order;
    carat_type type;
    int64_t m;
    int64_t n;
    const void *scale; /* scale_add only */
    const void *shift;
    const void *a;
    int64_t lda;
    void *b;
    int64_t ldb;
};

carat_status scale_add_check(const struct elementwise_call *call, struct elementwise *work);
carat_status transpose_check(const struct elementwise_call *call, struct elementwise *work);

#endif
