/* An outside program: multiplies two 2 x 2 matrices with the installed library. */
#include <carat/carat.h>
#include <stdio.h>

/* A name that the library has inside: it must not get in the way. */
int set_message(const char *what);
int set_message(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, carat_last_message());
    return 1;
}

int main(void)
{
    const float a[4] = {1, 2, 3, 4};
    const float b[4] = {5, 6, 7, 8};
    float c[4] = {-1, -1, -1, -1};
    carat_context *carat;
    if (carat_context_create(CARAT_DEVICE_AUTO, 0, &carat) != CARAT_OK) {
        return set_message("context");
    }
    if (carat_gemm_f32(carat, CARAT_ROW_MAJOR, CARAT_NO_TRANSPOSE, CARAT_NO_TRANSPOSE, 2, 2, 2, 1.0f, a, 2, b,
                       2, 0.0f, c, 2) != CARAT_OK) {
        return set_message("gemm");
    }
    carat_context_destroy(carat);
    printf("carat %s: %g %g %g %g\n", carat_version(), c[0], c[1], c[2], c[3]);
    return c[0] == 19 && c[1] == 22 && c[2] == 43 && c[3] == 50 ? 0 : 1;
}
