/*
 * tuning.h - measured corrections of the cost model, for one device.
 *
 * A table is a text file that 'carat tune' writes. Its head names a device; every other line is one measured
 * time, of a product, a pack or a reduce alone, or of a whole way to do the problem of the line 'shape' before it:
 *
 *     carat-tuning 1
 *     device NVIDIA H200
 *     over NVIDIA H200                                           adds to the library's table of that device; may be missing
 *     memory 4917                                                GB/s that the driver promises; may be missing
 *     clock 1980
 *     product wgmma_bf16_tn_128x128 TN 1536 1408 512 11.234      row, layout, m n k, microseconds
 *     pack pack_2 straight 1023 2112 4.567                       row, length and number of columns
 *     reduce reduce_f32 1048576 4 9.876                          row, elements of D, parts of K
 *     shape bf16 TN 4096 16 14336                                type, layout, m n k, batch where it is not 1
 *     way wgmma_bf16_tn_64x16 -- shared 32.609                   row, packs, parts of K or "shared", microseconds
 *
 * As it is read, each time is divided by what the model foresees, and the factor goes to the nearest point of a
 * coarse grid, one a row and layout. The planner multiplies its prediction by what lies between the points of
 * the grid, so that shapes which nobody measured profit. What the whole ways took more than that foresees is learned
 * next, see ways.h. Times are kept and not factors, so that a table stays true when the model changes.
 */
#ifndef CARAT_TUNING_H
#define CARAT_TUNING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "carat/carat.h"
#include "catalog.h"
#include "trees.h"
#include "ways.h"

struct device_traits;
struct problem;
struct tuning_table;

/* ---- Lines ---- */

/* One measured time. */
struct tuning_line {
    int operation;               /* OPERATION_GEMM, _PACK or _REDUCE */
    const struct kernel *kernel; /* NULL: this build has no row of that name */
    bool trans_a;                /* product */
    bool trans_b;
    bool turned;      /* pack: the operand is transposed on its way */
    int64_t sizes[3]; /* product: m n k; pack: length, columns; reduce: elements, parts */
    double microseconds;
    bool whole; /* of a whole way, where the layout and m n k are the problem's: */
    carat_type type;
    carat_accuracy accuracy;
    int64_t batch;
    char packs[2]; /* what is done to A and B, see plan_marks() */
    int parts;
    bool shares; /* clusters share tiles */
};

/* What stands above them. */
struct tuning_head {
    char device[128];
    char over[128]; /* whose table it adds to; "": nobody's */
    int capability;
    int multiprocessors;
    int memory; /* GB/s that the driver promises of it; 0: that is not said */
    int driver;
    char library[32];
    double clock; /* MHz, by which times are cycles */
};

/* Is shown every line; what it returns but CARAT_OK ends the reading. */
typedef carat_status tuning_reader(void *context, const struct tuning_head *head,
                                   const struct tuning_line *line);

/* Reads a table; name is the file's in messages. CARAT_INVALID_ARGUMENT, with file and line, where it is none. */
carat_status tuning_read(const char *name, const char *text, size_t length, tuning_reader *take,
                         void *context, struct tuning_head *head);

/* The whole of a file, for tuning_read(); free() it. */
carat_status tuning_load(const char *path, char **text, size_t *length);

/* Writes them as text, with the newline; the length, as snprintf() does. */
int tuning_head_text(const struct tuning_head *head, char *text, size_t size);
int tuning_line_text(const struct tuning_line *line, char *text, size_t size);

/* The line 'shape' that stands before the whole ways of a problem. */
int tuning_shape_text(const struct tuning_line *line, char *text, size_t size);

/* The product that a row is measured with: column-major and tightly packed. */
carat_gemm_problem tuning_problem(const struct kernel *kernel, bool trans_a, bool trans_b, int64_t m,
                                  int64_t n, int64_t k);

/*
 * The problem of a whole way, tightly packed and in its simplest form; false where the line describes it in another form, as
 * tables did before there was that one, and where it is no problem at all: then the line is of no use.
 */
bool tuning_whole_problem(const struct tuning_line *line, struct problem *problem);

/* Whether two whole ways are of the same problem. */
bool tuning_same_shape(const struct tuning_line *x, const struct tuning_line *y);

/* ---- Tables ---- */

/*
 * The table for a CUDA device: that of the file in the environment's CARAT_TUNING, else the library's nearest: of a device of
 * this name, capability and number of multiprocessors, else of this capability and number, else of this capability and about as
 * many; of several that whose memory is most like this one's. NULL in *table where there is none, where CARAT_TUNING is empty,
 * and on failure.
 */
carat_status tuning_open(const struct device_traits *traits, struct tuning_table **table);

/*
 * The same of a text; NULL where it has nothing for this device. One that adds to the library's table of a device much like
 * this one has all of that, and its own times come first; CARAT_INVALID_ARGUMENT where the library has none.
 */
carat_status tuning_parse(const struct device_traits *traits, const char *name, const char *text,
                          size_t length, struct tuning_table **table);

/* Has a device plan by a table, which has to stay; NULL: by the model alone. */
void tuning_apply(const struct tuning_table *table, struct device_traits *traits);

/* The library's own table alone, whatever the environment says; that of a device of this name, or NULL: the nearest. */
carat_status tuning_open_shipped(const struct device_traits *traits, const char *device,
                                 struct tuning_table **table);

/* The device of the library's table that this is, or adds to; NULL where it is of a file alone. */
const char *tuning_device(const struct tuning_table *table);

/* The same, where that is not the device that the table was opened for; else NULL. */
const char *tuning_relative(const struct tuning_table *table);

/* Whether a file's times were added. */
bool tuning_adds(const struct tuning_table *table);

/* Whether there are times of a row by itself. */
bool tuning_knows(const struct tuning_table *table, const struct kernel *kernel);

/* NULL is allowed. */
void tuning_close(struct tuning_table *table);

/* Where on the grid something lies: in powers of two, see tuning_axes(). */
struct tuning_point {
    double at[3];
};

/* Of one row there are so many grids: by layout and alignment, or turned and not. */
enum { TUNING_VARIANTS = 8 };

/* Measured time over predicted time; 1 where nothing is known of the row, and *known (may be NULL) is false. */
double tuning_factor(const struct tuning_table *table, const struct kernel *kernel, int variant,
                     struct tuning_point point, bool *known);

/* The whole ways that were measured; NULL where there are none. */
const struct ways *tuning_ways(const struct tuning_table *table);

/*
 * What is left over where all that was measured near has been said; NULL where there are none: only the build has the time to
 * grow them, so a text has at most those of the table to which it adds.
 */
const struct trees *tuning_trees(const struct tuning_table *table);

/* Gives a table trees, which have to stay. */
void tuning_plant(struct tuning_table *table, const struct trees *trees);

/* Leaves out those of the very problem that is planned, see ways_leave_out(). */
void tuning_leave_out(struct tuning_table *table);

/*
 * The points of the grid of an operation. Packs: length, columns. Reduces: elements, parts. Products: blocks a
 * multiprocessor; steps of k in a part, see kernel_k_step(); and how thin the problem is: how much less of a
 * tile is in use along n than along m. Of a row with narrow tiles that is, below 0, how much of the tile's long
 * side is in use, and above, how many tiles stand side by side along the short one.
 */
enum { TUNING_MOST_KNOTS = 10 };
struct tuning_axes {
    int counts[3];
    double knots[3][TUNING_MOST_KNOTS];
};
const struct tuning_axes *tuning_axes(int operation);

/* ---- Tables as images ---- */

/*
 * Writes a table that was parsed for a device, all that was learned but what it adds to, so that a library of the same rows, which
 * has that too, can ask it where it lies: to learn anew takes as long as a thousand plans. False where that fails.
 */
bool tuning_write_image(const struct tuning_table *table, const struct device_traits *traits, FILE *file);

/* What the build made of tuning/, each at a multiple of 16 bytes; ends with NULL. */
extern const unsigned char *const carat_tunings[];

#endif
