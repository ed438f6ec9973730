/*
 * held.h - products whose tiles are shared, on several streams at once, beside kernels that hold multiprocessors.
 *
 *     multiprocessors   0        1        2        3       ...
 *     holder            | held . . . . . . . . . |
 *     product on 1                                | clusters 0, 1, ... of its C |   as many begin as find room
 *     product on 2                                         | the same ...       |
 *
 * A cluster waits for the sums that others have of its tile. That ends only because clusters begin in their order and
 * wait for none that may begin after them and find no room; here is little room, and ever another.
 */
#ifndef CARAT_TESTS_HELD_H
#define CARAT_TESTS_HELD_H

#include "crew.h"

/*
 * For so many seconds; each product is first run alone and compared with a reference, and gives the same bits then.
 * Prints the first failure and ends with it; where a product does not end, says which, and ends the program with
 * code 3. Skipped, with the reason, where the device has no rows for it.
 */
struct trial_tally held_run(carat_context *context, uint64_t seed, double seconds);

#endif
