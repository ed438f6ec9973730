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
