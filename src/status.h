/* status.h - how the library's own functions fail: a status, and a message for the calling thread. */
#ifndef CARAT_STATUS_H
#define CARAT_STATUS_H

#include "carat/carat.h"

/* Sets the calling thread's message, printf-fashion. */
__attribute__((format(printf, 1, 2))) void set_message(const char *format, ...);

/* A thread's message, kept by a call that may fail on its way and succeed in the end: it did not fail then. */
struct message {
    char text[512];
};
void message_keep(struct message *before);

/* Gives status, that of such a call; where that is CARAT_OK, the message is again what it was before. */
carat_status message_settle(carat_status status, const struct message *before);

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
