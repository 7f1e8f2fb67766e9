/*
** conv.cu - causal depthwise convolution with silu over pieces (model.md 2.3,
** 3.9), and heads repeated and summed.
*/
#include "wide.cuh"

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

/* The last "keep" rows of a piece become the halo of the piece behind it. */
static __device__ void leave_halo(const cu_view &halo, const cu_view &x,
                                  const dev_piece &p, int keep)
{
    if (p.state_out < 0) return;
    for (int64_t i = int64_t{blockIdx.x} * THREADS + threadIdx.x;
         i < int64_t{keep} * x.cols; i += int64_t{gridDim.x} * THREADS) {
        CU_CELL(k, c, i, x.cols);
        cu_put(halo, p.state_out * keep + k, c,
               input_at(x, halo, p, p.len - keep + k, c, keep));
    }
}

/* What the halo of the piece behind gives to row i, which may be one of the
** piece's own halo. */
static __device__ __forceinline__ float given_back(const cu_view &dhalo,
                                                   const dev_piece &p,
                                                   int64_t i, int64_t c,
                                                   int keep)
{
    int64_t tail = i - (p.len - keep);

    return p.state_out < 0 || tail < 0
        ? 0.0f : cu_get(dhalo, p.state_out * keep + tail, c);
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
    leave_halo(halo, x, p, w.cols - 1);
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
                                cu_view halo, cu_view dhalo,
                                const dev_piece *piece)
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
        cu_put(dx, p.row + r, c,
               sum + given_back(dhalo, p, r, c, w.cols - 1));
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
            float sum = given_back(dhalo, p, r, c, keep);

            if (p.state_in < 0) continue;
            for (int j = 0; j < w.cols; j++)
                sum += cu_get(w, c, j) *
                       slope_at(dy, x, w, halo, p, r + keep - j, c);
            int64_t at = p.state_in * keep + k;
            cu_put(dhalo, at, c, cu_get(dhalo, at, c) + sum);
        }
    }
}

/* ---- columns walked down ------------------------------------------------ */

/* With TAPS taps and rows that lie well for it, a thread takes QUAD columns of
** up to RUN rows of a piece and keeps what it has read: each row is read once,
** not once a tap (backward: twice a tap), with the same sums in the same
** order. */
constexpr int TAPS = 4, QUAD = 4, RUN = 32;

template <typename T> struct alignas(QUAD * sizeof(T)) quad { T v[QUAD]; };

static __device__ __forceinline__ float wide(float x) { return x; }
static __device__ __forceinline__ float wide(__nv_bfloat16 x)
{
    return __bfloat162float(x);
}
static __device__ __forceinline__ void narrow(float *p, float x) { *p = x; }
static __device__ __forceinline__ void narrow(__nv_bfloat16 *p, float x)
{
    *p = __float2bfloat16(x);
}

template <typename T>
static __device__ __forceinline__ void get_quad(const cu_view &m, int64_t r,
                                                int64_t c, float out[QUAD])
{
    quad<T> q = *reinterpret_cast<const quad<T> *>(
        static_cast<const T *>(m.p) + r * m.ld + c);

    UNROLL for (int k = 0; k < QUAD; k++) out[k] = wide(q.v[k]);
}

template <typename T>
static __device__ __forceinline__ void put_quad(const cu_view &m, int64_t r,
                                                int64_t c,
                                                const float x[QUAD])
{
    quad<T> q;

    UNROLL for (int k = 0; k < QUAD; k++) narrow(&q.v[k], x[k]);
    *reinterpret_cast<quad<T> *>(static_cast<T *>(m.p) + r * m.ld + c) = q;
}

/* The taps and the last rows of a thread's columns: x[TAPS - 1] is row i. */
struct window { float w[TAPS][QUAD], x[TAPS][QUAD]; };

static __device__ void start(window &t, const cu_view &x, const cu_view &w,
                             const cu_view &halo, const dev_piece &p,
                             int64_t first, int64_t c)
{
    UNROLL for (int j = 0; j < TAPS; j++)
        UNROLL for (int k = 0; k < QUAD; k++) {
            t.w[j][k] = cu_get(w, c + k, j);
            t.x[j][k] = j == 0 ? 0.0f : input_at(x, halo, p, first - TAPS + j,
                                                 c + k, TAPS - 1);
        }
}

/* Row i comes in; the sums before silu. */
template <typename T>
static __device__ __forceinline__ void step(window &t, const cu_view &x,
                                            const dev_piece &p, int64_t i,
                                            int64_t c, float v[QUAD])
{
    UNROLL for (int j = 1; j < TAPS; j++)
        UNROLL for (int k = 0; k < QUAD; k++) t.x[j - 1][k] = t.x[j][k];
    get_quad<T>(x, p.row + i, c, t.x[TAPS - 1]);
    UNROLL for (int k = 0; k < QUAD; k++) {
        v[k] = 0;
        UNROLL for (int j = 0; j < TAPS; j++) v[k] += t.w[j][k] * t.x[j][k];
    }
}

/* Item i of a piece's walks: rows from *first to before *end, columns from
** *c. Neighbours in a warp have neighbouring columns. */
static __device__ __forceinline__ void walk(int64_t i, int cols,
                                            const dev_piece &p,
                                            int64_t *first, int64_t *end,
                                            int64_t *c)
{
    int64_t run;

    cu_cell(i, cols / QUAD, &run, c);
    *c *= QUAD;
    *first = run * RUN;
    *end = *first + RUN < p.len ? *first + RUN : p.len;
}

#define EACH_WALK(i, p, cols)                                             \
    for (int64_t i = int64_t{blockIdx.x} * THREADS + threadIdx.x;         \
         i < ((p).len + RUN - 1) / RUN * ((cols) / QUAD);                 \
         i += int64_t{gridDim.x} * THREADS)

template <typename T>
static __global__ void conv_walk(cu_view y, cu_view x, cu_view w,
                                 cu_view halo, const dev_piece *piece)
{
    dev_piece p = piece[blockIdx.y];

    EACH_WALK(i, p, y.cols) {
        int64_t first, end, c;
        float v[QUAD];
        window t;

        walk(i, y.cols, p, &first, &end, &c);
        start(t, x, w, halo, p, first, c);
        for (int64_t r = first; r < end; r++) {
            step<T>(t, x, p, r, c, v);
            UNROLL for (int k = 0; k < QUAD; k++) v[k] *= cu_sigmoid(v[k]);
            put_quad<T>(y, p.row + r, c, v);
        }
    }
    leave_halo(halo, x, p, TAPS - 1);
}

/* s[0] is the slope of row r, s[j] that of row r - j. */
template <typename T>
static __device__ __forceinline__ void next_slope(window &t, const cu_view &dy,
                                                  const cu_view &x,
                                                  const dev_piece &p,
                                                  int64_t r, int64_t c,
                                                  float s[TAPS][QUAD])
{
    float v[QUAD], d[QUAD];

    UNROLL for (int j = TAPS - 1; j > 0; j--)
        UNROLL for (int k = 0; k < QUAD; k++) s[j][k] = s[j - 1][k];
    if (r < p.len) {
        step<T>(t, x, p, r, c, v);
        get_quad<T>(dy, p.row + r, c, d);
    }
    UNROLL for (int k = 0; k < QUAD; k++) {
        float g = r < p.len ? cu_sigmoid(v[k]) : 0.0f;

        s[0][k] = r < p.len ? d[k] * g * (1.0f + v[k] * (1.0f - g)) : 0.0f;
    }
}

template <typename T>
static __global__ void conv_walk_bwd(cu_view dx, cu_view dy, cu_view x,
                                     cu_view w, cu_view halo, cu_view dhalo,
                                     const dev_piece *piece)
{
    dev_piece p = piece[blockIdx.y];

    EACH_WALK(i, p, dx.cols) {
        int64_t first, end, c;
        float s[TAPS][QUAD] = {}, out[QUAD];
        window t;

        walk(i, dx.cols, p, &first, &end, &c);
        start(t, x, w, halo, p, first, c);
        for (int64_t r = first; r < end + TAPS - 1; r++) {
            next_slope<T>(t, dy, x, p, r, c, s);
            if (r - (TAPS - 1) < first) continue;
            int64_t at = r - (TAPS - 1);
            UNROLL for (int k = 0; k < QUAD; k++) {
                out[k] = given_back(dhalo, p, at, c + k, TAPS - 1);
                UNROLL for (int j = 0; j < TAPS; j++)
                    out[k] += t.w[j][k] * s[j][k];
            }
            put_quad<T>(dx, p.row + at, c, out);
        }
    }
}

static bool lies_well(const cu_view &m, const cu_view &like)
{
    uintptr_t bytes = QUAD * (like.t == DT_BF16 ? 2 : 4);

    return m.t == like.t && m.cols % QUAD == 0 && m.ld % QUAD == 0 &&
           reinterpret_cast<uintptr_t>(m.p) % bytes == 0;
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

static dim3 piece_grid(int64_t items, int64_t n)
{
    unsigned x = cu_blocks(items, THREADS);

    return dim3(x > 4096 ? 4096 : x,
                static_cast<unsigned>(n < GRID_Y ? n : GRID_Y));
}

/* Threads for the longest piece. */
static int64_t items_of(int64_t longest, int64_t cols, bool walks)
{
    return walks ? (longest + RUN - 1) / RUN * (cols / QUAD) : longest * cols;
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
    bool walks = w.cols == TAPS && lies_well(x, y) && lies_well(y, y);
    auto *kernel = !walks ? conv : y.t == DT_BF16 ? conv_walk<__nv_bfloat16>
                                                  : conv_walk<float>;
    int64_t items = items_of(longest, y.cols, walks);
    for (int64_t i = 0; i < a->n_piece; i += GRID_Y) {
        const dev_piece *part = piece + i;

        LAUNCH(kernel, piece_grid(items, a->n_piece - i), THREADS, 0,
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
    bool walks = w.cols == TAPS && lies_well(x, dx) && lies_well(dy, dx) &&
                 lies_well(dx, dx);
    auto *kernel = !walks ? conv_bwd
                   : dx.t == DT_BF16 ? conv_walk_bwd<__nv_bfloat16>
                                     : conv_walk_bwd<float>;
    int64_t items = items_of(longest, dx.cols, walks);
    for (int64_t i = 0; i < n; i += GRID_Y) {
        const dev_piece *part = piece + i;

        LAUNCH(kernel, piece_grid(items, n - i), THREADS, 0, c->stream, dx,
               dy, x, w, halo, dhalo, part);
        CU_LAUNCHED();
    }
    if (dhalo.p == nullptr || w.cols < 2) return ERR_OK;
    LAUNCH(halo_bwd, cu_blocks(int64_t{w.cols - 1} * x.cols, THREADS),
           THREADS, 0, c->stream, dhalo, dy, x, w, halo, piece, n);
    CU_LAUNCHED();
    return ERR_OK;
}

/* ---- heads -------------------------------------------------------------- */

/* The column of x that column c of y repeats. */
static __device__ __forceinline__ int source(int64_t c, int rep, int head_dim)
{
    int at = static_cast<int>(c);

    return at / head_dim / rep * head_dim + at % head_dim;
}

template <int W>
static __global__ void repeat_heads(cu_view y, cu_view x, int rep,
                                    int head_dim)
{
    EACH_WIDE(W, r, c, y) {
        float v[W];

        wide_get(x, r, source(c, rep, head_dim), v);
        wide_put(y, r, c, v);
    }
}

/* Eight neighbours are of one head. */
static bool heads_fit(const cu_view &x, const cu_view &y, int head_dim)
{
    return head_dim % WIDE == 0 && wide_fits({&x, &y});
}

int cu_repeat_heads(struct dev *d, const struct k_repeat_heads *a,
                    struct err *e)
{
    int rep = static_cast<int>(a->rep);
    int head_dim = static_cast<int>(a->head_dim);
    CU_VIEW(x, -1, -1);
    CU_VIEW(y, x.rows, int64_t{x.cols} * rep);

    if (x.rows == 0 || x.cols == 0) return ERR_OK;
    WIDE_LAUNCH(cu_of(d), repeat_heads, y, heads_fit(x, y, head_dim), y, x,
                rep, head_dim);
    return ERR_OK;
}

template <int W>
static __global__ void sum_heads(cu_view x, cu_view y, int rep, int head_dim)
{
    EACH_WIDE(W, r, c, x) {
        int at = static_cast<int>(c) / head_dim * rep * head_dim +
                 static_cast<int>(c) % head_dim;
        float sum[W] = {}, v[W];

        for (int k = 0; k < rep; k++) {
            wide_get(y, r, at + k * head_dim, v);
            UNROLL for (int j = 0; j < W; j++) sum[j] += v[j];
        }
        wide_put(x, r, c, sum);
    }
}

int cu_sum_heads(struct dev *d, const struct k_sum_heads *a, struct err *e)
{
    int rep = static_cast<int>(a->rep);
    int head_dim = static_cast<int>(a->head_dim);
    CU_VIEW(x, -1, -1);
    CU_VIEW(y, x.rows, int64_t{x.cols} * rep);

    if (x.rows == 0 || x.cols == 0) return ERR_OK;
    WIDE_LAUNCH(cu_of(d), sum_heads, x, heads_fit(x, y, head_dim), x, y, rep,
                head_dim);
    return ERR_OK;
}
