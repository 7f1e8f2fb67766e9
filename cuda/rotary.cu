/*
** rotary.cu - the table of angles and the half-split rotation (model.md 2.2,
** 3.5).
*/
#include "cu.cuh"

constexpr int THREADS = 256;

struct frequencies { double theta, factor, low, high, positions; };

/* Radians a position of column c of cols (kernel.h). */
static __device__ double frequency(frequencies q, int c, int cols)
{
    double f = pow(q.theta, -static_cast<double>(c) /
                                static_cast<double>(cols));

    if (!(q.factor > 0)) return f;
    double turns = q.positions * f / 6.283185307179586476925286766559;
    double s = (turns - q.low) / (q.high - q.low);
    s = s < 0 ? 0 : s > 1 ? 1 : s;
    return s * f + (1 - s) * f / q.factor;
}

/* In f64, brought into [-pi, pi] before it is rounded. */
static __global__ void fill_angles(cu_view table, frequencies q)
{
    int64_t n = int64_t{table.rows} * table.cols;

    for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n;
         i += int64_t{blockDim.x} * gridDim.x) {
        CU_CELL(pos, c, i, table.cols);
        double angle = static_cast<double>(pos) *
                       frequency(q, c, table.cols);
        const double two_pi = 6.283185307179586476925286766559;

        angle -= two_pi * rint(angle / two_pi);
        cu_put(table, pos, c, static_cast<float>(angle));
    }
}

int cu_rotary_table(struct dev *d, const struct k_rotary_table *a,
                    struct err *e)
{
    frequencies q = {a->theta, a->factor, a->low, a->high, a->positions};
    cu_view table;
    int rc = cu_view_of(&a->table, -1, -1, "rotary table", &table, e);

    if (rc != ERR_OK || table.rows == 0 || table.cols == 0) return rc;
    LAUNCH(fill_angles, cu_blocks(int64_t{table.rows} * table.cols, THREADS),
           THREADS, 0, cu_of(d)->stream, table, q);
    CU_LAUNCHED();
    return ERR_OK;
}

/* Item i is one pair, or one dim that passes through: head_dim - half items
** a head, the pairs first. */
static __global__ void rotate(cu_view y, cu_view x, cu_view table,
                              const int32_t *pos, int heads, int head_dim,
                              int sign)
{
    int half = table.cols, items = head_dim - half;
    int64_t n = int64_t{x.rows} * heads * items;

    for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n;
         i += int64_t{blockDim.x} * gridDim.x) {
        int64_t r = i / (int64_t{heads} * items), rest = i % (heads * items);
        int64_t base = rest / items * head_dim, k = rest % items;

        if (k >= half) {
            cu_put(y, r, base + half + k, cu_get(x, r, base + half + k));
            continue;
        }
        float angle = cu_get(table, pos[r], k);
        float c = cosf(angle), s = static_cast<float>(sign) * sinf(angle);
        float a = cu_get(x, r, base + k), b = cu_get(x, r, base + half + k);

        cu_put(y, r, base + k, a * c - b * s);
        cu_put(y, r, base + half + k, b * c + a * s);
    }
}

int cu_rotary(struct dev *d, const struct k_rotary *a, struct err *e)
{
    int heads = static_cast<int>(a->heads), sign = a->sign;
    int head_dim = static_cast<int>(a->head_dim);
    const int32_t *pos = a->pos;
    cu_view y, x, table;
    int rc = cu_view_of(&a->x, -1, a->heads * a->head_dim, "rotary x", &x, e);

    if (rc == ERR_OK)
        rc = cu_view_of(&a->y, x.rows, x.cols, "rotary y", &y, e);
    if (rc == ERR_OK)
        rc = cu_view_of(&a->table, -1, -1, "rotary table", &table, e);
    if (rc == ERR_OK && 2 * table.cols > head_dim)
        rc = err_set(e, ERR_RUN, "cuda: rotary turns more dims than a head "
                     "has");
    if (rc != ERR_OK || x.rows == 0 || heads == 0) return rc;
    LAUNCH(rotate, cu_blocks(int64_t{x.rows} * heads *
                             (head_dim - table.cols), THREADS),
           THREADS, 0, cu_of(d)->stream, y, x, table, pos, heads, head_dim,
           sign);
    CU_LAUNCHED();
    return ERR_OK;
}
