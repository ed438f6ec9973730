/* spills.cu - more numbers alive than a thread of so large a block has registers: see refusals.py. */
extern "C" __global__ void __launch_bounds__(1024) KERNEL_NAME(const float *from, float *to)
{
    float x[128];
#pragma unroll
    for (int i = 0; i < 128; i++) {
        x[i] = from[threadIdx.x + 1024 * i];
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 128; i++) {
        to[threadIdx.x + 1024 * ((i * 7) % 128)] = x[i] * x[127 - i];
    }
}
