/* test_best_cuda.c - the promises of test_best.c on the CUDA device. */
#define TEST_DEVICE CARAT_DEVICE_CUDA
#define DEEPEST 600
#include "test_best.c"
