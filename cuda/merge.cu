/*
** merge.cu - folding stage results into the accumulators, and the way back
** through the tapes (model.md 3.8, form A). One warp a (row, head).
*/
#include "cu.cuh"

constexpr int WARPS = 8;

static int view_or_none(const struct mat *m, int64_t rows, int64_t cols,
                        const char *name, cu_view *out, struct err *e)
{
    *out = cu_view{nullptr, 0, 0, 0, DT_F32};
    return m->p == nullptr ? ERR_OK : cu_view_of(m, rows, cols, name, out, e);
}

#define EACH_HEAD(i, n)                                                    \
    int lane = static_cast<int>(threadIdx.x) % 32;                         \
    for (int64_t i = int64_t{blockIdx.x} * WARPS + threadIdx.x / 32;       \
         i < (n); i += int64_t{gridDim.x} * WARPS)

static __device__ __forceinline__ bool is_empty(float lse)
{
    return lse == -INFINITY;
}

/* log(e^a + e^b); both empty stays empty, NaN stays NaN (fmaxf drops it). */
static __device__ float merged_lse(float a, float b)
{
    float hi = fmaxf(a, b), lo = fminf(a, b);

    if (a != a || b != b) return a + b;
    return is_empty(lo) ? hi : hi + log1pf(expf(lo - hi));
}

static __device__ __forceinline__ float weight(float lse, float total)
{
    return is_empty(lse) ? 0.0f : expf(lse - total);
}

static __global__ void merge(cu_view o_acc, cu_view lse_acc, cu_view tape_o,
                             cu_view tape_lse, cu_view o, cu_view lse,
                             const int64_t *row, int heads)
{
    int d = o.cols / heads;

    EACH_HEAD(i, int64_t{o.rows} * heads) {
        int64_t r = i / heads, h = i % heads;
        int64_t own = row == nullptr ? r : row[r];

        if (own < 0) continue;
        float before = cu_get(lse_acc, own, h), mine = cu_get(lse, r, h);
        float total = merged_lse(before, mine);
        float keep = weight(before, total), take = weight(mine, total);

        for (int64_t c = h * d + lane; c < (h + 1) * d; c += 32) {
            float was = cu_get(o_acc, own, c);

            if (tape_o.p != nullptr) cu_put(tape_o, r, c, was);
            cu_put(o_acc, own, c, keep * was + take * cu_get(o, r, c));
        }
        __syncwarp();       /* all lanes have read lse_acc */
        if (lane > 0) continue;
        if (tape_lse.p != nullptr) cu_put(tape_lse, r, h, before);
        cu_put(lse_acc, own, h, total);
    }
}

int cu_merge(struct dev *d, const struct k_merge *a, struct err *e)
{
    int heads = static_cast<int>(a->heads), rc;
    const int64_t *row = a->row;
    cu_view tape_o, tape_lse;
    CU_VIEW(o, -1, -1);
    CU_VIEW(lse, o.rows, heads);
    CU_VIEW(o_acc, -1, o.cols);
    CU_VIEW(lse_acc, o_acc.rows, heads);
    rc = view_or_none(&a->tape_o, o.rows, o.cols, "tape_o", &tape_o, e);
    if (rc == ERR_OK)
        rc = view_or_none(&a->tape_lse, o.rows, heads, "tape_lse", &tape_lse,
                          e);
    if (rc != ERR_OK || o.rows == 0) return rc;
    LAUNCH(merge, cu_blocks(int64_t{o.rows} * heads, WARPS), 32 * WARPS, 0,
           cu_of(d)->stream, o_acc, lse_acc, tape_o, tape_lse, o, lse, row,
           heads);
    CU_LAUNCHED();
    return ERR_OK;
}

/* With w1, w2 the weights of accumulator and stage, dO the merged gradient:
** dO_k = w_k dO; lambda = w1 w2 dO . (O2 - O1); dl1 = w1 dl - lambda,
** dl2 = w2 dl + lambda. */
static __global__ void merge_bwd(cu_view d_acc, cu_view dlse_acc, cu_view d_o,
                                 cu_view dlse, cu_view tape_o,
                                 cu_view tape_lse, cu_view o, cu_view lse,
                                 const int64_t *row, int heads)
{
    int d = o.cols / heads;

    EACH_HEAD(i, int64_t{o.rows} * heads) {
        int64_t r = i / heads, h = i % heads;
        int64_t own = row == nullptr ? r : row[r];

        if (own < 0) {
            for (int64_t c = h * d + lane; c < (h + 1) * d; c += 32)
                cu_put(d_o, r, c, 0.0f);
            if (lane == 0) cu_put(dlse, r, h, 0.0f);
            continue;
        }
        bool first = tape_o.p == nullptr;
        float before = first ? -INFINITY : cu_get(tape_lse, r, h);
        float mine = cu_get(lse, r, h), total = merged_lse(before, mine);
        float w1 = weight(before, total), w2 = weight(mine, total);
        float along = 0;

        for (int64_t c = h * d + lane; c < (h + 1) * d; c += 32) {
            float g = cu_get(d_acc, own, c);

            along += g * (cu_get(o, r, c) -
                          (first ? 0.0f : cu_get(tape_o, r, c)));
            cu_put(d_o, r, c, w2 * g);
            cu_put(d_acc, own, c, w1 * g);
        }
        float lambda = w1 * w2 * cu_warp_sum(along);
        if (lane > 0) continue;
        /* read by the lane that writes it: shuffles order no memory */
        float dl = cu_get(dlse_acc, own, h);
        cu_put(dlse, r, h, w2 * dl + lambda);
        cu_put(dlse_acc, own, h, w1 * dl - lambda);
    }
}

int cu_merge_bwd(struct dev *d, const struct k_merge_bwd *a, struct err *e)
{
    int heads = static_cast<int>(a->heads), rc;
    const int64_t *row = a->row;
    cu_view tape_o, tape_lse;
    CU_VIEW(o, -1, -1);
    CU_VIEW(lse, o.rows, heads);
    CU_VIEW(d_acc, -1, o.cols);
    CU_VIEW(dlse_acc, d_acc.rows, heads);
    CU_VIEW(d_o, o.rows, o.cols);
    CU_VIEW(dlse, o.rows, heads);
    rc = view_or_none(&a->tape_o, o.rows, o.cols, "tape_o", &tape_o, e);
    if (rc == ERR_OK)
        rc = view_or_none(&a->tape_lse, o.rows, heads, "tape_lse", &tape_lse,
                          e);
    if (rc != ERR_OK || o.rows == 0) return rc;
    LAUNCH(merge_bwd, cu_blocks(int64_t{o.rows} * heads, WARPS), 32 * WARPS,
           0, cu_of(d)->stream, d_acc, dlse_acc, d_o, dlse, tape_o, tape_lse,
           o, lse, row, heads);
    CU_LAUNCHED();
    return ERR_OK;
}
