/* internal.h - what the files of the stand-in share. All of it is guarded by one lock (device.c). */
#ifndef CARAT_TESTS_STANDIN_INTERNAL_H
#define CARAT_TESTS_STANDIN_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "../../src/cuda/driver_api.h"
#include "chance.h"
#include "cpu_run.h"
#include "standin.h"

/* The driver's functions have to be seen from outside. */
#define DECLARED(name, parameters) STANDIN_API CUresult name parameters;
CARAT_DRIVER_FUNCTIONS(DECLARED)
#undef DECLARED

#define MOST_DEVICES 4
#define OPTIN_SHARED_BYTES 232448
#define DEFAULT_SHARED_BYTES 49152
#define MOST_GRID_X 2147483647u
#define MOST_GRID_YZ 65535u
#define MOST_BLOCK_XY 1024u
#define MOST_BLOCK_Z 64u
#define MOST_PITCH 2147483647

/* Ends the program: the library did what no driver could report and no program may do. */
__attribute__((format(printf, 1, 2), noreturn)) void standin_fault(const char *format, ...);

/* ---- Calls ---- */

/* What a function needs, besides the driver being initialized. */
enum {
    NEEDS_NOTHING = 0, /* not even that */
    NEEDS_INIT = 1,
    NEEDS_CONTEXT = 2, /* a current one, whose device is not lost */
    FORBIDDEN_IN_CAPTURE = 4,
    RELEASES = 8 /* goes on where it has to fail, and fails in the end */
};

struct call {
    CUresult result; /* what the function has to return, unless it finds something wrong itself */
    bool stop;       /* at once */
};

/* Takes the lock and says how the call begins; the lock is given back at the end of the scope. */
struct call call_begin(const char *name, unsigned needs);
void call_end(struct call *call);

#define CALL(name, needs)                                                                                    \
    struct call call __attribute__((cleanup(call_end))) = call_begin((name), (needs));                       \
    if (call.stop) {                                                                                         \
        return call.result;                                                                                  \
    }

/* ---- Devices ---- */

struct CUctx_st {
    int device;
    int retained;
    CUresult lost; /* what every call returns once the device is lost */
};

struct CUctx_st *current_context(void);
extern struct CUctx_st contexts[MOST_DEVICES];

struct CUfunc_st {
    const struct cpu_kernel *kernel;
    struct CUmod_st *module;
    int dynamic_shared_limit;
};

struct CUmod_st {
    struct CUmod_st *next;
    struct CUfunc_st function;
    int device;
};

bool is_function(const struct CUfunc_st *function);

/* Called for each kernel that runs: whether its device is lost now. */
bool device_dies(void);

/* A number below bound from the stand-in's seed. */
uint32_t standin_draw(uint32_t bound);

/* ---- Memory ---- */

enum place { NOWHERE, PAGEABLE, PINNED, DEVICE };

/* Where bytes from pointer on lie; NOWHERE where they run out of a known allocation. */
enum place place_of(const void *pointer, size_t bytes);

/* The device of device memory. */
int device_of(const void *pointer);

/* Between the two, device memory can be touched. */
void arena_open(void);
void arena_close(void);

int memory_leaks(void);
bool memory_exists(const void *pointer);

/* Frees what a device's context has left when it ends. */
void memory_abandon(int device);
void streams_abandon(int device);

/* ---- Streams ---- */

/* Runs all that waits on the streams of a device. */
void run_everything(int device);

/* Whether the calling thread may not allocate and the like, by the rules of stream capture. */
bool capture_forbids(void);
/* Spoils the captures that forbid. */
void capture_spoil(void);

/* Whether an operation that has not run uses the module, or host memory from begin to end. */
bool waits_for_module(const struct CUmod_st *module);
bool waits_for_memory(const unsigned char *begin, const unsigned char *end);

int stream_leaks(void);
bool stream_exists(const void *thing);

#endif
