/*
 * test_cuda_kernels.c - every row of the catalogue, run on the CPU on random work.
 *
 *     test_cuda_kernels                        all rows, KERNEL_TRIALS cases each (12)
 *     test_cuda_kernels ROW [OBJECT]           one row, from a shared object if given (see mutation/)
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel_check.h"

static int trials(void)
{
    const char *text = getenv("KERNEL_TRIALS");
    return text ? atoi(text) : 12;
}

static bool check_row(const struct kernel *row, const struct cpu_kernel *kernel)
{
    for (int trial = 0; trial < trials(); ++trial) {
        struct random random = {(uint64_t)trial * 0x100000001u + 1};
        if (!kernel_check(row, kernel, &random)) {
            fprintf(stderr, "  in trial %d\n", trial);
            return false;
        }
    }
    return true;
}

static void the_row_is_right(void **state)
{
    const struct kernel *row = *state;
    const struct cpu_kernel *kernel = cpu_kernel_find(row->name);
    assert_non_null(kernel);
    assert_true(check_row(row, kernel));
}

static bool is_left_out(const char *name)
{
    for (int i = 0; i < cpu_left_out_count; ++i) {
        if (!strcmp(cpu_left_out[i].name, name)) {
            return true;
        }
    }
    return false;
}

static int check_all(void)
{
    for (int i = 0; i < cpu_left_out_count; ++i) {
        printf("left out: %s, because %s\n", cpu_left_out[i].name, cpu_left_out[i].reason);
    }
    printf("%d rows are left out, %d are checked\n", cpu_left_out_count, cpu_kernel_count);
    fflush(stdout);
    struct CMUnitTest *tests = calloc((size_t)carat_catalog_count + 1, sizeof *tests);
    if (!tests) {
        return 1;
    }
    size_t count = 0;
    for (int i = 0; i < carat_catalog_count; ++i) {
        if (!is_left_out(carat_catalog[i].name)) {
            tests[count++] = (struct CMUnitTest){carat_catalog[i].name, the_row_is_right, NULL, NULL,
                                                 (void *)(uintptr_t)&carat_catalog[i]};
        }
    }
    int failed = count == (size_t)cpu_kernel_count ? 0 : 1;
    failed += _cmocka_run_group_tests("kernels", tests, count, NULL, NULL);
    free(tests);
    return failed != 0;
}

/* Exit status 3 says that the check could not be made. */
static int check_one(const char *name, const char *object)
{
    const struct kernel *row = catalog_find(name);
    const struct cpu_kernel *kernel = cpu_kernel_find(name);
    if (object) {
        char symbol[160];
        snprintf(symbol, sizeof symbol, "cpu_kernel_%s", name);
        void *library = dlopen(object, RTLD_NOW | RTLD_LOCAL);
        if (!library) {
            fprintf(stderr, "%s\n", dlerror());
            return 3;
        }
        kernel = dlsym(library, symbol);
    }
    if (!row || !kernel) {
        fprintf(stderr, "there is no kernel %s\n", name);
        return 3;
    }
    return check_row(row, kernel) ? 0 : 1;
}

int main(int argc, char **argv)
{
    return argc > 1 ? check_one(argv[1], argc > 2 ? argv[2] : NULL) : check_all();
}
