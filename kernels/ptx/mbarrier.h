/*
 * mbarrier.h - barriers in shared memory that count arrivals of threads and bytes of bulk copies or of other blocks' stores (PTX ISA,
 * "Parallel Synchronization and Communication Instructions: mbarrier"; sm_90).
 *
 * A barrier goes through phases. A phase ends when as many threads have arrived as it was made for and all bytes
 * that were announced have landed. Phases are told apart by their parity: the first one is 0, the next 1, then 0
 * again. Waiting for parity p returns once the phase of parity p is over, which is at once for parity 1 of
 * a new barrier.
 */
#ifndef CARAT_PTX_MBARRIER_H
#define CARAT_PTX_MBARRIER_H

#if __CUDA_ARCH__ >= 900

static __device__ inline void mbarrier_init(uint64_t *barrier, uint32_t arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals)
                 : "memory");
}

/* Makes new barriers known to the copy engine and to the other blocks of the cluster; a block barrier follows. */
static __device__ inline void mbarrier_init_fence(void)
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/* Of a barrier at that address of shared memory, where it is known. */
static __device__ inline void mbarrier_arrive_address(uint32_t barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
static __device__ inline void mbarrier_arrive(uint64_t *barrier)
{
    mbarrier_arrive_address(shared_address(barrier));
}

/* Arrives, and announces bytes that copies will bring in this phase. */
static __device__ inline void mbarrier_arrive_expect(uint32_t barrier, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
                 : "memory");
}

/* Arrives at a barrier of any block of the cluster, see cluster_address(). It says nothing of what this thread wrote. */
static __device__ inline void mbarrier_arrive_at(uint32_t barrier)
{
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/*
 * Waits until the phase of that parity is over. The loop is in the assembly: to the compiler's eyes all lanes leave
 * it together, which it has to believe of the code around wgmma.
 */
static __device__ inline void mbarrier_wait_address(uint32_t barrier, uint32_t parity)
{
    asm volatile("{\n"
                 ".reg .pred over;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\n"
                 "@!over bra again;\n"
                 "}" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
}
/* The same where what came was stored by threads of other blocks of the cluster. */
static __device__ inline void mbarrier_wait_cluster(uint32_t barrier, uint32_t parity)
{
    asm volatile("{\n"
                 ".reg .pred over;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 over, [%0], %1;\n"
                 "@!over bra again;\n"
                 "}" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
}
static __device__ inline void mbarrier_wait(uint64_t *barrier, uint32_t parity)
{
    mbarrier_wait_address(shared_address(barrier), parity);
}

#endif

#endif
