/* way_finder.c - finds the ways that the lines of a tuning table measured. */
#include <string.h>

#include "measured.h"
#include "rows.h"
#include "treatments.h"
#include "way_search.h"

void way_finder_begin(struct way_finder *finder, const struct device_traits *traits,
                      const struct problem *problem)
{
    finder->traits = traits;
    finder->problem = problem;
    finder->reduce = search_of(traits, problem).reduce;
    finder->count = 0;
}

const struct way_place *way_find(struct way_finder *finder, const struct tuning_line *line,
                                 struct candidate *way)
{
    enum { ROOM = sizeof(finder->treatments) / sizeof(finder->treatments[0]) };
    int planes = line->kernel ? line->kernel->planes : 0;
    int i = finder->count < ROOM ? finder->count - 1 : ROOM - 1;
    while (i >= 0 && (memcmp(finder->treatments[i].packs, line->packs, sizeof(line->packs)) != 0 ||
                      finder->treatments[i].planes != planes)) {
        i--;
    }
    if (i < 0) {
        i = finder->count++ % ROOM;
        struct candidate *treated = &finder->treatments[i].treated;
        struct way_place *place = &finder->treatments[i].place;
        memcpy(finder->treatments[i].packs, line->packs, sizeof(line->packs));
        finder->treatments[i].planes = planes;
        bool possible = treat_as_marked(finder->traits, finder->problem, line->packs, planes, treated);
        if (possible) {
            *place = place_of_way(finder->problem, treated);
            /* What does not say the same as the letters is no way. */
            possible = memcmp(place->packs, line->packs, sizeof(place->packs)) == 0;
        }
        finder->treatments[i].possible = possible;
    }
    *way = finder->treatments[i].treated;
    /* It was measured, whatever would be chosen now. */
    const struct search search = {.traits = finder->traits,
                                  .problem = finder->problem,
                                  .reduce = finder->reduce,
                                  .limited = true,
                                  .forced = true};
    bool found = finder->treatments[i].possible && line->kernel &&
                 kernel_has_way(line->kernel, finder->traits, &way->product) &&
                 complete_way(&search, line->kernel, line->parts, way) &&
                 (!line->shares || share_tiles(&search, way));
    return found ? &finder->treatments[i].place : NULL;
}
