/*
 * nvcc_probe.cu - what kernels use of CUDA's words, all of it, for nvcc.cmake to see whether this nvcc gets along with
 * the header of kernels/nvcc. It is compiled and never run.
 */
extern "C" __global__ void probe(float4 *x, float2 *y, unsigned long long *count)
{
    __shared__ double2 here;
    size_t place = __cvta_generic_to_shared(&here);
    int first = __shfl_sync(~0U, __any_sync(~0U, threadIdx.x > 3), 0);
    __syncwarp();
    *(double *)__cvta_shared_to_generic(place) =
        fma(erfc(exp(__dmul_rn(first, 2))), fabs(__dadd_rn(1, 2)), __dsub_rn(1, 2));
    memcpy(x + 1, __cvta_global_to_generic(place), __byte_perm(first, __vneg4(3), __float_as_uint(2)) % 16);
    __stcg(y, __ldg(y));
    float z = fmaf(__ldg(x).x, fabsf(__ldcg(y).x), __shfl_xor_sync(~0U, y[threadIdx.x].y, 1));
    z = __fadd_rn(z, __fsub_rn(z, __fmul_rn(z, __int_as_float(__float_as_int(fmaxf(z, 2))))));
    __syncthreads();
    x[blockIdx.x] = make_float4(z, rintf(z), fminf(z, 1), __uint_as_float(3));
    atomicAdd(count, isnan(z) ? 1ULL : 2ULL);
}
