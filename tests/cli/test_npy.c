/*
 * test_npy.c - .npy files that are cut, changed at random, or lie about themselves must be refused, never
 * crash the reader (it is built with the sanitizers here), and never be taken for more than they hold.
 */
#define _GNU_SOURCE /* memfd_create */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "npy.h"

enum { MUTANTS = 20000, MOST_CONTENT = 512 };

/* A file in memory, for there are many. */
static int descriptor = -1;
static char path[64];

static int make_file(void **state)
{
    (void)state;
    descriptor = memfd_create("npy", 0);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", descriptor);
    return descriptor < 0;
}

static int remove_file(void **state)
{
    (void)state;
    return close(descriptor);
}

static void write_content(const void *content, size_t bytes)
{
    assert_int_equal(ftruncate(descriptor, 0), 0);
    assert_int_equal(pwrite(descriptor, content, bytes, 0), (ssize_t)bytes);
}

static uint32_t draw(uint32_t below)
{
    static uint64_t state = 12345;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % below;
}

/* Tries the file's content; whether it was taken. */
static int try_content(const unsigned char *content, size_t bytes, enum npy_shape shape)
{
    char message[NPY_MESSAGE_BYTES] = "";
    struct npy_file file;
    write_content(content, bytes);
    carat_type raw = (carat_type)(CARAT_F32 + draw(8));
    if (!npy_open(path, raw, shape, &file, message)) {
        assert_int_equal(strncmp(message, path, strlen(path)), 0);
        assert_true(strlen(message) > strlen(path) + 5);
        assert_int_equal(file.descriptor, -1);
        return 0;
    }
    struct matrix *matrix = &file.matrix;
    assert_true(matrix->rows >= 0 && matrix->columns >= 0);
    assert_int_equal((size_t)file.data_offset + matrix_bytes(matrix), bytes);
    matrix->elements = malloc(matrix_bytes(matrix) + 1);
    assert_non_null(matrix->elements);
    assert_true(npy_load(path, &file, message));
    assert_memory_equal(matrix->elements, content + file.data_offset, matrix_bytes(matrix));
    free(matrix->elements);
    npy_close(&file);
    return 1;
}

static size_t make_content(unsigned char content[MOST_CONTENT], int version)
{
    static const char text[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }          \n";
    size_t length = strlen(text);
    size_t at = 0;
    memcpy(content, "\x93NUMPY", 6);
    at = 6;
    content[at++] = (unsigned char)version;
    content[at++] = 0;
    content[at++] = (unsigned char)length;
    content[at++] = 0;
    if (version > 1) {
        content[at++] = 0;
        content[at++] = 0;
    }
    memcpy(content + at, text, length);
    at += length;
    for (int i = 0; i < 48; i++) {
        content[at++] = (unsigned char)(i * 7);
    }
    return at;
}

static void whole_files_are_taken(void **state)
{
    (void)state;
    for (int version = 1; version <= 3; version++) {
        unsigned char content[MOST_CONTENT];
        size_t bytes = make_content(content, version);
        assert_true(try_content(content, bytes, NPY_MATRIX));
    }
}

static void cut_files_are_refused(void **state)
{
    (void)state;
    for (int version = 1; version <= 3; version++) {
        unsigned char content[MOST_CONTENT];
        size_t bytes = make_content(content, version);
        for (size_t cut = 0; cut < bytes; cut++) {
            assert_false(try_content(content, cut, NPY_MATRIX));
        }
    }
}

static void mutants_do_no_harm(void **state)
{
    (void)state;
    static const char letters[] = " '\"(),:[]{}0123456789<>=|ufiLFTrue\0\xff\n\\";
    int taken = 0;
    for (int i = 0; i < MUTANTS; i++) {
        unsigned char content[MOST_CONTENT];
        size_t bytes = make_content(content, 1 + i % 3);
        for (uint32_t change = 1 + draw(4); change > 0; change--) {
            size_t at = draw((uint32_t)bytes);
            switch (draw(4)) {
            case 0: /* any byte */
                content[at] = (unsigned char)draw(256);
                break;
            case 1: /* one that means something in a header */
                content[at] = (unsigned char)letters[draw(sizeof(letters))];
                break;
            case 2: /* a byte less */
                memmove(content + at, content + at + 1, bytes - at - 1);
                bytes--;
                break;
            default: /* a byte more */
                memmove(content + at + 1, content + at, bytes - at);
                content[at] = (unsigned char)letters[draw(sizeof(letters))];
                bytes++;
            }
        }
        taken += try_content(content, bytes, draw(4) == 0 ? NPY_VECTOR : NPY_MATRIX);
    }
    /* Changed elements and spaces do no harm, a changed header nearly always does. */
    print_message("%d of %d mutants were taken\n", taken, MUTANTS);
    assert_in_range(taken, MUTANTS / 50, MUTANTS / 2);
}

static void what_is_saved_is_read_back(void **state)
{
    (void)state;
    char saved[] = "/tmp/carat-npy-XXXXXX";
    int placeholder = mkstemp(saved);
    assert_true(placeholder >= 0);
    close(placeholder);
    static const struct {
        carat_type type;
        carat_order order;
        int64_t rows;
        int64_t columns;
    } cases[] = {
        {CARAT_F32, CARAT_ROW_MAJOR, 3, 5},     {CARAT_F64, CARAT_COLUMN_MAJOR, 1, 7},
        {CARAT_F16, CARAT_ROW_MAJOR, 4, 4},     {CARAT_BF16, CARAT_COLUMN_MAJOR, 2, 9},
        {CARAT_S32, CARAT_ROW_MAJOR, 0, 12},    {CARAT_S8, CARAT_COLUMN_MAJOR, 6, 0},
        {CARAT_S8, CARAT_ROW_MAJOR, 100, 200},  {CARAT_E4M3, CARAT_ROW_MAJOR, 7, 3},
        {CARAT_E5M2, CARAT_COLUMN_MAJOR, 5, 8},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char message[NPY_MESSAGE_BYTES];
        struct matrix matrix = {cases[i].type, cases[i].order, cases[i].rows, cases[i].columns, NULL};
        size_t bytes = matrix_bytes(&matrix);
        unsigned char *elements = malloc(bytes + 1);
        unsigned char *read = malloc(bytes + 1);
        assert_true(elements && read);
        for (size_t at = 0; at < bytes; at++) {
            elements[at] = (unsigned char)draw(256);
        }
        matrix.elements = elements;
        assert_true(npy_can_save(saved, message));
        assert_true(npy_save(saved, &matrix, message));
        struct npy_file file;
        assert_true(npy_open(saved, cases[i].type, NPY_MATRIX, &file, message));
        assert_int_equal(file.matrix.type, matrix.type);
        assert_int_equal(file.matrix.order, matrix.order);
        assert_int_equal(file.matrix.rows, matrix.rows);
        assert_int_equal(file.matrix.columns, matrix.columns);
        assert_int_equal(file.data_offset % 64, 0);
        file.matrix.elements = read;
        assert_true(npy_load(saved, &file, message));
        npy_close(&file);
        assert_memory_equal(read, elements, bytes);
        free(elements);
        free(read);
    }
    assert_int_equal(unlink(saved), 0);
}

/* A bias may have one dimension, or two of which one is 1; a matrix has two. */
static void vectors_are_taken_where_they_are_wanted(void **state)
{
    (void)state;
    static const struct {
        const char *shape;
        bool vector;
        bool matrix;
        int64_t rows;
        int64_t columns;
    } cases[] = {
        {"(6,)", true, false, 6, 1},   {"(1, 6)", true, true, 1, 6}, {"(6, 1)", true, true, 6, 1},
        {"(2, 3)", false, true, 2, 3}, {"()", false, false, 0, 0},   {"(1, 6, 1)", false, false, 0, 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        unsigned char content[MOST_CONTENT];
        char text[128];
        int length = snprintf(text, sizeof(text), "{'descr': '|u1', 'fortran_order': False, 'shape': %s}\n",
                              cases[i].shape);
        memcpy(content, "\x93NUMPY\x01", 8);
        content[8] = (unsigned char)length;
        content[9] = 0;
        memcpy(content + 10, text, (size_t)length);
        memset(content + 10 + length, 0x38, 6);
        write_content(content, (size_t)length + 16);
        for (int shape = NPY_MATRIX; shape <= NPY_VECTOR; shape++) {
            char message[NPY_MESSAGE_BYTES];
            struct npy_file file;
            bool wanted = shape == NPY_VECTOR ? cases[i].vector : cases[i].matrix;
            assert_int_equal(npy_open(path, CARAT_E4M3, (enum npy_shape)shape, &file, message), wanted);
            if (wanted) {
                assert_int_equal(file.matrix.type, CARAT_E4M3);
                assert_int_equal(file.matrix.rows, cases[i].rows);
                assert_int_equal(file.matrix.columns, cases[i].columns);
                npy_close(&file);
            }
            /* Bytes are floats only where that is said. */
            assert_false(npy_open(path, CARAT_BF16, (enum npy_shape)shape, &file, message));
            assert_non_null(strstr(message, "with --type e4m3 or e5m2"));
        }
    }
}

static void a_file_that_shrinks_is_noticed(void **state)
{
    (void)state;
    unsigned char content[MOST_CONTENT];
    char message[NPY_MESSAGE_BYTES];
    float elements[12];
    struct npy_file file;
    size_t bytes = make_content(content, 1);
    write_content(content, bytes);
    assert_true(npy_open(path, CARAT_F32, NPY_MATRIX, &file, message));
    assert_int_equal(ftruncate(descriptor, (off_t)bytes - 1), 0);
    file.matrix.elements = elements;
    assert_false(npy_load(path, &file, message));
    assert_non_null(strstr(message, "became shorter"));
    npy_close(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_files_are_taken),
        cmocka_unit_test(cut_files_are_refused),
        cmocka_unit_test(mutants_do_no_harm),
        cmocka_unit_test(what_is_saved_is_read_back),
        cmocka_unit_test(vectors_are_taken_where_they_are_wanted),
        cmocka_unit_test(a_file_that_shrinks_is_noticed),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
