/* survey_ways.c - measures whole ways to do problems, drawn at random or given: what a tuning table learns from, see ways.h. */
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "progress.h"
#include "shapes.h"
#include "status.h"
#include "survey.h"
#include "tune.h"

/* A trial lasts so long, and the median of so many counts; of ways that are not close to the best, of three, or of one. */
static const double TRIAL_SECONDS = 0.25e-3;
enum { TRIALS = 7 };

/*
 * The best ways by what is known are those between which a choice will be made; a few others show what is better than
 * it seems. Of one row and treatment the numbers of parts differ little.
 */
enum { BEST_WAYS = 14, OTHER_WAYS = 2, LOOKED_AT = 48, MOST_OF_ROW = 2 };
static const double SLACK = 2.5;

/* bf16 takes as long as f16. */
static const char default_dtypes[] =
    "bf16,tf32,e4m3,s8,f32,f32-close,f16,tf32,e4m3,s8,f64,e4m3-fast,f32-strict";

struct surveyor {
    struct stage *stage;
    const struct device_traits *traits;
    const struct ways_options *options;
    struct draw draw;
    FILE *out;
    struct ways_totals *totals;
};

/* Moves way i of a list to its beginning, behind the `kept` that are there. */
static void keep(struct tuning *list, int kept, int i)
{
    struct tuned_way way = list->ways[i];
    memmove(&list->ways[kept + 1], &list->ways[kept], (size_t)(i - kept) * sizeof(way));
    list->ways[kept] = way;
}

/* Leaves of a list, the best first, those that are to be measured. */
static void pick(const struct problem *problem, uint64_t luck, struct tuning *list)
{
    int kept = 0;
    for (int i = 0; i < list->count && kept < BEST_WAYS; i++) {
        int of_row = 0;
        for (int j = 0; j < kept; j++) {
            of_row += tune_is_same_row(problem, &list->ways[i].way, &list->ways[j].way);
        }
        if (of_row < MOST_OF_ROW) {
            keep(list, kept++, i);
        }
    }
    for (int other = 0; other < OTHER_WAYS && kept < list->count; other++) {
        luck = luck * 6364136223846793005u + 1442695040888963407u;
        keep(list, kept, kept + (int)((luck >> 33) % (uint64_t)(list->count - kept)));
        kept++;
    }
    list->count = kept;
}

static carat_status write_ways(struct surveyor *surveyor, const struct shape *shape,
                               const struct problem *problem, const struct tuning *list)
{
    struct tuning_line line = {
        .operation = OPERATION_GEMM,
        .whole = true,
        .type = shape->type,
        .accuracy = shape->accuracy,
        .trans_a = problem->trans_a, /* in the form in which the ways were found */
        .trans_b = problem->trans_b,
        .sizes = {problem->m, problem->n, problem->k},
        .batch = problem->batch,
    };
    char text[300];
    tuning_shape_text(&line, text, sizeof(text));
    fputs(text, surveyor->out);
    for (int i = 0; i < list->count; i++) {
        const struct candidate *way = &list->ways[i].way;
        if (list->ways[i].seconds <= 0) {
            surveyor->totals->failed++;
            continue;
        }
        line.kernel = way->kernel;
        plan_marks(problem, way, line.packs);
        line.parts = way->parts;
        line.shares = way->stream_tiles > 0;
        line.microseconds = list->ways[i].seconds * 1e6;
        tuning_line_text(&line, text, sizeof(text));
        fputs(text, surveyor->out);
        surveyor->totals->ways++;
    }
    surveyor->totals->shapes++;
    return ferror(surveyor->out) ? fail(CARAT_INVALID_ARGUMENT, "the table cannot be written") : CARAT_OK;
}

static carat_status measure_list(struct surveyor *surveyor, const struct shape *shape,
                                 const struct problem *problem, struct tuning *list)
{
    struct stage *stage = surveyor->stage;
    double kilohertz = stage->place.info.core_clock_khz > 0 ? stage->place.info.core_clock_khz : 1e6;
    if (list->ways[0].way.cycles / (1e3 * kilohertz) > surveyor->options->most_seconds) {
        surveyor->totals->too_large++;
        return CARAT_OK;
    }
    carat_gemm_problem described = shape_problem(shape);
    struct workload workload;
    pick(problem, (uint64_t)(shape->m * 31 + shape->n * 17 + shape->k), list);
    CARAT_TRY(workload_open(&stage->arena, &described, &workload));
    CARAT_TRY(tune_ways(stage, &workload, list->ways, list->count, TRIAL_SECONDS, TRIALS));
    return write_ways(surveyor, shape, problem, list);
}

static carat_status measure_shape(struct surveyor *surveyor, const struct shape *shape)
{
    const struct tune_options how = {.slack = SLACK, .most_ways = LOOKED_AT};
    carat_gemm_problem described = shape_problem(shape);
    struct problem problem;
    struct tuning list;
    CARAT_TRY(problem_check(&described, &problem));
    problem_simplify(&problem);
    carat_status status = tune_list(surveyor->traits, &problem, &how, &list);
    if (status == CARAT_OK) {
        status = measure_list(surveyor, shape, &problem, &list);
    }
    tuning_free(&list);
    if (status == CARAT_UNSUPPORTED || status == CARAT_OUT_OF_DEVICE_MEMORY) {
        surveyor->totals->too_large++;
        return CARAT_OK;
    }
    return status;
}

/* Takes memory for the largest of the shapes of one type, so that it is filled once. */
static carat_status make_room(struct surveyor *surveyor, int first)
{
    struct arena *arena = &surveyor->stage->arena;
    struct workload workload;
    double most = 0;
    carat_gemm_problem largest = {0};
    for (int i = 0; i < SHAPES_OF_TYPE; i++) {
        struct shape shape;
        CARAT_TRY(shapes_draw(&surveyor->draw, first + i, &shape));
        carat_gemm_problem problem = shape_problem(&shape);
        if (workload_bytes(&problem) > most) {
            most = workload_bytes(&problem);
            largest = problem;
        }
    }
    return workload_open(arena, &largest, &workload);
}

static carat_status surveyor_begin(struct stage *stage, const struct device_traits *traits,
                                   const struct ways_options *options, FILE *out, struct ways_totals *totals,
                                   struct surveyor *surveyor)
{
    CARAT_TRY(tune_has_ways(stage));
    *surveyor =
        (struct surveyor){.stage = stage, .traits = traits, .options = options, .out = out, .totals = totals};
    return CARAT_OK;
}

carat_status survey_ways(struct stage *stage, const struct device_traits *traits,
                         const struct ways_options *options, FILE *out, struct ways_totals *totals)
{
    struct surveyor surveyor;
    CARAT_TRY(surveyor_begin(stage, traits, options, out, totals, &surveyor));
    surveyor.draw = (struct draw){.dtypes = options->dtypes ? options->dtypes : default_dtypes,
                                  .seed = options->seed,
                                  .largest_side = options->largest_side,
                                  .most_operations = 1e13,
                                  .most_bytes = options->most_bytes};
    double begin = now_seconds();
    carat_status status = CARAT_OK;
    for (; status == CARAT_OK && now_seconds() - begin < options->seconds; totals->drawn++) {
        struct shape shape;
        if (totals->drawn % SHAPES_OF_TYPE == 0) {
            status = make_room(&surveyor, totals->drawn);
        }
        if (status == CARAT_OK) {
            status = shapes_draw(&surveyor.draw, totals->drawn, &shape);
        }
        if (status == CARAT_OK) {
            progress("%d shapes, %.0f s: %s", totals->shapes, now_seconds() - begin, shape.dtype);
            status = measure_shape(&surveyor, &shape);
        }
    }
    progress_end();
    return status;
}

carat_status survey_shapes(struct stage *stage, const struct device_traits *traits,
                           const struct ways_options *options, const struct shapes *shapes, FILE *out,
                           struct ways_totals *totals)
{
    struct surveyor surveyor;
    CARAT_TRY(surveyor_begin(stage, traits, options, out, totals, &surveyor));
    carat_status status = CARAT_OK;
    for (int i = 0; i < shapes->count && status == CARAT_OK; i++) {
        const struct shape *shape = &shapes->items[i];
        if (shape->type && shape_wanted(shape, options->dtypes)) {
            progress("shape %d of %d: %s", i + 1, shapes->count, shape->dtype);
            status = measure_shape(&surveyor, shape);
        }
    }
    progress_end();
    return status;
}
