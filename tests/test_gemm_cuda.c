/* test_gemm_cuda.c - the products of test_gemm.c on the CUDA device. */
#define TEST_DEVICE CARAT_DEVICE_CUDA
#define CASES 40
#define MOST_WORK 20000
#define LONGEST 300
#include "test_gemm.c"
