/* status.h - how the library's own functions fail: a status, and a message for the calling thread. */
#ifndef CARAT_STATUS_H
#define CARAT_STATUS_H

#include "carat/carat.h"

/* Sets the calling thread's message, printf-fashion, and returns status. */
__attribute__((format(printf, 2, 3))) carat_status fail(carat_status status, const char *format, ...);

/* Returns from the calling function unless the expression is CARAT_OK. */
#define CARAT_TRY(expression)                       \
    do {                                            \
        carat_status try_status = (expression);     \
        if (try_status != CARAT_OK) {               \
            return try_status;                      \
        }                                           \
    } while (0)

#endif
