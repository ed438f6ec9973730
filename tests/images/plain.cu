/* plain.cu - a kernel that the build takes: see refusals.py. */
extern "C" __global__ void KERNEL_NAME(const float *from, float *to) { to[threadIdx.x] = from[threadIdx.x]; }
