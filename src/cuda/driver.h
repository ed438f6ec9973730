/* driver.h - the CUDA driver, loaded when first asked for and kept until the process ends. */
#ifndef CARAT_CUDA_DRIVER_H
#define CARAT_CUDA_DRIVER_H

#include "carat/carat.h"
#include "driver_api.h"

/*
 * The least driver, as CUDA counts versions: it has every function of driver_api.h and runs images of
 * CUDA 12. A build with a newer nvcc says so with CARAT_LEAST_DRIVER, since images need a driver of
 * at least their own major version.
 */
#ifndef CARAT_LEAST_DRIVER
#define CARAT_LEAST_DRIVER 12000
#endif

struct driver {
#define DRIVER_MEMBER(name, parameters) CUresult(*name) parameters;
    CARAT_DRIVER_FUNCTIONS(DRIVER_MEMBER)
#undef DRIVER_MEMBER
    int version;
};

/* Its functions may be called once driver_load() has returned CARAT_OK. */
extern struct driver driver;

/*
 * Loads and initializes the driver, once; later calls give the same answer. The library is the one that
 * the environment variable CARAT_DRIVER_LIBRARY names, else libcuda.so.1.
 */
carat_status driver_load(void);

struct cuda_device;

/* DRIVER(device, cuMemFree_v2(pointer)) makes the call and turns what it returns into a status. */
#define DRIVER(device, call) driver_status((device), driver.call, #call)

/*
 * The status of a driver call, with a message that begins with the call's name. call is its text, up
 * to the parenthesis. Where the device is lost it is marked so; device may be NULL.
 */
carat_status driver_status(struct cuda_device *device, CUresult result, const char *call);

#endif
