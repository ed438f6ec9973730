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

void *open_library(const char *const *names)
{
    void *library = NULL;
    for (; *names && !library; names++) {
        library = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
    }
    return library;
}
