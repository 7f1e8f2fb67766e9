/*
** plain.cu - element by element: fill, copy, add, scale, random numbers,
** heads in and out of wide rows, transposes of groups.
**
** A thread walks elements with a grid stride; index i is row i / cols.
*/
#include "wide.cuh"

extern "C" {
#include "base/random.h"
}

constexpr int THREADS = 256;

#define EACH(i, n)                                                        \
    for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;      \
         i < (n); i += int64_t{blockDim.x} * gridDim.x)

static int64_t count_of(const cu_view &v)
{
    return int64_t{v.rows} * v.cols;
}

/* ---- fill and copy ------------------------------------------------------ */

template <int W>
static __global__ void fill_float(cu_view x, float value)
{
    float v[W];

    UNROLL for (int k = 0; k < W; k++) v[k] = value;
    EACH_WIDE(W, r, c, x) wide_put(x, r, c, v);
}

template <typename T>
static __global__ void fill_integer(T *p, int64_t rows, int64_t cols,
                                    int64_t ld, T value)
{
    EACH(i, rows * cols) p[i / cols * ld + i % cols] = value;
}

template <typename T>
static int fill_as(struct cu *c, const struct mat &x, double value,
                   struct err *e)
{
    T *p = static_cast<T *>(x.p);
    T v = static_cast<T>(value);
    int64_t rows = x.rows, cols = x.cols, ld = x.ld;

    LAUNCH(fill_integer<T>, cu_blocks(rows * cols, THREADS), THREADS, 0,
           c->stream, p, rows, cols, ld, v);
    CU_LAUNCHED();
    return ERR_OK;
}

int cu_fill(struct dev *d, const struct k_fill *a, struct err *e)
{
    struct cu *c = cu_of(d);
    float value = static_cast<float>(a->value);
    cu_view x;
    int rc;

    if (a->x.rows == 0 || a->x.cols == 0) return ERR_OK;
    if (a->x.t == DT_I32) return fill_as<int32_t>(c, a->x, a->value, e);
    if (a->x.t == DT_I64) return fill_as<int64_t>(c, a->x, a->value, e);
    if (a->x.t == DT_U8) return fill_as<uint8_t>(c, a->x, a->value, e);
    if (a->x.t == DT_F64) return fill_as<double>(c, a->x, a->value, e);
    rc = cu_view_of(&a->x, -1, -1, "fill x", &x, e);
    if (rc != ERR_OK) return rc;
    WIDE_LAUNCH(c, fill_float, x, wide_fits({&x}), x, value);
    return ERR_OK;
}

template <int W>
static __global__ void convert(cu_view dst, cu_view src)
{
    EACH_WIDE(W, r, c, dst) {
        float v[W];

        wide_get(src, r, c, v);
        wide_put(dst, r, c, v);
    }
}

/* Rows of cells T wide; strides in cells. */
template <typename T>
static __global__ void copy_cells(T *dst, int64_t dst_ld, const T *src,
                                  int64_t src_ld, int64_t rows, int cells)
{
    EACH(i, rows * cells) {
        CU_CELL(r, c, i, cells);
        dst[r * dst_ld + c] = src[r * src_ld + c];
    }
}

template <typename T>
static int copy_as(struct cu *c, const struct k_copy *a, int64_t row_bytes,
                   int64_t w, struct err *e)
{
    const int64_t cell = sizeof(T);
    T *dst = static_cast<T *>(a->dst.p);
    const T *src = static_cast<const T *>(a->src.p);
    int64_t dst_ld = a->dst.ld * w / cell, src_ld = a->src.ld * w / cell;
    int64_t rows = a->dst.rows;
    int cells = static_cast<int>(row_bytes / cell);

    LAUNCH(copy_cells<T>, cu_blocks(rows * cells, THREADS), THREADS, 0,
           c->stream, dst, dst_ld, src, src_ld, rows, cells);
    CU_LAUNCHED();
    return ERR_OK;
}

/* Equal types: one block of memory, or rows by the widest cells that begin
** and end where they do. */
static int copy_bits(struct cu *c, const struct k_copy *a, struct err *e)
{
    int64_t w = dtype_bytes(a->dst.t), row = a->dst.cols * w;
    int64_t rows = a->dst.rows;
    uint64_t all = reinterpret_cast<uintptr_t>(a->dst.p) |
                   reinterpret_cast<uintptr_t>(a->src.p) |
                   static_cast<uint64_t>(row | a->dst.ld * w | a->src.ld * w);

    if (rows == 1 || (a->dst.ld == a->dst.cols && a->src.ld == a->src.cols)) {
        CU_TRY(cudaMemcpyAsync(a->dst.p, a->src.p,
                               static_cast<size_t>(rows * row),
                               cudaMemcpyDeviceToDevice, c->stream));
        return ERR_OK;
    }
    if (row > INT32_MAX)
        return err_set(e, ERR_RUN, "cuda: copy of rows of %lld bytes",
                       (long long)row);
    if (all % 16 == 0) return copy_as<uint4>(c, a, row, w, e);
    if (all % 8 == 0) return copy_as<uint2>(c, a, row, w, e);
    if (all % 4 == 0) return copy_as<uint32_t>(c, a, row, w, e);
    if (all % 2 == 0) return copy_as<uint16_t>(c, a, row, w, e);
    return copy_as<uint8_t>(c, a, row, w, e);
}

int cu_copy(struct dev *d, const struct k_copy *a, struct err *e)
{
    cu_view dst, src;
    int rc;

    if (a->dst.rows != a->src.rows || a->dst.cols != a->src.cols)
        return err_set(e, ERR_RUN, "cuda: copy of views of two sizes");
    if (a->dst.rows == 0 || a->dst.cols == 0) return ERR_OK;
    if (a->dst.t == a->src.t) return copy_bits(cu_of(d), a, e);
    rc = cu_view_of(&a->dst, -1, -1, "copy dst", &dst, e);
    if (rc == ERR_OK)
        rc = cu_view_of(&a->src, dst.rows, dst.cols, "copy src", &src, e);
    if (rc != ERR_OK) return rc;
    WIDE_LAUNCH(cu_of(d), convert, dst, wide_fits({&dst, &src}), dst, src);
    return ERR_OK;
}

/* ---- add and scale ------------------------------------------------------ */

template <int W>
static __global__ void add_views(cu_view out, cu_view a, cu_view b)
{
    EACH_WIDE(W, r, c, out) {
        float x[W], y[W];

        wide_get(a, r, c, x);
        wide_get(b, b.rows == 1 ? 0 : r, c, y);
        UNROLL for (int k = 0; k < W; k++) x[k] += y[k];
        wide_put(out, r, c, x);
    }
}

int cu_add(struct dev *d, const struct k_add *k, struct err *e)
{
    cu_view out, a, b;
    int rc = cu_view_of(&k->out, -1, -1, "add out", &out, e);

    if (rc == ERR_OK)
        rc = cu_view_of(&k->a, out.rows, out.cols, "add a", &a, e);
    if (rc == ERR_OK)
        rc = cu_view_of(&k->b, k->b.rows == 1 ? 1 : out.rows, out.cols,
                        "add b", &b, e);
    if (rc != ERR_OK || count_of(out) == 0) return rc;
    WIDE_LAUNCH(cu_of(d), add_views, out, wide_fits({&out, &a, &b}), out, a,
                b);
    return ERR_OK;
}

template <int W>
static __global__ void scale_view(cu_view out, cu_view a, float s)
{
    EACH_WIDE(W, r, c, out) {
        float x[W];

        wide_get(a, r, c, x);
        UNROLL for (int k = 0; k < W; k++) x[k] *= s;
        wide_put(out, r, c, x);
    }
}

int cu_scale(struct dev *d, const struct k_scale *k, struct err *e)
{
    float s = static_cast<float>(k->s);
    cu_view out, a;
    int rc = cu_view_of(&k->out, -1, -1, "scale out", &out, e);

    if (rc == ERR_OK)
        rc = cu_view_of(&k->a, out.rows, out.cols, "scale a", &a, e);
    if (rc != ERR_OK || count_of(out) == 0) return rc;
    WIDE_LAUNCH(cu_of(d), scale_view, out, wide_fits({&out, &a}), out, a, s);
    return ERR_OK;
}

/* ---- random numbers ----------------------------------------------------- */

/* base/random.h's functions, for the device. Products and sums are rounded
** one by one, so that the numbers are those of the host. */
static __device__ uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static __device__ double value_of(uint64_t key, uint64_t i, double scale,
                                  double offset)
{
    uint64_t bits = mix(key + 0x9E3779B97F4A7C15u * (i + 1));
    int64_t u = static_cast<int64_t>(bits >> 40) - (1 << 23);
    double unit = __dmul_rn(static_cast<double>(u), 1.0 / (1 << 23));

    return __dadd_rn(offset, __dmul_rn(scale, unit));
}

static __global__ void random_view(cu_view x, uint64_t seed, uint64_t stream,
                                   uint64_t first, double scale,
                                   double offset)
{
    uint64_t key = mix(seed + 0x9E3779B97F4A7C15u * (stream + 1));

    EACH(i, int64_t{x.rows} * x.cols) {
        CU_CELL(r, c, i, x.cols);
        cu_put(x, r, c, static_cast<float>(value_of(
                            key, first + static_cast<uint64_t>(i), scale,
                            offset)));
    }
}

int cu_random(struct dev *d, const struct k_random *a, struct err *e)
{
    uint64_t seed = a->seed, stream = a->stream, first = a->first;
    double scale = a->scale, offset = a->offset;
    cu_view x;
    int rc = cu_view_of(&a->x, -1, -1, "random x", &x, e);

    if (rc != ERR_OK || count_of(x) == 0) return rc;
    LAUNCH(random_view, cu_blocks(count_of(x), THREADS), THREADS, 0,
           cu_of(d)->stream, x, seed, stream, first, scale, offset);
    CU_LAUNCHED();
    return ERR_OK;
}

/* ---- heads -------------------------------------------------------------- */

static __global__ void move_heads(cu_view packed, cu_view joined,
                                  int head_dim, int64_t stride,
                                  int64_t offset, bool join)
{
    EACH(i, int64_t{packed.rows} * packed.cols) {
        CU_CELL(r, k, i, packed.cols);
        int64_t at = offset + k / head_dim * stride + k % head_dim;

        if (join) cu_put(joined, r, at, cu_get(packed, r, k));
        else cu_put(packed, r, k, cu_get(joined, r, at));
    }
}

int cu_heads(struct dev *d, const struct k_heads *a, struct err *e)
{
    int head_dim = static_cast<int>(a->head_dim);
    int64_t stride = a->stride, offset = a->offset;
    bool join = a->join;
    cu_view packed, joined;
    int rc = cu_view_of(&a->packed, -1, a->heads * a->head_dim,
                        "heads packed", &packed, e);

    if (rc == ERR_OK)
        rc = cu_view_of(&a->joined, packed.rows, -1, "heads joined", &joined,
                        e);
    if (rc == ERR_OK && a->heads > 0 &&
        offset + (a->heads - 1) * stride + head_dim > joined.cols)
        rc = err_set(e, ERR_RUN, "cuda: heads reach beyond the joined row");
    if (rc != ERR_OK || count_of(packed) == 0) return rc;
    LAUNCH(move_heads, cu_blocks(count_of(packed), THREADS), THREADS, 0,
           cu_of(d)->stream, packed, joined, head_dim, stride, offset, join);
    CU_LAUNCHED();
    return ERR_OK;
}

/* ---- transposes --------------------------------------------------------- */

/* Element (g, i, j) of y is (g, j, i) of x, or zero beyond it. */
static __global__ void transpose_groups(cu_view y, cu_view x, int y_rows,
                                        int x_rows)
{
    EACH(n, int64_t{y.rows} * y.cols) {
        CU_CELL(r, j, n, y.cols);
        int64_t g = r / y_rows, i = r % y_rows;
        bool inside = j < x_rows && i < x.cols;

        cu_put(y, r, j, inside ? cu_get(x, g * x_rows + j, i) : 0.0f);
    }
}

int cu_transpose(struct dev *d, const struct k_transpose *a, struct err *e)
{
    cu_view y, x;
    int y_rows, x_rows;
    int rc = cu_view_of(&a->y, -1, -1, "transpose y", &y, e);

    if (rc == ERR_OK) rc = cu_view_of(&a->x, -1, -1, "transpose x", &x, e);
    if (rc != ERR_OK || a->n_group == 0 || count_of(y) == 0) return rc;
    if (y.rows % a->n_group != 0 || x.rows % a->n_group != 0)
        return err_set(e, ERR_RUN, "cuda: transpose: rows are no multiple of "
                       "the groups");
    y_rows = static_cast<int>(y.rows / a->n_group);
    x_rows = static_cast<int>(x.rows / a->n_group);
    LAUNCH(transpose_groups, cu_blocks(count_of(y), THREADS), THREADS, 0,
           cu_of(d)->stream, y, x, y_rows, x_rows);
    CU_LAUNCHED();
    return ERR_OK;
}
