/* progress.c - see progress.h. */
#include "progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char erase_line[] = "\r\033[K";

static int on_terminal(void)
{
    const char *terminal = getenv("TERM");
    return isatty(STDERR_FILENO) && terminal && strcmp(terminal, "dumb") != 0;
}

void progress(const char *format, ...)
{
    if (!on_terminal()) {
        return;
    }
    fputs(erase_line, stderr);
    va_list list;
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fflush(stderr);
}

void progress_end(void)
{
    if (on_terminal()) {
        fputs(erase_line, stderr);
        fflush(stderr);
    }
}
