/*
** gates.cu - gates of all kinds, forward and backward: sigmoid and silu
** gates, SwiGLU with routing weights, row gates, the GDN's decay and beta
** (model.md 2.2 to 2.4, 3.3, 3.7, 3.11, 3.14).
*/
#include "wide.cuh"

constexpr int THREADS = 256;
constexpr int WARPS = 8;

#define EACH(i, n)                                                        \
    for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;      \
         i < (n); i += int64_t{blockDim.x} * gridDim.x)
#define EACH_ROW(r, rows)                                                   \
    int lane = static_cast<int>(threadIdx.x) % 32;                          \
    for (int r = static_cast<int>(blockIdx.x) * WARPS +                     \
                 static_cast<int>(threadIdx.x) / 32;                        \
         r < (rows); r += static_cast<int>(gridDim.x) * WARPS)

#define RUN_EACH(kernel, rows, cols, ...)                                 \
    do {                                                                  \
        int64_t n_ = int64_t{rows} * (cols);                              \
        if (n_ == 0) return ERR_OK;                                       \
        LAUNCH(kernel, cu_blocks(n_, THREADS), THREADS, 0,                \
               cu_of(d)->stream, __VA_ARGS__);                            \
        CU_LAUNCHED();                                                    \
        return ERR_OK;                                                    \
    } while (0)
#define RUN_ROWS(kernel, rows, ...)                                       \
    do {                                                                  \
        if ((rows) == 0) return ERR_OK;                                   \
        LAUNCH(kernel, cu_blocks(rows, WARPS), 32 * WARPS, 0,             \
               cu_of(d)->stream, __VA_ARGS__);                            \
        CU_LAUNCHED();                                                    \
        return ERR_OK;                                                    \
    } while (0)

/* d silu(x) / dx where s = cu_sigmoid(x). */
static __device__ __forceinline__ float silu_slope(float x, float s)
{
    return s * (1.0f + x * (1.0f - s));
}

/* ---- sigmoid and silu gates --------------------------------------------- */

template <int W>
static __global__ void sigmoid_gate(cu_view out, cu_view o, cu_view gate)
{
    EACH_WIDE(W, r, c, out) {
        float x[W], g[W];

        wide_get(o, r, c, x);
        wide_get(gate, r, c, g);
        UNROLL for (int k = 0; k < W; k++) x[k] *= cu_sigmoid(g[k]);
        wide_put(out, r, c, x);
    }
}

int cu_sigmoid_gate(struct dev *d, const struct k_sigmoid_gate *a,
                    struct err *e)
{
    CU_VIEW(out, -1, -1);
    CU_VIEW(o, out.rows, out.cols);
    CU_VIEW(gate, out.rows, out.cols);
    WIDE_LAUNCH(cu_of(d), sigmoid_gate, out, wide_fits({&out, &o, &gate}),
                out, o, gate);
    return ERR_OK;
}

template <int W>
static __global__ void sigmoid_gate_bwd(cu_view d_o, cu_view dgate,
                                        cu_view dout, cu_view o, cu_view gate)
{
    EACH_WIDE(W, r, c, o) {
        float x[W], t[W], g[W];

        wide_get(gate, r, c, t);
        wide_get(dout, r, c, g);
        wide_get(o, r, c, x);
        UNROLL for (int k = 0; k < W; k++) {
            float s = cu_sigmoid(t[k]);

            x[k] = g[k] * x[k] * s * (1.0f - s);
            g[k] *= s;
        }
        wide_put(dgate, r, c, x);
        wide_put(d_o, r, c, g);
    }
}

int cu_sigmoid_gate_bwd(struct dev *d, const struct k_sigmoid_gate_bwd *a,
                        struct err *e)
{
    CU_VIEW(o, -1, -1);
    CU_VIEW(d_o, o.rows, o.cols);
    CU_VIEW(dgate, o.rows, o.cols);
    CU_VIEW(dout, o.rows, o.cols);
    CU_VIEW(gate, o.rows, o.cols);
    WIDE_LAUNCH(cu_of(d), sigmoid_gate_bwd, o,
                wide_fits({&d_o, &dgate, &dout, &o, &gate}), d_o, dgate, dout,
                o, gate);
    return ERR_OK;
}

template <int W>
static __global__ void silu_gate(cu_view out, cu_view x, cu_view z)
{
    EACH_WIDE(W, r, c, out) {
        float v[W], t[W];

        wide_get(z, r, c, v);
        wide_get(x, r, c, t);
        UNROLL for (int k = 0; k < W; k++)
            t[k] = t[k] * v[k] * cu_sigmoid(v[k]);
        wide_put(out, r, c, t);
    }
}

int cu_silu_gate(struct dev *d, const struct k_silu_gate *k, struct err *e)
{
    const struct { struct mat out, x, z; } views = {k->out, k->a, k->z};
    const auto *a = &views;

    CU_VIEW(out, -1, -1);
    CU_VIEW(x, out.rows, out.cols);
    CU_VIEW(z, out.rows, out.cols);
    WIDE_LAUNCH(cu_of(d), silu_gate, out, wide_fits({&out, &x, &z}), out, x,
                z);
    return ERR_OK;
}

template <int W>
static __global__ void silu_gate_bwd(cu_view dx, cu_view dz, cu_view dout,
                                     cu_view x, cu_view z)
{
    EACH_WIDE(W, r, c, x) {
        float v[W], g[W], t[W];

        wide_get(z, r, c, v);
        wide_get(dout, r, c, g);
        wide_get(x, r, c, t);
        UNROLL for (int k = 0; k < W; k++) {
            float s = cu_sigmoid(v[k]);

            t[k] = g[k] * t[k] * silu_slope(v[k], s);
            g[k] = g[k] * v[k] * s;
        }
        wide_put(dz, r, c, t);
        wide_put(dx, r, c, g);
    }
}

int cu_silu_gate_bwd(struct dev *d, const struct k_silu_gate_bwd *k,
                     struct err *e)
{
    const struct { struct mat dx, dz, dout, x, z; } views = {
        k->da, k->dz, k->dout, k->a, k->z};
    const auto *a = &views;

    CU_VIEW(x, -1, -1);
    CU_VIEW(dx, x.rows, x.cols);
    CU_VIEW(dz, x.rows, x.cols);
    CU_VIEW(dout, x.rows, x.cols);
    CU_VIEW(z, x.rows, x.cols);
    WIDE_LAUNCH(cu_of(d), silu_gate_bwd, x,
                wide_fits({&dx, &dz, &dout, &x, &z}), dx, dz, dout, x, z);
    return ERR_OK;
}

/* ---- SwiGLU ------------------------------------------------------------- */

static __device__ float weight_of(const cu_view &weight, int64_t r)
{
    return weight.p == nullptr ? 1.0f : cu_get(weight, r, 0);
}

template <int W>
static __global__ void swiglu(cu_view out, cu_view gu, cu_view weight)
{
    EACH_WIDE(W, r, c, out) {
        float g[W], u[W], w = weight_of(weight, r);

        wide_get(gu, r, c, g);
        wide_get(gu, r, out.cols + c, u);
        UNROLL for (int k = 0; k < W; k++)
            g[k] = g[k] * cu_sigmoid(g[k]) * u[k] * w;
        wide_put(out, r, c, g);
    }
}

static int weight_view(const struct mat *m, int64_t rows, cu_view *out,
                       struct err *e)
{
    *out = cu_view{nullptr, 0, 0, 0, DT_F32};
    return m->p == nullptr ? ERR_OK
                           : cu_view_of(m, rows, 1, "weight", out, e);
}

int cu_swiglu(struct dev *d, const struct k_swiglu *a, struct err *e)
{
    cu_view weight;
    CU_VIEW(out, -1, -1);
    CU_VIEW(gu, out.rows, 2 * int64_t{out.cols});
    int rc = weight_view(&a->weight, out.rows, &weight, e);
    if (rc != ERR_OK) return rc;
    WIDE_LAUNCH(cu_of(d), swiglu, out, wide_fits({&out, &gu}), out, gu,
                weight);
    return ERR_OK;
}

/* A warp a row, for the weight's gradient sums over it. */
template <int W>
static __global__ void swiglu_bwd(cu_view dgu, cu_view dweight, cu_view dout,
                                  cu_view gu, cu_view weight)
{
    int ffn = dout.cols;

    EACH_ROW(r, dout.rows) {
        float w = weight_of(weight, r), sum = 0;

        for (int c = lane * W; c < ffn; c += 32 * W) {
            float g[W], u[W], go[W];

            wide_get(gu, r, c, g);
            wide_get(gu, r, ffn + c, u);
            wide_get(dout, r, c, go);
            UNROLL for (int k = 0; k < W; k++) {
                float s = cu_sigmoid(g[k]), dh = w * go[k];

                sum += go[k] * g[k] * s * u[k];
                go[k] = dh * u[k] * silu_slope(g[k], s);
                u[k] = dh * g[k] * s;
            }
            wide_put(dgu, r, c, go);
            wide_put(dgu, r, ffn + c, u);
        }
        sum = cu_warp_sum(sum);
        if (lane == 0 && dweight.p != nullptr) cu_put(dweight, r, 0, sum);
    }
}

int cu_swiglu_bwd(struct dev *d, const struct k_swiglu_bwd *a, struct err *e)
{
    cu_view weight, dweight;
    CU_VIEW(dout, -1, -1);
    CU_VIEW(gu, dout.rows, 2 * int64_t{dout.cols});
    CU_VIEW(dgu, dout.rows, 2 * int64_t{dout.cols});
    int rc = weight_view(&a->weight, dout.rows, &weight, e);
    if (rc == ERR_OK) rc = weight_view(&a->dweight, dout.rows, &dweight, e);
    if (rc != ERR_OK) return rc;
    if (wide_fits({&dgu, &dout, &gu}))
        RUN_ROWS(swiglu_bwd<WIDE>, dout.rows, dgu, dweight, dout, gu, weight);
    RUN_ROWS(swiglu_bwd<1>, dout.rows, dgu, dweight, dout, gu, weight);
}

/* ---- one gate a row ----------------------------------------------------- */

template <int W>
static __global__ void row_gate(cu_view out, cu_view x, cu_view logit)
{
    EACH_WIDE(W, r, c, out) {
        float s = cu_sigmoid(cu_get(logit, r, 0)), v[W];

        wide_get(x, r, c, v);
        UNROLL for (int k = 0; k < W; k++) v[k] *= s;
        wide_put(out, r, c, v);
    }
}

int cu_row_gate(struct dev *d, const struct k_row_gate *a, struct err *e)
{
    CU_VIEW(out, -1, -1);
    CU_VIEW(x, out.rows, out.cols);
    CU_VIEW(logit, out.rows, 1);
    WIDE_LAUNCH(cu_of(d), row_gate, out, wide_fits({&out, &x}), out, x,
                logit);
    return ERR_OK;
}

static __global__ void row_gate_bwd(cu_view dx, cu_view dlogit, cu_view dout,
                                    cu_view x, cu_view logit)
{
    EACH_ROW(r, x.rows) {
        float s = cu_sigmoid(cu_get(logit, r, 0)), sum = 0;

        for (int c = lane; c < x.cols; c += 32) {
            float g = cu_get(dout, r, c);
            sum += g * cu_get(x, r, c);
            cu_put(dx, r, c, s * g);
        }
        sum = cu_warp_sum(sum);
        if (lane == 0) cu_put(dlogit, r, 0, sum * s * (1.0f - s));
    }
}

int cu_row_gate_bwd(struct dev *d, const struct k_row_gate_bwd *a,
                    struct err *e)
{
    CU_VIEW(x, -1, -1);
    CU_VIEW(dx, x.rows, x.cols);
    CU_VIEW(dout, x.rows, x.cols);
    CU_VIEW(logit, x.rows, 1);
    CU_VIEW(dlogit, x.rows, 1);
    RUN_ROWS(row_gate_bwd, x.rows, dx, dlogit, dout, x, logit);
}

/* ---- decay and beta ----------------------------------------------------- */

static __device__ float softplus(float x)
{
    return x > 20.0f ? x : log1pf(expf(x));
}

static __global__ void gdn_gates(cu_view g, cu_view beta, cu_view x,
                                 cu_view b, cu_view a_log, cu_view dt_bias)
{
    EACH(i, int64_t{g.rows} * g.cols) {
        CU_CELL(r, h, i, g.cols);
        float t = cu_get(x, r, h) + cu_get(dt_bias, 0, h);

        cu_put(g, r, h, -expf(cu_get(a_log, 0, h)) * softplus(t));
        cu_put(beta, r, h, cu_sigmoid(cu_get(b, r, h)));
    }
}

int cu_gdn_gates(struct dev *d, const struct k_gdn_gates *k, struct err *e)
{
    const struct { struct mat g, beta, x, b, a_log, dt_bias; } views = {
        k->g, k->beta, k->a, k->b, k->a_log, k->dt_bias};
    const auto *a = &views;

    CU_VIEW(g, -1, -1);
    CU_VIEW(beta, g.rows, g.cols);
    CU_VIEW(x, g.rows, g.cols);
    CU_VIEW(b, g.rows, g.cols);
    CU_VIEW(a_log, 1, g.cols);
    CU_VIEW(dt_bias, 1, g.cols);
    RUN_EACH(gdn_gates, g.rows, g.cols, g, beta, x, b, a_log, dt_bias);
}

static __global__ void gdn_gates_bwd(cu_view dx, cu_view db, cu_view dg,
                                     cu_view dbeta, cu_view x, cu_view beta,
                                     cu_view a_log, cu_view dt_bias)
{
    EACH(i, int64_t{dx.rows} * dx.cols) {
        CU_CELL(r, h, i, dx.cols);
        float t = cu_get(x, r, h) + cu_get(dt_bias, 0, h);
        float s = cu_get(beta, r, h);

        cu_put(dx, r, h, -cu_get(dg, r, h) * expf(cu_get(a_log, 0, h)) *
                         cu_sigmoid(t));
        cu_put(db, r, h, cu_get(dbeta, r, h) * s * (1.0f - s));
    }
}

int cu_gdn_gates_bwd(struct dev *d, const struct k_gdn_gates_bwd *k,
                     struct err *e)
{
    const struct { struct mat dx, db, dg, dbeta, x, beta, a_log, dt_bias; }
        views = {k->da, k->db, k->dg, k->dbeta, k->a, k->beta, k->a_log,
                 k->dt_bias};
    const auto *a = &views;

    CU_VIEW(dx, -1, -1);
    CU_VIEW(db, dx.rows, dx.cols);
    CU_VIEW(dg, dx.rows, dx.cols);
    CU_VIEW(dbeta, dx.rows, dx.cols);
    CU_VIEW(x, dx.rows, dx.cols);
    CU_VIEW(beta, dx.rows, dx.cols);
    CU_VIEW(a_log, 1, dx.cols);
    CU_VIEW(dt_bias, 1, dx.cols);
    RUN_EACH(gdn_gates_bwd, dx.rows, dx.cols, dx, db, dg, dbeta, x, beta,
             a_log, dt_bias);
}
