/*
** attention.cuh - what attention forward and backward share: tiles of query
** rows or keys, and the slices that reach into each.
**
** The query heads of one key head are stacked: tile row i is token
** first + i / rep, head kv * rep + i % rep, so that one product with the keys
** serves them all.
*/
#ifndef CUDA_ATTENTION_CUH
#define CUDA_ATTENTION_CUH

#include "tile.cuh"

extern "C" {
#include "base/range.h"
}

/* The slices of tile i: list[start[i]] .. list[start[i + 1] - 1], ascending,
** so that sums have one order. */
struct attn_lists {
    const struct slice *slice;
    const int32_t *start, *list;
};

struct attn_shape {
    int heads, kv, rep, d;
    int tokens;                 /* of a tile of stacked rows */
};

/* How many keys of the slice query row i sees. */
static __device__ __forceinline__ int keys_seen(const struct slice &s,
                                                int64_t i)
{
    int64_t n = s.n_k;

    if (i < s.q || i >= s.q + s.n_q) return 0;
    if (s.causal && i - s.q + s.diag + 1 < n) n = i - s.q + s.diag + 1;
    return static_cast<int>(n < 0 ? 0 : n);
}

/* First query row of the slice that sees its key j. */
static __device__ __forceinline__ int64_t first_row(const struct slice &s,
                                                    int64_t j)
{
    int64_t r = s.q;

    if (s.causal && s.q + j - s.diag > r) r = s.q + j - s.diag;
    return r;
}

/* ERR_RUN unless the slices lie in the views and ascend. */
int attn_check(const struct slice *s, int64_t n, int64_t q_rows,
               int64_t k_rows, struct err *e);
/* The shape for tiles of rows stacked rows, from heads and q's columns. */
int attn_shape_of(int64_t heads, int64_t kv_heads, int64_t q_cols, int rows,
                  struct attn_shape *s, struct err *e);

/* Bytes of cu_meta that attn_tiles takes, and lists over tiles of size rows
** (keys: of key rows, otherwise of query rows). */
size_t attn_room(const struct slice *s, int64_t n, int64_t rows, int64_t size,
                 bool keys);
const struct slice *attn_slices(struct cu *c, const struct slice *s,
                                int64_t n);
void attn_tiles(struct cu *c, const struct slice *s, int64_t n, int64_t rows,
                int64_t size, bool keys, struct attn_lists *out);

#endif
