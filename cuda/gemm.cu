/*
** gemm.cu - matrix products: cuBLAS where both operands have one type, a
** plain tiled kernel where they have not, and grouped products one group
** after another.
**
** cuBLAS is column-major: a row-major C = A B is C^T = B^T A^T there, so the
** operands change places and keep their transposes.
*/
#include "cu.cuh"

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

int cu_gemm(struct dev *d, const struct k_gemm *g, struct err *e)
{
    int64_t m = g->c.rows, n = g->c.cols;
    int64_t k = g->trans_a ? g->a.rows : g->a.cols;
    cu_view c, a, b;
    int rc = cu_view_of(&g->c, m, n, "gemm c", &c, e);

    if (rc == ERR_OK)
        rc = cu_view_of(&g->a, g->trans_a ? k : m, g->trans_a ? m : k,
                        "gemm a", &a, e);
    if (rc == ERR_OK)
        rc = cu_view_of(&g->b, g->trans_b ? n : k, g->trans_b ? k : n,
                        "gemm b", &b, e);
    if (rc != ERR_OK || m == 0 || n == 0) return rc;
    if (k > 0 && blas_can(c, a, b))
        return run_blas(cu_of(d), c, a, b, g, static_cast<int>(k), e);
    return run_mixed(cu_of(d), c, a, b, g, static_cast<int>(k), e);
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

int cu_group_gemm(struct dev *d, const struct k_group_gemm *g, struct err *e)
{
    for (int64_t i = 0; i < g->n_group; i++) {
        struct k_gemm one = group_of(g, i);
        int rc = cu_gemm(d, &one, e);

        if (rc != ERR_OK) return rc;
    }
    return ERR_OK;
}
