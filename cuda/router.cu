/*
** router.cu - softmax and top-k over experts, its gradient, and the stable
** order of pairs by (expert, row) (model.md 2.4, 3.15, 5).
*/
#include "cu.cuh"

constexpr int WARPS = 4;
constexpr int THREADS = 128;

#define EACH_ROW(r, rows)                                                   \
    int lane = static_cast<int>(threadIdx.x) % 32;                          \
    for (int r = static_cast<int>(blockIdx.x) * WARPS +                     \
                 static_cast<int>(threadIdx.x) / 32;                        \
         r < (rows); r += static_cast<int>(gridDim.x) * WARPS)

/* An integer view as the kernels read it. */
struct ints { int64_t *p; int64_t ld; };

/* ---- choice ------------------------------------------------------------- */

/* Does (va, a) come before (vb, b): larger logit, lower index on ties, NaN
** last? A total order, so that the chosen are distinct. */
static __device__ bool before(float va, int a, float vb, int b)
{
    bool none = va != va, other = vb != vb;

    if (none || other) return none == other ? a < b : other;
    return va > vb || (va == vb && a < b);
}

/* The warp's best expert that comes after (last, last_index). */
static __device__ int next_best(const cu_view &logits, int r, int lane,
                                float last, int last_index, bool first)
{
    float best = -INFINITY;
    int at = logits.cols;

    for (int c = lane; c < logits.cols; c += 32) {
        float v = cu_get(logits, r, c);

        if (!first && !before(last, last_index, v, c)) continue;
        if (at == logits.cols || before(v, c, best, at)) {
            best = v;
            at = c;
        }
    }
    for (int d = 16; d > 0; d /= 2) {
        float v = __shfl_xor_sync(0xffffffffu, best, d);
        int i = __shfl_xor_sync(0xffffffffu, at, d);

        if (i < logits.cols && (at == logits.cols || before(v, i, best, at))) {
            best = v;
            at = i;
        }
    }
    return at;
}

static __device__ void softmax(const cu_view &logits, const cu_view &scores,
                               int r, int lane)
{
    float top = -INFINITY, sum = 0;

    for (int c = lane; c < logits.cols; c += 32)
        top = fmaxf(top, cu_get(logits, r, c));
    top = cu_warp_max(top);
    for (int c = lane; c < logits.cols; c += 32)
        sum += expf(cu_get(logits, r, c) - top);
    sum = cu_warp_sum(sum);
    for (int c = lane; c < logits.cols; c += 32)
        cu_put(scores, r, c, expf(cu_get(logits, r, c) - top) / sum);
}

static __global__ void route(cu_view logits, cu_view scores, uint8_t *map,
                             int64_t map_ld, ints idx, cu_view weight,
                             const int64_t *forced, bool norm)
{
    int top_k = weight.cols;

    EACH_ROW(r, logits.rows) {
        float last = 0, sum = 0;
        int at = -1;

        softmax(logits, scores, r, lane);
        for (int c = lane; c < logits.cols; c += 32) map[r * map_ld + c] = 0;
        __syncwarp();
        for (int k = 0; k < top_k; k++) {
            at = forced != nullptr
                ? static_cast<int>(forced[int64_t{r} * top_k + k])
                : next_best(logits, r, lane, last, at, k == 0);
            last = cu_get(logits, r, at);
            sum += cu_get(scores, r, at);
            if (lane == 0) {
                idx.p[r * idx.ld + k] = at;
                map[r * map_ld + at] = 1;
                cu_put(weight, r, k, cu_get(scores, r, at));
            }
        }
        __syncwarp();
        for (int k = lane; norm && k < top_k; k += 32)
            cu_put(weight, r, k, cu_get(weight, r, k) / sum);
    }
}

static int int_view(const struct mat *m, int64_t rows, int64_t cols,
                    ints *out, struct err *e)
{
    if (m->t != DT_I64 || m->rows != rows || m->cols != cols ||
        (rows > 0 && m->p == nullptr))
        return err_set(e, ERR_RUN, "cuda: idx is no %lld x %lld view of i64",
                       (long long)rows, (long long)cols);
    *out = ints{static_cast<int64_t *>(m->p), m->ld};
    return ERR_OK;
}

int cu_router(struct dev *d, const struct k_router *a, struct err *e)
{
    uint8_t *map = static_cast<uint8_t *>(a->map.p);
    int64_t map_ld = a->map.ld;
    const int64_t *forced = a->forced;
    bool norm = a->norm;
    ints idx;
    CU_VIEW(logits, -1, -1);
    CU_VIEW(scores, logits.rows, logits.cols);
    CU_VIEW(weight, logits.rows, -1);
    int rc = int_view(&a->idx, logits.rows, weight.cols, &idx, e);
    if (rc == ERR_OK && (a->map.t != DT_U8 || a->map.rows != logits.rows ||
                         a->map.cols != logits.cols))
        rc = err_set(e, ERR_RUN, "cuda: map is no view of u8 like logits");
    if (rc == ERR_OK && weight.cols > logits.cols)
        rc = err_set(e, ERR_RUN, "cuda: more choices than experts");
    if (rc != ERR_OK || logits.rows == 0) return rc;
    LAUNCH(route, cu_blocks(logits.rows, WARPS), 32 * WARPS, 0,
           cu_of(d)->stream, logits, scores, map, map_ld, idx, weight, forced,
           norm);
    CU_LAUNCHED();
    return ERR_OK;
}

/* ---- gradient ----------------------------------------------------------- */

/* Normalised: dr_e = w_e (dw_e - sum_j w_j dw_j) for chosen e. Otherwise
** dr_e = p_e ([e chosen] dw_e - sum_j p_j dw_j) for all e. */
static __global__ void route_bwd(cu_view dlogits, cu_view dweight,
                                 cu_view scores, ints idx, cu_view weight,
                                 bool norm)
{
    int top_k = weight.cols;

    EACH_ROW(r, dlogits.rows) {
        float along = 0;

        for (int k = 0; k < top_k; k++)
            along += cu_get(weight, r, k) * cu_get(dweight, r, k);
        for (int c = lane; c < dlogits.cols; c += 32)
            cu_put(dlogits, r, c,
                   norm ? 0.0f : -cu_get(scores, r, c) * along);
        __syncwarp();
        for (int k = lane; k < top_k; k += 32) {
            int64_t at = idx.p[r * idx.ld + k];
            float w = cu_get(weight, r, k), g = cu_get(dweight, r, k);

            cu_put(dlogits, r, at, w * (g - along));
        }
        __syncwarp();
    }
}

int cu_router_bwd(struct dev *d, const struct k_router_bwd *a, struct err *e)
{
    bool norm = a->norm;
    ints idx;
    CU_VIEW(dlogits, -1, -1);
    CU_VIEW(scores, dlogits.rows, dlogits.cols);
    CU_VIEW(weight, dlogits.rows, -1);
    CU_VIEW(dweight, dlogits.rows, weight.cols);
    int rc = int_view(&a->idx, dlogits.rows, weight.cols, &idx, e);
    if (rc != ERR_OK || dlogits.rows == 0) return rc;
    LAUNCH(route_bwd, cu_blocks(dlogits.rows, WARPS), 32 * WARPS, 0,
           cu_of(d)->stream, dlogits, dweight, scores, idx, weight, norm);
    CU_LAUNCHED();
    return ERR_OK;
}

/* ---- order of pairs ----------------------------------------------------- */

/* A counting sort whose thread for an expert reads its block's pairs in
** order, so that the result is stable: counts per (block, expert), their
** prefix sums over the blocks of an expert, those of the experts' sums, then
** places. */
constexpr int PAIRS = 512;      /* of a block */

/* The next pair in order, without a division. */
static __device__ __forceinline__ void next_pair(int64_t *r, int *k, int top_k)
{
    bool last = ++*k == top_k;

    *k = last ? 0 : *k;
    *r += last;
}

/* Sum over the lanes up to this one. */
static __device__ int32_t warp_prefix(int32_t v, int lane)
{
    for (unsigned d = 1; d < 32; d *= 2) {
        int32_t before = __shfl_up_sync(0xffffffffu, v, d);
        if (lane >= static_cast<int>(d)) v += before;
    }
    return v;
}

/* table[b * experts + x]: the number of pairs; after prefix_blocks the place
** of the first one within its expert's. */
static __global__ void count_pairs(ints idx, int top_k, int64_t pairs,
                                   int experts, int32_t *table)
{
    int64_t first = int64_t{blockIdx.x} * PAIRS;
    int64_t end = first + PAIRS < pairs ? first + PAIRS : pairs;

    for (int x = static_cast<int>(threadIdx.x); x < experts; x += THREADS) {
        int64_t r = first / top_k;
        int k = static_cast<int>(first % top_k), n = 0;

        for (int64_t i = first; i < end; i++) {
            n += idx.p[r * idx.ld + k] == x;
            next_pair(&r, &k, top_k);
        }
        table[int64_t{blockIdx.x} * experts + x] = n;
    }
}

/* A warp an expert. */
static __global__ void prefix_blocks(int32_t *table, int64_t *counts,
                                     int blocks, int experts)
{
    EACH_ROW(x, experts) {
        int32_t place = 0;

        for (int b = 0; b < blocks; b += 32) {
            int64_t at = int64_t{b + lane} * experts + x;
            int32_t n = b + lane < blocks ? table[at] : 0;
            int32_t through = warp_prefix(n, lane);

            if (b + lane < blocks) table[at] = place + through - n;
            place += __shfl_sync(0xffffffffu, through, 31);
        }
        if (lane == 0) counts[x] = place;
    }
}

/* One warp: where each expert's pairs begin. */
static __global__ void prefix_experts(const int64_t *counts, int32_t *begin,
                                      int experts)
{
    int lane = static_cast<int>(threadIdx.x);
    int32_t place = 0;

    for (int x = 0; x < experts; x += 32) {
        int32_t n = x + lane < experts
            ? static_cast<int32_t>(counts[x + lane]) : 0;
        int32_t through = warp_prefix(n, lane);

        if (x + lane < experts) begin[x + lane] = place + through - n;
        place += __shfl_sync(0xffffffffu, through, 31);
    }
}

static __global__ void place_pairs(ints idx, cu_view weight, int64_t pairs,
                                   int experts, const int32_t *table,
                                   const int32_t *begin, cu_view pair_weight,
                                   int32_t *row, int32_t *slot)
{
    int top_k = weight.cols;
    int64_t first = int64_t{blockIdx.x} * PAIRS;
    int64_t end = first + PAIRS < pairs ? first + PAIRS : pairs;

    for (int x = static_cast<int>(threadIdx.x); x < experts; x += THREADS) {
        int32_t place = begin[x] + table[int64_t{blockIdx.x} * experts + x];

        int64_t r = first / top_k;
        int k = static_cast<int>(first % top_k);

        for (int64_t i = first; i < end; i++) {
            if (idx.p[r * idx.ld + k] == x) {
                row[place] = static_cast<int32_t>(r);
                slot[i] = place;
                cu_put(pair_weight, place, 0, cu_get(weight, r, k));
                place++;
            }
            next_pair(&r, &k, top_k);
        }
    }
}

static int sort_on_device(struct cu *c, const struct k_route_sort *a,
                          const ints &idx, const cu_view &weight,
                          const cu_view &pair_weight, struct err *e)
{
    int experts = static_cast<int>(a->experts), top_k = weight.cols;
    int64_t pairs = int64_t{weight.rows} * top_k;
    unsigned grid = 0;
    int rc = pairs <= INT32_MAX ? cu_grid(pairs, PAIRS, &grid, e)
             : err_set(e, ERR_RUN, "cuda route_sort: %lld pairs, and places "
                       "are 32 bits", (long long)pairs);

    if (rc != ERR_OK) return rc;
    int blocks = static_cast<int>(grid);
    size_t e_count = static_cast<size_t>(experts);
    size_t table_bytes = static_cast<size_t>(blocks) * e_count * 4;
    int32_t *row = a->row, *slot = a->slot;

    rc = cu_room_begin(c, CU_ROOM(table_bytes) + CU_ROOM(e_count * 8) +
                              CU_ROOM(e_count * 4), e);
    if (rc != ERR_OK) return rc;
    int32_t *table = static_cast<int32_t *>(cu_room(c, table_bytes));
    int64_t *counts = static_cast<int64_t *>(cu_room(c, e_count * 8));
    int32_t *begin = static_cast<int32_t *>(cu_room(c, e_count * 4));
    LAUNCH(count_pairs, grid, THREADS, 0, c->stream, idx, top_k, pairs,
           experts, table);
    CU_LAUNCHED();
    LAUNCH(prefix_blocks, cu_blocks(experts, WARPS), 32 * WARPS, 0, c->stream,
           table, counts, blocks, experts);
    CU_LAUNCHED();
    LAUNCH(prefix_experts, 1, 32, 0, c->stream, counts, begin, experts);
    CU_LAUNCHED();
    LAUNCH(place_pairs, grid, THREADS, 0, c->stream, idx, weight, pairs,
           experts, table, begin, pair_weight, row, slot);
    CU_LAUNCHED();
    return c->dev.ops->download(&c->dev, a->counts, counts,
                                static_cast<size_t>(experts) * 8, e);
}

int cu_route_sort(struct dev *d, const struct k_route_sort *a, struct err *e)
{
    ints idx;
    CU_VIEW(weight, -1, -1);
    CU_VIEW(pair_weight, int64_t{weight.rows} * weight.cols, 1);
    int rc = int_view(&a->idx, weight.rows, weight.cols, &idx, e);
    if (rc != ERR_OK) return rc;
    if (pair_weight.rows == 0) {
        for (int64_t x = 0; x < a->experts; x++) a->counts[x] = 0;
        return ERR_OK;
    }
    return sort_on_device(cu_of(d), a, idx, weight, pair_weight, e);
}

static __global__ void unsort(cu_view dweight, cu_view dpair,
                              const int32_t *slot)
{
    int64_t n = int64_t{dweight.rows} * dweight.cols;

    for (int64_t i = int64_t{blockIdx.x} * THREADS + threadIdx.x; i < n;
         i += int64_t{gridDim.x} * THREADS)
        cu_put(dweight, i / dweight.cols, i % dweight.cols,
               cu_get(dpair, slot[i], 0));
}

int cu_route_unsort(struct dev *d, const struct k_route_unsort *a,
                    struct err *e)
{
    const int32_t *slot = a->slot;
    CU_VIEW(dweight, -1, -1);
    CU_VIEW(dpair, int64_t{dweight.rows} * dweight.cols, 1);

    if (dpair.rows == 0) return ERR_OK;
    LAUNCH(unsort, cu_blocks(dpair.rows, THREADS), THREADS, 0,
           cu_of(d)->stream, dweight, dpair, slot);
    CU_LAUNCHED();
    return ERR_OK;
}
