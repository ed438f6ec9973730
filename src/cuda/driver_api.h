/*
 * driver_api.h - the part of the CUDA driver API that Carat uses, declared here so that the library
 * builds without CUDA and runs with whatever driver it finds. Names and values are the driver's own.
 */
#ifndef CARAT_CUDA_DRIVER_API_H
#define CARAT_CUDA_DRIVER_API_H

#include <stddef.h>

typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;

typedef enum CUresult {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_INVALID_VALUE = 1,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_NOT_INITIALIZED = 3,
    CUDA_ERROR_DEINITIALIZED = 4,
    CUDA_ERROR_STUB_LIBRARY = 34,
    CUDA_ERROR_DEVICE_UNAVAILABLE = 46,
    CUDA_ERROR_NO_DEVICE = 100,
    CUDA_ERROR_INVALID_DEVICE = 101,
    CUDA_ERROR_INVALID_IMAGE = 200,
    CUDA_ERROR_INVALID_CONTEXT = 201,
    CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
    CUDA_ERROR_ECC_UNCORRECTABLE = 214,
    CUDA_ERROR_NVLINK_UNCORRECTABLE = 220,
    CUDA_ERROR_JIT_COMPILER_NOT_FOUND = 221,
    CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222,
    CUDA_ERROR_CONTAINED = 226,
    CUDA_ERROR_INVALID_HANDLE = 400,
    CUDA_ERROR_NOT_FOUND = 500,
    CUDA_ERROR_NOT_READY = 600,
    CUDA_ERROR_ILLEGAL_ADDRESS = 700,
    CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701,
    CUDA_ERROR_LAUNCH_TIMEOUT = 702,
    CUDA_ERROR_CONTEXT_IS_DESTROYED = 709,
    CUDA_ERROR_ASSERT = 710,
    CUDA_ERROR_HARDWARE_STACK_ERROR = 714,
    CUDA_ERROR_ILLEGAL_INSTRUCTION = 715,
    CUDA_ERROR_MISALIGNED_ADDRESS = 716,
    CUDA_ERROR_INVALID_ADDRESS_SPACE = 717,
    CUDA_ERROR_INVALID_PC = 718,
    CUDA_ERROR_LAUNCH_FAILED = 719,
    CUDA_ERROR_TENSOR_MEMORY_LEAK = 721,
    CUDA_ERROR_SYSTEM_DRIVER_MISMATCH = 803,
    CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
    CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901,
    CUDA_ERROR_STREAM_CAPTURE_UNMATCHED = 903,
    CUDA_ERROR_STREAM_CAPTURE_IMPLICIT = 906,
    CUDA_ERROR_EXTERNAL_DEVICE = 911,
    CUDA_ERROR_UNKNOWN = 999
} CUresult;

typedef enum CUdevice_attribute {
    CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1,
    CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X = 2,
    CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y = 3,
    CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z = 4,
    CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X = 5,
    CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y = 6,
    CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z = 7,
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK = 8,
    CU_DEVICE_ATTRIBUTE_WARP_SIZE = 10,
    CU_DEVICE_ATTRIBUTE_MAX_PITCH = 11,
    CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK = 12,
    CU_DEVICE_ATTRIBUTE_CLOCK_RATE = 13,
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
    CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE = 36,
    CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH = 37,
    CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE = 38,
    CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR = 39,
    CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT = 40,
    CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING = 41,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = 81,
    CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR = 82,
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
    CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR = 106,
    CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE = 108,
    CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK = 111
} CUdevice_attribute;

/* Of a pointer that the driver does not know, all of these are 0 and no error. */
typedef enum CUpointer_attribute {
    CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,   /* unsigned: a CUmemorytype */
    CU_POINTER_ATTRIBUTE_IS_MANAGED = 8,    /* unsigned: 1 or 0 */
    CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9 /* int */
} CUpointer_attribute;

typedef enum CUmemorytype {
    CU_MEMORYTYPE_HOST = 1,
    CU_MEMORYTYPE_DEVICE = 2,
    CU_MEMORYTYPE_ARRAY = 3,
    CU_MEMORYTYPE_UNIFIED = 4
} CUmemorytype;

typedef enum CUfunction_attribute {
    CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0,
    CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1,
    CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES = 3,
    CU_FUNC_ATTRIBUTE_NUM_REGS = 4,
    CU_FUNC_ATTRIBUTE_PTX_VERSION = 5, /* of the virtual architecture that the code was compiled from */
    CU_FUNC_ATTRIBUTE_BINARY_VERSION = 6,
    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8
} CUfunction_attribute;

typedef enum CUstreamCaptureStatus {
    CU_STREAM_CAPTURE_STATUS_NONE = 0,
    CU_STREAM_CAPTURE_STATUS_ACTIVE = 1,
    CU_STREAM_CAPTURE_STATUS_INVALIDATED = 2
} CUstreamCaptureStatus;

typedef enum CUstreamCaptureMode {
    CU_STREAM_CAPTURE_MODE_GLOBAL = 0,
    CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1,
    CU_STREAM_CAPTURE_MODE_RELAXED = 2
} CUstreamCaptureMode;

#define CU_STREAM_NON_BLOCKING 1u /* cuStreamCreate */
#define CU_EVENT_DEFAULT 0u       /* cuEventCreate */
#define CU_EVENT_BLOCKING_SYNC 1u
#define CU_EVENT_DISABLE_TIMING 2u
#define CU_MEMHOSTALLOC_PORTABLE 1u /* cuMemHostAlloc */

/* A rectangle of Height rows of WidthInBytes; what Carat calls a column is a row here. */
typedef struct CUDA_MEMCPY2D {
    size_t srcXInBytes;
    size_t srcY;
    CUmemorytype srcMemoryType;
    const void *srcHost;
    CUdeviceptr srcDevice;
    void *srcArray;
    size_t srcPitch;
    size_t dstXInBytes;
    size_t dstY;
    CUmemorytype dstMemoryType;
    void *dstHost;
    CUdeviceptr dstDevice;
    void *dstArray;
    size_t dstPitch;
    size_t WidthInBytes;
    size_t Height;
} CUDA_MEMCPY2D;

/* How cuTensorMapEncodeTiled is told of a matrix. */
typedef enum CUtensorMapDataType {
    CU_TENSOR_MAP_DATA_TYPE_UINT8 = 0,
    CU_TENSOR_MAP_DATA_TYPE_UINT16 = 1,
    CU_TENSOR_MAP_DATA_TYPE_UINT32 = 2,
    CU_TENSOR_MAP_DATA_TYPE_UINT64 = 4,
    CU_TENSOR_MAP_DATA_TYPE_TFLOAT32 = 11 /* f32 that is rounded to tf32 on its way */
} CUtensorMapDataType;

typedef enum CUtensorMapInterleave { CU_TENSOR_MAP_INTERLEAVE_NONE = 0 } CUtensorMapInterleave;
typedef enum CUtensorMapSwizzle {
    CU_TENSOR_MAP_SWIZZLE_64B = 2,
    CU_TENSOR_MAP_SWIZZLE_128B = 3
} CUtensorMapSwizzle;
typedef enum CUtensorMapL2promotion { CU_TENSOR_MAP_L2_PROMOTION_L2_128B = 2 } CUtensorMapL2promotion;
typedef enum CUtensorMapFloatOOBfill { CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE = 0 } CUtensorMapFloatOOBfill;

/* cuLaunchKernelEx */
typedef enum CUlaunchAttributeID {
    CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6 /* value: int, 1 */
} CUlaunchAttributeID;

typedef struct CUlaunchAttribute {
    CUlaunchAttributeID id;
    char pad[8 - sizeof(CUlaunchAttributeID)];
    union {
        char pad[64];
        int programmaticStreamSerializationAllowed;
    } value;
} CUlaunchAttribute;

typedef struct CUlaunchConfig {
    unsigned gridDimX;
    unsigned gridDimY;
    unsigned gridDimZ;
    unsigned blockDimX;
    unsigned blockDimY;
    unsigned blockDimZ;
    unsigned sharedMemBytes;
    CUstream hStream;
    CUlaunchAttribute *attrs;
    unsigned numAttrs;
} CUlaunchConfig;

/* Every function that Carat calls: X(name, parameters), each returning CUresult. */
#define CARAT_DRIVER_FUNCTIONS(X)                                                                            \
    X(cuInit, (unsigned flags))                                                                              \
    X(cuDriverGetVersion, (int *version))                                                                    \
    X(cuGetErrorName, (CUresult error, const char **name))                                                   \
    X(cuGetErrorString, (CUresult error, const char **text))                                                 \
    X(cuDeviceGetCount, (int *count))                                                                        \
    X(cuDeviceGet, (CUdevice * device, int index))                                                           \
    X(cuDeviceGetName, (char *name, int size, CUdevice device))                                              \
    X(cuDeviceGetAttribute, (int *value, CUdevice_attribute attribute, CUdevice device))                     \
    X(cuDeviceGetPCIBusId, (char *address, int size, CUdevice device))                                       \
    X(cuDeviceTotalMem_v2, (size_t * bytes, CUdevice device))                                                \
    X(cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device))                                      \
    X(cuDevicePrimaryCtxRelease_v2, (CUdevice device))                                                       \
    X(cuCtxGetCurrent, (CUcontext * context))                                                                \
    X(cuCtxPushCurrent_v2, (CUcontext context))                                                              \
    X(cuCtxPopCurrent_v2, (CUcontext * context))                                                             \
    X(cuCtxSynchronize, (void))                                                                              \
    X(cuMemGetInfo_v2, (size_t * free_bytes, size_t * total_bytes))                                          \
    X(cuMemAlloc_v2, (CUdeviceptr * pointer, size_t bytes))                                                  \
    X(cuMemFree_v2, (CUdeviceptr pointer))                                                                   \
    X(cuMemHostAlloc, (void **pointer, size_t bytes, unsigned flags))                                        \
    X(cuMemFreeHost, (void *pointer))                                                                        \
    X(cuMemcpyAsync, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))                      \
    X(cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D *copy, CUstream stream))                                      \
    X(cuMemsetD8Async, (CUdeviceptr pointer, unsigned char byte, size_t bytes, CUstream stream))             \
    X(cuPointerGetAttributes,                                                                                \
      (unsigned count, CUpointer_attribute *attributes, void **values, CUdeviceptr pointer))                 \
    X(cuStreamCreate, (CUstream * stream, unsigned flags))                                                   \
    X(cuStreamDestroy_v2, (CUstream stream))                                                                 \
    X(cuStreamSynchronize, (CUstream stream))                                                                \
    X(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags))                                   \
    X(cuStreamGetId, (CUstream stream, unsigned long long *id))                                              \
    X(cuStreamIsCapturing, (CUstream stream, CUstreamCaptureStatus * status))                                \
    X(cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode mode))                                  \
    X(cuStreamEndCapture, (CUstream stream, CUgraph * graph))                                                \
    X(cuThreadExchangeStreamCaptureMode, (CUstreamCaptureMode * mode))                                       \
    X(cuGraphInstantiateWithFlags, (CUgraphExec * executable, CUgraph graph, unsigned long long flags))      \
    X(cuGraphLaunch, (CUgraphExec executable, CUstream stream))                                              \
    X(cuGraphDestroy, (CUgraph graph))                                                                       \
    X(cuGraphExecDestroy, (CUgraphExec executable))                                                          \
    X(cuEventCreate, (CUevent * event, unsigned flags))                                                      \
    X(cuEventDestroy_v2, (CUevent event))                                                                    \
    X(cuEventRecord, (CUevent event, CUstream stream))                                                       \
    X(cuEventSynchronize, (CUevent event))                                                                   \
    X(cuEventElapsedTime, (float *milliseconds, CUevent begin, CUevent end))                                 \
    X(cuModuleLoadData, (CUmodule * module, const void *image))                                              \
    X(cuModuleUnload, (CUmodule module))                                                                     \
    X(cuModuleGetFunction, (CUfunction * function, CUmodule module, const char *name))                       \
    X(cuFuncSetAttribute, (CUfunction function, CUfunction_attribute attribute, int value))                  \
    X(cuFuncGetAttribute, (int *value, CUfunction_attribute attribute, CUfunction function))                 \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessor,                                                           \
      (int *blocks, CUfunction function, int threads, size_t shared_bytes))                                  \
    X(cuLaunchKernelEx, (const CUlaunchConfig *config, CUfunction function, void **arguments, void **extra)) \
    X(cuTensorMapEncodeTiled,                                                                                \
      (void *map, CUtensorMapDataType type, unsigned rank, void *address, const unsigned long long *lengths, \
       const unsigned long long *strides, const unsigned *box, const unsigned *element_strides,              \
       CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,       \
       CUtensorMapFloatOOBfill fill))                                                                        \
    X(cuTensorMapReplaceAddress, (void *map, void *address))

#endif
