/* incomplete.c - a CUDA driver from before half of the functions that Carat uses. */
#include "../../src/cuda/driver_api.h"

__attribute__((visibility("default"))) CUresult cuInit(unsigned flags);
__attribute__((visibility("default"))) CUresult cuDriverGetVersion(int *version);

CUresult cuInit(unsigned flags)
{
    (void)flags;
    return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int *version)
{
    *version = 13000;
    return CUDA_SUCCESS;
}
