/*
** head.cu - cross-entropy over rows of logits, and Adam (model.md 2.5, 3.16).
*/
#include "cu.cuh"

constexpr int THREADS = 256;
constexpr int WARPS = THREADS / 32;

/* Folds one number a thread over the block; the same order always. */
static __device__ float block_sum(float v, float *room)
{
    v = cu_warp_sum(v);
    __syncthreads();
    if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = v;
    __syncthreads();
    v = 0;
    for (int i = 0; i < WARPS; i++) v += room[i];
    return v;
}

static __device__ float block_max(float v, float *room)
{
    v = cu_warp_max(v);
    __syncthreads();
    if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = v;
    __syncthreads();
    v = room[0];
    for (int i = 1; i < WARPS; i++) v = fmaxf(v, room[i]);
    return v;
}

/* One block a row. row_loss gets weight * (lse - logit of the target); the
** sum over rows is taken in order by another kernel. */
static __global__ void cross_entropy(cu_view dlogits, cu_view logits,
                                     const int32_t *target,
                                     const float *weight, float *row_loss)
{
    __shared__ float room[WARPS];
    int r = static_cast<int>(blockIdx.x), t = target[r];
    float w = t < 0 ? 0.0f : weight[r], top = -INFINITY, sum = 0;

    for (int c = static_cast<int>(threadIdx.x); c < logits.cols;
         c += THREADS)
        top = fmaxf(top, cu_get(logits, r, c));
    top = block_max(top, room);
    for (int c = static_cast<int>(threadIdx.x); c < logits.cols;
         c += THREADS)
        sum += expf(cu_get(logits, r, c) - top);
    sum = block_sum(sum, room);
    if (threadIdx.x == 0)
        row_loss[r] = t < 0 ? 0.0f
                            : w * (logf(sum) + top - cu_get(logits, r, t));
    __syncthreads();        /* dlogits may be logits */
    if (dlogits.p == nullptr) return;
    for (int c = static_cast<int>(threadIdx.x); c < logits.cols;
         c += THREADS) {
        float p = expf(cu_get(logits, r, c) - top) / sum;

        cu_put(dlogits, r, c,
               t < 0 ? 0.0f : w * (p - (c == t ? 1.0f : 0.0f)));
    }
}

/* A block: every thread its own rows in order, then the threads in order. */
static __global__ void add_losses(const float *row_loss, int rows,
                                  double *loss_sum)
{
    __shared__ double part[THREADS];
    double sum = 0;

    for (int i = static_cast<int>(threadIdx.x); i < rows; i += THREADS)
        sum += static_cast<double>(row_loss[i]);
    part[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x > 0) return;
    sum = *loss_sum;
    for (int i = 0; i < THREADS; i++) sum += part[i];
    *loss_sum = sum;
}

int cu_cross_entropy(struct dev *d, const struct k_cross_entropy *a,
                     struct err *e)
{
    struct cu *c = cu_of(d);
    const int32_t *target = a->target;
    const float *weight = static_cast<const float *>(a->weight);
    double *loss_sum = a->loss_sum;
    cu_view logits, dlogits = {nullptr, 0, 0, 0, DT_F32};
    int rc = cu_view_of(&a->logits, -1, -1, "logits", &logits, e);

    if (rc == ERR_OK && a->dlogits.p != nullptr)
        rc = cu_view_of(&a->dlogits, logits.rows, logits.cols, "dlogits",
                        &dlogits, e);
    size_t bytes = static_cast<size_t>(logits.rows) * sizeof(float);
    if (rc == ERR_OK) rc = cu_room_begin(c, CU_ROOM(bytes), e);
    if (rc != ERR_OK || logits.rows == 0) return rc;
    float *row_loss = static_cast<float *>(cu_room(c, bytes));
    LAUNCH(cross_entropy, static_cast<unsigned>(logits.rows), THREADS, 0,
           c->stream, dlogits, logits, target, weight, row_loss);
    CU_LAUNCHED();
    int rows = logits.rows;
    LAUNCH(add_losses, 1, THREADS, 0, c->stream, row_loss, rows, loss_sum);
    CU_LAUNCHED();
    return ERR_OK;
}

/* ---- Adam --------------------------------------------------------------- */

/* rest1 is 1 - beta1 of the exact beta1: 1 - 0.999f is off by 1.3e-5. */
struct adam_rates { float lr, beta1, rest1, beta2, rest2, eps, fix1, fix2; };

static __global__ void adam(cu_view p, cu_view g, cu_view m, cu_view v,
                            adam_rates t)
{
    int64_t n = int64_t{p.rows} * p.cols;

    for (int64_t i = int64_t{blockIdx.x} * THREADS + threadIdx.x; i < n;
         i += int64_t{gridDim.x} * THREADS) {
        CU_CELL(r, c, i, p.cols);
        float grad = cu_get(g, r, c);
        float first = t.beta1 * cu_get(m, r, c) + t.rest1 * grad;
        float second = t.beta2 * cu_get(v, r, c) +
                       t.rest2 * grad * grad;

        cu_put(m, r, c, first);
        cu_put(v, r, c, second);
        cu_put(p, r, c, cu_get(p, r, c) -
               t.lr * (first / t.fix1) /
               (sqrtf(second / t.fix2) + t.eps));
    }
}

int cu_adam(struct dev *d, const struct k_adam *a, struct err *e)
{
    double step = static_cast<double>(a->step);
    adam_rates t = {static_cast<float>(a->lr), static_cast<float>(a->beta1),
                    static_cast<float>(1 - a->beta1),
                    static_cast<float>(a->beta2),
                    static_cast<float>(1 - a->beta2),
                    static_cast<float>(a->eps),
                    static_cast<float>(1 - pow(a->beta1, step)),
                    static_cast<float>(1 - pow(a->beta2, step))};
    cu_view p, g, m, v;
    int rc = cu_view_of(&a->p, -1, -1, "adam p", &p, e);

    if (rc == ERR_OK) rc = cu_view_of(&a->g, p.rows, p.cols, "adam g", &g, e);
    if (rc == ERR_OK) rc = cu_view_of(&a->m, p.rows, p.cols, "adam m", &m, e);
    if (rc == ERR_OK) rc = cu_view_of(&a->v, p.rows, p.cols, "adam v", &v, e);
    if (rc != ERR_OK || p.rows == 0) return rc;
    LAUNCH(adam, cu_blocks(int64_t{p.rows} * p.cols, THREADS), THREADS, 0,
           cu_of(d)->stream, p, g, m, v, t);
    CU_LAUNCHED();
    return ERR_OK;
}
