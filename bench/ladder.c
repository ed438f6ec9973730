/* ladder.c - the rungs of the ladder, from the catalogue. */
#include "ladder.h"

#include <stdlib.h>
#include <string.h>

static bool in_list(const char *list, int number)
{
    for (const char *at = list; *at;) {
        if (strtol(at, NULL, 10) == number) {
            return true;
        }
        at = strchr(at, ',') ? strchr(at, ',') + 1 : "";
    }
    return false;
}

bool rungs_list(carat_type type, const char *filter, struct rungs *rungs)
{
    rungs->count = 0;
    if (filter && (!*filter || strspn(filter, "0123456789,") != strlen(filter))) {
        return false;
    }
    for (int number = 1; number <= LIBRARY_RUNG; number++) {
        if (filter && !in_list(filter, number)) {
            continue;
        }
        for (int i = 0; i < carat_catalog_count; i++) {
            const struct kernel *row = &carat_catalog[i];
            if (row->operation == OPERATION_LADDER && row->rung == number && row->element == (int)type &&
                rungs->count < MOST_RUNGS - 1) {
                rungs->items[rungs->count++] = (struct rung){number, row->name, row};
            }
        }
        if (number == LIBRARY_RUNG) {
            rungs->items[rungs->count++] = (struct rung){number, "carat", NULL};
        }
    }
    return true;
}

int rung_base(int number)
{
    /* Pitched, Kahan and the register tile each add to the tiled kernel; the rest to the rung before. */
    static const int bases[] = {0, 0, 1, 2, 3, 3, 3, 6, 7, 8};
    return number >= 1 && number <= LIBRARY_RUNG ? bases[number] : 0;
}

double rung_traffic_bytes(int number, const struct kernel *kernel, int64_t m, int64_t n, int64_t k)
{
    double size = (double)carat_type_size((carat_type)kernel->element);
    double written = (double)m * (double)n * (kernel->element == ELEMENT_S8 ? 4 : size);
    if (number <= 2) {
        return 2.0 * (double)m * (double)n * (double)k * size + written;
    }
    int64_t tiles_m = (m + kernel->tile_m - 1) / kernel->tile_m;
    int64_t tiles_n = (n + kernel->tile_n - 1) / kernel->tile_n;
    return ((double)m * (double)tiles_n + (double)n * (double)tiles_m) * (double)k * size + written;
}
