/*
 * carat.h - matrix multiplication on NVIDIA GPUs and on the CPU.
 *
 * This header is the whole public interface of Carat, and its manual. Carat computes
 *
 *     D = act(alpha * op(A) * op(B) + beta * C + bias)
 *
 * for one problem or a strided batch of them, and two operations that live around it: scale_add
 * (B = scale * A + shift) and transpose. Complex types are out of scope.
 *
 * The shortest program:
 *
 *     carat_context *carat;
 *     if (carat_context_create(CARAT_DEVICE_AUTO, 0, &carat) != CARAT_OK) {
 *         fprintf(stderr, "%s\n", carat_last_message());
 *         return 1;
 *     }
 *     carat_gemm_f32(carat, CARAT_ROW_MAJOR, CARAT_NO_TRANSPOSE, CARAT_NO_TRANSPOSE,
 *                    m, n, k, 1.0f, a, k, b, n, 0.0f, c, n);
 *     carat_context_destroy(carat);
 *
 * Conventions that hold for every function here
 *
 * Shapes      op(A) is m x k, op(B) is k x n, C and D are m x n. A dimension may be 0: with m, n or
 *             batch 0 there is nothing to do; with k = 0 or alpha = 0, D = act(beta * C + bias) and A and
 *             B are not read, nor are their scales used. With beta = 0, C is not read, whatever it
 *             holds (NaN included), and its pointer may be NULL.
 * Layout      Column-major: element (i, j) of a matrix stands at [i + j * ld]; row-major: at
 *             [i * ld + j]. A leading dimension (ld) counts elements and is at least the length of
 *             a stored column (column-major) or row (row-major), and at least 1. The stored matrix
 *             is the one before op: with CARAT_TRANSPOSE, A is stored k x m.
 * Aliasing    C and D may be the same buffer when ldc == ldd or D has but one column, in row-major order one
 *             row (and, in a batch, when the strides agree).
 *             D must not overlap A or B, nor C in any other way, nor the bias and the scalars. What is
 *             only read may overlap. Every element lies at a multiple of its size.
 * Memory      Matrices may be in host memory or in device memory; Carat asks the driver which. The
 *             matrices of one call (A, B, C, D) must be all of one kind, else the call is refused
 *             with CARAT_INVALID_ARGUMENT. alpha and beta may be in host or device memory each on
 *             its own; those in host memory are read before the call returns. Managed memory counts as
 *             device memory. Nothing is ever freed or kept on the caller's behalf.
 * Streams     A stream is a CUstream, which is also a cudaStream_t (PyTorch's and CuPy's streams
 *             are such), passed as void *; NULL is the legacy default stream. With all matrices in
 *             device memory a call puts its work on the stream and returns; errors of the device
 *             then show in a later call. With matrices in host memory the call returns when D is
 *             complete. On the CPU device every call is complete when it returns.
 * Graphs      A call on device memory may be captured into a CUDA graph, once the same problem has
 *             been planned (carat_plan_create, or one call before): then it neither allocates
 *             nor synchronizes. But one call loads the kernel that it runs alone; another alpha or beta, or matrices
 *             that lie at other multiples of their elements, may take another one, which the captured call then loads
 *             first (that is no part of the graph). carat_plan_create loads all that the problem, as
 *             described, may take. And where the plan needs workspace and is given none, the first capture
 *             on a stream allocates a buffer that lives as long as the context, and graphs captured on
 *             one stream share it, so do not run two of them at the same time. A stream that the driver
 *             gave the handle of one that is no more counts as the same, and so does the default stream
 *             of each thread (2): graphs of such that are to run side by side take run->workspace.
 *             Streams that are made and destroyed all the time either go by carat_stream_destroy, which gives their
 *             buffers back, or calls on them take run->workspace: the pool keeps a stream's buffer until then.
 * Threads     A context may be used by many threads at once, and so may a plan. Creating and
 *             destroying an object must not run beside other uses of that object.
 * Errors      A function returns CARAT_OK or a status; carat_last_message() then says, for the
 *             calling thread, what was wrong, with the name of the argument and the numbers. A
 *             call that fails in its checks has written nothing. Every function can return
 *             CARAT_INVALID_ARGUMENT (a NULL or wrong argument) and, while a CUDA device serves it,
 *             CARAT_DEVICE_LOST and CARAT_DEVICE_ERROR; what else it returns is said with it.
 * Numbers     The same call on the same device gives the same bits, run after run. Sums of f32 are
 *             f32 (fused multiply-adds where strict), sums of f64 are f64. Products of the smaller
 *             floats are exact; their sums are f32, where a tensor unit makes them cut off rather
 *             than rounded, and are rounded once, after all else, to nearest even. In best accuracy
 *             sums of all floats are f64. s32 and s8 sums wrap modulo 2^32. NaN and infinity go where
 *             that arithmetic takes them; denormals are kept.
 */
#ifndef CARAT_CARAT_H
#define CARAT_CARAT_H

#include <stddef.h>
#include <stdint.h>

#define CARAT_VERSION_MAJOR 0
#define CARAT_VERSION_MINOR 1
#define CARAT_VERSION_PATCH 0

#if defined(__GNUC__)
#define CARAT_API __attribute__((visibility("default")))
#else
#define CARAT_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Status -------------------------------------------------------------------------------- */

typedef enum carat_status {
    CARAT_OK = 0,
    CARAT_INVALID_ARGUMENT = 1,     /* an argument is wrong; the message names it */
    CARAT_UNSUPPORTED = 2,          /* a combination that this device or build cannot compute */
    CARAT_OUT_OF_HOST_MEMORY = 3,   /* malloc or pinned allocation failed */
    CARAT_OUT_OF_DEVICE_MEMORY = 4, /* the device has too little free memory */
    CARAT_WORKSPACE_TOO_SMALL = 5,  /* the caller's workspace is smaller than the plan needs */
    CARAT_NO_DRIVER = 6,            /* the CUDA driver library is not installed */
    CARAT_DRIVER_TOO_OLD = 7,       /* the driver is older than Carat needs */
    CARAT_NO_DEVICE = 8,            /* no such device */
    CARAT_DEVICE_LOST = 9,          /* the device failed in mid-work; its context is unusable */
    CARAT_DEVICE_ERROR = 10         /* any other refusal of the driver; the message has its name */
} carat_status;

/* The name of a status ("CARAT_OK", ...), or "unknown status". Static storage. */
CARAT_API const char *carat_status_name(carat_status status);

/*
 * What went wrong in the last call that failed in this thread; "" before the first. The text stays
 * valid until the next such call in the same thread.
 */
CARAT_API const char *carat_last_message(void);

/* The version of the library that runs, as "0.1.0"; compare with CARAT_VERSION_*. */
CARAT_API const char *carat_version(void);

/* ---- Contexts ------------------------------------------------------------------------------ */

typedef enum carat_device_kind {
    CARAT_DEVICE_AUTO = 0, /* the CUDA device of the given index if there is one, else the CPU */
    CARAT_DEVICE_CPU = 1,
    CARAT_DEVICE_CUDA = 2
} carat_device_kind;

/* A context: one device, its loaded kernels, its cached plans and its pool of workspace. */
typedef struct carat_context carat_context;

/*
 * Makes a context on device number index (from 0; the CPU is only 0) and stores it in *context,
 * which the caller destroys. A CUDA context lives in the device's primary context. On failure
 * *context is set to NULL. Errors: CARAT_NO_DRIVER, CARAT_DRIVER_TOO_OLD, CARAT_NO_DEVICE,
 * CARAT_UNSUPPORTED (a library built without CUDA, or a device older than compute capability 7.5),
 * CARAT_OUT_OF_HOST_MEMORY, CARAT_OUT_OF_DEVICE_MEMORY, CARAT_INVALID_ARGUMENT (also where the
 * environment's CARAT_TUNING names a file that is no table of 'carat tune'). CARAT_DEVICE_AUTO falls
 * back to the CPU only where there is no driver, no device, no CUDA in the build, or only a device
 * that is too old (an index other than 0 is then refused with CARAT_NO_DEVICE); a driver that is too
 * old is an error.
 */
CARAT_API carat_status carat_context_create(
    carat_device_kind kind,
    int index,
    carat_context **context);

/*
 * Waits for the work that the context has in flight and frees all that it owns. NULL is allowed.
 * Plans of the context must be destroyed before it, and no stream of the device may be being captured.
 */
CARAT_API void carat_context_destroy(carat_context *context);

/* ---- Devices ------------------------------------------------------------------------------- */

/*
 * How many devices of a kind there are: 1 for the CPU; for CUDA 0 where there is no driver; for
 * CARAT_DEVICE_AUTO those of CUDA, or 1 where there are none; 0 for a value that is no kind.
 */
CARAT_API int carat_device_count(carat_device_kind kind);

/* What is known of a device. A number that does not apply (the CPU's warp size) is 0. */
typedef struct carat_device_info {
    carat_device_kind kind;
    int index;
    char name[256];
    int driver_version; /* as CUDA counts: 13000 is 13.0 */
    int compute_capability_major;
    int compute_capability_minor;
    int multiprocessors; /* of the CPU: its logical cores */
    int warp_size;
    int max_threads_per_block;
    int max_threads_per_multiprocessor;
    int max_warps_per_multiprocessor;
    int max_blocks_per_multiprocessor;
    int max_block_dim[3];
    int64_t max_grid_dim[3];
    int registers_per_block; /* 32-bit registers */
    int registers_per_multiprocessor;
    int max_registers_per_thread;
    int register_allocation_unit;         /* registers, granted a warp at a time in this step */
    int warp_allocation_granularity;      /* warps, rounded up to this when registers are granted */
    int64_t shared_bytes_per_block;       /* without asking */
    int64_t shared_bytes_per_block_optin; /* with the dynamic limit raised */
    int64_t shared_bytes_per_multiprocessor;
    int64_t shared_bytes_reserved; /* by the runtime, in each block */
    int64_t l2_bytes;
    int64_t l2_persisting_bytes; /* the most that may be set aside */
    int64_t memory_bytes;
    int64_t memory_free_bytes;
    int memory_bus_bits;
    int memory_clock_khz;
    int core_clock_khz;
    int copy_engines;
} carat_device_info;

/* Fills *info for the context's device. */
CARAT_API carat_status carat_device_query(carat_context *context, carat_device_info *info);

/* ---- Element types ------------------------------------------------------------------------- */

typedef enum carat_type {
    CARAT_F32 = 1,
    CARAT_F64 = 2,
    CARAT_F16 = 3,  /* IEEE binary16, as uint16_t */
    CARAT_BF16 = 4, /* the upper half of a binary32, as uint16_t */
    CARAT_S32 = 5,
    CARAT_S8 = 6,
    CARAT_E4M3 = 7, /* 8-bit float, 4 bits of exponent: up to 448, NaN is 0x7f and 0xff, no infinity */
    CARAT_E5M2 = 8  /* 8-bit float, 5 bits of exponent: the upper half of a binary16. A and B only. */
} carat_type;

/* The bytes of one element; 0 for a value that is no type. */
CARAT_API size_t carat_type_size(carat_type type);

/* "f32", "f64", "f16", "bf16", "s32", "s8", "e4m3", "e5m2"; "unknown type" for any other value. */
CARAT_API const char *carat_type_name(carat_type type);

/*
 * The type of alpha, beta and of the sums for products whose C and D are of a type: f64 for f64, s32 for
 * s32, f32 for the rest. (s8 products are summed in s32 whatever C and D are.)
 */
CARAT_API carat_type carat_scalar_type(carat_type type_cd);

/* ---- The problem --------------------------------------------------------------------------- */

typedef enum carat_order { CARAT_COLUMN_MAJOR = 0, CARAT_ROW_MAJOR = 1 } carat_order;

typedef enum carat_op { CARAT_NO_TRANSPOSE = 0, CARAT_TRANSPOSE = 1 } carat_op;

/*
 * How exact the sums are. Of f32, u is 2^-24 (one rounding to f32 errs by at most u of the number), and |A||B| the
 * product of the absolute values. An error is that of an entry of op(A) op(B) over the same entry of |A||B|, where
 * nothing overflows or underflows. Every accuracy gives the same bits each time. See docs/accuracy.md.
 */
typedef enum carat_accuracy {
    /*
     * What the type's users expect. 8-bit floats: the tensor unit sums 128 products at a time, to about 13 bits
     * under their leading one, and f32 additions the rest. f16, bf16: sums of f32. f64: as strict.
     *
     * f32: all 24 bits of A and B count. Where that is quicker, the tensor unit multiplies A and B as three bf16
     * parts each, for k of 32 or more: the error is at most (22.5 + k/32) u (before Hopper 3 u more), below the
     * k u of a chain of fused multiply-adds. There is none where such a chain makes none: A or B the identity, a
     * permutation, rows of one 1, or small whole numbers. Of large products the parts take workspace, 6 bytes an
     * element of A and B; where that is over 8 GB, or than the call may take, D is computed in panels, or strictly.
     * What parts cannot hold is computed by fused multiply-adds, and the device itself decides that: infinities, NaN,
     * overflow and numbers next to 0 come out as f32 arithmetic gives them. All other products of f32 are strict.
     */
    CARAT_ACCURACY_STANDARD = 0,
    /*
     * f32, f64: fused multiply-adds in the type itself; the error of f32 is at most k u. 8-bit floats: multiplied
     * as f16, at half the speed, so that nothing but f32 additions rounds. All else: as standard.
     */
    CARAT_ACCURACY_STRICT = 1,
    /*
     * f32: A and B may be rounded to tf32 (11 bits), and signalling NaN with nothing in these count as infinity.
     * 8-bit floats: all sums as the tensor unit keeps them. All else: as standard. The CPU is as accurate as strict.
     */
    CARAT_ACCURACY_FAST = 2,
    /*
     * f32, f16, bf16, 8-bit floats: products are exact, all that follows is f64, and D is rounded once. The error is
     * at most that rounding, half a unit in the last place, and 4 * 2^-53 k |A||B|. Sums do not overflow before
     * D does. On devices with a tensor unit for f64, large A and B are widened first: 8 bytes an element of workspace.
     *
     * f64: sums are as of twice the precision, rounded once, then by alpha and beta; the error is at most that
     * rounding and 2 (2^-53 k)^2 |A||B|. It takes ten times as long, or more. s8 and s32: exact, as always.
     */
    CARAT_ACCURACY_BEST = 3,
    /*
     * f32: 22 bits of each element of A and B count, at about twice the speed of standard. Where that is quicker, the
     * tensor unit multiplies A and B as two f16 parts each, for k of 96 or more: the error is at most (32.5 + k/32) u.
     * f16 has few exponents, so A and B are scaled in blocks of 64 rows or columns by 64 of k, and tiles of D for
     * which that does not do are computed as standard does it: where elements of a block lie too far apart, so that
     * few make up a row or a column of it, and where they are beyond 2^50, or all below 2^-50. The device decides that
     * for a tile or two side by side; carat_count_safe() tells how often. Workspace as standard, and 4 bytes an
     * element of D / 512.
     *
     * All else: as standard.
     */
    CARAT_ACCURACY_CLOSE = 4
} carat_accuracy;

/*
 * What is added to a row or a column of D, and what is done to each element of it in the end. GELU and SiLU of
 * minus infinity are NaN, as their formulas say.
 */
typedef enum carat_bias {
    CARAT_BIAS_NONE = 0,
    CARAT_BIAS_PER_ROW = 1,   /* m numbers: number i is added to all of row i of D */
    CARAT_BIAS_PER_COLUMN = 2 /* n numbers: number j is added to all of column j */
} carat_bias;

typedef enum carat_activation {
    CARAT_ACTIVATION_NONE = 0,
    CARAT_ACTIVATION_RELU = 1,      /* x where x > 0, else 0; NaN stays NaN */
    CARAT_ACTIVATION_GELU_TANH = 2, /* x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) */
    CARAT_ACTIVATION_GELU_ERF = 3,  /* x/2 (1 + erf(x / sqrt(2))) */
    CARAT_ACTIVATION_SILU = 4       /* x / (1 + exp(-x)) */
} carat_activation;

/*
 * What to compute, and nothing of how. Start from carat_gemm_describe(), which fills every field,
 * and change what differs.
 */
typedef struct carat_gemm_problem {
    size_t struct_size; /* set by carat_gemm_describe(); zero is refused */
    carat_order order;  /* of all four matrices */
    carat_op op_a;
    carat_op op_b;
    carat_type type_a;
    carat_type type_b;  /* as type_a; 8-bit floats may be mixed */
    carat_type type_cd; /* the elements of C and D: see below */
    int64_t m;
    int64_t n;
    int64_t k;
    int64_t lda; /* leading dimensions, in elements; 0 means tightly packed */
    int64_t ldb;
    int64_t ldc;
    int64_t ldd;
    int64_t batch;    /* how many problems; 1 from carat_gemm_describe() */
    int64_t stride_a; /* elements from one problem's matrix to the next; 0 means the same matrix */
    int64_t stride_b;
    int64_t stride_c;
    int64_t stride_d; /* must keep the D of different problems apart */
    carat_accuracy accuracy;
    carat_bias bias;
    carat_type type_bias; /* carat_scalar_type(type_cd), or f16 or bf16 where that is f32 */
    int64_t stride_bias;  /* elements from one problem's bias to the next; 0 means the same */
    carat_activation activation;
} carat_gemm_problem;

/*
 * Which types go together:
 *
 *     A and B        C and D                    sums     alpha, beta
 *     f32            f32                        f32      f32
 *     f64            f64                        f64      f64
 *     f16            f16, f32                   f32      f32
 *     bf16           bf16, f32                  f32      f32
 *     e4m3, e5m2     bf16, f16, f32, e4m3       f32      f32      in every mix of the two
 *     s8             s32                        s32      s32
 *     s8             f32, s8                    s32      f32
 *     s32            s32                        s32      s32
 *
 * In full: D = round(scale_d * act(alpha * scale_a * scale_b * sum + beta * C + bias)), where the scales, one
 * number a matrix, are given with the call (carat_run), are for 8-bit A and B whose C and D are not s32, and are
 * 1 where they are not given. All of that is computed in the type of alpha and rounded once, to nearest even;
 * e4m3 and s8 results saturate at +-448 and at -128 and 127, and a NaN becomes NaN in e4m3 and 0 in s8. Sums
 * of s32 know no activation but ReLU.
 */

/*
 * One column-major problem without transposes, tightly packed, C and D of the type's own result: bf16 for
 * 8-bit floats, s32 for s8. Without bias (type_bias is what it would be by default) and activation.
 */
CARAT_API carat_gemm_problem carat_gemm_describe(carat_type type, int64_t m, int64_t n, int64_t k);

/* How a call runs. NULL in place of a pointer to it means all zero. */
typedef struct carat_run {
    void *stream;           /* CUstream; NULL is the default stream. Ignored by the CPU device. */
    void *workspace;        /* device memory, 256-byte aligned; NULL takes the context's pool. For matrices */
                            /* in host memory neither is used */
    size_t workspace_bytes; /* of workspace; for a plan at least what carat_plan_workspace() says */
    const void *bias;       /* type_bias, where the problem has a bias: in the kind of memory that D is in */
    const float *scale_a;   /* one number each, or NULL for 1: in device memory, or in host memory where */
    const float *scale_b;   /* it is read before the call returns */
    const float *scale_d;
} carat_run; /* a bias or a scale that the problem does not take is refused */

/*
 * Computes problem. alpha and beta point to one scalar of carat_scalar_type(type_cd), in host or
 * device memory. c may be NULL where beta is 0 in host memory; c == d is allowed.
 *
 * The context remembers the plan of a problem, so that a second call with the same problem does not
 * plan again. For the streams' and the pool's sake: the pool has a buffer a stream, so that calls
 * on different streams do not share workspace. Where run->workspace is smaller than the best plan needs, the
 * problem is planned with what there is. Where the pool cannot grow it is planned with less; the driver is not asked for as
 * much on that stream again until carat_plan_create, carat_stream_destroy or, for device memory, carat_release is called:
 * who has freed device memory in another way calls carat_plan_create. Neither changes what the accuracy promises.
 *
 * Errors: CARAT_UNSUPPORTED (types, bias or activation that do not go together, a problem larger than
 * a grid, one that this build has no kernel for on the device, or matrices in host memory while the
 * stream is being captured), CARAT_OUT_OF_HOST_MEMORY, CARAT_OUT_OF_DEVICE_MEMORY,
 * CARAT_WORKSPACE_TOO_SMALL (run->workspace, where no other way needs as little),
 * CARAT_DRIVER_TOO_OLD (for the build's kernels, when the first of them is loaded).
 */
CARAT_API carat_status carat_gemm(
    carat_context *context,
    const carat_gemm_problem *problem,
    const void *alpha,
    const void *a,
    const void *b,
    const void *beta,
    const void *c,
    void *d,
    const carat_run *run);

/* ---- Plans --------------------------------------------------------------------------------- */

/* How a problem will be computed: the kernels, in order, and the workspace they need. */
typedef struct carat_plan carat_plan;

/*
 * Plans a problem and makes ready what running it needs (kernels loaded, pool of the default stream
 * grown). Stores the plan in *plan, which the caller destroys before the context; NULL on failure.
 * Errors: as carat_gemm, but for what concerns a call's matrices, stream and workspace.
 */
CARAT_API carat_status carat_plan_create(
    carat_context *context,
    const carat_gemm_problem *problem,
    carat_plan **plan);

/* Frees the plan. Work already on a stream is not disturbed. NULL is allowed. */
CARAT_API void carat_plan_destroy(carat_plan *plan);

/* The bytes of workspace that running the plan on device memory needs; often 0. */
CARAT_API size_t carat_plan_workspace(const carat_plan *plan);

/*
 * One sentence that says how the plan computes and why, for people. It lives as long as the plan.
 */
CARAT_API const char *carat_plan_explain(const carat_plan *plan);

/*
 * Runs the plan, as carat_gemm does; but in device memory a run->workspace smaller than carat_plan_workspace() says is
 * always CARAT_WORKSPACE_TOO_SMALL. Where A and B are aligned otherwise than the plan was made for, another is made for them,
 * which takes the pool's workspace if it needs more than it is given. Errors: as carat_gemm.
 */
CARAT_API carat_status carat_plan_run(
    carat_plan *plan,
    const void *alpha,
    const void *a,
    const void *b,
    const void *beta,
    const void *c,
    void *d,
    const carat_run *run);

/*
 * Stores in *elements how many elements of D the context's products of CARAT_ACCURACY_CLOSE have not computed from two
 * parts but on the safe path, since the context was made: in calls and graphs that are done, whose streams the caller
 * has synchronized. 0 on the CPU, and where the plan has a path for all that needs no safe one.
 */
CARAT_API carat_status carat_count_safe(carat_context *context, uint64_t *elements);

/* ---- GEMM in the manner of CBLAS ----------------------------------------------------------- */

/*
 * C = alpha * op(A) * op(B) + beta * C, one call a type, on the default stream, with scalars by
 * value. f16 and bf16 matrices are arrays of uint16_t and take f32 scalars; s8 gives s32. Errors:
 * as carat_gemm.
 */
CARAT_API carat_status carat_gemm_f32(
    carat_context *context, carat_order order, carat_op op_a, carat_op op_b,
    int64_t m, int64_t n, int64_t k,
    float alpha, const float *a, int64_t lda, const float *b, int64_t ldb,
    float beta, float *c, int64_t ldc);

CARAT_API carat_status carat_gemm_f64(
    carat_context *context, carat_order order, carat_op op_a, carat_op op_b,
    int64_t m, int64_t n, int64_t k,
    double alpha, const double *a, int64_t lda, const double *b, int64_t ldb,
    double beta, double *c, int64_t ldc);

CARAT_API carat_status carat_gemm_f16(
    carat_context *context, carat_order order, carat_op op_a, carat_op op_b,
    int64_t m, int64_t n, int64_t k,
    float alpha, const uint16_t *a, int64_t lda, const uint16_t *b, int64_t ldb,
    float beta, uint16_t *c, int64_t ldc);

CARAT_API carat_status carat_gemm_bf16(
    carat_context *context, carat_order order, carat_op op_a, carat_op op_b,
    int64_t m, int64_t n, int64_t k,
    float alpha, const uint16_t *a, int64_t lda, const uint16_t *b, int64_t ldb,
    float beta, uint16_t *c, int64_t ldc);

CARAT_API carat_status carat_gemm_s32(
    carat_context *context, carat_order order, carat_op op_a, carat_op op_b,
    int64_t m, int64_t n, int64_t k,
    int32_t alpha, const int32_t *a, int64_t lda, const int32_t *b, int64_t ldb,
    int32_t beta, int32_t *c, int64_t ldc);

CARAT_API carat_status carat_gemm_s8(
    carat_context *context, carat_order order, carat_op op_a, carat_op op_b,
    int64_t m, int64_t n, int64_t k,
    int32_t alpha, const int8_t *a, int64_t lda, const int8_t *b, int64_t ldb,
    int32_t beta, int32_t *c, int64_t ldc);

/* ---- Around the product -------------------------------------------------------------------- */

/*
 * B = scale * A + shift, element by element, for an m x n matrix of f32, f64, f16 or bf16. The
 * arithmetic is one fused multiply-add in carat_scalar_type(type), rounded once; scale and shift
 * point to one such scalar each, in host or device memory. b == a with ldb == lda is allowed. Of run
 * only the stream counts; a bias and scales are refused. Errors: CARAT_UNSUPPORTED (another type, a
 * matrix larger than a grid, or host memory while the stream is being captured),
 * CARAT_OUT_OF_HOST_MEMORY, CARAT_OUT_OF_DEVICE_MEMORY, CARAT_DRIVER_TOO_OLD.
 */
CARAT_API carat_status carat_scale_add(
    carat_context *context,
    carat_order order,
    carat_type type,
    int64_t m,
    int64_t n,
    const void *scale,
    const void *a,
    int64_t lda,
    const void *shift,
    void *b,
    int64_t ldb,
    const carat_run *run);

/*
 * B = transpose of A, out of place, any type: A is m x n and B is n x m in the same order. A and B
 * must not overlap. run is as for carat_scale_add, and so are the errors.
 */
CARAT_API carat_status carat_transpose(
    carat_context *context,
    carat_order order,
    carat_type type,
    int64_t m,
    int64_t n,
    const void *a,
    int64_t lda,
    void *b,
    int64_t ldb,
    const carat_run *run);

/* ---- Memory and streams, for programs that do not bring their own -------------------------- */

typedef enum carat_memory {
    CARAT_MEMORY_DEVICE = 0, /* the device's own memory (of the CPU device: host memory) */
    CARAT_MEMORY_PINNED = 1  /* host memory that the device copies at the link's full rate */
} carat_memory;

/*
 * Allocates bytes (256-byte aligned; 0 gives NULL) and stores the address in *pointer; the caller
 * releases it before the context is destroyed. Errors: CARAT_OUT_OF_HOST_MEMORY,
 * CARAT_OUT_OF_DEVICE_MEMORY.
 */
CARAT_API carat_status carat_allocate(
    carat_context *context,
    carat_memory memory,
    size_t bytes,
    void **pointer);

/* Releases what carat_allocate of the same context gave. NULL is allowed. */
CARAT_API carat_status carat_release(carat_context *context, void *pointer);

/*
 * Copies bytes between any two places, in the order of the stream. Complete on return, unless both
 * ends are pinned or device memory. The two must not overlap.
 */
CARAT_API carat_status carat_copy(
    carat_context *context,
    void *to,
    const void *from,
    size_t bytes,
    void *stream);

/*
 * Makes a stream that does not wait for the default stream. The caller destroys it. On the CPU
 * device *stream is NULL. Errors: CARAT_OUT_OF_DEVICE_MEMORY.
 */
CARAT_API carat_status carat_stream_create(carat_context *context, void **stream);

/*
 * Destroys a stream, of carat_stream_create or another one of the device, once its work is done. NULL is allowed. Errors:
 * CARAT_OUT_OF_HOST_MEMORY (to keep workspace that graphs hold; the stream is destroyed all the same).
 */
CARAT_API carat_status carat_stream_destroy(carat_context *context, void *stream);

/* Waits until all work on the stream is done, and returns what became of it. */
CARAT_API carat_status carat_synchronize(carat_context *context, void *stream);

#ifdef __cplusplus
}
#endif

#endif
