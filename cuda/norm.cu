/*
** norm.cu - RMS norm and l2 norm of rows, forward and backward (model.md 2.1,
** 3.2, 3.3, 3.10). One warp a row: lanes take every 32nd group of W elements,
** sums fold over the warp in a fixed order.
*/
#include "wide.cuh"

constexpr int WARPS = 8;

/* Rows of this warp: r runs over them; lane is the thread's place. */
#define EACH_ROW(r, rows)                                                   \
    int lane = static_cast<int>(threadIdx.x) % 32;                          \
    for (int r = static_cast<int>(blockIdx.x) * WARPS +                     \
                 static_cast<int>(threadIdx.x) / 32;                        \
         r < (rows); r += static_cast<int>(gridDim.x) * WARPS)
#define EACH_COL(c, cols) for (int c = lane * W; c < (cols); c += 32 * W)
/* kernel<WIDE> or kernel<1>. */
#define RUN_ROWS(kernel, rows, fits, ...)                                   \
    do {                                                                    \
        if (fits)                                                           \
            LAUNCH(kernel<WIDE>, cu_blocks(rows, WARPS), 32 * WARPS, 0,     \
                   cu_of(d)->stream, __VA_ARGS__);                          \
        else                                                                \
            LAUNCH(kernel<1>, cu_blocks(rows, WARPS), 32 * WARPS, 0,        \
                   cu_of(d)->stream, __VA_ARGS__);                          \
        CU_LAUNCHED();                                                      \
        return ERR_OK;                                                      \
    } while (0)

template <int W>
static __device__ __forceinline__ void weight_at(const cu_view &w, int c,
                                                 bool centred, float (&x)[W])
{
    if (w.p != nullptr) wide_get(w, 0, c, x);
    UNROLL for (int k = 0; k < W; k++)
        x[k] = w.p == nullptr ? 1.0f : x[k] + (centred ? 1.0f : 0.0f);
}

template <int W>
static __global__ void rms_forward(cu_view y, cu_view x, cu_view w,
                                   cu_view rstd, float eps, bool centred)
{
    EACH_ROW(r, x.rows) {
        float sum = 0;

        EACH_COL(c, x.cols) {
            float v[W];

            wide_get(x, r, c, v);
            UNROLL for (int k = 0; k < W; k++) sum += v[k] * v[k];
        }
        float scale = 1.0f / sqrtf(cu_warp_sum(sum) /
                                   static_cast<float>(x.cols) + eps);
        EACH_COL(c, x.cols) {
            float v[W], u[W];

            wide_get(x, r, c, v);
            weight_at(w, c, centred, u);
            UNROLL for (int k = 0; k < W; k++) v[k] = scale * v[k] * u[k];
            wide_put(y, r, c, v);
        }
        if (lane == 0) cu_put(rstd, r, 0, scale);
    }
}

template <int W>
static __global__ void rms_backward(cu_view dx, cu_view dy, cu_view x,
                                    cu_view w, cu_view rstd, bool centred,
                                    bool add)
{
    EACH_ROW(r, x.rows) {
        float scale = cu_get(rstd, r, 0), sum = 0;

        EACH_COL(c, x.cols) {
            float g[W], u[W], v[W];

            wide_get(dy, r, c, g);
            weight_at(w, c, centred, u);
            wide_get(x, r, c, v);
            UNROLL for (int k = 0; k < W; k++)
                sum += g[k] * u[k] * scale * v[k];
        }
        float mean = cu_warp_sum(sum) / static_cast<float>(x.cols);
        EACH_COL(c, x.cols) {
            float g[W], u[W], v[W];

            wide_get(dy, r, c, g);
            weight_at(w, c, centred, u);
            wide_get(x, r, c, v);
            UNROLL for (int k = 0; k < W; k++)
                v[k] = scale * (g[k] * u[k] - scale * v[k] * mean);
            if (add) wide_get(dx, r, c, g);
            UNROLL for (int k = 0; k < W; k++) if (add) v[k] += g[k];
            wide_put(dx, r, c, v);
        }
    }
}

/* An absent weight stays absent. */
static int weight_view(const struct mat *m, int64_t cols, cu_view *w,
                       struct err *e)
{
    *w = cu_view{nullptr, 0, 0, 0, DT_F32};
    return m->p == nullptr ? ERR_OK : cu_view_of(m, 1, cols, "norm w", w, e);
}

int cu_rms_norm(struct dev *d, const struct k_rms_norm *a, struct err *e)
{
    float eps = static_cast<float>(a->eps);
    bool centred = a->zero_centred;
    cu_view y, x, w, rstd;
    int rc = cu_view_of(&a->x, -1, -1, "rms_norm x", &x, e);

    if (rc == ERR_OK)
        rc = cu_view_of(&a->y, x.rows, x.cols, "rms_norm y", &y, e);
    if (rc == ERR_OK)
        rc = cu_view_of(&a->rstd, x.rows, 1, "rms_norm rstd", &rstd, e);
    if (rc == ERR_OK) rc = weight_view(&a->w, x.cols, &w, e);
    if (rc != ERR_OK || x.rows == 0) return rc;
    RUN_ROWS(rms_forward, x.rows, wide_fits({&y, &x, &w}), y, x, w, rstd, eps,
             centred);
}

int cu_rms_norm_bwd(struct dev *d, const struct k_rms_norm_bwd *a,
                    struct err *e)
{
    bool centred = a->zero_centred, add = a->add;
    cu_view dx, dy, x, w, rstd;
    int rc = cu_view_of(&a->x, -1, -1, "rms_norm_bwd x", &x, e);

    if (rc == ERR_OK)
        rc = cu_view_of(&a->dx, x.rows, x.cols, "rms_norm_bwd dx", &dx, e);
    if (rc == ERR_OK)
        rc = cu_view_of(&a->dy, x.rows, x.cols, "rms_norm_bwd dy", &dy, e);
    if (rc == ERR_OK)
        rc = cu_view_of(&a->rstd, x.rows, 1, "rms_norm_bwd rstd", &rstd, e);
    if (rc == ERR_OK) rc = weight_view(&a->w, x.cols, &w, e);
    if (rc != ERR_OK || x.rows == 0) return rc;
    RUN_ROWS(rms_backward, x.rows, wide_fits({&dx, &dy, &x, &w}), dx, dy, x, w,
             rstd, centred, add);
}

template <int W>
static __global__ void l2_forward(cu_view y, cu_view x, cu_view rnorm,
                                  float eps)
{
    EACH_ROW(r, x.rows) {
        float sum = 0;

        EACH_COL(c, x.cols) {
            float v[W];

            wide_get(x, r, c, v);
            UNROLL for (int k = 0; k < W; k++) sum += v[k] * v[k];
        }
        float scale = 1.0f / sqrtf(cu_warp_sum(sum) + eps);
        EACH_COL(c, x.cols) {
            float v[W];

            wide_get(x, r, c, v);
            UNROLL for (int k = 0; k < W; k++) v[k] *= scale;
            wide_put(y, r, c, v);
        }
        if (lane == 0) cu_put(rnorm, r, 0, scale);
    }
}

template <int W>
static __global__ void l2_backward(cu_view dx, cu_view dy, cu_view y,
                                   cu_view rnorm)
{
    EACH_ROW(r, y.rows) {
        float scale = cu_get(rnorm, r, 0), sum = 0;

        EACH_COL(c, y.cols) {
            float v[W], g[W];

            wide_get(y, r, c, v);
            wide_get(dy, r, c, g);
            UNROLL for (int k = 0; k < W; k++) sum += v[k] * g[k];
        }
        float along = cu_warp_sum(sum);
        EACH_COL(c, y.cols) {
            float v[W], g[W];

            wide_get(y, r, c, v);
            wide_get(dy, r, c, g);
            UNROLL for (int k = 0; k < W; k++)
                g[k] = scale * (g[k] - v[k] * along);
            wide_put(dx, r, c, g);
        }
    }
}

int cu_l2_norm(struct dev *d, const struct k_l2_norm *a, struct err *e)
{
    float eps = static_cast<float>(a->eps);
    cu_view y, x, rnorm;
    int rc = cu_view_of(&a->x, -1, -1, "l2_norm x", &x, e);

    if (rc == ERR_OK)
        rc = cu_view_of(&a->y, x.rows, x.cols, "l2_norm y", &y, e);
    if (rc == ERR_OK)
        rc = cu_view_of(&a->rnorm, x.rows, 1, "l2_norm rnorm", &rnorm, e);
    if (rc != ERR_OK || x.rows == 0) return rc;
    RUN_ROWS(l2_forward, x.rows, wide_fits({&y, &x}), y, x, rnorm, eps);
}

int cu_l2_norm_bwd(struct dev *d, const struct k_l2_norm_bwd *a,
                   struct err *e)
{
    cu_view dx, dy, y, rnorm;
    int rc = cu_view_of(&a->y, -1, -1, "l2_norm_bwd y", &y, e);

    if (rc == ERR_OK)
        rc = cu_view_of(&a->dx, y.rows, y.cols, "l2_norm_bwd dx", &dx, e);
    if (rc == ERR_OK)
        rc = cu_view_of(&a->dy, y.rows, y.cols, "l2_norm_bwd dy", &dy, e);
    if (rc == ERR_OK)
        rc = cu_view_of(&a->rnorm, y.rows, 1, "l2_norm_bwd rnorm", &rnorm, e);
    if (rc != ERR_OK || y.rows == 0) return rc;
    RUN_ROWS(l2_backward, y.rows, wide_fits({&dx, &dy, &y}), dx, dy, y, rnorm);
}
