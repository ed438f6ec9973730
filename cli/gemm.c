/*
 * gemm.c - carat gemm: multiplies two matrices, says how fast and how, and checks the answer.
 *
 *     command line -> request -> files' headers (or generated shapes) -> problem
 *         -> elements read or drawn -> plan -> timed runs -> check -> file
 *
 * Everything that can be refused is refused before the elements are read, and the output is written last.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "carat/carat.h"
#include "check.h"
#include "commands.h"
#include "dtype.h"
#include "element.h"
#include "generate.h"
#include "npy.h"
#include "options.h"
#include "progress.h"

static const char command[] = "gemm";

/* The runs of one measurement: as many as fit in TIME_BUDGET, but no fewer and no more than these. */
enum { LEAST_RUNS = 3, MOST_RUNS = 1000, MOST_REPEATED = 1000000 };
static const double TIME_BUDGET = 0.5;

/* What goes in, then what comes out. The bias is a matrix of one column. */
enum { MATRIX_A, MATRIX_B, MATRIX_C, MATRIX_BIAS, INPUT_COUNT, MATRIX_D = INPUT_COUNT, MATRIX_COUNT };
static const char *const matrix_names[MATRIX_COUNT] = {"A", "B", "C", "bias", "D"};

static const char *const accuracy_words[] = {"", ", strict", ", fast", ", best", ", close"};

static const char type_words[] = "f32, f64, f16, bf16, s32, s8, e4m3 or e5m2";

/* A type that the command line may leave to others. */
struct type_choice {
    carat_type type;
    bool given;
};

/* The scales of A, B and D, in this order. */
enum { SCALE_COUNT = 3 };
static const char *const scale_options[SCALE_COUNT] = {"--scale-a", "--scale-b", "--scale-d"};

/* What the command line asks for. */
struct request {
    const char *paths[MATRIX_COUNT]; /* NULL where there is no file */
    bool generated;
    int64_t m;
    int64_t n;
    int64_t k;
    struct type_choice type;
    struct type_choice type_b;
    struct type_choice type_d;
    struct type_choice type_bias;
    int family;
    int64_t seed;
    bool trans_a;
    bool trans_b;
    double alpha;
    double beta;
    int order; /* a carat_order, by its place in "fortran|c"; -1 follows the input */
    carat_device_kind device_kind;
    int device_index;
    int accuracy;
    int bias; /* a carat_bias */
    int activation;
    double scales[SCALE_COUNT];
    bool scale_given[SCALE_COUNT];
    int64_t repeat; /* 0: choose */
    bool check;
};

/* The work itself. */
struct work {
    carat_context *context;
    carat_device_info device;
    struct npy_file files[MATRIX_COUNT];
    struct matrix matrices[MATRIX_COUNT]; /* elements are pinned memory of the context */
    carat_gemm_problem problem;
    double alpha; /* holds a scalar of whatever type, in its first bytes */
    double beta;
    float scales[SCALE_COUNT];
    carat_plan *plan;
};

struct timing {
    int64_t runs;
    double first;
    double best;
    double median;
    uint64_t safe; /* elements of D that a run of close accuracy computed on the safe path */
};

/* ---- The command line ------------------------------------------------------------------------------- */

static bool is_integer(carat_type type) { return type == CARAT_S8 || type == CARAT_S32; }

static bool is_float8(carat_type type) { return type == CARAT_E4M3 || type == CARAT_E5M2; }

/* What stands on the line and needs a second look. */
struct line {
    const char *files[2];
    int file_count;
    const char *device;
    const char *type;
    const char *type_b;
    const char *type_d;
    const char *type_bias;
    bool accuracy_given;
    bool m_given;
    bool n_given;
    bool k_given;
    bool drawing_given; /* how to generate */
    bool beta_given;
    bool repeat_given;
};

/* Fills the request and the line; false where the command is to end with *exit_code. */
static bool parse_line(int argc, char **argv, struct request *request, struct line *line, int *exit_code)
{
    const struct option options[] = {
        {"--output", 'o', OPTION_TEXT, &request->paths[MATRIX_D], "FILE", "write D to this .npy file", NULL,
         NULL},
        {"--trans-a", 0, OPTION_FLAG, &request->trans_a, NULL, "use the transpose of A", NULL, NULL},
        {"--trans-b", 0, OPTION_FLAG, &request->trans_b, NULL, "use the transpose of B", NULL, NULL},
        {"--alpha", 0, OPTION_REAL, &request->alpha, "X", "scale of the product (1)", NULL, NULL},
        {"--beta", 0, OPTION_REAL, &request->beta, "X", "scale of C (1 with --c, else 0)", NULL,
         &line->beta_given},
        {"--c", 0, OPTION_TEXT, &request->paths[MATRIX_C], "FILE", "the .npy file of C", NULL, NULL},
        {"--type", 0, OPTION_TEXT, &line->type, "TYPE",
         "f32, f64, f16, bf16, s32, s8, e4m3 or e5m2: of generated input\n"
         "(f32); of files, bf16 says that their u2 elements are bf16, e4m3\n"
         "and e5m2 say so of u1; tf32 is f32 with --accuracy fast",
         NULL, NULL},
        {"--type-b", 0, OPTION_TEXT, &line->type_b, "TYPE",
         "of B, where it is the other 8-bit float (that of A)", NULL, NULL},
        {"--type-d", 0, OPTION_TEXT, &line->type_d, "TYPE",
         "of C and D (that of A; s32 for s8, bf16 for 8-bit floats)", NULL, NULL},
        {"--m", 0, OPTION_COUNT, &request->m, "M", "generate the input: rows of D", NULL, &line->m_given},
        {"--n", 0, OPTION_COUNT, &request->n, "N", "columns of D (M)", NULL, &line->n_given},
        {"--k", 0, OPTION_COUNT, &request->k, "K", "length of the sums (M)", NULL, &line->k_given},
        {"--random", 0, OPTION_CHOICE, &request->family, NULL,
         "how generated input is drawn: mean 0 and variance 1 (normal),\nor even over -1 to 1",
         "normal|uniform", &line->drawing_given},
        {"--seed", 0, OPTION_COUNT, &request->seed, "S", "of generated input (1)", NULL,
         &line->drawing_given},
        {"--order", 0, OPTION_CHOICE, &request->order, NULL,
         "order of D in its file: C (rows) or Fortran (columns); else that\n"
         "of C, or of A and B where they agree, or C",
         "fortran|c", NULL},
        {"--device", 0, OPTION_TEXT, &line->device, "DEVICE", "auto, cpu, cuda or cuda:N (auto)", NULL, NULL},
        {"--accuracy", 0, OPTION_CHOICE, &request->accuracy, NULL,
         "how the sums are computed; strict does without tensor cores for f32,\n"
         "fast rounds f32 to tf32 and leaves the sums of 8-bit floats to the\n"
         "tensor unit alone, best sums in f64 and rounds once, close keeps 22\n"
         "bits of f32",
         "standard|strict|fast|best|close", &line->accuracy_given},
        {"--bias", 0, OPTION_CHOICE, &request->bias, NULL, "add a number to each row of D, or to each column",
         "none|row|column", NULL},
        {"--bias-file", 0, OPTION_TEXT, &request->paths[MATRIX_BIAS], "FILE",
         "the .npy file of these numbers; with --m they are drawn", NULL, NULL},
        {"--bias-type", 0, OPTION_TEXT, &line->type_bias, "TYPE",
         "of these numbers: that of the sums, f16 or bf16 (that of the sums)", NULL, NULL},
        {"--activation", 0, OPTION_CHOICE, &request->activation, NULL,
         "what each element of D goes through in the end (gelu is gelu-erf)",
         "none|relu|gelu-tanh|gelu-erf|silu|gelu", NULL},
        {"--scale-a", 0, OPTION_REAL, &request->scales[0], "X",
         "of A, where A and B are 8-bit and D is not s32 (1)", NULL, &request->scale_given[0]},
        {"--scale-b", 0, OPTION_REAL, &request->scales[1], "X", "of B (1)", NULL, &request->scale_given[1]},
        {"--scale-d", 0, OPTION_REAL, &request->scales[2], "X", "of D, after the activation (1)", NULL,
         &request->scale_given[2]},
        {"--repeat", 0, OPTION_COUNT, &request->repeat, "R",
         "time this many runs (what fits in half a second, 3 to 1000)", NULL, &line->repeat_given},
        {"--check", 0, OPTION_FLAG, &request->check, NULL,
         "compare D with a reference of higher precision: all entries of a\n"
         "small product, sampled rows and columns of a large one",
         NULL, NULL},
    };
    const struct usage usage = {
        "carat gemm [options] A.npy B.npy [-o D.npy]\ncarat gemm [options] --m M [--n N] [--k K] [-o D.npy]",
        "Multiplies: D = act(alpha op(A) op(B) + beta C + bias), where op(A) is M x K and op(B) is K x N.\n\n"
        "A, B and C are NumPy files of two dimensions, in C or Fortran order, of f2, f4, f8, i4 or i1\n"
        "(then C and D are i4), of u2 that stand for bf16, or of u1 that stand for e4m3 or e5m2; or they\n"
        "are drawn at random.",
        options,
        sizeof(options) / sizeof(options[0]),
        "Examples:\n"
        "  carat gemm A.npy B.npy -o D.npy --check\n"
        "  carat gemm A.npy B.npy --trans-b --alpha 2 --c C.npy -o D.npy\n"
        "  carat gemm --m 4096 --type f16 --device cuda --check\n"
        "  carat gemm --m 512 --type e4m3 --scale-a 0.5 --bias row --activation gelu --check\n\n"
        "The exit code is 0 for success, 1 where a file was refused, the check or the device failed, and 2\n"
        "for a wrong command line. Only success writes the output file.",
    };
    line->file_count = options_parse(&usage, argc, argv, line->files, 2, exit_code);
    return line->file_count >= 0;
}

/* Refuses what does not go together. */
static bool check_line(const struct request *request, const struct line *line)
{
    bool generated = line->m_given;
    if (generated && line->file_count > 0) {
        usage_error(command, "give files or --m, not both");
    } else if (generated && request->paths[MATRIX_C]) {
        usage_error(command, "--c goes with files; with --m and --beta C is generated too");
    } else if (!generated && (line->n_given || line->k_given || line->drawing_given)) {
        usage_error(command, "--n, --k, --random and --seed go with --m");
    } else if (generated && request->paths[MATRIX_BIAS]) {
        usage_error(command, "--bias-file goes with files; with --m the bias is generated too");
    } else if (request->paths[MATRIX_BIAS] && request->bias == CARAT_BIAS_NONE) {
        usage_error(command, "--bias-file goes with --bias row or --bias column");
    } else if (!generated && request->bias != CARAT_BIAS_NONE && !request->paths[MATRIX_BIAS]) {
        usage_error(command, "there is no bias: give it with --bias-file FILE");
    } else if (line->type_bias && request->bias == CARAT_BIAS_NONE) {
        usage_error(command, "--bias-type goes with --bias row or --bias column");
    } else if (!generated && line->file_count < 2) {
        usage_error(command, "give two .npy files, or --m");
    } else if (line->repeat_given && request->repeat == 0) {
        usage_error(command, "--repeat is 0, but should be 1 or more");
    } else if (request->repeat > MOST_REPEATED) {
        usage_error(command, "--repeat is %lld, but should be at most %d", (long long)request->repeat,
                    MOST_REPEATED);
    } else if (request->beta != 0 && !generated && !request->paths[MATRIX_C]) {
        usage_error(command, "--beta is %g, but there is no C: give it with --c FILE", request->beta);
    } else {
        return true;
    }
    return false;
}

static bool read_type(const char *option, const char *word, struct type_choice *choice)
{
    choice->given = word != NULL;
    if (word && !type_read(word, &choice->type)) {
        usage_error(command, "%s is '%s', but should be %s", option, word, type_words);
        return false;
    }
    return true;
}

/* The types, and the accuracy that "tf32" stands for. */
static bool read_types(struct request *request, const struct line *line)
{
    const char *type = line->type;
    if (type && strcmp(type, "tf32") == 0) {
        if (line->accuracy_given && request->accuracy != CARAT_ACCURACY_FAST) {
            usage_error(command, "--type tf32 is f32 with --accuracy fast, and no other");
            return false;
        }
        request->accuracy = CARAT_ACCURACY_FAST;
        type = "f32";
    }
    if (!read_type("--type", type, &request->type) ||
        !read_type("--type-b", line->type_b, &request->type_b) ||
        !read_type("--type-d", line->type_d, &request->type_d) ||
        !read_type("--bias-type", line->type_bias, &request->type_bias)) {
        return false;
    }
    if (!request->type_b.given) {
        request->type_b.type = request->type.type;
    }
    return true;
}

/* The request as the command line states it; false where the command is to end with *exit_code. */
static bool read_request(int argc, char **argv, struct request *request, int *exit_code)
{
    *request =
        (struct request){.seed = 1, .alpha = 1, .order = -1, .type = {CARAT_F32, false}, .scales = {1, 1, 1}};
    struct line line = {.device = "auto"};
    if (!parse_line(argc, argv, request, &line, exit_code)) {
        return false;
    }
    *exit_code = EXIT_USAGE;
    if (!check_line(request, &line)) {
        return false;
    }
    if (!parse_device(line.device, &request->device_kind, &request->device_index)) {
        usage_error(command, "--device is '%s', but should be auto, cpu, cuda or cuda:N", line.device);
        return false;
    }
    if (!read_types(request, &line)) {
        return false;
    }
    if (request->activation > CARAT_ACTIVATION_SILU) {
        request->activation = CARAT_ACTIVATION_GELU_ERF;
    }
    request->generated = line.m_given;
    if (request->generated) {
        request->n = line.n_given ? request->n : request->m;
        request->k = line.k_given ? request->k : request->m;
    } else {
        request->paths[MATRIX_A] = line.files[0];
        request->paths[MATRIX_B] = line.files[1];
    }
    if (request->paths[MATRIX_C] && !line.beta_given) {
        request->beta = 1;
    }
    return true;
}

/* ---- The problem ------------------------------------------------------------------------------------ */

/* Whether a file holds what an option says that it does. */
static bool agrees(const struct request *request, const struct work *work, int which, const char *option,
                   const struct type_choice *choice)
{
    carat_type type = work->matrices[which].type;
    if (choice->given && choice->type != type) {
        command_failed(command, "%s holds %s, but %s is %s", request->paths[which], carat_type_name(type),
                       option, carat_type_name(choice->type));
        return false;
    }
    return true;
}

/* Opens the files, and compares their types with each other and with what the options say. */
static bool open_files(const struct request *request, struct work *work)
{
    char message[NPY_MESSAGE_BYTES];
    /* What elements without a name in NumPy stand for. */
    const struct type_choice *raw[INPUT_COUNT] = {&request->type, &request->type_b, &request->type_d,
                                                  &request->type_bias};
    for (int i = 0; i < INPUT_COUNT; i++) {
        if (request->paths[i]) {
            struct type_choice choice = *raw[i];
            if (i == MATRIX_C && !choice.given) {
                choice.type = carat_gemm_describe(work->matrices[MATRIX_A].type, 1, 1, 1).type_cd;
            }
            enum npy_shape shape = i == MATRIX_BIAS ? NPY_VECTOR : NPY_MATRIX;
            if (!npy_open(request->paths[i], choice.type, shape, &work->files[i], message)) {
                command_failed(command, "%s", message);
                return false;
            }
            work->matrices[i] = work->files[i].matrix;
        }
    }
    carat_type type_a = work->matrices[MATRIX_A].type;
    carat_type type_b = work->matrices[MATRIX_B].type;
    if (type_a != type_b && !(is_float8(type_a) && is_float8(type_b))) {
        command_failed(command, "%s holds %s, but %s holds %s: they must be of one type",
                       request->paths[MATRIX_A], carat_type_name(type_a), request->paths[MATRIX_B],
                       carat_type_name(type_b));
        return false;
    }
    return agrees(request, work, MATRIX_A, "--type", &request->type) &&
           agrees(request, work, MATRIX_B, "--type-b", &request->type_b) &&
           (!request->paths[MATRIX_BIAS] ||
            agrees(request, work, MATRIX_BIAS, "--bias-type", &request->type_bias));
}

static void describe_generated(const struct request *request, struct work *work)
{
    carat_order order = request->order == CARAT_COLUMN_MAJOR ? CARAT_COLUMN_MAJOR : CARAT_ROW_MAJOR;
    carat_type type = request->type.type;
    int64_t m = request->m, n = request->n, k = request->k;
    struct matrix a = {type, order, request->trans_a ? k : m, request->trans_a ? m : k, NULL};
    struct matrix b = {request->type_b.type, order, request->trans_b ? n : k, request->trans_b ? k : n, NULL};
    work->matrices[MATRIX_A] = a;
    work->matrices[MATRIX_B] = b;
}

/* "A.npy", or "A" where it is generated. */
static const char *matrix_label(const struct request *request, int which)
{
    return request->paths[which] ? request->paths[which] : matrix_names[which];
}

/*
 * op as the library is told it: a matrix stored in the other order than D is, seen in D's order, its own
 * transpose. So mixed orders cost no copy.
 */
static carat_op op_in_order(const struct matrix *matrix, bool transposed, carat_order order)
{
    return transposed == (matrix->order == order) ? CARAT_TRANSPOSE : CARAT_NO_TRANSPOSE;
}

/* What there is beside A, B and D, from the problem; false with a message where a file is no such thing. */
static bool make_additions(const struct request *request, struct work *work)
{
    const carat_gemm_problem *problem = &work->problem;
    int64_t m = problem->m, n = problem->n;
    struct matrix *c = &work->matrices[MATRIX_C];
    struct matrix *bias = &work->matrices[MATRIX_BIAS];
    if (!request->paths[MATRIX_C]) {
        *c = (struct matrix){problem->type_cd, problem->order, m, n, NULL};
    } else if (c->rows != m || c->columns != n || c->type != problem->type_cd) {
        command_failed(command, "%s is %lld x %lld of %s, but the product is %lld x %lld of %s",
                       request->paths[MATRIX_C], (long long)c->rows, (long long)c->columns,
                       carat_type_name(c->type), (long long)m, (long long)n,
                       carat_type_name(problem->type_cd));
        return false;
    }
    int64_t length = problem->bias == CARAT_BIAS_PER_COLUMN ? n : m;
    int64_t given = bias->rows * bias->columns;
    if (!request->paths[MATRIX_BIAS]) {
        *bias = (struct matrix){problem->type_bias, problem->order, length, 1, NULL};
    } else if (given != length) {
        command_failed(command, "%s has %lld numbers, but D has %lld %s", request->paths[MATRIX_BIAS],
                       (long long)given, (long long)length,
                       problem->bias == CARAT_BIAS_PER_COLUMN ? "columns" : "rows");
        return false;
    }
    return true;
}

/* Fills what the options say of the problem, once its shape is known. */
static void apply_options(const struct request *request, struct work *work)
{
    carat_gemm_problem *problem = &work->problem;
    problem->type_b = work->matrices[MATRIX_B].type;
    if (request->type_d.given) {
        problem->type_cd = request->type_d.type;
    }
    problem->accuracy = (carat_accuracy)request->accuracy;
    problem->activation = (carat_activation)request->activation;
    problem->bias = (carat_bias)request->bias;
    problem->type_bias = carat_scalar_type(problem->type_cd);
    if (request->paths[MATRIX_BIAS]) {
        problem->type_bias = work->matrices[MATRIX_BIAS].type;
    } else if (request->type_bias.given) {
        problem->type_bias = request->type_bias.type;
    }
    for (int i = 0; i < SCALE_COUNT; i++) {
        work->scales[i] = (float)request->scales[i];
    }
}

/* The problem from the matrices' shapes, and the matrix D; false with a message where they do not go
 * together. */
static bool make_problem(const struct request *request, struct work *work)
{
    const struct matrix *a = &work->matrices[MATRIX_A];
    const struct matrix *b = &work->matrices[MATRIX_B];
    const struct matrix *c = &work->matrices[MATRIX_C];
    int64_t m = request->trans_a ? a->columns : a->rows;
    int64_t k = request->trans_a ? a->rows : a->columns;
    int64_t k_of_b = request->trans_b ? b->columns : b->rows;
    int64_t n = request->trans_b ? b->rows : b->columns;
    if (k != k_of_b) {
        command_failed(
            command,
            "%s is %lld x %lld and %s is %lld x %lld: op(A) has %lld columns, but op(B) has %lld rows",
            matrix_label(request, MATRIX_A), (long long)a->rows, (long long)a->columns,
            matrix_label(request, MATRIX_B), (long long)b->rows, (long long)b->columns, (long long)k,
            (long long)k_of_b);
        return false;
    }
    carat_order order = a->order == b->order ? a->order : CARAT_ROW_MAJOR;
    if (request->paths[MATRIX_C]) {
        order = c->order;
    }
    if (request->order >= 0) {
        order = (carat_order)request->order;
    }
    work->problem = carat_gemm_describe(a->type, m, n, k);
    work->problem.order = order;
    apply_options(request, work);
    if (!make_additions(request, work)) {
        return false;
    }
    carat_type type_d = work->problem.type_cd;
    for (int i = MATRIX_A; i <= MATRIX_B;
         i++) { /* files were compared with their size; generated ones may be any */
        const struct matrix *matrix = &work->matrices[i];
        if (!matrix_fits(matrix->type, matrix->rows, matrix->columns)) {
            command_failed(command, "%s, %lld x %lld, is larger than can be counted", matrix_names[i],
                           (long long)matrix->rows, (long long)matrix->columns);
            return false;
        }
    }
    if (!matrix_fits(type_d, m, n)) {
        command_failed(command, "the product, %lld x %lld, is larger than can be counted", (long long)m,
                       (long long)n);
        return false;
    }
    work->matrices[MATRIX_D] = (struct matrix){type_d, order, m, n, NULL};
    work->problem.op_a = op_in_order(a, request->trans_a, order);
    work->problem.op_b = op_in_order(b, request->trans_b, order);
    work->problem.lda = matrix_ld(a);
    work->problem.ldb = matrix_ld(b);
    work->problem.ldc = work->problem.ldd = matrix_ld(&work->matrices[MATRIX_D]);
    return true;
}

/* Stores a scalar in the type that the problem takes; false with a message where that type has no such
 * number. */
static bool make_scalar(const char *name, double value, const carat_gemm_problem *problem, double *scalar)
{
    carat_type scalar_type = carat_scalar_type(problem->type_cd);
    if (is_integer(scalar_type) && !(value == rint(value) && value >= INT32_MIN && value <= INT32_MAX)) {
        usage_error(command, "%s is %g, but products of %s are scaled by whole numbers of 32 bits", name,
                    value, carat_type_name(problem->type_a));
        return false;
    }
    element_store(scalar_type, scalar, 0, value);
    return true;
}

/* alpha, beta and the scales; false with a message where the problem takes no such number. */
static bool make_scalars(const struct request *request, struct work *work)
{
    const carat_gemm_problem *problem = &work->problem;
    bool takes_scales = carat_type_size(problem->type_a) == 1 && problem->type_cd != CARAT_S32;
    for (int i = 0; i < SCALE_COUNT; i++) {
        if (request->scale_given[i] && !takes_scales) {
            usage_error(command, "%s goes with A and B of 8 bits whose D is not s32, but A is %s and D is %s",
                        scale_options[i], carat_type_name(problem->type_a),
                        carat_type_name(problem->type_cd));
            return false;
        }
    }
    return make_scalar("--alpha", request->alpha, problem, &work->alpha) &&
           make_scalar("--beta", request->beta, problem, &work->beta);
}

/* Whether a matrix is there at all: C and the bias need not be. */
static bool is_used(const struct request *request, int which)
{
    return (which != MATRIX_C || request->beta != 0) &&
           (which != MATRIX_BIAS || request->bias != CARAT_BIAS_NONE);
}

/* Refuses what cannot fit: a system that promises more memory than it has would end the program later. */
static bool fits_memory(const struct request *request, const struct work *work)
{
    double needed = 0;
    for (int i = 0; i < MATRIX_COUNT; i++) {
        if (is_used(request, i)) {
            needed += (double)matrix_bytes(&work->matrices[i]);
        }
    }
    double memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    if (needed > memory) {
        command_failed(command, "the matrices take %.1f GB, but this machine has %.1f GB of memory",
                       needed * 1e-9, memory * 1e-9);
        return false;
    }
    return true;
}

/* ---- The elements ----------------------------------------------------------------------------------- */

static bool library_failed(void)
{
    progress_end();
    command_failed(command, "%s", carat_last_message());
    return false;
}

static bool allocate(struct work *work, struct matrix *matrix)
{
    /* One byte more, so that an empty matrix has an address too. */
    return carat_allocate(work->context, CARAT_MEMORY_PINNED, matrix_bytes(matrix) + 1, &matrix->elements) ==
               CARAT_OK ||
           library_failed();
}

/* C is read as it is stored; where D goes in the other order, C has to follow. */
static bool turn_c(struct work *work)
{
    struct matrix *c = &work->matrices[MATRIX_C];
    carat_order order = work->problem.order;
    if (c->order == order) {
        return true;
    }
    struct matrix turned = {c->type, order, c->rows, c->columns, NULL};
    if (!allocate(work, &turned)) {
        return false;
    }
    /* Seen in its own order, C turned into the other order is the transpose of C. */
    carat_status status = carat_transpose(work->context, c->order, c->type, c->rows, c->columns, c->elements,
                                          matrix_ld(c), turned.elements, matrix_ld(&turned), NULL);
    carat_release(work->context, c->elements);
    *c = turned;
    return status == CARAT_OK || library_failed();
}

static bool load(const struct request *request, struct work *work)
{
    for (int i = 0; i < MATRIX_COUNT; i++) {
        struct matrix *matrix = &work->matrices[i];
        if (!is_used(request, i)) {
            continue;
        }
        if (!allocate(work, matrix)) {
            return false;
        }
        if (i == MATRIX_D) {
            continue;
        }
        if (request->generated) {
            progress("drawing %s", matrix_names[i]);
            generate(matrix->type, (enum family)request->family,
                     (uint64_t)request->seed * INPUT_COUNT + (uint64_t)i, matrix->rows * matrix->columns,
                     matrix->elements);
            continue;
        }
        progress("reading %s", request->paths[i]);
        char message[NPY_MESSAGE_BYTES];
        work->files[i].matrix = *matrix;
        if (!npy_load(request->paths[i], &work->files[i], message)) {
            progress_end();
            command_failed(command, "%s", message);
            return false;
        }
    }
    return !is_used(request, MATRIX_C) || turn_c(work);
}

/* ---- The runs --------------------------------------------------------------------------------------- */

/* The addresses of the matrices in one kind of memory. */
struct place {
    void *elements[MATRIX_COUNT];
};

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int compare_doubles(const void *x, const void *y)
{
    double left = *(const double *)x, right = *(const double *)y;
    return (left > right) - (left < right);
}

/* Runs the plan again and again, each run to its end. */
static bool measure(struct work *work, const struct place *place, const char *label, int64_t repeat,
                    struct timing *timing)
{
    int64_t most = repeat > 0 ? repeat : MOST_RUNS;
    bool scaled = work->scales[0] != 1 || work->scales[1] != 1 || work->scales[2] != 1;
    carat_run run = {
        .bias = place->elements[MATRIX_BIAS],
        .scale_a = scaled ? &work->scales[0] : NULL,
        .scale_b = scaled ? &work->scales[1] : NULL,
        .scale_d = scaled ? &work->scales[2] : NULL,
    };
    double *times = (double *)malloc((size_t)most * sizeof(*times));
    if (!times) {
        progress_end();
        command_failed(command, "no memory for the times of %lld runs", (long long)most);
        return false;
    }
    *timing = (struct timing){0};
    double total = 0;
    double shown = 0;
    uint64_t before = 0;
    uint64_t after = 0;
    bool good = carat_count_safe(work->context, &before) == CARAT_OK;
    while (good && timing->runs < most && (repeat > 0 || timing->runs < LEAST_RUNS || total < TIME_BUDGET)) {
        if (total - shown > 0.1 || timing->runs == 0) {
            progress("multiplying%s, run %lld", label, (long long)timing->runs + 1);
            shown = total;
        }
        double begin = seconds_now();
        good = carat_plan_run(work->plan, &work->alpha, place->elements[MATRIX_A], place->elements[MATRIX_B],
                              &work->beta, place->elements[MATRIX_C], place->elements[MATRIX_D],
                              &run) == CARAT_OK &&
               carat_synchronize(work->context, NULL) == CARAT_OK;
        times[timing->runs] = seconds_now() - begin;
        total += times[timing->runs++];
    }
    good = good && carat_count_safe(work->context, &after) == CARAT_OK;
    if (good) {
        timing->safe = (after - before) / (uint64_t)timing->runs;
        timing->first = times[0];
        qsort(times, (size_t)timing->runs, sizeof(*times), compare_doubles);
        timing->best = times[0];
        timing->median = (times[(timing->runs - 1) / 2] + times[timing->runs / 2]) / 2;
    }
    free(times);
    return good || library_failed();
}

static void release_place(struct work *work, struct place *place)
{
    for (int i = 0; i < MATRIX_COUNT; i++) {
        carat_release(work->context, place->elements[i]);
        place->elements[i] = NULL;
    }
}

/* Copies of what goes in, in device memory, and room for D there. CARAT_OUT_OF_DEVICE_MEMORY is no failure
 * yet. */
static carat_status fill_device(struct work *work, struct place *place)
{
    *place = (struct place){0};
    carat_status status = CARAT_OK;
    for (int i = 0; i < MATRIX_COUNT && status == CARAT_OK; i++) {
        const struct matrix *matrix = &work->matrices[i];
        if (!matrix->elements) {
            continue;
        }
        status =
            carat_allocate(work->context, CARAT_MEMORY_DEVICE, matrix_bytes(matrix) + 1, &place->elements[i]);
        if (status == CARAT_OK && i != MATRIX_D && matrix_bytes(matrix) > 0) {
            status =
                carat_copy(work->context, place->elements[i], matrix->elements, matrix_bytes(matrix), NULL);
        }
    }
    return status;
}

/* An element that no run wrote must not look like a result: NaN, or -1. */
static void poison(const struct matrix *matrix) { memset(matrix->elements, 0xff, matrix_bytes(matrix)); }

/*
 * Times the product on the device's own memory, and leaves D in host memory. *measured is false where the
 * matrices do not fit there all at once, which the host's pointers do not ask for.
 */
static bool measure_on_device(struct work *work, int64_t repeat, struct timing *timing, bool *measured)
{
    struct place place;
    carat_status status = fill_device(work, &place);
    *measured = status == CARAT_OK;
    bool good = status == CARAT_OK || status == CARAT_OUT_OF_DEVICE_MEMORY || library_failed();
    if (*measured) {
        const struct matrix *d = &work->matrices[MATRIX_D];
        good = measure(work, &place, "", repeat, timing);
        if (good && matrix_bytes(d) > 0) {
            good = (carat_copy(work->context, d->elements, place.elements[MATRIX_D], matrix_bytes(d), NULL) ==
                        CARAT_OK &&
                    carat_synchronize(work->context, NULL) == CARAT_OK) ||
                   library_failed();
        }
    }
    release_place(work, &place);
    return good;
}

/* ---- What is said ----------------------------------------------------------------------------------- */

/* Prints the text after a label, broken between words, its further lines under the first. */
static void print_wrapped(const char *label, const char *text)
{
    enum { WIDTH = 90 };
    printf("%-9s", label);
    int column = 0;
    for (const char *word = text + strspn(text, " "); *word != '\0';) {
        int length = (int)strcspn(word, " ");
        if (column > 0 && column + 1 + length > WIDTH) {
            printf("\n%9s", "");
            column = 0;
        }
        column += printf("%s%.*s", column > 0 ? " " : "", length, word);
        word += length;
        word += strspn(word, " ");
    }
    printf("\n");
}

/* Seconds with the unit in which they read best, four digits. */
static const char *duration(double seconds, char text[32])
{
    static const struct {
        double least;
        double scale;
        const char *unit;
    } units[] = {{1, 1, "s"}, {1e-3, 1e3, "ms"}, {0, 1e6, "us"}};
    int unit = 0;
    while (seconds < units[unit].least) {
        unit++;
    }
    double value = seconds * units[unit].scale;
    int decimals = value < 10 ? 3 : value < 100 ? 2 : 1;
    snprintf(text, 32, "%.*f %s", decimals, value, units[unit].unit);
    return text;
}

static void print_matrix(const struct request *request, const struct work *work, int which)
{
    const struct matrix *matrix = &work->matrices[which];
    char source[64];
    const char *path = request->paths[which];
    if (!path && which == MATRIX_D) {
        path = "not saved";
    } else if (!path) {
        snprintf(source, sizeof(source), "random %s, seed %lld",
                 request->family == FAMILY_NORMAL ? "normal" : "uniform", (long long)request->seed);
        path = source;
    }
    char shape[64];
    snprintf(shape, sizeof(shape), "%lld x %lld", (long long)matrix->rows, (long long)matrix->columns);
    const char *order = matrix->order == CARAT_ROW_MAJOR ? "C" : "Fortran";
    if (which == MATRIX_BIAS) {
        order = request->bias == CARAT_BIAS_PER_ROW ? "rows" : "columns";
    }
    printf("%-9s%-16s%-6s%-9s%s\n", matrix_names[which], shape, carat_type_name(matrix->type), order, path);
}

/* "0.5 relu(2 A^T B + 3 C + bias)": what is 1 is left out. */
static void print_formula(const struct request *request, char *text, size_t size)
{
    static const char *const activations[] = {"", "relu", "gelu_tanh", "gelu_erf", "silu"};
    char scale_d[32] = "", alpha[32] = "", beta[48] = "";
    double factor = request->alpha * request->scales[0] * request->scales[1];
    bool added = request->beta != 0 || request->bias != CARAT_BIAS_NONE;
    bool framed = request->activation != CARAT_ACTIVATION_NONE || (request->scales[2] != 1 && added);
    if (request->scales[2] != 1) {
        snprintf(scale_d, sizeof(scale_d), "%g ", request->scales[2]);
    }
    if (factor != 1) {
        snprintf(alpha, sizeof(alpha), "%g ", factor);
    }
    if (request->beta != 0) {
        snprintf(beta, sizeof(beta), " + %g C", request->beta);
    }
    snprintf(text, size, "%s%s%s%sA%s B%s%s%s%s", scale_d, activations[request->activation],
             framed ? "(" : "", alpha, request->trans_a ? "^T" : "", request->trans_b ? "^T" : "", beta,
             request->bias != CARAT_BIAS_NONE ? " + bias" : "", framed ? ")" : "");
}

static void print_input(const struct request *request, const struct work *work)
{
    const carat_device_info *device = &work->device;
    if (device->kind == CARAT_DEVICE_CUDA) {
        printf("%-9scuda:%d, %s\n", "device", device->index, device->name);
    } else {
        printf("%-9scpu, %s, %d core%s\n", "device", device->name, device->multiprocessors,
               device->multiprocessors == 1 ? "" : "s");
    }
    for (int i = 0; i < MATRIX_COUNT; i++) {
        if (is_used(request, i)) {
            print_matrix(request, work, i);
        }
    }
    char formula[200];
    print_formula(request, formula, sizeof(formula));
    printf("%-9sD = %s, sums of %lld product%s%s\n", "product", formula, (long long)work->problem.k,
           work->problem.k == 1 ? "" : "s", accuracy_words[work->problem.accuracy]);
    print_wrapped("plan", carat_plan_explain(work->plan));
}

static void print_time(const char *label, const struct timing *timing, const char *how)
{
    char median[32], best[32], first[32];
    printf("%-9s%-12s%s", label, duration(timing->median, median), how);
    if (timing->runs > 1) {
        printf("median of %lld runs; best %s, first %s\n", (long long)timing->runs,
               duration(timing->best, best), duration(timing->first, first));
    } else {
        printf("one run\n");
    }
}

static void print_rate(const struct work *work, const struct timing *timing)
{
    double operations = 2 * (double)work->problem.m * (double)work->problem.n * (double)work->problem.k;
    if (operations == 0) {
        return;
    }
    printf("%-9s%.1f %s", "rate", operations / timing->median * 1e-9,
           is_integer(work->problem.type_a) ? "GOP/s" : "GFLOP/s");
    if (timing->runs > 1) {
        printf(", best run %.1f", operations / timing->best * 1e-9);
    }
    printf("\n");
}

static void print_check(const struct request *request, const struct work *work, const struct check *check)
{
    const char *factor = request->alpha * request->scales[0] * request->scales[1] != 1 ? "alpha " : "";
    const char *beta_c = is_used(request, MATRIX_C) ? " + |beta C|" : "";
    const char *bias = is_used(request, MATRIX_BIAS) ? " + |bias|" : "";
    int64_t m = work->problem.m, n = work->problem.n, entries = m * n;
    printf("%-9s%s, ", "check", check->pass ? "passed" : "FAILED");
    if (check->rows == m && check->columns == n) {
        printf("all %lld entries", (long long)entries);
    } else {
        printf("%lld x %lld sampled entries", (long long)check->rows, (long long)check->columns);
    }
    printf(" against %s\n",
           check->exact ? "the exact result modulo 2^32" : "a reference of higher precision");
    if (!check->exact) {
        printf("%-9smax |D - ref| / (%s|%sA||B|%s%s%s) = %.2e, bound %.2e\n", "",
               request->scales[2] != 1 ? "scale_d (" : "", factor, beta_c, bias,
               request->scales[2] != 1 ? ")" : "", check->error, check->bound);
    }
    if (!check->pass) {
        printf("%-9s%lld wrong, worst D(%lld, %lld) = %.9g instead of %.9g\n", "", (long long)check->wrong,
               (long long)check->worst_row, (long long)check->worst_column, check->worst_value,
               check->worst_reference);
    }
}

/* ---- The command ------------------------------------------------------------------------------------ */

/* Checks what is in D now. *pass keeps false once it is. */
static bool check_result(const struct request *request, struct work *work, struct check *check)
{
    progress("checking");
    const struct matrix *matrices = work->matrices;
    const struct check_input input = {
        .problem = &work->problem,
        .alpha = &work->alpha,
        .a = matrices[MATRIX_A].elements,
        .b = matrices[MATRIX_B].elements,
        .beta = &work->beta,
        .c = matrices[MATRIX_C].elements,
        .d = matrices[MATRIX_D].elements,
        .bias = matrices[MATRIX_BIAS].elements,
        .scale_a = (double)work->scales[0],
        .scale_b = (double)work->scales[1],
        .scale_d = (double)work->scales[2],
        .random = request->generated,
        .tensor_unit = work->device.kind == CARAT_DEVICE_CUDA,
    };
    if (!check_gemm(&input, check)) {
        progress_end();
        command_failed(command, "no memory for the reference");
        return false;
    }
    return true;
}

/* Runs, times, checks, and prints what came out. */
static bool multiply(const struct request *request, struct work *work)
{
    struct timing on_device, from_host;
    struct check check = {.pass = true};
    bool measured = false;
    poison(&work->matrices[MATRIX_D]);
    if (work->device.kind == CARAT_DEVICE_CUDA) {
        if (!measure_on_device(work, request->repeat, &on_device, &measured) ||
            (measured && request->check && !check_result(request, work, &check))) {
            return false;
        }
    }
    if (check.pass) { /* else D stays as the failed check saw it */
        struct place host;
        for (int i = 0; i < MATRIX_COUNT; i++) {
            host.elements[i] = work->matrices[i].elements;
        }
        poison(&work->matrices[MATRIX_D]);
        if (!measure(work, &host, measured ? " with copies" : "", request->repeat, &from_host) ||
            (request->check && !check_result(request, work, &check))) {
            return false;
        }
    }
    progress_end();
    if (measured) {
        print_time("time", &on_device, "");
    }
    if (check.pass || !measured) {
        const char *how = work->device.kind == CARAT_DEVICE_CUDA ? "with copies in and out, " : "";
        print_time(measured ? "" : "time", &from_host, how);
    }
    print_rate(work, measured ? &on_device : &from_host);
    if (work->device.kind == CARAT_DEVICE_CUDA && work->problem.accuracy == CARAT_ACCURACY_CLOSE) {
        printf("%-9s%llu of %llu elements of D on the safe path\n", "",
               (unsigned long long)(measured ? on_device.safe : from_host.safe),
               (unsigned long long)work->problem.m * (unsigned long long)work->problem.n);
    }
    if (request->check) {
        print_check(request, work, &check);
        if (!check.pass) {
            command_failed(command, "the result is wrong: see the check%s",
                           request->paths[MATRIX_D] ? "; nothing was written" : "");
            return false;
        }
    }
    return true;
}

static bool run(const struct request *request, struct work *work)
{
    char message[NPY_MESSAGE_BYTES];
    if (request->paths[MATRIX_D] && !npy_can_save(request->paths[MATRIX_D], message)) {
        command_failed(command, "%s", message);
        return false;
    }
    if (!fits_memory(request, work)) {
        return false;
    }
    if (carat_context_create(request->device_kind, request->device_index, &work->context) != CARAT_OK ||
        carat_device_query(work->context, &work->device) != CARAT_OK ||
        carat_plan_create(work->context, &work->problem, &work->plan) != CARAT_OK) {
        return library_failed();
    }
    if (!load(request, work)) {
        return false;
    }
    progress_end();
    print_input(request, work);
    fflush(stdout);
    if (!multiply(request, work)) {
        return false;
    }
    if (request->paths[MATRIX_D]) {
        progress("writing %s", request->paths[MATRIX_D]);
        bool saved = npy_save(request->paths[MATRIX_D], &work->matrices[MATRIX_D], message);
        progress_end();
        if (!saved) {
            command_failed(command, "%s", message);
        }
        return saved;
    }
    return true;
}

static void clean_up(struct work *work)
{
    carat_plan_destroy(work->plan);
    for (int i = 0; i < MATRIX_COUNT; i++) {
        npy_close(&work->files[i]);
        if (work->context) {
            carat_release(work->context, work->matrices[i].elements);
        }
    }
    carat_context_destroy(work->context);
}

int command_gemm(int argc, char **argv)
{
    struct request request;
    int exit_code;
    if (!read_request(argc, argv, &request, &exit_code)) {
        return exit_code;
    }
    struct work work = {0};
    for (int i = 0; i < MATRIX_COUNT; i++) {
        work.files[i].descriptor = -1;
    }
    if (request.generated) {
        describe_generated(&request, &work);
    }
    exit_code = EXIT_FAILED;
    if ((request.generated || open_files(&request, &work)) && make_problem(&request, &work)) {
        if (!make_scalars(&request, &work)) {
            exit_code = EXIT_USAGE;
        } else if (run(&request, &work)) {
            exit_code = EXIT_OK;
        }
    }
    clean_up(&work);
    return exit_code;
}
