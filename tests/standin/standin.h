/*
 * standin.h - how tests steer the stand-in of the CUDA driver: what devices there are, what fails, and
 * what is left over in the end. A test program links with the stand-in, and the library under test
 * loads the same one (CARAT_DRIVER_LIBRARY).
 *
 * What it does and a real driver does not show: work on streams runs as late as it may, streams are
 * interleaved at random, device memory cannot be touched by the host, allocations lie apart in poison,
 * new memory holds NaN.
 *
 * A program that cannot call these sets, in its environment: STANDIN_DEVICES, STANDIN_CAPABILITY (100),
 * STANDIN_MULTIPROCESSORS (4), STANDIN_VERSION (13000), STANDIN_MEMORY (bytes of device memory), STANDIN_SEED.
 */
#ifndef CARAT_TESTS_STANDIN_H
#define CARAT_TESTS_STANDIN_H

#include <stddef.h>
#include <stdint.h>

#define STANDIN_API __attribute__((visibility("default")))

/* ---- The machine; for calls before the library first asks ---- */

STANDIN_API void standin_set_devices(int count);
STANDIN_API void standin_set_capability(int major_times_ten_plus_minor);
STANDIN_API void standin_set_version(int version);

/* ---- Limits and failures ---- */

/* Of each device; allocations beyond it find no memory. */
STANDIN_API void standin_set_memory(size_t bytes);
STANDIN_API void standin_set_pinned(size_t bytes);

/* The order of everything that runs later. */
STANDIN_API void standin_seed(uint64_t seed);

/*
 * From here on, the nth call (1 is the next) of the named function, or of any function where name is
 * NULL, returns code. One that releases something releases it all the same. nth 0: none does.
 */
STANDIN_API void standin_fail(const char *name, long nth, int code);

/* The function that was made to fail; NULL while it has not happened. */
STANDIN_API const char *standin_failed(void);

/* How many calls there were since standin_fail or standin_reset. */
STANDIN_API long standin_calls(void);

/* How many kernels were launched since standin_reset, graphs' included. */
STANDIN_API long standin_launches(void);

/* The nth kernel that runs from now on (1 is the next) loses its device, with CUDA_ERROR_LAUNCH_FAILED. */
STANDIN_API void standin_lose_device(long nth);

/* Back to the limits and the health of the beginning. What exists stays. */
STANDIN_API void standin_reset(void);

/* ---- What is left ---- */

/*
 * Things not released (memory, streams, events, graphs, modules, contexts), each named on stderr. Those
 * that a context still had when it ended count until standin_reset.
 */
STANDIN_API int standin_leaks(void);

/* Whether memory, a stream, an event or an executable graph of this address exists. */
STANDIN_API int standin_exists(const void *thing);

/* Contexts that the calling thread has pushed and not popped. */
STANDIN_API int standin_pushed(void);

/* Operations that wait on streams. */
STANDIN_API int standin_waiting(void);

#endif
