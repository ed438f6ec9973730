/* wrong_cblas.c - a CBLAS for tests that multiplies plainly, and is wrong in the last entry. */
void cblas_sgemm(int order, int op_a, int op_b, int m, int n, int k, float alpha, const float *a, int lda,
                 const float *b, int ldb, float beta, float *c, int ldc);

void cblas_sgemm(int order, int op_a, int op_b, int m, int n, int k, float alpha, const float *a, int lda,
                 const float *b, int ldb, float beta, float *c, int ldc)
{
    (void)order; /* column-major, as bench calls it */
    for (int j = 0; j < n; j++) {
        for (int i = 0; i < m; i++) {
            float sum = 0;
            for (int l = 0; l < k; l++) {
                sum += (op_a == 111 ? a[i + l * lda] : a[l + i * lda]) *
                       (op_b == 111 ? b[l + j * ldb] : b[j + l * ldb]);
            }
            c[i + j * ldc] = alpha * sum + (beta == 0 ? 0 : beta * c[i + j * ldc]);
        }
    }
    c[m - 1 + (n - 1) * ldc] *= 1.001f;
}
