/* setmaxnreg.cu - a change of registers that ptxas ignores, as the block's size is not known: see refusals.py. */
extern "C" __global__ void KERNEL_NAME(float *to)
{
    if (threadIdx.x < 128) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    }
    to[threadIdx.x] = 1;
}
