/* test_elementwise_cuda.c - scale_add and transpose of test_elementwise.c on the CUDA device. */
#define TEST_DEVICE CARAT_DEVICE_CUDA
#define CASES 40
#define MOST_ELEMENTS 10000
#include "test_elementwise.c"
