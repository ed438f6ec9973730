/*
 * npy.h - matrices from and to NumPy's .npy files (format versions 1, 2 and 3).
 *
 * A file is a magic string, a version, the length of the header, the header (a Python dictionary with the
 * type, the order and the shape) and then the elements. Nothing of it is believed before it was
 * compared with the size of the file.
 */
#ifndef CARAT_CLI_NPY_H
#define CARAT_CLI_NPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "carat/carat.h"

/* A whole matrix in host memory, tightly packed. */
struct matrix {
    carat_type type;
    carat_order order;
    int64_t rows;
    int64_t columns;
    void *elements;
};

/* The elements' bytes. Right for every matrix that npy_open() or matrix_fits() let through. */
size_t matrix_bytes(const struct matrix *matrix);

/* Whether the bytes of rows x columns elements can be counted. */
bool matrix_fits(carat_type type, int64_t rows, int64_t columns);

/* The least leading dimension, 1 or more. */
int64_t matrix_ld(const struct matrix *matrix);

enum { NPY_MESSAGE_BYTES = 1024 };

/* A file whose header was read and found right. */
struct npy_file {
    int descriptor;
    int64_t data_offset;
    struct matrix matrix; /* with elements NULL */
};

enum npy_shape {
    NPY_MATRIX, /* two dimensions */
    NPY_VECTOR  /* one dimension (which becomes one column), or two of which one is 1 */
};

/*
 * Opens path and checks all but the elements. NumPy has no bf16 and no 8-bit floats: where raw is one of them, u2 or
 * u1 stands for it. On failure false, with the reason, which begins with the path, in message; nothing stays open.
 */
bool npy_open(const char *path, carat_type raw, enum npy_shape shape, struct npy_file *file,
              char message[NPY_MESSAGE_BYTES]);

/* Reads the elements to where file->matrix.elements points. The file stays open. */
bool npy_load(const char *path, const struct npy_file *file, char message[NPY_MESSAGE_BYTES]);

/* Closes what npy_open() opened. */
void npy_close(struct npy_file *file);

/* Whether npy_save() has a chance, so that an hour's work does not end at a directory that is not there. */
bool npy_can_save(const char *path, char message[NPY_MESSAGE_BYTES]);

/*
 * Writes the matrix, whole or not at all: into a temporary file beside path, which then takes path's name.
 */
bool npy_save(const char *path, const struct matrix *matrix, char message[NPY_MESSAGE_BYTES]);

#endif
