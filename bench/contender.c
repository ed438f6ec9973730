/* contender.c - what all contenders share. */
#include "contender.h"

#include <dlfcn.h>
#include <stddef.h>

#include "dtype.h"

void contender_close(struct contender *contender)
{
    if (contender) {
        contender->functions->close(contender);
    }
}

const char *accuracy_name(const carat_gemm_problem *problem)
{
    bool exact = problem->type_a == CARAT_S8 || problem->type_a == CARAT_S32;
    if (problem->accuracy == CARAT_ACCURACY_BEST && !exact) {
        return accuracy_word(problem->accuracy);
    }
    switch (problem->type_a) {
    case CARAT_F32:
        return accuracy_word(problem->accuracy);
    case CARAT_E4M3:
    case CARAT_E5M2:
        return problem->accuracy == CARAT_ACCURACY_CLOSE ? "standard" : accuracy_word(problem->accuracy);
    case CARAT_F16:
    case CARAT_BF16:
        return problem->accuracy == CARAT_ACCURACY_STRICT ? "strict" : "standard";
    default:
        return "strict";
    }
}

const char *peer_accuracy_name(const carat_gemm_problem *problem)
{
    carat_gemm_problem own = *problem;
    if (own.accuracy == CARAT_ACCURACY_BEST || own.accuracy == CARAT_ACCURACY_CLOSE) {
        own.accuracy = CARAT_ACCURACY_STANDARD;
    }
    return accuracy_name(&own);
}

void *open_library(const char *const *names)
{
    void *library = NULL;
    for (; *names && !library; names++) {
        library = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
    }
    return library;
}
