/* plain_wgmma.cu - matrix instructions and a change of registers that the build takes: see refusals.py. */
#include <stdint.h>

extern "C" __global__ void __launch_bounds__(256, 1) KERNEL_NAME(float *to, uint64_t a, uint64_t b)
{
    float d[4] = {0, 0, 0, 0};
    if (threadIdx.x < 128) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "l"(a), "l"(b));
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])::"memory");
    for (int i = 0; i < 4; i++) {
        to[threadIdx.x * 4 + i] = d[i];
    }
}
