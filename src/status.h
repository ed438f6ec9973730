/* status.h - how the library's own functions fail: a status, and a message for the calling thread. */
#ifndef CARAT_STATUS_H
#define CARAT_STATUS_H

#include "carat/carat.h"

/* Sets the calling thread's message, printf-fashion. */
__attribute__((format(printf, 1, 2))) void set_message(const char *format, ...);

/*
 * Sets the message and gives status: fail(status, format, ...). A macro, so that compilers see what comes
 * back; through a function, so that it need not be used.
 */
static inline carat_status given_status(carat_status status) { return status; }
#define fail(status, ...) (set_message(__VA_ARGS__), given_status(status))

/* Returns from the calling function unless the expression is CARAT_OK. */
#define CARAT_TRY(expression)                                                                                \
    do {                                                                                                     \
        carat_status try_status = (expression);                                                              \
        if (try_status != CARAT_OK) {                                                                        \
            return try_status;                                                                               \
        }                                                                                                    \
    } while (0)

#endif
