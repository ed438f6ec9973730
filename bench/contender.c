/* contender.c - what all contenders share. */
#include "contender.h"

#include <dlfcn.h>
#include <stddef.h>

void contender_close(struct contender *contender)
{
    if (contender) {
        contender->functions->close(contender);
    }
}

const char *accuracy_name(const carat_gemm_problem *problem)
{
    static const char *const names[] = {"standard", "strict", "fast"};
    switch (problem->type_a) {
    case CARAT_F32:
    case CARAT_E4M3:
    case CARAT_E5M2:
        return names[problem->accuracy];
    case CARAT_F16:
    case CARAT_BF16:
        return problem->accuracy == CARAT_ACCURACY_STRICT ? "strict" : "standard";
    default:
        return "strict";
    }
}

void *open_library(const char *const *names)
{
    void *library = NULL;
    for (; *names && !library; names++) {
        library = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
    }
    return library;
}
