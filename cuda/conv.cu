/*
** conv.cu - causal depthwise convolution with silu over pieces (model.md 2.3,
** 3.9), and heads repeated and summed.
*/
#include "cu.cuh"

#include <cstring>

constexpr int THREADS = 128;
constexpr int MAX_KERNEL = 8;

/* Row i of a piece's input, i may be negative: the halo, or zeros. */
static __device__ float input_at(const cu_view &x, const cu_view &halo,
                                 const dev_piece &p, int64_t i, int64_t c,
                                 int keep)
{
    if (i >= 0) return cu_get(x, p.row + i, c);
    if (p.state_in < 0) return 0.0f;
    return cu_get(halo, (p.state_in + 1) * keep + i, c);
}

static __device__ float before_silu(const cu_view &x, const cu_view &w,
                                    const cu_view &halo, const dev_piece &p,
                                    int64_t i, int64_t c, int kernel)
{
    float sum = 0;

    for (int j = 0; j < kernel; j++)
        sum += cu_get(w, c, j) *
               input_at(x, halo, p, i - (kernel - 1) + j, c, kernel - 1);
    return sum;
}

static __global__ void conv(cu_view y, cu_view x, cu_view w, cu_view halo,
                            const dev_piece *piece)
{
    dev_piece p = piece[blockIdx.y];
    int64_t n = p.len * y.cols;

    for (int64_t i = int64_t{blockIdx.x} * THREADS + threadIdx.x; i < n;
         i += int64_t{gridDim.x} * THREADS) {
        CU_CELL(r, c, i, y.cols);
        float v = before_silu(x, w, halo, p, r, c, w.cols);

        cu_put(y, p.row + r, c, v * cu_sigmoid(v));
    }
}

/* d of the sum before silu in row i; rows past the end give nothing. */
static __device__ float slope_at(const cu_view &dy, const cu_view &x,
                                 const cu_view &w, const cu_view &halo,
                                 const dev_piece &p, int64_t i, int64_t c)
{
    if (i < 0 || i >= p.len) return 0.0f;
    float v = before_silu(x, w, halo, p, i, c, w.cols), s = cu_sigmoid(v);

    return cu_get(dy, p.row + i, c) * s * (1.0f + v * (1.0f - s));
}

/* Rows -keep.. of a piece are its halo's. */
static __global__ void conv_bwd(cu_view dx, cu_view dy, cu_view x, cu_view w,
                                cu_view halo, const dev_piece *piece)
{
    dev_piece p = piece[blockIdx.y];
    int64_t n = p.len * dx.cols;

    for (int64_t i = int64_t{blockIdx.x} * THREADS + threadIdx.x; i < n;
         i += int64_t{gridDim.x} * THREADS) {
        CU_CELL(r, c, i, dx.cols);
        float sum = 0;

        for (int j = 0; j < w.cols; j++)
            sum += cu_get(w, c, j) *
                   slope_at(dy, x, w, halo, p, r + (w.cols - 1) - j, c);
        cu_put(dx, p.row + r, c, sum);
    }
}

/* The pieces one after another, for several may share a halo. */
static __global__ void halo_bwd(cu_view dhalo, cu_view dy, cu_view x,
                                cu_view w, cu_view halo,
                                const dev_piece *piece, int n_piece)
{
    int keep = w.cols - 1;
    int64_t n = int64_t{keep} * x.cols;

    for (int64_t i = int64_t{blockIdx.x} * THREADS + threadIdx.x; i < n;
         i += int64_t{gridDim.x} * THREADS) {
        CU_CELL(k, c, i, x.cols);

        for (int q = 0; q < n_piece; q++) {
            dev_piece p = piece[q];
            int64_t r = k - keep;       /* the halo row, from the piece */
            float sum = 0;

            if (p.state_in < 0) continue;
            for (int j = 0; j < w.cols; j++)
                sum += cu_get(w, c, j) *
                       slope_at(dy, x, w, halo, p, r + keep - j, c);
            int64_t at = p.state_in * keep + k;
            cu_put(dhalo, at, c, cu_get(dhalo, at, c) + sum);
        }
    }
}

/* ---- launches ----------------------------------------------------------- */

static int halo_view(const struct mat *m, int64_t cols, const char *name,
                     cu_view *out, struct err *e)
{
    *out = cu_view{nullptr, 0, 0, 0, DT_F32};
    return m->p == nullptr ? ERR_OK : cu_view_of(m, -1, cols, name, out, e);
}

/* Pieces on the device, and the longest one's rows. */
static int upload(struct cu *c, const struct dev_piece *piece, int64_t n,
                  const dev_piece **out, int64_t *longest, struct err *e)
{
    size_t bytes = static_cast<size_t>(n) * sizeof *piece;
    void *at;
    int rc = cu_meta_begin(c, CU_ROOM(bytes), e);

    if (rc != ERR_OK) return rc;
    memcpy(cu_meta_host(c, bytes, &at), piece, bytes);
    *out = static_cast<const dev_piece *>(at);
    *longest = 0;
    for (int64_t i = 0; i < n; i++)
        if (piece[i].len > *longest) *longest = piece[i].len;
    return cu_meta_send(c, e);
}

/* One grid row a piece, at most 65,535 of them in a launch. */
constexpr int64_t GRID_Y = 65535;

static dim3 piece_grid(int64_t longest, int64_t cols, int64_t n)
{
    unsigned x = cu_blocks(longest * cols, THREADS);

    return dim3(x > 4096 ? 4096 : x,
                static_cast<unsigned>(n < GRID_Y ? n : GRID_Y));
}

int cu_conv(struct dev *d, const struct k_conv *a, struct err *e)
{
    struct cu *c = cu_of(d);
    const dev_piece *piece;
    int64_t longest;
    cu_view halo;
    CU_VIEW(y, -1, -1);
    CU_VIEW(x, y.rows, y.cols);
    CU_VIEW(w, y.cols, -1);
    int rc = halo_view(&a->halo, y.cols, "halo", &halo, e);
    if (rc == ERR_OK && w.cols > MAX_KERNEL)
        rc = err_set(e, ERR_RUN, "cuda: convolutions are up to %d wide",
                     MAX_KERNEL);
    if (rc != ERR_OK || a->n_piece == 0) return rc;
    rc = upload(c, a->piece, a->n_piece, &piece, &longest, e);
    if (rc != ERR_OK) return rc;
    for (int64_t i = 0; i < a->n_piece; i += GRID_Y) {
        const dev_piece *part = piece + i;

        LAUNCH(conv, piece_grid(longest, y.cols, a->n_piece - i), THREADS, 0,
               c->stream, y, x, w, halo, part);
        CU_LAUNCHED();
    }
    return ERR_OK;
}

int cu_conv_bwd(struct dev *d, const struct k_conv_bwd *a, struct err *e)
{
    struct cu *c = cu_of(d);
    const dev_piece *piece;
    int64_t longest;
    int n = static_cast<int>(a->n_piece);
    cu_view halo, dhalo;
    CU_VIEW(dx, -1, -1);
    CU_VIEW(dy, dx.rows, dx.cols);
    CU_VIEW(x, dx.rows, dx.cols);
    CU_VIEW(w, dx.cols, -1);
    int rc = halo_view(&a->halo, dx.cols, "halo", &halo, e);
    if (rc == ERR_OK) rc = halo_view(&a->dhalo, dx.cols, "dhalo", &dhalo, e);
    if (rc != ERR_OK || n == 0) return rc;
    rc = upload(c, a->piece, n, &piece, &longest, e);
    if (rc != ERR_OK) return rc;
    for (int64_t i = 0; i < n; i += GRID_Y) {
        const dev_piece *part = piece + i;

        LAUNCH(conv_bwd, piece_grid(longest, dx.cols, n - i), THREADS, 0,
               c->stream, dx, dy, x, w, halo, part);
        CU_LAUNCHED();
    }
    if (dhalo.p == nullptr || w.cols < 2) return ERR_OK;
    LAUNCH(halo_bwd, cu_blocks(int64_t{w.cols - 1} * x.cols, THREADS),
           THREADS, 0, c->stream, dhalo, dy, x, w, halo, piece, n);
    CU_LAUNCHED();
    return ERR_OK;
}

/* ---- heads -------------------------------------------------------------- */

static __global__ void repeat_heads(cu_view y, cu_view x, int rep,
                                    int head_dim)
{
    int64_t n = int64_t{y.rows} * y.cols;

    for (int64_t i = int64_t{blockIdx.x} * THREADS + threadIdx.x; i < n;
         i += int64_t{gridDim.x} * THREADS) {
        CU_CELL(r, c, i, y.cols);
        int64_t head = c / head_dim / rep;

        cu_put(y, r, c, cu_get(x, r, head * head_dim + c % head_dim));
    }
}

int cu_repeat_heads(struct dev *d, const struct k_repeat_heads *a,
                    struct err *e)
{
    int rep = static_cast<int>(a->rep);
    int head_dim = static_cast<int>(a->head_dim);
    CU_VIEW(x, -1, -1);
    CU_VIEW(y, x.rows, int64_t{x.cols} * rep);

    if (x.rows == 0 || x.cols == 0) return ERR_OK;
    LAUNCH(repeat_heads, cu_blocks(int64_t{y.rows} * y.cols, THREADS),
           THREADS, 0, cu_of(d)->stream, y, x, rep, head_dim);
    CU_LAUNCHED();
    return ERR_OK;
}

static __global__ void sum_heads(cu_view x, cu_view y, int rep, int head_dim)
{
    int64_t n = int64_t{x.rows} * x.cols;

    for (int64_t i = int64_t{blockIdx.x} * THREADS + threadIdx.x; i < n;
         i += int64_t{gridDim.x} * THREADS) {
        CU_CELL(r, c, i, x.cols);
        int64_t at = c / head_dim * rep * head_dim + c % head_dim;
        float sum = 0;

        for (int k = 0; k < rep; k++)
            sum += cu_get(y, r, at + int64_t{k} * head_dim);
        cu_put(x, r, c, sum);
    }
}

int cu_sum_heads(struct dev *d, const struct k_sum_heads *a, struct err *e)
{
    int rep = static_cast<int>(a->rep);
    int head_dim = static_cast<int>(a->head_dim);
    CU_VIEW(x, -1, -1);
    CU_VIEW(y, x.rows, int64_t{x.cols} * rep);

    if (x.rows == 0 || x.cols == 0) return ERR_OK;
    LAUNCH(sum_heads, cu_blocks(int64_t{x.rows} * x.cols, THREADS), THREADS,
           0, cu_of(d)->stream, x, y, rep, head_dim);
    CU_LAUNCHED();
    return ERR_OK;
}
