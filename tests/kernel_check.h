/* kernel_check.h - runs a kernel on the CPU on random work and compares with the reference. */
#ifndef CARAT_TESTS_KERNEL_CHECK_H
#define CARAT_TESTS_KERNEL_CHECK_H

#include <stdbool.h>

#include "catalog.h"
#include "cpu_run.h"
#include "reference.h"

/*
 * One random case of what the row is for: shape, layouts, addresses, scalars, special values. Where the
 * kernel is wrong, says on stderr what the case was and returns false; where it touches what it may
 * not, the sanitizer ends the program.
 */
bool kernel_check(const struct kernel *row, const struct cpu_kernel *kernel, struct random *random);

#endif
