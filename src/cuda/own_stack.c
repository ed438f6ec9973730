/*
 * own_stack.c - whether a pointer points into the calling thread's stack: that is host memory, so the driver need not be
 * asked. alpha and beta mostly lie there.
 */
#define _GNU_SOURCE /* pthread_getattr_np */
#include <pthread.h>
#include <stdint.h>

#include "device_cuda.h"

/* Where the thread's stack ends, which grows down from there; asked for once. */
struct stack {
    bool asked;
    uintptr_t begin;
    uintptr_t end; /* 0: it is not known */
};

static _Thread_local struct stack own;

static void ask(void)
{
    pthread_attr_t attributes;
    void *begin;
    size_t size;
    own.asked = true;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) {
        return;
    }
    if (pthread_attr_getstack(&attributes, &begin, &size) == 0) {
        own.begin = (uintptr_t)begin;
        own.end = own.begin + size;
    }
    pthread_attr_destroy(&attributes);
}

bool is_on_own_stack(const void *pointer, size_t bytes)
{
    if (!own.asked) {
        ask();
    }
    /* What lies between here and the end is in use. Who runs on another stack, of a coroutine, is not in it at all. */
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    uintptr_t at = (uintptr_t)pointer;
    return here >= own.begin && here < own.end && at >= here && at < own.end && bytes <= own.end - at;
}
