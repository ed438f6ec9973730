/*
 * mma_store.h - from the sums of mma.sync to D: what mma.cu and skew.cu share, and skew_wgmma.cu, whose sums lie alike.
 *
 * A warp has WARP_M x WARP_N of D, whose instructions' rows run along n: sum[i][j][2 * r + c] of lane 4 * group + member
 * is row 2 * member + c of octet j along m, and column `group` of octet 2 * i + r along n. Which rows octets are says row_of(),
 * by A_IN_QUADS and B_IN_QUADS, which the kernel defines before, and ROWS, COLUMNS, WARP_M.
 */
#ifndef CARAT_GEMM_MMA_STORE_H
#define CARAT_GEMM_MMA_STORE_H

/*
 * On its way out a warp's tile goes through shared memory, SLAB rows of instructions at a time, so that the warp
 * stores whole columns of D, whatever their alignment. They stand PAD further apart than WARP_M, and what lanes
 * write together lies in different banks.
 */
enum {
    SLAB = 2,
    PAD = A_IN_QUADS ? 4 : 8,
    LANE_ROWS = WARP_M / 32, /* rows of a column that a lane stores */
    AT_ONCE = 8 / LANE_ROWS  /* columns it stores at a time */
};

typedef struct slab {
    __align__(16) accumulator columns[16 * SLAB][WARP_M + PAD];
} slab;

static_assert(LANE_ROWS <= 4 && 16 * SLAB % AT_ONCE == 0, "a lane stores some columns at a time");

/* Which row of the warp's tile is row `group` of an octet. */
static __device__ inline int row_of(int octet, int group, int in_quads)
{
    return in_quads ? octet / 4 * 32 + 4 * group + octet % 4 : 8 * octet + group;
}

/* Neighbours in a column of the slab, in one store. */
typedef struct neighbours {
    accumulator x[A_IN_QUADS ? 4 : 2];
} __attribute__((aligned(A_IN_QUADS ? 16 : 8))) neighbours;

/* The lane's sums of a row of instructions to columns number row_of(...) - first of the slab. */
static __device__ inline void write_row(slab *to, accumulator sum[COLUMNS][4], int row, int first)
{
    int group = (int)threadIdx.x % 32 / 4;
    int member = (int)threadIdx.x % 4;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        accumulator *column = to->columns[row_of(2 * row + r, group, B_IN_QUADS) - first];
#if A_IN_QUADS
        /* Four octets hold neighbours, see row_of(). */
#pragma unroll
        for (int i = 0; i < COLUMNS; i += 4) {
#pragma unroll
            for (int c = 0; c < 2; ++c) {
                neighbours four = {
                    {sum[i][2 * r + c], sum[i + 1][2 * r + c], sum[i + 2][2 * r + c], sum[i + 3][2 * r + c]}};
                *(neighbours *)&column[row_of(i, 2 * member + c, A_IN_QUADS)] = four;
            }
        }
#else
#pragma unroll
        for (int i = 0; i < COLUMNS; ++i) {
            neighbours two = {{sum[i][2 * r], sum[i][2 * r + 1]}};
            *(neighbours *)&column[row_of(i, 2 * member, A_IN_QUADS)] = two;
        }
#endif
    }
}

/* What a lane stores: LANE_ROWS rows of D, 32 apart, of AT_ONCE columns at a time. */
typedef struct target {
    int64_t problem;
    int64_t row;
    int rows;              /* how many of its rows lie in D */
    accumulator *partials; /* the block's part of a split k, or NULL */
    epilogue_scalars scalars;
    float bias[LANE_ROWS]; /* where it goes along the rows; else -0 */
} target;

/* How many of `most` places, `step` apart, lie below left. */
static __device__ inline int count_inside(int64_t left, int step, int most)
{
    return left <= 0 ? 0 : left >= step * most ? most : ((int)left + step - 1) / step;
}

static __device__ inline target begin_target(const gemm_arguments *arguments, const block_share *share,
                                             int row)
{
    const epilogue_arguments *epilogue = &arguments->epilogue;
    target to;
    to.problem = share->problem;
    to.row = share->row + row;
    to.rows = count_inside(arguments->m - to.row, 32, LANE_ROWS);
    to.partials = 0;
    if (arguments->partials) {
        to.partials = (accumulator *)arguments->partials +
                      (share->problem * arguments->parts + share->part) * arguments->m * arguments->n;
    }
    to.scalars = epilogue_scalars_of(epilogue, arguments->alpha, arguments->beta);
#pragma unroll
    for (int r = 0; r < LANE_ROWS; ++r) {
        to.bias[r] = -0.0f;
        if (epilogue->bias && !epilogue->bias_along_n && r < to.rows) {
            to.bias[r] = bias_of(epilogue, to.problem, to.row + 32 * r, 0);
        }
    }
    return to;
}

/*
 * The values to D as elements of type, and beta * C added to them. With a constant type that is straight code.
 * Element number at is the first of them.
 */
static __device__ __forceinline__ void store_values(float value[AT_ONCE][LANE_ROWS], void *d, int64_t at,
                                                    int64_t ld, int rows, int columns, int32_t type)
{
#pragma unroll
    for (int c = 0; c < AT_ONCE; ++c) {
#pragma unroll
        for (int r = 0; r < LANE_ROWS; ++r) {
            if (c < columns && r < rows) {
                store_result_as(d, at + c * ld + 32 * r, type, value[c][r]);
            }
        }
    }
}

static __device__ __forceinline__ void add_c(float value[AT_ONCE][LANE_ROWS], float beta, const void *from,
                                             int64_t at, int64_t ld, int rows, int columns, int32_t type)
{
#pragma unroll
    for (int c = 0; c < AT_ONCE; ++c) {
#pragma unroll
        for (int r = 0; r < LANE_ROWS; ++r) {
            if (c < columns && r < rows) {
                value[c][r] = fmaf(beta, load_result_as_f32(from, at + c * ld + 32 * r, type), value[c][r]);
            }
        }
    }
}

/* Sums to D by way of f32, see epilogue.h. D is of the elements' type or f32. */
static __device__ inline void finish_columns(const gemm_arguments *arguments, const target *to,
                                             accumulator sum[AT_ONCE][LANE_ROWS], int64_t column, int columns)
{
    const epilogue_arguments *epilogue = &arguments->epilogue;
    int is_f32 = ELEMENT == ELEMENT_F32 || epilogue->result_type == ELEMENT_F32;
    float value[AT_ONCE][LANE_ROWS];
#pragma unroll
    for (int c = 0; c < AT_ONCE; ++c) {
#pragma unroll
        for (int r = 0; r < LANE_ROWS; ++r) {
            value[c][r] = to->bias[r];
        }
    }
    if (epilogue->bias && epilogue->bias_along_n) {
#pragma unroll
        for (int c = 0; c < AT_ONCE; ++c) {
            float bias = c < columns ? bias_of(epilogue, to->problem, 0, column + c) : 0;
#pragma unroll
            for (int r = 0; r < LANE_ROWS; ++r) {
                value[c][r] = bias;
            }
        }
    }
    if (to->scalars.beta != 0) {
        int64_t at = to->problem * arguments->stride_c + column * arguments->ldc + to->row;
        if (is_f32) {
            add_c(value, to->scalars.beta, arguments->c, at, arguments->ldc, to->rows, columns, ELEMENT_F32);
        } else {
            add_c(value, to->scalars.beta, arguments->c, at, arguments->ldc, to->rows, columns, ELEMENT);
        }
    }
#pragma unroll
    for (int c = 0; c < AT_ONCE; ++c) {
#pragma unroll
        for (int r = 0; r < LANE_ROWS; ++r) {
#if ELEMENT == ELEMENT_S8
            value[c][r] = fmaf(to->scalars.alpha, (float)(int32_t)sum[c][r], value[c][r]);
#else
            value[c][r] = fmaf(to->scalars.alpha, sum[c][r], value[c][r]);
#endif
        }
    }
    activate_all(&value[0][0], AT_ONCE * LANE_ROWS, epilogue->activation);
#pragma unroll
    for (int c = 0; c < AT_ONCE; ++c) {
#pragma unroll
        for (int r = 0; r < LANE_ROWS; ++r) {
            value[c][r] *= to->scalars.scale_d;
        }
    }
    int64_t at = to->problem * arguments->stride_d + column * arguments->ldd + to->row;
    if (is_f32) {
        store_values(value, arguments->d, at, arguments->ldd, to->rows, columns, ELEMENT_F32);
    } else {
        store_values(value, arguments->d, at, arguments->ldd, to->rows, columns, ELEMENT);
    }
}

#if ELEMENT == ELEMENT_S8
/* The same in s32, as epilogue_element_s32() does it for one element: all values take each step together. */
static __device__ inline void finish_columns_s32(const gemm_arguments *arguments, const target *to,
                                                 accumulator sum[AT_ONCE][LANE_ROWS], int64_t column,
                                                 int columns)
{
    const epilogue_arguments *epilogue = &arguments->epilogue;
    uint32_t alpha = scalar_s32(arguments->alpha);
    uint32_t beta = scalar_s32(arguments->beta);
    const int32_t *bias = (const int32_t *)epilogue->bias;
    const int32_t *old =
        (const int32_t *)arguments->c + to->problem * arguments->stride_c + column * arguments->ldc + to->row;
    int32_t *d =
        (int32_t *)arguments->d + to->problem * arguments->stride_d + column * arguments->ldd + to->row;
    uint32_t value[AT_ONCE][LANE_ROWS];
#pragma unroll
    for (int c = 0; c < AT_ONCE; ++c) {
#pragma unroll
        for (int r = 0; r < LANE_ROWS; ++r) {
            value[c][r] = alpha * sum[c][r];
        }
    }
    if (beta != 0) {
#pragma unroll
        for (int c = 0; c < AT_ONCE; ++c) {
#pragma unroll
            for (int r = 0; r < LANE_ROWS; ++r) {
                if (c < columns && r < to->rows) {
                    value[c][r] += beta * (uint32_t)old[c * arguments->ldc + 32 * r];
                }
            }
        }
    }
    if (bias) {
#pragma unroll
        for (int c = 0; c < AT_ONCE; ++c) {
#pragma unroll
            for (int r = 0; r < LANE_ROWS; ++r) {
                if (c < columns && r < to->rows) {
                    int64_t at = bias_index(epilogue, to->problem, to->row + 32 * r, column + c);
                    value[c][r] += (uint32_t)bias[at];
                }
            }
        }
    }
    int32_t least = epilogue->activation == ACTIVATION_RELU ? 0 : INT32_MIN;
#pragma unroll
    for (int c = 0; c < AT_ONCE; ++c) {
#pragma unroll
        for (int r = 0; r < LANE_ROWS; ++r) {
            if (c < columns && r < to->rows) {
                d[c * arguments->ldd + 32 * r] = (int32_t)value[c][r] < least ? least : (int32_t)value[c][r];
            }
        }
    }
}
#endif

/* The lane's part of AT_ONCE columns of the slab to D, or to the partial sums. */
static __device__ inline void store_columns(const gemm_arguments *arguments, const target *to,
                                            const accumulator *from, int64_t column)
{
    int columns = count_inside(arguments->n - column, 1, AT_ONCE);
    accumulator sum[AT_ONCE][LANE_ROWS];
#pragma unroll
    for (int c = 0; c < AT_ONCE; ++c) {
#pragma unroll
        for (int r = 0; r < LANE_ROWS; ++r) {
            sum[c][r] = from[c * (WARP_M + PAD) + 32 * r];
        }
    }
    if (to->partials) {
#pragma unroll
        for (int c = 0; c < AT_ONCE; ++c) {
#pragma unroll
            for (int r = 0; r < LANE_ROWS; ++r) {
                if (c < columns && r < to->rows) {
                    to->partials[(column + c) * arguments->m + to->row + 32 * r] = sum[c][r];
                }
            }
        }
        return;
    }
#if ELEMENT == ELEMENT_S8
    if (arguments->epilogue.result_type == ELEMENT_S32) {
        finish_columns_s32(arguments, to, sum, column, columns);
        return;
    }
#endif
    finish_columns(arguments, to, sum, column, columns);
}

/* The warp's tile, which begins at row and column of the block's, to D. */
static __device__ inline void store_tile(const gemm_arguments *arguments, const block_share *share,
                                         slab *between, accumulator sum[ROWS][COLUMNS][4], int row,
                                         int column)
{
    int lane = (int)threadIdx.x % 32;
    target to = begin_target(arguments, share, row + lane);
#pragma unroll
    for (int first = 0; first < ROWS; first += SLAB) {
        __syncwarp();
#pragma unroll
        for (int i = first; i < first + SLAB; ++i) {
            write_row(between, sum[i], i, 16 * first);
        }
        __syncwarp();
#pragma unroll 1
        for (int i = 0; i < 16 * SLAB; i += AT_ONCE) {
            store_columns(arguments, &to, &between->columns[i][lane],
                          share->column + column + 16 * first + i);
        }
    }
}

#endif
