/*
** costs.c - every bf16 kernel once, at the widths of a full model (hidden
** 2,048, 16 query and 2 key heads of 256, delta heads of 128, 256 experts and
** 8 of them a row) and few rows, for the counts of the PTX interpreter alone:
** results are not looked at. Matrices begin at a page, so that counts do not
** depend on where memory was.
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dev/dev.h"
#include "tests/cuda/called.h"
#include "tests/emu/control.h"

extern const struct dev_ops cu_ops;

enum { ROWS = 256, H = 2048, Q = 16, KV = 2, D = 256, HEADS = 4, K = 128,
       EXPERTS = 256, TOP = 8, WIDE = 512 };

static struct dev *d;
static struct err e;
static struct called called;

static void need(int rc, const char *what)
{
    if (rc == ERR_OK) rc = cu_ops.sync(d, &e);
    if (rc == ERR_OK) return;
    fprintf(stderr, "costs: %s: %s\n", what, e.text);
    exit(1);
}

#define RUN(name, ...) \
    called.yes[CALLED_##name] = true, \
    need(d->k->name(d, &(struct k_##name){__VA_ARGS__}, &e), #name)

/* Values between -1 and 1, or zero bytes for integers. */
static struct mat mat(int64_t rows, int64_t cols, enum dtype t)
{
    size_t n = (size_t)(rows * cols * dtype_bytes(t));
    struct mat m = {emu_sparse_new(n), rows, cols, cols, t};
    static uint32_t u = 1;
    int64_t i;

    if (m.p == NULL) abort();
    for (i = 0; i < rows * cols && t <= DT_F32; i++) {
        float f;
        uint32_t bits;

        u = u * 1664525u + 1013904223u;
        f = (float)(u >> 8) / 8388608.0f - 1.0f;
        memcpy(&bits, &f, 4);
        if (t == DT_F32) ((float *)m.p)[i] = f;
        else ((uint16_t *)m.p)[i] = (uint16_t)(bits >> 16);
    }
    return m;
}

static struct mat act(int64_t rows, int64_t cols)
{
    return mat(rows, cols, DT_BF16);
}

static struct mat acc(int64_t rows, int64_t cols)
{
    return mat(rows, cols, DT_F32);
}

/* 0, 1, ... below n, then again. */
static int32_t *indices(int64_t count, int64_t n)
{
    int32_t *x = mat(1, count, DT_I32).p;
    int64_t i;

    for (i = 0; i < count; i++) x[i] = (int32_t)(i % n);
    return x;
}

static void mixers(void)
{
    static const struct slice s[] = {{0, ROWS, 0, ROWS, 0, true}};
    static const struct dev_piece piece[] = {{0, ROWS, -1, 0}};
    struct mat q = act(ROWS, Q * D), k = act(ROWS, KV * D);
    struct mat v = act(ROWS, KV * D), out = act(ROWS, Q * D);
    struct mat lse = acc(ROWS, Q), dout = act(ROWS, Q * D);
    struct mat dq = act(ROWS, Q * D), dk = acc(ROWS, KV * D);
    struct mat dv = acc(ROWS, KV * D), dlse = acc(ROWS, Q);
    struct mat x = act(ROWS, WIDE), halo = act(3, WIDE), dy = act(ROWS, WIDE);

    RUN(attention, .out = out, .lse = lse, .q = q, .k = k, .v = v, .heads = Q,
        .kv_heads = KV, .scale = 0.06, .slice = s, .n_slice = 1);
    RUN(attention_bwd, .dq = dq, .dk = dk, .dv = dv, .q = q, .k = k, .v = v,
        .out = out, .lse = lse, .dout = dout, .dlse = dlse, .heads = Q,
        .kv_heads = KV, .scale = 0.06, .slice = s, .n_slice = 1);
    RUN(merge, .o_acc = acc(ROWS, Q * D), .lse_acc = lse, .o = out,
        .lse = dlse, .heads = Q);
    RUN(merge_bwd, .d_acc = acc(ROWS, Q * D), .dlse_acc = dlse, .d_o = out,
        .dlse = acc(ROWS, Q), .o = dq, .lse = lse, .heads = Q);
    RUN(conv, .y = dy, .x = x, .w = act(WIDE, 4), .halo = halo,
        .piece = piece, .n_piece = 1);
    RUN(conv_bwd, .dx = x, .dhalo = acc(3, WIDE), .dy = dy, .x = act(ROWS,
        WIDE), .w = act(WIDE, 4), .halo = halo, .piece = piece, .n_piece = 1);
    RUN(repeat_heads, .y = act(ROWS, 2 * WIDE), .x = x, .rep = 2,
        .head_dim = K);
    RUN(sum_heads, .x = x, .y = act(ROWS, 2 * WIDE), .rep = 2,
        .head_dim = K);
}

static void delta(void)
{
    static const struct dev_piece piece[] = {{0, ROWS, -1, 0}};
    int64_t n = HEADS * K, size = HEADS * K * K, chunks = ROWS / 64;
    struct mat q = act(ROWS, n), k = act(ROWS, n), v = act(ROWS, n);
    struct mat g = acc(ROWS, HEADS), beta = acc(ROWS, HEADS);
    struct mat states = acc(1, size), g_cum = acc(ROWS, HEADS);
    struct mat x = act(ROWS, HEADS * 64), w = act(ROWS, n), u = act(ROWS, n);
    struct mat v_new = act(ROWS, n), h = act(chunks, size);

    RUN(delta, .o = act(ROWS, n), .states = states, .g_cum = g_cum, .x = x,
        .q = q, .k = k, .v = v, .g = g, .beta = beta, .w = w, .u = u,
        .v_new = v_new, .h = h, .heads = HEADS, .k_dim = K, .v_dim = K,
        .scale = 0.1, .piece = piece, .n_piece = 1);
    RUN(delta_bwd, .dq = act(ROWS, n), .dk = act(ROWS, n), .dv = act(ROWS, n),
        .dg = acc(ROWS, HEADS), .dbeta = acc(ROWS, HEADS),
        .dstates = acc(1, size), .d_o = act(ROWS, n), .states = states,
        .g_cum = g_cum, .x = x, .q = q, .k = k, .v = v, .beta = beta, .w = w,
        .u = u, .v_new = v_new, .h = h, .dw = act(ROWS, n),
        .du = act(ROWS, n), .dh = act(chunks, size), .heads = HEADS,
        .k_dim = K, .v_dim = K, .scale = 0.1, .piece = piece, .n_piece = 1);
    RUN(gdn_gates, .g = g, .beta = beta, .a = act(ROWS, HEADS),
        .b = act(ROWS, HEADS), .a_log = act(1, HEADS),
        .dt_bias = act(1, HEADS));
    RUN(gdn_gates_bwd, .da = act(ROWS, HEADS), .db = act(ROWS, HEADS),
        .dg = g, .dbeta = beta, .a = act(ROWS, HEADS), .beta = beta,
        .a_log = act(1, HEADS), .dt_bias = act(1, HEADS));
}

static void rows_of_h(void)
{
    static const struct range r[] = {{0, ROWS}};
    struct mat a = act(ROWS, H), b = act(ROWS, H), out = act(ROWS, H);
    struct mat left = act(ROWS, H), w = act(1, H), rstd = acc(ROWS, 1);
    struct mat narrow = act(ROWS, WIDE), gu = act(ROWS, 2 * WIDE);
    struct mat table = acc(ROWS, 64), head = act(ROWS, 2 * 256);

    RUN(fill, .x = out, .value = 1);
    RUN(copy, .dst = acc(ROWS, H), .src = a);
    left.cols = H / 2;
    RUN(copy, .dst = act(ROWS, H / 2), .src = left);
    RUN(fill, .x = mat(ROWS, 256, DT_U8), .value = 1);
    RUN(fill, .x = mat(1, 1, DT_F64), .value = 0);
    RUN(add, .out = out, .a = a, .b = b);
    RUN(scale, .out = out, .a = a, .s = 2);
    RUN(random, .x = out, .seed = 1, .scale = 1);
    RUN(heads, .packed = act(ROWS, 4 * 128), .joined = act(ROWS, 4 * 256),
        .heads = 4, .head_dim = 128, .stride = 256);
    RUN(transpose, .y = act(H, ROWS), .x = a, .n_group = 1);
    RUN(embed, .out = out, .table = a, .ids = indices(ROWS, ROWS));
    RUN(gather, .out = out, .x = a, .r = r, .n = 1);
    RUN(scatter, .out = out, .x = a, .r = r, .n = 1, .add = true);
    RUN(rms_norm, .y = out, .x = a, .w = w, .rstd = rstd, .eps = 1e-6);
    RUN(rms_norm_bwd, .dx = out, .dy = b, .x = a, .w = w, .rstd = rstd);
    RUN(l2_norm, .y = act(ROWS * 4, K), .x = act(ROWS * 4, K),
        .rnorm = acc(ROWS * 4, 1), .eps = 1e-6);
    RUN(l2_norm_bwd, .dx = act(ROWS * 4, K), .dy = act(ROWS * 4, K),
        .y = act(ROWS * 4, K), .rnorm = acc(ROWS * 4, 1));
    RUN(rotary_table, .table = table, .theta = 1e7);
    RUN(rotary, .y = head, .x = act(ROWS, 2 * 256), .table = table,
        .pos = indices(ROWS, ROWS), .heads = 2, .head_dim = 256, .sign = 1);
    RUN(sigmoid_gate, .out = out, .o = a, .gate = b);
    RUN(sigmoid_gate_bwd, .d_o = out, .dgate = act(ROWS, H), .dout = a,
        .o = b, .gate = a);
    RUN(silu_gate, .out = out, .a = a, .z = b);
    RUN(silu_gate_bwd, .da = out, .dz = act(ROWS, H), .dout = a, .a = b,
        .z = a);
    RUN(swiglu, .out = narrow, .gu = gu, .weight = rstd);
    RUN(swiglu_bwd, .dgu = act(ROWS, 2 * WIDE), .dweight = acc(ROWS, 1),
        .dout = narrow, .gu = gu, .weight = rstd);
    RUN(row_gate, .out = out, .x = a, .logit = rstd);
    RUN(row_gate_bwd, .dx = out, .dlogit = acc(ROWS, 1), .dout = b, .x = a,
        .logit = rstd);
}

static void experts(void)
{
    static const int64_t half[] = {0, ROWS / 2, ROWS};
    int64_t counts[EXPERTS], pairs = ROWS * TOP;
    struct mat idx = mat(ROWS, TOP, DT_I64), weight = acc(ROWS, TOP);
    struct mat scores = acc(ROWS, EXPERTS), back = acc(ROWS, TOP);
    int32_t *row = indices(pairs, ROWS), *slot = indices(pairs, pairs);
    struct mat pair_weight = acc(pairs, 1), x = act(ROWS, H);
    struct mat logits = act(ROWS, 4096), sum = mat(1, 1, DT_F64);

    RUN(router, .logits = acc(ROWS, EXPERTS), .scores = scores,
        .map = mat(ROWS, EXPERTS, DT_U8), .idx = idx, .weight = weight,
        .norm = true);
    RUN(router_bwd, .dlogits = acc(ROWS, EXPERTS), .dweight = back,
        .scores = scores, .idx = idx, .weight = weight, .norm = true);
    RUN(route_sort, .idx = idx, .weight = weight, .pair_weight = pair_weight,
        .experts = EXPERTS, .counts = counts, .row = row, .slot = slot);
    RUN(route_unsort, .dweight = back, .dpair = pair_weight, .slot = slot);
    RUN(permute, .out = act(pairs, H), .x = x, .row = row);
    RUN(combine, .out = x, .x = act(pairs, H), .slot = slot, .top_k = TOP);
    RUN(gemm, .c = acc(ROWS, WIDE), .a = acc(ROWS, EXPERTS),
        .b = act(EXPERTS, WIDE), .alpha = 1);
    RUN(group_gemm, .form = GROUP_NT, .c = act(ROWS, K), .a = act(ROWS, K),
        .w = act(2 * K, K), .w_rows = K, .offset = half, .n_group = 2,
        .alpha = 1);
    RUN(cross_entropy, .dlogits = logits, .logits = logits,
        .target = indices(ROWS, 4096), .weight = acc(ROWS, 1).p,
        .loss_sum = sum.p);
    RUN(adam, .p = act(8, H), .g = act(8, H), .m = acc(8, H), .v = acc(8, H),
        .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8, .step = 1);
}

int main(void)
{
    struct dev_options o = {.act = DT_BF16};

    if (cu_ops.open(&o, &d, &e) != ERR_OK) {
        fprintf(stderr, "costs: %s\n", e.text);
        return 1;
    }
    mixers();
    delta();
    rows_of_h();
    experts();
    cu_ops.close(d);
    if (called_not(&called) == NULL) return 0;
    fprintf(stderr, "costs: %s is not run here\n", called_not(&called));
    return 1;
}
