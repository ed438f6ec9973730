/*
 * cuda.h - what a CUDA device offers beyond device.h: for the command line and the bench, which run
 * single rows of the catalogue, time them and capture graphs.
 *
 * Every device given here must be one that cuda_device_create made. Streams are CUstreams.
 */
#ifndef CARAT_CUDA_CUDA_H
#define CARAT_CUDA_CUDA_H

#include "device.h"

/*
 * Makes the device's context current in the calling thread, for code that talks to the driver or
 * to another CUDA library itself. Each success is paired with one cuda_leave in the same thread.
 */
carat_status cuda_enter(struct device *device);
void cuda_leave(struct device *device);

/* ---- Kernels ------------------------------------------------------------------------------- */

/* CARAT_OK where the device can run the row; else CARAT_UNSUPPORTED with the reason. */
carat_status cuda_kernel_check(struct device *device, const struct kernel *kernel);

/* What the driver says of a row's kernel once loaded: of its whole image, where it has that. */
struct cuda_kernel_info {
    int registers;                 /* a thread */
    int local_bytes;               /* a thread: spills and arrays */
    int static_shared_bytes;       /* a block, besides the row's dynamic SHARED_BYTES */
    int max_threads;               /* a block, as registers allow */
    int blocks_per_multiprocessor; /* that fit at once */
};
carat_status cuda_kernel_query(struct device *device, const struct kernel *kernel,
                               struct cuda_kernel_info *info);

/*
 * Which of a row's images: the one that does all that the row can, the one for plain products, the one for those with bias, an
 * activation or a factor, or the one for parts of k.
 */
enum kernel_image { IMAGE_WHOLE, IMAGE_PLAIN, IMAGE_FINISHING, IMAGE_SUMS, KERNEL_IMAGES };

/* Whether one of them has been loaded, as its first launch does. */
bool cuda_kernel_is_loaded(struct device *device, const struct kernel *kernel, enum kernel_image image);

/*
 * Sets how many bytes of second-level cache launches take the device to have, and returns what it was: for tests. Of operands
 * that are larger clusters stay close to each other, see kernels/gemm/wgmma_pace.h. No other call may run meanwhile.
 */
int64_t cuda_pretend_cache(struct device *device, int64_t bytes);

/*
 * Launches `blocks` blocks of a row on its one argument, a struct of kernels/common/arguments.h. The
 * row's image is loaded at its first use.
 */
carat_status cuda_launch(struct device *device, const struct kernel *kernel, uint32_t blocks,
                         const void *arguments, size_t argument_bytes, void *stream);

/*
 * Runs one given row (OPERATION_GEMM or OPERATION_LADDER) on operands in device memory, in one part.
 * alpha and beta are in host or device memory. Refuses with CARAT_UNSUPPORTED what the row cannot
 * do: its element type, layout, alignment, architecture; for ladder rows a transpose or a batch; for rows without a whole image
 * whatever the images that they have do not know, alpha, beta, the scales and D's place among it.
 */
carat_status cuda_gemm_with(struct device *device, const struct kernel *kernel, const struct problem *problem,
                            const struct operands *operands, void *stream);

/* ---- Memory -------------------------------------------------------------------------------- */

/* Sets bytes of device memory, in the order of the stream. */
carat_status cuda_memset(struct device *device, void *pointer, unsigned char byte, size_t bytes,
                         void *stream);

/* ---- Events -------------------------------------------------------------------------------- */

carat_status cuda_event_create(struct device *device, void **event);
carat_status cuda_event_record(struct device *device, void *event, void *stream);
/* Waits for end; then the time from begin to end on the device. */
carat_status cuda_event_elapsed_ms(struct device *device, void *begin, void *end, float *milliseconds);
/* NULL is allowed. */
carat_status cuda_event_destroy(struct device *device, void *event);

/* ---- Graphs -------------------------------------------------------------------------------- */

/* Work put on the stream from here on is recorded, not run. The stream is not the default one. */
carat_status cuda_capture_begin(struct device *device, void *stream);
/* Ends the recording and makes an executable graph of it; *graph is NULL on failure. */
carat_status cuda_capture_end(struct device *device, void *stream, void **graph);
carat_status cuda_graph_launch(struct device *device, void *graph, void *stream);
/* NULL is allowed. */
carat_status cuda_graph_destroy(struct device *device, void *graph);

/* ---- The device ---------------------------------------------------------------------------- */

/* Its PCI address as "0000:3b:00.0", by which other tools (NVML) know it. */
carat_status cuda_pci_address(struct device *device, char *address, int size);

#endif
