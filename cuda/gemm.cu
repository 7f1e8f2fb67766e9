/*
** gemm.cu - matrix products: cuBLAS where both operands have one type,
** mixed.cu where the first is f32 and the second bf16, else a plain tiled
** kernel; grouped products in one call where all operands have one type and
** cuBLAS can, else one group after another.
**
** cuBLAS is column-major: a row-major C = A B is C^T = B^T A^T there, so the
** operands change places and keep their transposes.
*/
#include "gemm.cuh"

#include <cstdlib>
#include <cstring>

static cudaDataType type_of(enum dtype t)
{
    return t == DT_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

/* ---- operands of two types ---------------------------------------------- */

constexpr int TILE = 16;

/* c = alpha op(a) op(b) + beta c, one block a tile. */
static __global__ void gemm_mixed(cu_view c, cu_view a, cu_view b, int inner,
                                  bool ta, bool tb, float alpha, float beta)
{
    __shared__ float left[TILE][TILE + 1], right[TILE][TILE + 1];
    int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
    int col = static_cast<int>(blockIdx.x) * TILE + x;
    int row = static_cast<int>(blockIdx.y) * TILE + y;
    float sum = 0;

    for (int k = 0; k < inner; k += TILE) {
        int ka = k + x, kb = k + y;

        left[y][x] = row < c.rows && ka < inner
            ? (ta ? cu_get(a, ka, row) : cu_get(a, row, ka)) : 0.0f;
        right[y][x] = col < c.cols && kb < inner
            ? (tb ? cu_get(b, col, kb) : cu_get(b, kb, col)) : 0.0f;
        __syncthreads();
        for (int i = 0; i < TILE; i++) sum += left[y][i] * right[i][x];
        __syncthreads();
    }
    if (row < c.rows && col < c.cols)
        cu_put(c, row, col,
               alpha * sum + (beta != 0 ? beta * cu_get(c, row, col) : 0.0f));
}

static int run_mixed(struct cu *d, const cu_view &c, const cu_view &a,
                     const cu_view &b, const struct k_gemm *g, int inner,
                     struct err *e)
{
    dim3 grid(static_cast<unsigned>((c.cols + TILE - 1) / TILE),
              static_cast<unsigned>((c.rows + TILE - 1) / TILE));
    /* the grid's second dimension ends at 65,535: long matrices by slabs */
    const int slab = 65535 * TILE;

    for (int first = 0; first < c.rows; first += slab) {
        cu_view part = c, left = a;
        int64_t skip = first;

        part.rows = c.rows - first < slab ? c.rows - first : slab;
        part.p = static_cast<char *>(c.p) +
                 skip * c.ld * dtype_bytes(static_cast<enum dtype>(c.t));
        left.p = static_cast<char *>(a.p) +
                 skip * (g->trans_a ? 1 : a.ld) *
                 dtype_bytes(static_cast<enum dtype>(a.t));
        grid.y = static_cast<unsigned>((part.rows + TILE - 1) / TILE);
        LAUNCH(gemm_mixed, grid, dim3(TILE, TILE), 0, d->stream, part, left,
               b, inner, g->trans_a, g->trans_b,
               static_cast<float>(g->alpha), static_cast<float>(g->beta));
        CU_LAUNCHED();
    }
    return ERR_OK;
}

/* ---- one product -------------------------------------------------------- */

static int run_blas(struct cu *d, const cu_view &c, const cu_view &a,
                    const cu_view &b, const struct k_gemm *g, int inner,
                    struct err *e)
{
    float alpha = static_cast<float>(g->alpha);
    float beta = static_cast<float>(g->beta);
    cublasHandle_t blas;
    int rc = cu_blas(d, &blas, e);

    if (rc != ERR_OK) return rc;
    if (a.ld > INT32_MAX || b.ld > INT32_MAX || c.ld > INT32_MAX)
        return err_set(e, ERR_RUN, "cuda: a matrix row is too long for "
                       "cublas");
    CU_BLAS(cublasGemmEx(
        blas, g->trans_b ? CUBLAS_OP_T : CUBLAS_OP_N,
        g->trans_a ? CUBLAS_OP_T : CUBLAS_OP_N, c.cols, c.rows, inner, &alpha,
        b.p, type_of(static_cast<enum dtype>(b.t)), static_cast<int>(b.ld),
        a.p, type_of(static_cast<enum dtype>(a.t)), static_cast<int>(a.ld),
        &beta, c.p, type_of(static_cast<enum dtype>(c.t)),
        static_cast<int>(c.ld), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
    return ERR_OK;
}

/* bf16 operands may have an f32 result; an f32 product into bf16 may not. */
static bool blas_can(const cu_view &c, const cu_view &a, const cu_view &b)
{
    return a.t == b.t && (c.t == a.t || (a.t == DT_BF16 && c.t == DT_F32));
}

static int operands(const struct k_gemm *g, cu_view *c, cu_view *a,
                    cu_view *b, int *inner, struct err *e)
{
    int64_t m = g->c.rows, n = g->c.cols;
    int64_t k = g->trans_a ? g->a.rows : g->a.cols;
    int rc = cu_view_of(&g->c, m, n, "gemm c", c, e);

    if (rc == ERR_OK)
        rc = cu_view_of(&g->a, g->trans_a ? k : m, g->trans_a ? m : k,
                        "gemm a", a, e);
    if (rc == ERR_OK)
        rc = cu_view_of(&g->b, g->trans_b ? n : k, g->trans_b ? k : n,
                        "gemm b", b, e);
    *inner = static_cast<int>(k);
    return rc;
}

int cu_gemm(struct dev *d, const struct k_gemm *g, struct err *e)
{
    cu_view c, a, b;
    int k, rc = operands(g, &c, &a, &b, &k, e);

    if (rc != ERR_OK || c.rows == 0 || c.cols == 0) return rc;
    if (k > 0 && blas_can(c, a, b))
        return run_blas(cu_of(d), c, a, b, g, k, e);
    if (k > 0 && a.t == DT_F32 && b.t == DT_BF16)
        return gemm_run_split(cu_of(d), c, a, b, g, k, e);
    return run_mixed(cu_of(d), c, a, b, g, k, e);
}

/* ---- groups ------------------------------------------------------------- */

static struct mat rows_of(const struct mat &m, int64_t first, int64_t n)
{
    struct mat r = m;

    if (r.p != nullptr)
        r.p = static_cast<char *>(m.p) + first * m.ld * dtype_bytes(m.t);
    r.rows = n;
    return r;
}

/* One group as a plain product. */
static struct k_gemm group_of(const struct k_group_gemm *g, int64_t i)
{
    int64_t first = g->offset[i], n = g->offset[i + 1] - first;
    struct mat c = rows_of(g->c, first, n), a = rows_of(g->a, first, n);
    struct mat w = rows_of(g->w, i * g->w_rows, g->w_rows);
    struct k_gemm one = {c, a, w, false, g->form == GROUP_NT, g->alpha,
                         g->beta};

    if (g->form != GROUP_TN) return one;
    one.c = w;
    one.b = c;
    one.trans_a = true;
    return one;
}

/* cuBLAS takes the groups together: their sizes as host arrays, where their
** matrices begin as arrays on the GPU. Its A is our b and its B our a. */
struct grouped {
    cublasOperation_t *op_a, *op_b;
    int *m, *n, *k, *lda, *ldb, *ldc, *one;
    float *alpha, *beta;
    void **p;                   /* [3][count]: A, B, C */
    int count;
};

/* Room for n groups in one block of host memory, grouped.p at its start. */
static bool grouped_new(struct grouped *x, size_t n)
{
    char *all = static_cast<char *>(calloc(n, 3 * sizeof *x->p +
                                              9 * sizeof *x->m +
                                              2 * sizeof *x->alpha));
    int *at = reinterpret_cast<int *>(all + 3 * n * sizeof *x->p);

    static_assert(sizeof *x->op_a == sizeof *x->m, "an enum is an int");
    if (all == nullptr) return false;
    x->p = reinterpret_cast<void **>(all);
    x->op_a = reinterpret_cast<cublasOperation_t *>(at);
    x->op_b = x->op_a + n;
    x->m = at + 2 * n;
    x->n = at + 3 * n;
    x->k = at + 4 * n;
    x->lda = at + 5 * n;
    x->ldb = at + 6 * n;
    x->ldc = at + 7 * n;
    x->one = at + 8 * n;
    x->alpha = reinterpret_cast<float *>(at + 9 * n);
    x->beta = x->alpha + n;
    x->count = 0;
    return true;
}

static bool is_empty(const struct k_gemm *g)
{
    return g->c.rows == 0 || g->c.cols == 0 ||
           (g->trans_a ? g->a.rows : g->a.cols) == 0;
}

static int add_group(struct grouped *x, const struct k_gemm *g, int64_t n,
                     struct err *e)
{
    int i = x->count++, inner;
    cu_view c, a, b;
    int rc = operands(g, &c, &a, &b, &inner, e);

    if (rc != ERR_OK) return rc;
    x->op_a[i] = g->trans_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    x->op_b[i] = g->trans_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    x->m[i] = c.cols;
    x->n[i] = c.rows;
    x->k[i] = inner;
    x->lda[i] = static_cast<int>(b.ld);
    x->ldb[i] = static_cast<int>(a.ld);
    x->ldc[i] = static_cast<int>(c.ld);
    x->one[i] = 1;
    x->alpha[i] = static_cast<float>(g->alpha);
    x->beta[i] = static_cast<float>(g->beta);
    x->p[i] = b.p;
    x->p[n + i] = a.p;
    x->p[2 * n + i] = c.p;
    return ERR_OK;
}

/* *done stays false where this cuBLAS has no such call. */
static int run_grouped(struct cu *d, const struct grouped *x, int64_t n,
                       cudaDataType t, bool *done, struct err *e)
{
    size_t bytes = static_cast<size_t>(3 * n) * sizeof *x->p;
    cublasHandle_t blas;
    void *at;
    int rc = cu_blas(d, &blas, e);

    if (rc == ERR_OK) rc = cu_meta_begin(d, CU_ROOM(bytes), e);
    if (rc != ERR_OK) return rc;
    memcpy(cu_meta_host(d, bytes, &at), x->p, bytes);
    rc = cu_meta_send(d, e);
    if (rc != ERR_OK) return rc;
    void **p = static_cast<void **>(at);
    cublasStatus_t s = cublasGemmGroupedBatchedEx(
        blas, x->op_a, x->op_b, x->m, x->n, x->k, x->alpha, p, t, x->lda,
        p + n, t, x->ldb, x->beta, p + 2 * n, t, x->ldc, x->count, x->one,
        CUBLAS_COMPUTE_32F);
    *done = s == CUBLAS_STATUS_SUCCESS;
    if (*done || s == CUBLAS_STATUS_NOT_SUPPORTED ||
        s == CUBLAS_STATUS_NOT_INITIALIZED) return ERR_OK;
    return cu_blas_error(s, "cublasGemmGroupedBatchedEx", __FILE__, __LINE__,
                         e);
}

static int together(struct cu *d, const struct k_group_gemm *g, bool *done,
                    struct err *e)
{
    struct grouped x;
    int rc = ERR_OK;

    if (!grouped_new(&x, static_cast<size_t>(g->n_group)))
        return err_nomem(e);
    for (int64_t i = 0; i < g->n_group && rc == ERR_OK; i++) {
        struct k_gemm one = group_of(g, i);
        if (!is_empty(&one)) rc = add_group(&x, &one, g->n_group, e);
    }
    *done = x.count == 0;
    if (rc == ERR_OK && x.count > 0)
        rc = run_grouped(d, &x, g->n_group, type_of(g->c.t), done, e);
    free(x.p);
    return rc;
}

int cu_group_gemm(struct dev *d, const struct k_group_gemm *g, struct err *e)
{
    bool done = false;
    int rc = ERR_OK;

    if (g->n_group > 1 && g->a.t == g->c.t && g->w.t == g->c.t &&
        g->a.ld <= INT32_MAX && g->w.ld <= INT32_MAX && g->c.ld <= INT32_MAX)
        rc = together(cu_of(d), g, &done, e);
    for (int64_t i = 0; i < g->n_group && rc == ERR_OK; i++) {
        struct k_gemm one = group_of(g, i);

        if (!done || is_empty(&one)) rc = cu_gemm(d, &one, e);
    }
    return rc;
}
