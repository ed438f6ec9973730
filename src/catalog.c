/* catalog.c - finding rows of the catalogue, and the promise that its words are the public types. */
#include "catalog.h"

#include <string.h>

#include "carat/carat.h"

_Static_assert(ELEMENT_F32 == (int)CARAT_F32, "words.h and carat_type must agree");
_Static_assert(ELEMENT_F64 == (int)CARAT_F64, "words.h and carat_type must agree");
_Static_assert(ELEMENT_F16 == (int)CARAT_F16, "words.h and carat_type must agree");
_Static_assert(ELEMENT_BF16 == (int)CARAT_BF16, "words.h and carat_type must agree");
_Static_assert(ELEMENT_S32 == (int)CARAT_S32, "words.h and carat_type must agree");
_Static_assert(ELEMENT_S8 == (int)CARAT_S8, "words.h and carat_type must agree");
_Static_assert(ELEMENT_E4M3 == (int)CARAT_E4M3, "words.h and carat_type must agree");
_Static_assert(ELEMENT_E5M2 == (int)CARAT_E5M2, "words.h and carat_type must agree");
_Static_assert(ELEMENT_B_E4M3 == ELEMENT_E4M3 && ELEMENT_B_E5M2 == ELEMENT_E5M2, "the same words");
_Static_assert(ACCURACY_FAST == (int)CARAT_ACCURACY_FAST, "words.h and carat_accuracy must agree");
_Static_assert(ACCURACY_BEST == (int)CARAT_ACCURACY_BEST, "words.h and carat_accuracy must agree");
_Static_assert(CONVERTS_F16 == ELEMENT_F16 && CONVERTS_F64 == ELEMENT_F64, "the same words");
_Static_assert(ACTIVATION_RELU == (int)CARAT_ACTIVATION_RELU, "words.h and carat_activation must agree");
_Static_assert(ACTIVATION_GELU_TANH == (int)CARAT_ACTIVATION_GELU_TANH, "the same numbers");
_Static_assert(ACTIVATION_GELU_ERF == (int)CARAT_ACTIVATION_GELU_ERF, "the same numbers");
_Static_assert(ACTIVATION_SILU == (int)CARAT_ACTIVATION_SILU, "the same numbers");

const struct kernel *catalog_find(const char *name)
{
    for (int i = 0; i < carat_catalog_count; i++) {
        if (strcmp(carat_catalog[i].name, name) == 0) {
            return &carat_catalog[i];
        }
    }
    return NULL;
}

int kernel_threads(const struct kernel *kernel)
{
    return kernel->threads_x * (kernel->threads_y > 0 ? kernel->threads_y : 1);
}
