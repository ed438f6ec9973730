/*
 * host_set.h - what a call whose matrices are in host memory works with: streams, device memory and
 * pinned memory. A set serves one call at a time and is kept by the device for later ones.
 */
#ifndef CARAT_CUDA_HOST_SET_H
#define CARAT_CUDA_HOST_SET_H

#include "device_cuda.h"

struct host_set {
    struct host_set *next; /* in the device's list of idle sets */
    CUstream in;           /* host to device */
    CUstream compute;
    CUstream out;             /* device to host */
    CUevent arrived;          /* on in */
    CUevent left;             /* on out */
    CUdeviceptr device_bytes; /* one piece, carved up by the call */
    size_t device_size;
    void *pinned;
    size_t pinned_size;
    CUevent *events; /* as many as a call has needed so far */
    size_t event_count;
};

/* Takes an idle set or makes one; given back, whatever became of the call, by host_set_give. */
carat_status host_set_take(struct cuda_device *device, struct host_set **set);
void host_set_give(struct cuda_device *device, struct host_set *set);

/* Makes sure that the set's memory has at least so many bytes. */
carat_status host_set_device_bytes(struct cuda_device *device, struct host_set *set, size_t bytes);
carat_status host_set_pinned_bytes(struct cuda_device *device, struct host_set *set, size_t bytes);
carat_status host_set_events(struct cuda_device *device, struct host_set *set, size_t count);

/* Waits for all that is on the set's streams. */
carat_status host_set_wait(struct cuda_device *device, struct host_set *set);

/* The same after a failure, whose message stays. */
void host_set_settle(struct host_set *set);

/* Frees the idle sets. */
void host_sets_destroy(struct cuda_device *device);

#endif
