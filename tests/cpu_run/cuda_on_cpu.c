/*
 * cuda_on_cpu.c - runs a launch: blocks one after another in a shuffled order, a block's threads as
 * coroutines that run from barrier to barrier in a shuffled order.
 *
 *     thread 0  ----| barrier                |------|
 *     thread 1           ----| barrier  |----|              time -->
 *     thread 2  drawn in another order every time
 *
 * A missing barrier then shows as a wrong result with overwhelming probability, and on every run with the
 * same seed alike. One launch runs at a time in the process.
 */
#include "cuda_on_cpu.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "chance.h"
#include "cpu_run.h"

#if defined(__SANITIZE_ADDRESS__)
#define CHECKED_ADDRESSES 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CHECKED_ADDRESSES 1
#endif
#endif

#ifdef CHECKED_ADDRESSES
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#define WARP 32
#define MOST_THREADS 1024
#define STACK_BYTES (128 * 1024)
#define POISON 0xff /* a NaN in every floating type, -1 in every integer */

cuda_index threadIdx;
cuda_index blockIdx;
cuda_index blockDim;
cuda_index gridDim;

enum state { READY, WAITS_FOR_WARP, WAITS_FOR_BLOCK, DONE };

/* An asynchronous copy that has not landed. */
struct copy {
    unsigned char *to;
    const unsigned char *from;
    int bytes;
    int valid;
    int64_t group;
};

struct thread {
    void *stack;         /* its lowest address */
    void *stack_pointer; /* while it does not run */
    void *fake_stack;    /* AddressSanitizer's */
    enum state state;
    int line; /* of the barrier it waits at */
    struct copy *copies;
    int copy_count;
    int copy_room;
    int64_t group; /* of the copies that are issued now */
    int turn;      /* which of its two fragments it brought to its warp's last instruction */
};

/* What a lane brings to an instruction of its warp: its part of a product's factors, a row to load, or a word. */
struct fragment {
    double a[16];
    double b[8];
    const unsigned char *row;
    uint32_t word;
};

static struct {
    const struct cpu_kernel *kernel;
    const void *arguments;
    unsigned char *dynamic_shared;
    size_t dynamic_shared_bytes;
    uint64_t random;
    int late;    /* of 4 copies, how many wait beyond their issue */
    int count;   /* of threads in a block */
    int current; /* the thread that runs */
    void *scheduler_stack_pointer;
    void *scheduler_fake_stack;
    const void *scheduler_stack;
    size_t scheduler_stack_bytes;
    struct fragment fragments[2][MOST_THREADS];
} run;

static struct thread threads[MOST_THREADS];

/* ---- Chance --------------------------------------------------------------------------------- */

static uint32_t draw_below(uint32_t bound) { return chance_below(&run.random, bound); }

static void shuffle(uint32_t *order, uint32_t count)
{
    for (uint32_t i = 0; i < count; ++i) {
        uint32_t j = draw_below(i + 1);
        order[i] = order[j];
        order[j] = i;
    }
}

/* ---- Faults --------------------------------------------------------------------------------- */

__attribute__((format(printf, 1, 2), noreturn)) static void fault(const char *format, ...)
{
    va_list values;
    fprintf(stderr, "kernel %s, block %u,%u,%u: ", run.kernel->name, blockIdx.x, blockIdx.y, blockIdx.z);
    va_start(values, format);
    vfprintf(stderr, format, values);
    va_end(values);
    fputc('\n', stderr);
    abort();
}

/* ---- Coroutines ----------------------------------------------------------------------------- */

/*
 * Saves the registers that a call preserves on this stack, stores the stack pointer in *save, and goes on
 * with the stack at load, which was left in the same way.
 */
void cuda_switch_stack(void **save, void *load);

#if defined(__x86_64__)
__asm__(".text\n"
        ".globl cuda_switch_stack\n"
        ".hidden cuda_switch_stack\n"
        ".type cuda_switch_stack, @function\n"
        "cuda_switch_stack:\n"
        "    pushq %rbp\n    pushq %rbx\n    pushq %r12\n    pushq %r13\n    pushq %r14\n    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n    popq %r14\n    popq %r13\n    popq %r12\n    popq %rbx\n    popq %rbp\n"
        "    ret\n"
        ".size cuda_switch_stack, . - cuda_switch_stack\n");

/* A stack that looks as if main_of_thread had been about to begin: six registers, then where to return. */
static void *fresh_stack(void *top, void (*begin)(void))
{
    void **at = (void **)top - 2; /* one word of padding: a function begins with its stack at 16 n + 8 */
    *at = (void *)begin;
    at -= 6;
    memset(at, 0, 6 * sizeof *at);
    return at;
}
#else
#include <ucontext.h>

/* Elsewhere the C library switches; a stack pointer is then a pointer to a context. */
void cuda_switch_stack(void **save, void *load)
{
    ucontext_t here;
    *save = &here;
    swapcontext(&here, load);
}

static void *fresh_stack(void *top, void (*begin)(void))
{
    ucontext_t *context = (ucontext_t *)top - 1;
    getcontext(context);
    context->uc_stack.ss_sp = (char *)top - STACK_BYTES;
    context->uc_stack.ss_size = STACK_BYTES - sizeof *context - 256;
    context->uc_link = NULL;
    makecontext(context, begin, 0);
    return context;
}
#endif

static void resume(int index)
{
    struct thread *thread = &threads[index];
    run.current = index;
    threadIdx.x = (unsigned int)index % blockDim.x;
    threadIdx.y = (unsigned int)index / blockDim.x % blockDim.y;
    threadIdx.z = (unsigned int)index / blockDim.x / blockDim.y;
#ifdef CHECKED_ADDRESSES
    __sanitizer_start_switch_fiber(&run.scheduler_fake_stack, thread->stack, STACK_BYTES);
#endif
    cuda_switch_stack(&run.scheduler_stack_pointer, thread->stack_pointer);
#ifdef CHECKED_ADDRESSES
    __sanitizer_finish_switch_fiber(run.scheduler_fake_stack, NULL, NULL);
#endif
}

/* Back to the scheduler, until it resumes this thread. */
static void leave(enum state state, int line)
{
    struct thread *thread = &threads[run.current];
    thread->state = state;
    thread->line = line;
#ifdef CHECKED_ADDRESSES
    __sanitizer_start_switch_fiber(&thread->fake_stack, run.scheduler_stack, run.scheduler_stack_bytes);
#endif
    cuda_switch_stack(&thread->stack_pointer, run.scheduler_stack_pointer);
#ifdef CHECKED_ADDRESSES
    __sanitizer_finish_switch_fiber(thread->fake_stack, &run.scheduler_stack, &run.scheduler_stack_bytes);
#endif
}

static void land_copies(struct thread *thread, int64_t last_group);
static void refuse_stores_under_way(const struct thread *thread);

/* What a coroutine does all its life: be a thread of one block after another. */
static void main_of_thread(void)
{
#ifdef CHECKED_ADDRESSES
    __sanitizer_finish_switch_fiber(NULL, &run.scheduler_stack, &run.scheduler_stack_bytes);
#endif
    for (;;) {
        run.kernel->run(run.arguments);
        refuse_stores_under_way(&threads[run.current]);
        land_copies(&threads[run.current], INT64_MAX);
        leave(DONE, 0);
    }
}

/* Stacks are kept for later launches, and never returned: there are at most MOST_THREADS. */
static void make_thread(struct thread *thread)
{
    if (thread->stack) {
        return;
    }
    size_t guard = 4096;
    unsigned char *memory = mmap(NULL, STACK_BYTES + guard, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory, guard, PROT_NONE)) {
        perror("memory for the stack of a kernel's thread");
        abort();
    }
    thread->stack = memory + guard;
    thread->stack_pointer = fresh_stack(memory + guard + STACK_BYTES, main_of_thread);
}

/* ---- Barriers ------------------------------------------------------------------------------- */

static void land_some_copies(struct thread *thread);

void cuda_wait_for_block(int line)
{
    land_some_copies(&threads[run.current]);
    leave(WAITS_FOR_BLOCK, line);
}

void cuda_wait_for_warp(int line) { leave(WAITS_FOR_WARP, line); }

/* Lets a warp go on whose threads have all come to the same barrier of the warp. */
static bool release_warp(int first)
{
    int end = first + WARP < run.count ? first + WARP : run.count;
    for (int i = first; i < end; ++i) {
        if (threads[i].state != WAITS_FOR_WARP || threads[i].line != threads[first].line) {
            return false;
        }
    }
    for (int i = first; i < end; ++i) {
        threads[i].state = READY;
    }
    return true;
}

/* Lets the block go on: true when all threads wait at one barrier, false when all are done. */
static bool release_block(void)
{
    const struct thread *first = &threads[0];
    for (int i = 1; i < run.count; ++i) {
        const struct thread *thread = &threads[i];
        if (thread->state == first->state && thread->line == first->line) {
            continue;
        }
        static const char *const does[] = {"runs", "waits for its warp", "waits for its block",
                                           "has returned"};
        fault("the threads diverge: thread 0 %s (line %d), thread %d %s (line %d)", does[first->state],
              first->line, i, does[thread->state], thread->line);
    }
    if (first->state == WAITS_FOR_WARP) {
        fault("the threads wait for their warp at line %d, and a thread of it is missing", first->line);
    }
    for (int i = 0; i < run.count; ++i) {
        threads[i].state = first->state == DONE ? DONE : READY;
    }
    return first->state != DONE;
}

/* All threads together, in a shuffled order, as far as they come. */
static void run_interleaved(void)
{
    uint32_t order[MOST_THREADS];
    bool again = true;
    while (again) {
        shuffle(order, (uint32_t)run.count);
        for (int i = 0; i < run.count; ++i) {
            if (threads[order[i]].state == READY) {
                resume((int)order[i]);
            }
        }
        again = false;
        for (int first = 0; first < run.count; first += WARP) {
            again |= release_warp(first);
        }
    }
}

/* One warp after another, in a shuffled order, each as far ahead as it comes. */
static void run_by_warps(void)
{
    uint32_t warps[MOST_THREADS / WARP];
    uint32_t order[WARP];
    uint32_t warp_count = (uint32_t)(run.count + WARP - 1) / WARP;
    shuffle(warps, warp_count);
    for (uint32_t w = 0; w < warp_count; ++w) {
        int first = (int)warps[w] * WARP;
        int lanes = first + WARP < run.count ? WARP : run.count - first;
        do {
            shuffle(order, (uint32_t)lanes);
            for (int i = 0; i < lanes; ++i) {
                int index = first + (int)order[i];
                if (threads[index].state == READY) {
                    resume(index);
                }
            }
        } while (release_warp(first));
    }
}

/* ---- Launches ------------------------------------------------------------------------------- */

/* Writes over the spaces between variables too, where the sanitizer allows no one else. */
__attribute__((no_sanitize("address"))) static void poison(unsigned char *begin, const unsigned char *end)
{
    for (volatile unsigned char *at = begin; at < end; ++at) {
        *at = POISON;
    }
}

static void run_block(uint64_t index)
{
    blockIdx.x = (unsigned int)(index % gridDim.x);
    blockIdx.y = (unsigned int)(index / gridDim.x % gridDim.y);
    blockIdx.z = (unsigned int)(index / gridDim.x / gridDim.y);
    poison(run.kernel->shared_begin, run.kernel->shared_end);
    poison(run.dynamic_shared, run.dynamic_shared + run.dynamic_shared_bytes);
    run.late = (int)draw_below(5);
    for (int i = 0; i < run.count; ++i) {
        threads[i].state = READY;
        threads[i].copy_count = 0;
        threads[i].group = 0;
        threads[i].turn = 0;
    }
    do {
        if (draw_below(2)) {
            run_interleaved();
        } else {
            run_by_warps();
        }
    } while (release_block());
}

void cpu_run(const struct cpu_kernel *kernel, const struct cpu_launch *launch, const void *arguments)
{
    static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&one_at_a_time);

    run.kernel = kernel;
    run.arguments = arguments;
    run.random = launch->seed;
    gridDim = (cuda_index){launch->grid[0], launch->grid[1], launch->grid[2]};
    blockDim = (cuda_index){launch->block[0], launch->block[1], launch->block[2]};
    uint64_t block_threads = (uint64_t)blockDim.x * blockDim.y * blockDim.z;
    uint64_t blocks = (uint64_t)gridDim.x * gridDim.y * gridDim.z;
    if (block_threads < 1 || block_threads > MOST_THREADS || blocks < 1 || blocks > UINT32_MAX) {
        fault("a launch of %llu blocks of %llu threads", (unsigned long long)blocks,
              (unsigned long long)block_threads);
    }
    run.count = (int)block_threads;

    /* The least alignment that CUDA promises for what DYNAMIC_SHARED declares. */
    run.dynamic_shared_bytes = launch->dynamic_shared_bytes;
    void *dynamic_shared = NULL;
    uint32_t *order = malloc(blocks * sizeof *order);
    if (!order ||
        posix_memalign(&dynamic_shared, 128, run.dynamic_shared_bytes + !run.dynamic_shared_bytes)) {
        fault("no memory for the launch");
    }
    run.dynamic_shared = dynamic_shared;
    for (int i = 0; i < run.count; ++i) {
        make_thread(&threads[i]);
    }
    shuffle(order, (uint32_t)blocks);
    for (uint64_t i = 0; i < blocks; ++i) {
        run_block(order[i]);
    }
    for (int i = 0; i < run.count; ++i) {
        free(threads[i].copies);
        threads[i].copies = NULL;
        threads[i].copy_room = 0;
    }
    free(order);
    free(dynamic_shared);
    pthread_mutex_unlock(&one_at_a_time);
}

void *cuda_dynamic_shared(void) { return run.dynamic_shared; }

const struct cpu_kernel *cpu_kernel_find(const char *name)
{
    for (int i = 0; i < cpu_kernel_count; ++i) {
        if (!strcmp(cpu_kernels[i]->name, name)) {
            return cpu_kernels[i];
        }
    }
    return NULL;
}

/* ---- Asynchronous copies -------------------------------------------------------------------- */

static void land(const struct copy *copy)
{
    if (copy->valid) {
        memcpy(copy->to, copy->from, (size_t)copy->valid);
    }
    memset(copy->to + copy->valid, 0, (size_t)(copy->bytes - copy->valid));
}

/* Lands the copy at index, whose place the last one takes. */
static void land_at(struct thread *thread, int index)
{
    struct copy copy = thread->copies[index];
    thread->copies[index] = thread->copies[--thread->copy_count];
    land(&copy);
}

/* Lands the copies of the groups up to the last one, in a shuffled order. */
static void land_copies(struct thread *thread, int64_t last_group)
{
    int in_question = thread->copy_count;
    while (in_question) {
        int index = (int)draw_below((uint32_t)in_question);
        if (thread->copies[index].group <= last_group) {
            struct copy copy = thread->copies[index];
            thread->copies[index] = thread->copies[--in_question];
            thread->copies[in_question] = thread->copies[--thread->copy_count];
            land(&copy);
        } else {
            struct copy later = thread->copies[index];
            thread->copies[index] = thread->copies[--in_question];
            thread->copies[in_question] = later;
        }
    }
}

static void land_some_copies(struct thread *thread)
{
    for (int i = thread->copy_count - 1; i >= 0; --i) {
        if ((int)draw_below(4) >= run.late) {
            land_at(thread, i);
        }
    }
}

static bool is_shared(const unsigned char *from, uint32_t bytes)
{
    const unsigned char *end = from + bytes;
    return (from >= run.dynamic_shared && end <= run.dynamic_shared + run.dynamic_shared_bytes) ||
           (from >= run.kernel->shared_begin && end <= run.kernel->shared_end);
}

/* Lands a copy of this thread, or keeps it for later. */
static void begin_copy(struct copy copy)
{
    struct thread *thread = &threads[run.current];
    if ((int)draw_below(4) >= run.late) {
        land(&copy);
        return;
    }
    if (thread->copy_count == thread->copy_room) {
        thread->copy_room = thread->copy_room ? 2 * thread->copy_room : 64;
        thread->copies = realloc(thread->copies, (size_t)thread->copy_room * sizeof *thread->copies);
        if (!thread->copies) {
            fault("no memory for copies");
        }
    }
    thread->copies[thread->copy_count++] = copy;
}

static void issue_copy(void *to, const void *from, int bytes, int valid)
{
    if (valid < 0 || valid > bytes) {
        fault("thread %d copies %d valid bytes of %d", run.current, valid, bytes);
    }
    if ((uintptr_t)to % (unsigned int)bytes || (uintptr_t)from % (unsigned int)bytes) {
        fault("thread %d copies %d bytes from %p to %p, which are not aligned", run.current, bytes, from, to);
    }
    if (!is_shared(to, (uint32_t)bytes)) {
        fault("thread %d copies %d bytes to %p, which is not shared memory", run.current, bytes, to);
    }
#ifdef CHECKED_ADDRESSES
    if (__asan_region_is_poisoned(to, (size_t)bytes)) {
        fault("thread %d copies %d bytes past a shared array", run.current, bytes);
    }
    if (valid && __asan_region_is_poisoned((void *)from, (size_t)valid)) {
        fault("thread %d copies %d bytes from %p, outside of every buffer", run.current, valid, from);
    }
#endif
    begin_copy((struct copy){to, from, bytes, valid, threads[run.current].group});
}

void copy_async_4(void *to_shared, const void *from_global, int valid)
{
    issue_copy(to_shared, from_global, 4, valid);
}

void copy_async_8(void *to_shared, const void *from_global, int valid)
{
    issue_copy(to_shared, from_global, 8, valid);
}

void copy_async_16(void *to_shared, const void *from_global, int valid)
{
    issue_copy(to_shared, from_global, 16, valid);
}

void copy_async_commit(void) { ++threads[run.current].group; }

void copy_async_wait(int pending)
{
    struct thread *thread = &threads[run.current];
    land_copies(thread, thread->group - 1 - pending);
}

/* The copy engine's stores are in one of two groups, which come after all of the above. */
#define STORES_COMMITTED (INT64_MAX - 1)
#define STORES_BEGUN INT64_MAX

void bulk_store(void *to, const void *from_shared, uint32_t bytes)
{
    if (bytes == 0 || ((uintptr_t)to | (uintptr_t)from_shared | bytes) % 16) {
        fault("thread %d stores %u bytes from %p to %p, which is not by 16", run.current, bytes, from_shared,
              to);
    }
    if (!is_shared(from_shared, bytes)) {
        fault("thread %d stores %u bytes from %p, which is not shared memory", run.current, bytes,
              from_shared);
    }
#ifdef CHECKED_ADDRESSES
    if (__asan_region_is_poisoned((void *)from_shared, bytes)) {
        fault("thread %d stores %u bytes past a shared array", run.current, bytes);
    }
    if (__asan_region_is_poisoned(to, bytes)) {
        fault("thread %d stores %u bytes to %p, outside of every buffer", run.current, bytes, to);
    }
#endif
    begin_copy((struct copy){to, from_shared, (int)bytes, (int)bytes, STORES_BEGUN});
}

/* Behind the block's end its shared memory is another's, which the engine would read. */
static void refuse_stores_under_way(const struct thread *thread)
{
    for (int i = 0; i < thread->copy_count; ++i) {
        if (thread->copies[i].group >= STORES_COMMITTED) {
            fault("thread %d returns, and has not waited for its stores of shared memory", run.current);
        }
    }
}

void tensor_store_commit(void)
{
    struct thread *thread = &threads[run.current];
    for (int i = 0; i < thread->copy_count; ++i) {
        if (thread->copies[i].group == STORES_BEGUN) {
            thread->copies[i].group = STORES_COMMITTED;
        }
    }
}

void tensor_store_wait_read(int pending)
{
    if (pending != 0) {
        fault("thread %d waits for all stores but %d, which is not counted here", run.current, pending);
    }
    land_copies(&threads[run.current], STORES_COMMITTED);
}

/* ---- Conversions and products --------------------------------------------------------------- */

float f32_from_f16(uint16_t bits)
{
    int exponent = bits >> 10 & 31;
    int fraction = bits & 1023;
    float size;
    if (exponent == 31) {
        /* The fraction moves up, and a NaN becomes a quiet one. */
        size = __uint_as_float(0x7f800000u | (unsigned int)fraction << 13 | (fraction ? 0x400000u : 0));
    } else if (exponent == 0) {
        size = ldexpf((float)fraction, -24);
    } else {
        size = ldexpf((float)(fraction + 1024), exponent - 25);
    }
    return bits >> 15 ? -size : size;
}

uint16_t f16_from_f32(float value)
{
    uint16_t sign = (uint16_t)(signbit(value) ? 0x8000 : 0);
    if (isnan(value)) {
        return 0x7fff;
    }
    float size = fabsf(value);
    if (size >= 65520.0f) { /* half way from the largest number to the next power */
        return (uint16_t)(sign | 0x7c00);
    }
    int exponent = -14; /* of the least normal number; below it the steps stay as they are */
    if (size >= 0x1p-14f) {
        exponent = ilogbf(size);
    }
    /* In steps of the result's last place, which f32 holds exactly; rintf rounds to nearest even. */
    int steps = (int)rintf(ldexpf(size, 10 - exponent));
    /* 1024 steps are the hidden one, and 2048 carry into the exponent, which is as it should be. */
    return (uint16_t)(sign | ((exponent + 14) * 1024 + steps));
}

float f32_from_bf16(uint16_t bits) { return __uint_as_float((unsigned int)bits << 16); }

uint16_t bf16_from_f32(float value)
{
    if (isnan(value)) {
        return 0x7fff;
    }
    unsigned int bits = __float_as_uint(value);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

uint32_t dot4_s8(uint32_t x, uint32_t y, uint32_t sum)
{
    for (int shift = 0; shift < 32; shift += 8) {
        sum += (uint32_t)((int8_t)(x >> shift) * (int8_t)(y >> shift));
    }
    return sum;
}

/*
 * The fragments of this thread's warp for its next instruction, lane by lane. Instructions take turns with two places each, so a
 * lane that goes on to the next one leaves alone what others have still to read.
 */
static struct fragment *next_fragments(const char *what)
{
    struct thread *thread = &threads[run.current];
    if (run.count % WARP) {
        fault("%s in a warp of fewer than %d threads", what, WARP);
    }
    thread->turn = !thread->turn;
    return &run.fragments[thread->turn][run.current - run.current % WARP];
}

/* D = A * B + D with A 16 x depth, B depth x 8, the lanes of a warp together. */
static void mma_f64(int line, double d[4], const double *a, const double *b, int depth)
{
    struct fragment *warp = next_fragments("a matrix product");
    int lane = run.current % WARP;
    memcpy(warp[lane].a, a, (size_t)depth / 2 * sizeof *a);
    memcpy(warp[lane].b, b, (size_t)depth / 4 * sizeof *b);
    cuda_wait_for_warp(line);
    for (int row = 0; row < 2; ++row) {
        for (int column = 0; column < 2; ++column) {
            double sum = d[2 * row + column];
            for (int k = 0; k < depth; ++k) {
                double from_a = warp[lane / 4 * 4 + k % 4].a[k / 4 * 2 + row];
                double from_b = warp[(2 * (lane % 4) + column) * 4 + k % 4].b[k / 4];
                sum = fma(from_a, from_b, sum);
            }
            d[2 * row + column] = sum;
        }
    }
}

void cuda_mma_f64_16x8x16(int line, double d[4], const double a[8], const double b[4])
{
    mma_f64(line, d, a, b, 16);
}

void cuda_mma_f64_16x8x8(int line, double d[4], const double a[4], const double b[2])
{
    mma_f64(line, d, a, b, 8);
}

uint32_t cuda_warp_max(int line, uint32_t value)
{
    struct fragment *warp = next_fragments("a maximum");
    warp[run.current % WARP].word = value;
    cuda_wait_for_warp(line);
    for (int lane = 0; lane < WARP; ++lane) {
        value = warp[lane].word > value ? warp[lane].word : value;
    }
    return value;
}

uint32_t cuda_shuffle(int line, uint32_t word, int lane)
{
    struct fragment *warp = next_fragments("a shuffle");
    warp[run.current % WARP].word = word;
    cuda_wait_for_warp(line);
    return warp[lane].word;
}

uint32_t cuda_shuffle_xor(int line, uint32_t word, int bits)
{
    return cuda_shuffle(line, word, run.current % WARP ^ bits);
}

/* The bits below the tenth of the fraction are rounded away, to nearest, ties away from zero. */
uint32_t tf32_from_f32(uint32_t bits)
{
    if ((bits & 0x7f800000) != 0x7f800000) {
        bits += 0x1000;
    }
    return bits & 0xffffe000;
}

static int is_nan(uint32_t bits) { return (bits & 0x7fffffff) > 0x7f800000; }

void tf32_pair_from_f32(uint32_t *first, uint32_t *second, int in_place)
{
    (void)in_place; /* where the registers lie has no meaning here */
    uint32_t half = is_nan(*first) || is_nan(*second) ? 0 : 0x1000;
    *first = (*first + half) & 0xffffe000;
    *second = (*second + half) & 0xffffe000;
}

enum factor { OF_F16, OF_BF16, OF_TF32, OF_S8 };

/* The elements of a register, the lowest first. */
static void unpack(enum factor factor, const uint32_t *words, int count, double *to)
{
    for (int i = 0; i < count; ++i) {
        uint32_t word = words[i];
        switch (factor) {
        case OF_F16:
            *to++ = f32_from_f16((uint16_t)word);
            *to++ = f32_from_f16((uint16_t)(word >> 16));
            break;
        case OF_BF16:
            *to++ = f32_from_bf16((uint16_t)word);
            *to++ = f32_from_bf16((uint16_t)(word >> 16));
            break;
        case OF_TF32:
            if (word & 0x1fff) {
                fault("thread %d multiplies 0x%08x, which is no tf32", run.current, word);
            }
            *to++ = __uint_as_float(word);
            break;
        case OF_S8:
            for (int shift = 0; shift < 32; shift += 8) {
                *to++ = (int8_t)(word >> shift);
            }
            break;
        }
    }
}

/* The products of a 16 x 8 instruction with 32 bytes along k, `each` elements a register. */
static void mma(int line, enum factor factor, int each, double sum[4], const uint32_t a[4],
                const uint32_t b[2])
{
    struct fragment *warp = next_fragments("a matrix product");
    int lane = run.current % WARP;
    unpack(factor, a, 4, warp[lane].a);
    unpack(factor, b, 2, warp[lane].b);
    cuda_wait_for_warp(line);
    for (int i = 0; i < 4; ++i) {
        const struct fragment *row = &warp[lane / 4 * 4];
        const struct fragment *column = &warp[(2 * (lane % 4) + i % 2) * 4];
        sum[i] = 0;
        for (int half = 0; half < 2; ++half) {
            for (int member = 0; member < 4; ++member) {
                for (int e = 0; e < each; ++e) {
                    sum[i] +=
                        row[member].a[(i / 2 + 2 * half) * each + e] * column[member].b[half * each + e];
                }
            }
        }
    }
}

static void mma_f32(int line, enum factor factor, int each, float d[4], const uint32_t a[4],
                    const uint32_t b[2])
{
    double sum[4];
    mma(line, factor, each, sum, a, b);
    for (int i = 0; i < 4; ++i) {
        d[i] = (float)(d[i] + sum[i]);
    }
}

void cuda_mma_f16_16x8x16(int line, float d[4], const uint32_t a[4], const uint32_t b[2])
{
    mma_f32(line, OF_F16, 2, d, a, b);
}

void cuda_mma_bf16_16x8x16(int line, float d[4], const uint32_t a[4], const uint32_t b[2])
{
    mma_f32(line, OF_BF16, 2, d, a, b);
}

void cuda_mma_tf32_16x8x8(int line, float d[4], const uint32_t a[4], const uint32_t b[2])
{
    mma_f32(line, OF_TF32, 1, d, a, b);
}

void cuda_mma_s8_16x8x32(int line, uint32_t d[4], const uint32_t a[4], const uint32_t b[2])
{
    double sum[4];
    mma(line, OF_S8, 4, sum, a, b);
    for (int i = 0; i < 4; ++i) {
        d[i] += (uint32_t)(int32_t)sum[i];
    }
}

/* ---- Loads of a warp ------------------------------------------------------------------------ */

/* All lanes' rows are known and may be read. */
static const struct fragment *meet_with_rows(int line, const void *row)
{
    int current = run.current;
    if ((uintptr_t)row % 16) {
        fault("thread %d loads a row of a matrix from %p, which is not aligned", current, row);
    }
    if (!is_shared(row, 16)) {
        fault("thread %d loads a row of a matrix from %p, which is not shared memory", current, row);
    }
    struct fragment *warp = next_fragments("a load of matrices");
    warp[current % WARP].row = row;
    cuda_wait_for_warp(line);
    return warp;
}

void cuda_ldmatrix_x4(int line, uint32_t to[4], const void *row)
{
    const struct fragment *warp = meet_with_rows(line, row);
    int lane = run.current % WARP;
    for (int q = 0; q < 4; ++q) {
        memcpy(&to[q], warp[8 * q + lane / 4].row + lane % 4 * 4, 4);
    }
    cuda_wait_for_warp(line);
}

void cuda_ldmatrix_x4_trans(int line, uint32_t to[4], const void *row)
{
    const struct fragment *warp = meet_with_rows(line, row);
    int lane = run.current % WARP;
    for (int q = 0; q < 4; ++q) {
        uint16_t two[2];
        memcpy(&two[0], warp[8 * q + lane % 4 * 2].row + lane / 4 * 2, 2);
        memcpy(&two[1], warp[8 * q + lane % 4 * 2 + 1].row + lane / 4 * 2, 2);
        to[q] = two[0] | (uint32_t)two[1] << 16;
    }
    cuda_wait_for_warp(line);
}
