/* assertions.h - what tests say of the library's calls. To be included after cmocka.h. */
#ifndef CARAT_TESTS_ASSERTIONS_H
#define CARAT_TESTS_ASSERTIONS_H

#include <string.h>

#include "carat/carat.h"

/* As in status.h, whose fail() is also a name of cmocka's. */
__attribute__((format(printf, 1, 2))) void set_message(const char *format, ...);

#define assert_ok(call)                                                                                      \
    do {                                                                                                     \
        carat_status assert_status = (call);                                                                 \
        if (assert_status != CARAT_OK) {                                                                     \
            fail_msg("%s: %s: %s", #call, carat_status_name(assert_status), carat_last_message());           \
        }                                                                                                    \
    } while (0)

/* The call gives that status, and a message of its own with those words. */
#define assert_refused(call, status, words)                                                                  \
    do {                                                                                                     \
        set_message("no message");                                                                           \
        assert_int_equal((call), (status));                                                                  \
        if (!strstr(carat_last_message(), (words))) {                                                        \
            fail_msg("the message is \"%s\", but should say \"%s\"", carat_last_message(), (words));         \
        }                                                                                                    \
    } while (0)

#endif
