/* device_cuda.h - what the files of the CUDA device share. */
#ifndef CARAT_CUDA_DEVICE_CUDA_H
#define CARAT_CUDA_DEVICE_CUDA_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "../../kernels/common/arguments.h"
#include "cuda.h"
#include "device.h"
#include "driver.h"

/* An image of a row of the catalogue as the device knows it; function is NULL until it is first used. */
struct loaded_kernel {
    _Atomic(CUfunction) function;
    CUmodule module;
    bool early; /* may begin before the kernels before it have ended: set before function is */
};

/* The pool's workspace for one stream. */
struct workspace {
    unsigned long long stream_key;
    CUdeviceptr buffer;
    size_t bytes;
    size_t refused; /* the least that there was no room for since workspace_expect_room(); 0: none */
    bool captured;  /* a graph holds its address, so it must live as long as the device */
};

struct workspace_pool {
    pthread_mutex_t mutex;
    struct workspace *entries;
    size_t count;
    CUdeviceptr *retired; /* outgrown buffers that graphs may still use */
    size_t retired_count;
};

/* When and how finely a call on host memory is cut up; tests make these small. */
struct pipeline_limits {
    size_t gather_bytes;         /* up to so much in all, one copy in and one out */
    size_t group_bytes;          /* problems of a batch are taken together up to so much */
    size_t panel_bytes;          /* the least panel of A, B or D that is worth a copy of its own */
    int most_panels;             /* of one dimension */
    int panel_granule;           /* rows or columns of a panel are a multiple of this */
    size_t direct_line_bytes;    /* pinned memory is copied directly in lines from so long on, */
    size_t direct_problem_bytes; /* and where problems lie apart, in problems from so large on */
    size_t slot_bytes;           /* of a pinned slot, through which other memory is copied */
    size_t bytes_per_thread;     /* through slots, that make one more thread worth starting */
    int most_threads;
};
extern const struct pipeline_limits pipeline_limits_default;

struct host_set; /* what a call on host memory works with: host_set.h */

struct cuda_device {
    struct device base;
    int index;
    CUdevice handle;
    CUcontext context;
    char name[256];
    atomic_int lost;     /* the CUresult that lost the device; 0 while it works */
    size_t max_pitch;    /* of a 2-D copy */
    int64_t cache_bytes; /* the second-level cache */
    pthread_mutex_t load_mutex;
    struct loaded_kernel (*kernels)[KERNEL_IMAGES]; /* as carat_catalog */
    struct workspace_pool pool;
    pthread_mutex_t launching;       /* plans whose steps share workspace are launched one at a time */
    _Atomic(CUdeviceptr) count_left; /* what count_left_of() gives; 0: nobody has asked */
    atomic_uint_fast64_t tokens;     /* what next_token() (tensor_map.c) makes the next one of */
    struct pipeline_limits limits;
    pthread_mutex_t host_mutex;
    struct host_set *idle_sets; /* of host calls that are over, for the next ones */
};

static inline struct cuda_device *cuda_device_of(struct device *device)
{
    return (struct cuda_device *)device;
}

/* Remembers that the device is lost; later calls fail at once. */
void device_mark_lost(struct cuda_device *device, CUresult result);

/*
 * Every call begins with device_enter, which makes the context current where it is not, and after
 * success ends with device_leave on the same `pushed`.
 */
carat_status device_enter(struct cuda_device *device, bool *pushed);
void device_leave(struct cuda_device *device, bool pushed);

/* ---- Memory (memory.c) ---- */

/* Device memory; where there is too little, idle buffers of the device are given up first. */
carat_status memory_allocate(struct cuda_device *device, size_t bytes, CUdeviceptr *pointer);
carat_status memory_allocate_pinned(struct cuda_device *device, size_t bytes, void **pointer);

/* These and the two above may be called while some stream is being captured. */
carat_status memory_free(struct cuda_device *device, CUdeviceptr pointer);
carat_status memory_free_pinned(struct cuda_device *device, void *pointer);

/*
 * Between the two, this thread may allocate and load while some stream is being captured: those
 * calls are not part of the recording.
 */
carat_status capture_exempt_begin(struct cuda_device *device, CUstreamCaptureMode *mode);
void capture_exempt_end(CUstreamCaptureMode *mode);
carat_status stream_is_capturing(struct cuda_device *device, CUstream stream, bool *capturing);
/* Whether a stream that the default one waits for is being captured, be it by another thread: then nothing may be asked of that. */
bool default_stream_waits_for_capture(void);

/* Where a pointer points. */
enum place {
    PLACE_PAGEABLE, /* plain host memory */
    PLACE_PINNED,   /* host memory that the device can copy by itself */
    PLACE_DEVICE    /* device or managed memory */
};

/* With a name, the argument's, memory of another device is refused. */
carat_status pointer_place(struct cuda_device *device, const char *name, const void *pointer,
                           enum place *place);

/* ---- Workspace (workspace.c) ---- */

void workspace_pool_destroy(struct workspace_pool *pool);

/*
 * The pool's workspace of a stream, grown to at least bytes. It stays the pool's. Where it could not grow so far before,
 * the driver is not asked again.
 */
carat_status workspace_of_stream(struct cuda_device *device, CUstream stream, size_t bytes,
                                 CUdeviceptr *workspace);

/* There may be room again for what the pool could not get: the driver is asked for it the next time. */
void workspace_expect_room(struct cuda_device *device);

/* Frees the workspace of a stream that is about to be destroyed. */
carat_status workspace_drop(struct cuda_device *device, CUstream stream);

/* ---- Rows whose tiles the copy engine moves (tensor_map.c) ---- */

/* A stored matrix and the box in which it is moved. */
struct boxed {
    const void *address;
    struct extent extent;
    bool rounded; /* f32 to tf32 */
    int64_t box_rows;
    int64_t box_columns;
    CUtensorMapSwizzle swizzle;
};

/*
 * A map that was made for a plan's call, for later ones: where those differ in the address alone, as most do, it takes its new
 * address in a quarter of the time that making it takes. Written once, by whom it is that came first.
 */
struct kept_map {
    atomic_int state; /* enum kept_state, 0 at first */
    struct boxed matrix;
    uint64_t words[16]; /* as in tensor_map, whose alignment the memory of plans has not */
};

/* What is kept with a plan. */
struct plan_maps {
    struct kept_map a;
    struct kept_map b;
    struct kept_map d;
};

/*
 * Launches a row with TENSOR_MAPS=1 on a plan's product. tiles counts those of all clusters, parts and problems, as
 * arguments' tiles_m and tiles_n do; how many blocks share them is decided here. Of arguments gemm is set, the rest is set
 * here. handed is the plan's workspace for what clusters hand to each other, not used where there are no stream_tiles. maps is the
 * plan's, or NULL.
 */
carat_status tensor_launch(struct cuda_device *device, const struct kernel *kernel,
                           const struct problem *product, tensor_gemm_arguments *arguments, int64_t tiles,
                           int64_t stream_tiles, CUdeviceptr handed, struct plan_maps *maps, CUstream stream);

/* Whether the row's plain image computes all that a call asks for, of all of K in one part: see kernels/gemm/wgmma_plain.h. */
bool tensor_is_plain(const struct kernel *kernel, const struct problem *product,
                     const gemm_arguments *arguments);

/* The image that does what a call asks for, of all of K in one part, in the fewest instructions. */
enum kernel_image tensor_image(const struct kernel *kernel, const struct problem *product,
                               const gemm_arguments *arguments);

/* ---- Kernels (kernels.c) ---- */

/* The function of an image that the row has, loaded at first use. */
carat_status kernel_load(struct cuda_device *device, const struct kernel *kernel, enum kernel_image image,
                         CUfunction *function);
void kernels_unload(struct cuda_device *device);

/* Launches on the row's own block shape and shared memory: the whole image, or the one that is named. */
carat_status kernel_launch(struct cuda_device *device, const struct kernel *kernel, int64_t blocks,
                           const void *arguments, CUstream stream);
carat_status kernel_launch_image(struct cuda_device *device, const struct kernel *kernel,
                                 enum kernel_image image, int64_t blocks, const void *arguments,
                                 CUstream stream);

/* ---- What products of two planes have left to others (count_left.c) ---- */

/* The device's own count, of 8 bytes; made when first asked for. */
carat_status count_left_of(struct cuda_device *device, CUdeviceptr *count);
void count_left_free(struct cuda_device *device);

/* Whether so many bytes lie in the part of the calling thread's stack that its callers use (own_stack.c). */
bool is_on_own_stack(const void *pointer, size_t bytes);

/* ---- Running on device memory (launch.c) ---- */

/* The value where the scalar is in host memory, else its address. */
carat_status scalar_of(struct cuda_device *device, const char *name, carat_type type, const void *pointer,
                       scalar_argument *scalar);

/* Whether the scalar is known here, and 0 (of either sign). */
bool scalar_is_zero(const scalar_argument *scalar, carat_type type);

/* The operands of a product whose matrices and bias are in device memory. */
struct device_operands {
    scalar_argument alpha;
    scalar_argument beta;
    scalar_argument scale_a; /* 1 where the caller gave none */
    scalar_argument scale_b;
    scalar_argument scale_d;
    const void *a;
    const void *b;
    const void *c;
    void *d;
    const void *bias; /* NULL where there is none */
};

/* The scalars of a call, and its pointers as they are. */
carat_status operands_of(struct cuda_device *device, const struct problem *problem,
                         const struct operands *operands, struct device_operands *placed);

/* Puts the plan's steps on the stream; workspace has the plan's workspace_bytes. */
carat_status plan_launch(struct cuda_device *device, const struct plan *plan,
                         const struct device_operands *operands, CUdeviceptr workspace, CUstream stream);

carat_status scale_add_launch(struct cuda_device *device, const struct elementwise *work,
                              const scalar_argument *scale, const scalar_argument *shift, CUstream stream);
carat_status transpose_launch(struct cuda_device *device, const struct elementwise *work, CUstream stream);

/* ---- The functions of struct device_functions, a file each ---- */

carat_status cuda_query(struct device *device, carat_device_info *info);
carat_status cuda_allocate(struct device *device, carat_memory memory, size_t bytes, void **pointer);
carat_status cuda_release(struct device *device, void *pointer);
carat_status cuda_copy(struct device *device, void *to, const void *from, size_t bytes, void *stream);
carat_status cuda_prepare(struct device *device, const struct plan *plan);
carat_status cuda_count_safe(struct device *device, uint64_t *elements);
carat_status cuda_gemm(struct device *device, const struct plan *plan, const struct operands *operands,
                       const carat_run *run);
carat_status cuda_scale_add(struct device *device, const struct elementwise *work, const carat_run *run);
carat_status cuda_transpose(struct device *device, const struct elementwise *work, const carat_run *run);

#endif
