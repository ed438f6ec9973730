/*
 * dtype.h - a type and an accuracy in one word, as shape files and tuning tables have them: "bf16", "f32-strict",
 * "e4m3-fast". "tf32" is "f32-fast".
 */
#ifndef CARAT_DTYPE_H
#define CARAT_DTYPE_H

#include <stdbool.h>
#include <stddef.h>

#include "carat/carat.h"

/* carat_type_size(), in line: a call asks for it two dozen times. */
static inline size_t type_bytes(carat_type type)
{
    switch (type) {
    case CARAT_F64:
        return 8;
    case CARAT_F32:
    case CARAT_S32:
        return 4;
    case CARAT_F16:
    case CARAT_BF16:
        return 2;
    case CARAT_S8:
    case CARAT_E4M3:
    case CARAT_E5M2:
        return 1;
    }
    return 0;
}

/* False where the word names no type, or no accuracy behind it. */
bool dtype_read(const char *word, carat_type *type, carat_accuracy *accuracy);

/* What stands behind a type's name for an accuracy: "-strict", or nothing for the standard one. */
const char *accuracy_ending(carat_accuracy accuracy);

/* "standard", "strict", ... */
const char *accuracy_word(carat_accuracy accuracy);

/* A type by its name in carat.h, "f32"; false where there is none of that name. */
bool type_read(const char *word, carat_type *type);

#endif
