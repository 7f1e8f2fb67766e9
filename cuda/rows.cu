/*
** rows.cu - rows from here to there: embedding, gathers and scatters by
** ranges, the MoE permutation and its sums.
*/
#include "wide.cuh"

constexpr int THREADS = 128;

/* Row r of to becomes row s of from, the whole block; 16 bytes a thread where
** both rows lie alike. */
static __device__ __forceinline__ void copy_row(const cu_view &to, int64_t r,
                                                const cu_view &from,
                                                int64_t s)
{
    int64_t bytes = to.t == DT_BF16 ? 2 : 4;
    char *p = static_cast<char *>(to.p) + r * to.ld * bytes;
    const char *q = static_cast<const char *>(from.p) + s * from.ld * bytes;
    int done = 0;

    if (to.t == from.t && (reinterpret_cast<uintptr_t>(p) |
                           reinterpret_cast<uintptr_t>(q)) % 16 == 0) {
        int n = static_cast<int>(to.cols * bytes / 16);

        for (int i = static_cast<int>(threadIdx.x); i < n; i += THREADS)
            reinterpret_cast<uint4 *>(p)[i] =
                reinterpret_cast<const uint4 *>(q)[i];
        done = n * static_cast<int>(16 / bytes);
    }
    for (int c = done + static_cast<int>(threadIdx.x); c < to.cols;
         c += THREADS)
        cu_put(to, r, c, cu_get(from, s, c));
}

/* ---- by index ----------------------------------------------------------- */

static __global__ void take_rows(cu_view out, cu_view x, const int32_t *row)
{
    for (int r = static_cast<int>(blockIdx.x); r < out.rows;
         r += static_cast<int>(gridDim.x))
        copy_row(out, r, x, row[r]);
}

static int take(struct dev *d, const struct mat *mo, const struct mat *mx,
                const int32_t *row, const char *what, struct err *e)
{
    cu_view out, x;
    int rc = cu_view_of(mo, -1, -1, what, &out, e);

    if (rc == ERR_OK) rc = cu_view_of(mx, -1, out.cols, what, &x, e);
    if (rc != ERR_OK || out.rows == 0 || out.cols == 0) return rc;
    LAUNCH(take_rows, cu_blocks(out.rows, 1), THREADS, 0, cu_of(d)->stream,
           out, x, row);
    CU_LAUNCHED();
    return ERR_OK;
}

int cu_embed(struct dev *d, const struct k_embed *a, struct err *e)
{
    return take(d, &a->out, &a->table, a->ids, "embed", e);
}

int cu_permute(struct dev *d, const struct k_permute *a, struct err *e)
{
    return take(d, &a->out, &a->x, a->row, "permute", e);
}

template <int W>
static __global__ void sum_slots(cu_view out, cu_view x, const int32_t *slot,
                                 int top_k, bool add)
{
    EACH_WIDE(W, r, c, out) {
        float sum[W] = {}, v[W];

        if (add) wide_get(out, r, c, sum);
        for (int k = 0; k < top_k; k++) {
            wide_get(x, slot[r * top_k + k], c, v);
            UNROLL for (int j = 0; j < W; j++) sum[j] += v[j];
        }
        wide_put(out, r, c, sum);
    }
}

int cu_combine(struct dev *d, const struct k_combine *a, struct err *e)
{
    const int32_t *slot = a->slot;
    int top_k = static_cast<int>(a->top_k);
    bool add = a->add;
    cu_view out, x;
    int rc = cu_view_of(&a->out, -1, -1, "combine out", &out, e);

    if (rc == ERR_OK)
        rc = cu_view_of(&a->x, -1, out.cols, "combine x", &x, e);
    if (rc != ERR_OK) return rc;
    WIDE_LAUNCH(cu_of(d), sum_slots, out, wide_fits({&out, &x}), out, x, slot,
                top_k, add);
    return ERR_OK;
}

/* ---- by ranges ---------------------------------------------------------- */

/* Ranges on the device: where each starts, and the packed row it begins. */
struct runs {
    const int64_t *start, *packed;  /* packed has n + 1 entries */
    int n;
};

/* The row of the wide view behind packed row i. */
static __device__ int64_t wide_row(const runs &s, int64_t i)
{
    int lo = 0, hi = s.n - 1;

    while (lo < hi) {
        int mid = (lo + hi + 1) / 2;
        if (s.packed[mid] <= i) lo = mid;
        else hi = mid - 1;
    }
    return s.start[lo] + (i - s.packed[lo]);
}

static __global__ void move_runs(cu_view packed, cu_view wide, runs s,
                                 bool out, bool add)
{
    for (int r = static_cast<int>(blockIdx.x); r < packed.rows;
         r += static_cast<int>(gridDim.x)) {
        int64_t w = wide_row(s, r);

        if (!out) {
            copy_row(packed, r, wide, w);
        } else if (!add) {
            copy_row(wide, w, packed, r);
        } else {
            for (int c = static_cast<int>(threadIdx.x); c < packed.cols;
                 c += THREADS)
                cu_put(wide, w, c, cu_get(wide, w, c) + cu_get(packed, r, c));
        }
    }
}

/* Empty ranges are left out, so that the search finds the one that counts. */
static int upload_runs(struct cu *c, const struct range *r, int64_t n,
                       int64_t packed_rows, int64_t wide_rows, runs *s,
                       struct err *e)
{
    size_t bytes = static_cast<size_t>(n + 1) * sizeof(int64_t);
    int64_t *start, *packed, row = 0, used = 0;
    void *at;
    int rc = cu_meta_begin(c, 2 * CU_ROOM(bytes), e);

    if (rc != ERR_OK) return rc;
    start = static_cast<int64_t *>(cu_meta_host(c, bytes, &at));
    s->start = static_cast<const int64_t *>(at);
    packed = static_cast<int64_t *>(cu_meta_host(c, bytes, &at));
    s->packed = static_cast<const int64_t *>(at);
    for (int64_t i = 0; i < n; i++) {
        if (r[i].len == 0) continue;
        if (r[i].start < 0 || r[i].len < 0 ||
            r[i].start > wide_rows - r[i].len)
            return err_set(e, ERR_RUN, "cuda: a range ends outside its view");
        start[used] = r[i].start;
        packed[used++] = row;
        row += r[i].len;
    }
    packed[used] = row;
    s->n = static_cast<int>(used);
    if (row != packed_rows)
        return err_set(e, ERR_RUN, "cuda: ranges of %lld rows for a view of "
                       "%lld", (long long)row, (long long)packed_rows);
    return row > 0 ? cu_meta_send(c, e) : ERR_OK;
}

static int move(struct dev *d, const struct mat *mp, const struct mat *mw,
                const struct range *r, int64_t n, bool out, bool add,
                struct err *e)
{
    struct cu *c = cu_of(d);
    cu_view packed, wide;
    runs s;
    int rc = cu_view_of(mp, -1, -1, "packed rows", &packed, e);

    if (rc == ERR_OK)
        rc = cu_view_of(mw, -1, packed.cols, "wide rows", &wide, e);
    if (rc == ERR_OK)
        rc = upload_runs(c, r, n, packed.rows, wide.rows, &s, e);
    if (rc != ERR_OK || packed.rows == 0 || packed.cols == 0) return rc;
    LAUNCH(move_runs, cu_blocks(packed.rows, 1), THREADS, 0, c->stream,
           packed, wide, s, out, add);
    CU_LAUNCHED();
    return ERR_OK;
}

int cu_gather(struct dev *d, const struct k_gather *a, struct err *e)
{
    return move(d, &a->out, &a->x, a->r, a->n, false, false, e);
}

/* Ranges that overlap (one row sent to two peers) add in their order: one
** launch a range. */
static bool overlap(const struct range *r, int64_t n)
{
    for (int64_t i = 1; i < n; i++)
        if (r[i].start < r[i - 1].start + r[i - 1].len) return true;
    return false;
}

int cu_scatter(struct dev *d, const struct k_scatter *a, struct err *e)
{
    struct mat part = a->x;

    if (!a->add || !overlap(a->r, a->n))
        return move(d, &a->x, &a->out, a->r, a->n, true, a->add, e);
    for (int64_t i = 0; i < a->n; i++) {
        part.rows = a->r[i].len;
        int rc = move(d, &part, &a->out, &a->r[i], 1, true, true, e);
        if (rc != ERR_OK) return rc;
        part.p = static_cast<char *>(part.p) +
                 part.rows * part.ld * dtype_bytes(part.t);
    }
    return ERR_OK;
}
