/*
** meter.cpp - the module's table of kernels, each telling first what it must
** do; see wave.h. The linker puts __wrap_cu_watch_open in the place of
** cu_watch_open (ld's --wrap).
*/
#include "attention.cuh"
#include "cu.cuh"

#include "tests/wave/wave.h"

/* ---- work of an operator ------------------------------------------------ */

static double size_of(const struct mat &m)
{
    return m.p == nullptr ? 0 : static_cast<double>(m.rows) *
        static_cast<double>(m.cols) * static_cast<double>(dtype_bytes(m.t));
}

/* The arguments begin with n views. */
static double views(const void *a, int n)
{
    const struct mat *m = static_cast<const struct mat *>(a);
    double sum = 0;

    for (int i = 0; i < n; i++) sum += size_of(m[i]);
    return sum;
}

#define VIEWS(name, n)                                             \
    static wave_work work_of(const k_##name *a)                    \
    {                                                              \
        return {views(a, n), 0, 0};                                \
    }
#define WORK(name, bytes)                                          \
    static wave_work work_of(const k_##name *a)                    \
    {                                                              \
        return {bytes, 0, 0};                                      \
    }

VIEWS(fill, 1) VIEWS(copy, 2) VIEWS(add, 3) VIEWS(scale, 2) VIEWS(random, 1)
VIEWS(transpose, 2) VIEWS(rms_norm, 4) VIEWS(l2_norm, 3) VIEWS(l2_norm_bwd, 4)
VIEWS(rotary_table, 1) VIEWS(rotary, 2) VIEWS(sigmoid_gate, 3)
VIEWS(sigmoid_gate_bwd, 5)
VIEWS(gdn_gates, 6) VIEWS(gdn_gates_bwd, 8) VIEWS(repeat_heads, 2)
VIEWS(sum_heads, 2) VIEWS(silu_gate, 3) VIEWS(silu_gate_bwd, 5)
VIEWS(swiglu, 3) VIEWS(swiglu_bwd, 5) VIEWS(row_gate, 3)
VIEWS(row_gate_bwd, 5) VIEWS(router, 5) VIEWS(router_bwd, 5)
VIEWS(route_sort, 3) VIEWS(route_unsort, 2) VIEWS(cross_entropy, 2)
VIEWS(permute, 2)
/* rows, not the whole of what they are taken from or put into */
WORK(embed, 2 * size_of(a->out))
WORK(gather, 2 * size_of(a->out))
WORK(scatter, (a->add ? 3 : 2) * size_of(a->x))
WORK(heads, 2 * size_of(a->packed))
/* what is added to is read too */
WORK(combine, views(a, 2) + (a->add ? size_of(a->out) : 0))
WORK(rms_norm_bwd, views(a, 5) + (a->add ? size_of(a->dx) : 0))
WORK(merge, views(a, 6) + views(a, 2))
WORK(merge_bwd, views(a, 8) + views(a, 2))
WORK(adam, views(a, 4) + size_of(a->p) + views(&a->m, 2))

static wave_work work_of(const k_gemm *a)
{
    double inner = static_cast<double>(a->trans_a ? a->a.rows : a->a.cols);

    return {views(a, 3) + (a->beta != 0 ? size_of(a->c) : 0),
            2 * inner * static_cast<double>(a->c.rows) *
                static_cast<double>(a->c.cols), 0};
}

static wave_work work_of(const k_group_gemm *a)
{
    const struct mat &out = a->form == GROUP_TN ? a->w : a->c;

    return {views(&a->c, 3) + (a->beta != 0 ? size_of(out) : 0),
            2 * static_cast<double>(a->a.rows) *
                static_cast<double>(a->a.cols) *
                static_cast<double>(a->c.cols), 0};
}

/* Rows of a call's pieces: its views may hold those of other calls too. */
static double rows_of(const struct dev_piece *p, int64_t n)
{
    double sum = 0;

    for (int64_t i = 0; i < n; i++) sum += static_cast<double>(p[i].len);
    return sum;
}
template <typename A>
static double part_of(const A *a, const struct mat &rows)
{
    return rows.rows == 0 ? 0 : rows_of(a->piece, a->n_piece) /
                                    static_cast<double>(rows.rows);
}
WORK(conv, 2 * size_of(a->x) * part_of(a, a->x))
WORK(conv_bwd, 3 * size_of(a->x) * part_of(a, a->x))

/* Chunks of 64 rows and heads: k k^T and q k^T, the inverse on keys and
** values, states in and out; three times that backward. */
template <typename A> static double delta_operations(const A *a)
{
    double dk = static_cast<double>(a->k_dim);
    double dv = static_cast<double>(a->v_dim);

    return rows_of(a->piece, a->n_piece) * static_cast<double>(a->heads) *
           (2 * 64 * (2 * dk + dk + dv) + 3 * 2 * dk * dv);
}

template <typename A> static double delta_tiles(const A *a)
{
    return rows_of(a->piece, a->n_piece) * static_cast<double>(a->heads) / 64;
}

static wave_work work_of(const k_delta *a)
{
    return {(views(a, 13) - size_of(a->states)) * part_of(a, a->q),
            delta_operations(a), delta_tiles(a)};
}

static wave_work work_of(const k_delta_bwd *a)
{
    return {(views(a, 21) - size_of(a->states) - size_of(a->dstates)) *
                part_of(a, a->q),
            3 * delta_operations(a), delta_tiles(a)};
}

/* Pairs of a query and a key that it sees, and tiles of TILE stacked query
** rows by TILE keys that hold one. */
struct seen { double pairs, tiles; };

static seen seen_by(const struct slice *s, int64_t n, int64_t rep)
{
    const int64_t tile = 64, tokens = tile / rep > 0 ? tile / rep : 1;
    seen sum = {0, 0};

    for (int64_t i = 0; i < n; i++)
        for (int64_t q = s[i].q; q < s[i].q + s[i].n_q; q++) {
            int keys = keys_seen(s[i], q);
            bool last = q % tokens == tokens - 1 ||
                        q == s[i].q + s[i].n_q - 1;

            sum.pairs += keys;
            if (last) sum.tiles += static_cast<double>((keys + tile - 1) /
                                                       tile);
        }
    return sum;
}

static wave_work work_of(const k_attention *a)
{
    int64_t cols = a->q.cols;
    seen s = seen_by(a->slice, a->n_slice, a->heads / a->kv_heads);

    return {views(a, 5), 4 * s.pairs * static_cast<double>(cols),
            s.tiles * static_cast<double>(a->kv_heads)};
}

static wave_work work_of(const k_attention_bwd *a)
{
    seen s = seen_by(a->slice, a->n_slice, a->heads / a->kv_heads);

    return {views(a, 10), 10 * s.pairs * static_cast<double>(a->q.cols),
            s.tiles * static_cast<double>(a->kv_heads)};
}

/* ---- the table ---------------------------------------------------------- */

static const struct kernels *plain;

template <typename A> static const char *name_of(const A *, const char *name)
{
    return name;
}

/* An adapter's rank is far below any other width. */
static const int64_t few = 64;

static const char *name_of(const k_gemm *a, const char *name)
{
    int64_t inner = a->trans_a ? a->a.rows : a->a.cols;

    if (a->a.t == DT_F32 && a->b.t == DT_BF16) return "gemm_router_bwd";
    return inner <= few || a->c.cols <= few || a->c.rows <= few ? "gemm_lora"
                                                                : name;
}
static const char *name_of(const k_copy *a, const char *name)
{
    return a->dst.t == a->src.t ? name : "convert";
}
static const char *name_of(const k_group_gemm *a, const char *name)
{
    return a->a.cols <= few || a->c.cols <= few ? "group_gemm_lora" : name;
}

#define METERED(name)                                                   \
    static int metered_##name(struct dev *d, const k_##name *a,         \
                              struct err *e)                            \
    {                                                                   \
        wave_work w = work_of(a);                                       \
                                                                        \
        wave_operator(name_of(a, #name), &w);                          \
        int rc = plain->name(d, a, e);                                  \
        wave_operator("-", nullptr);                                    \
        return rc;                                                      \
    }
KERNELS(METERED)

/* Which rows go to which expert is not known, for nothing was computed: as
** many to each. */
static int sorted(struct dev *d, const k_route_sort *a, struct err *e)
{
    int rc = metered_route_sort(d, a, e);
    int64_t pairs = a->weight.rows * a->weight.cols;

    for (int64_t x = 0; x < a->experts; x++)
        a->counts[x] = pairs * (x + 1) / a->experts - pairs * x / a->experts;
    return rc;
}

#define ENTRY(name) metered_##name,
static struct kernels table = {KERNELS(ENTRY)};

int __real_cu_watch_open(struct cu *c, struct err *e)
    asm("__real__Z13cu_watch_openP2cuP3err");
int __wrap_cu_watch_open(struct cu *c, struct err *e)
    asm("__wrap__Z13cu_watch_openP2cuP3err");
int __wrap_cu_watch_open(struct cu *c, struct err *e)
{
    int rc = __real_cu_watch_open(c, e);

    plain = c->dev.k;
    table.route_sort = sorted;
    c->dev.k = &table;
    return rc;
}
