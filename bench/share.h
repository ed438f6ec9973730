/* share.h - loops over many elements, shared out among threads. */
#ifndef CARAT_BENCH_SHARE_H
#define CARAT_BENCH_SHARE_H

#include <stdint.h>

/* What is done to the pieces from begin to end. */
typedef void share_work(const void *context, int64_t begin, int64_t end);

/*
 * Has the pieces 0 to count - 1 worked on, each by one thread, in any order; `elements` is how much there is to a
 * piece. Returns when all is done.
 */
void share_out(int64_t count, int64_t elements, share_work *work, const void *context);

#endif
