/*
** test_dev_golden.c - the cpu device's kernels against values that torch
** computed in f64 (tests/golden/ops), in f64, f32 and bf16.
*/
#include "dev_fixture.h"
#include "golden.h"

#define OPS "tests/golden/ops/ops.bin"

static struct golden golden;

/* Relative L2 distance of m from the golden array of this name. */
static double off_by(const char *name, struct mat m)
{
    const struct golden_array *a = golden_find(&golden, name,
                                               m.rows * m.cols);
    double top = 0, low = 0;
    int64_t i;

    for (i = 0; i < a->count; i++) {
        double x = fix_get(m, i / m.cols, i % m.cols), y = golden_f64(a, i);
        if (isinf(y) && x == y) continue;
        top += (x - y) * (x - y);
        low += y * y;
    }
    return top == 0 ? 0 : sqrt(top / low);
}

/* Limits: 1e-10 in f64, the given one in f32 (model.md 6), 1e-2 in bf16. */
static void near_golden(struct fix *f, const char *name, struct mat m,
                        double f32_limit)
{
    double limit = f->d->act == DT_F64 ? 1e-10
                 : f->d->act == DT_F32 ? f32_limit : 1e-2;

    fix_differ(name, off_by(name, m), limit);
}

/* ---- norms, gates ------------------------------------------------------- */

static void check_rms_norm(struct fix *f, bool centred)
{
    char name[64];
    const char *op = centred ? "rms_norm" : "rms_norm_plain";
#define NAMED(what) (snprintf(name, sizeof name, "%s/" what, op), name)
    struct mat x = fix_in(f, NAMED("x"), 5, 48, 1, 0);
    struct mat w = fix_in(f, NAMED("w"), 1, 48, 1, 0);
    struct mat dy = fix_in(f, NAMED("dy"), 5, 48, 1, 0);
    struct mat y = fix_act(f, 5, 48), dx = fix_act(f, 5, 48);
    struct mat rstd = fix_acc(f, 5, 1);

    CALL(f, rms_norm, .y = y, .x = x, .w = w, .rstd = rstd, .eps = 1e-6,
         .zero_centred = centred);
    CALL(f, rms_norm_bwd, .dx = dx, .dy = dy, .x = x, .w = w, .rstd = rstd,
         .zero_centred = centred);
    near_golden(f, NAMED("y"), y, 2e-6);
    near_golden(f, NAMED("dx"), dx, 2e-6);
#undef NAMED
}

static void norms(struct fix *f)
{
    struct mat x = fix_in(f, "l2_norm/x", 7, 16, 1, 0);
    struct mat dy = fix_in(f, "l2_norm/dy", 7, 16, 1, 0);
    struct mat y = fix_act(f, 7, 16), dx = fix_act(f, 7, 16);
    struct mat rnorm = fix_acc(f, 7, 1);

    check_rms_norm(f, true);
    check_rms_norm(f, false);
    CALL(f, l2_norm, .y = y, .x = x, .rnorm = rnorm, .eps = 1e-6);
    CALL(f, l2_norm_bwd, .dx = dx, .dy = dy, .y = y, .rnorm = rnorm);
    near_golden(f, "l2_norm/y", y, 2e-6);
    near_golden(f, "l2_norm/dx", dx, 2e-6);
}

/* The delta net's output norm: a plain norm, then silu(z). */
static void gated_norm(struct fix *f)
{
    struct mat o = fix_in(f, "gated_norm/o", 6, 16, 1, 0);
    struct mat z = fix_in(f, "gated_norm/z", 6, 16, 4, 0);
    struct mat w = fix_in(f, "gated_norm/w", 1, 16, 1, 0);
    struct mat dy = fix_in(f, "gated_norm/dy", 6, 16, 1, 0);
    struct mat n = fix_act(f, 6, 16), y = fix_act(f, 6, 16);
    struct mat dn = fix_act(f, 6, 16), dz = fix_act(f, 6, 16);
    struct mat d_o = fix_act(f, 6, 16), rstd = fix_acc(f, 6, 1);

    CALL(f, rms_norm, .y = n, .x = o, .w = w, .rstd = rstd, .eps = 1e-6);
    CALL(f, silu_gate, .out = y, .a = n, .z = z);
    CALL(f, silu_gate_bwd, .da = dn, .dz = dz, .dout = dy, .a = n, .z = z);
    CALL(f, rms_norm_bwd, .dx = d_o, .dy = dn, .x = o, .w = w, .rstd = rstd);
    near_golden(f, "gated_norm/y", y, 2e-6);
    near_golden(f, "gated_norm/do", d_o, 2e-6);
    near_golden(f, "gated_norm/dz", dz, 2e-6);
}

static void gates(struct fix *f)
{
    struct mat o = fix_in(f, "sigmoid_gate/o", 5, 20, 1, 0);
    struct mat gate = fix_in(f, "sigmoid_gate/gate", 5, 20, 8, 0);
    struct mat dout = fix_in(f, "sigmoid_gate/dout", 5, 20, 1, 0);
    struct mat a = fix_in(f, "silu_gate/a", 5, 20, 1, 0);
    struct mat z = fix_in(f, "silu_gate/z", 5, 20, 8, 0);
    struct mat dout2 = fix_in(f, "silu_gate/dout", 5, 20, 1, 0);
    struct mat out = fix_act(f, 5, 20), d1 = fix_act(f, 5, 20);
    struct mat d2 = fix_act(f, 5, 20);

    CALL(f, sigmoid_gate, .out = out, .o = o, .gate = gate);
    CALL(f, sigmoid_gate_bwd, .d_o = d1, .dgate = d2, .dout = dout, .o = o,
         .gate = gate);
    near_golden(f, "sigmoid_gate/out", out, 2e-6);
    near_golden(f, "sigmoid_gate/do", d1, 2e-6);
    near_golden(f, "sigmoid_gate/dgate", d2, 2e-6);
    CALL(f, silu_gate, .out = out, .a = a, .z = z);
    CALL(f, silu_gate_bwd, .da = d1, .dz = d2, .dout = dout2, .a = a, .z = z);
    near_golden(f, "silu_gate/out", out, 2e-6);
    near_golden(f, "silu_gate/da", d1, 2e-6);
    near_golden(f, "silu_gate/dz", d2, 2e-6);
}

static void mlp(struct fix *f)
{
    struct mat gu = fix_in(f, "swiglu/gu", 5, 14, 4, 0);
    struct mat weight = fix_in_acc(f, "swiglu/weight", 5, 1, 1, 0);
    struct mat dout = fix_in(f, "swiglu/dout", 5, 7, 1, 0);
    struct mat out = fix_act(f, 5, 7), dgu = fix_act(f, 5, 14);
    struct mat dweight = fix_acc(f, 5, 1);
    struct mat x = fix_in(f, "row_gate/x", 5, 14, 1, 0);
    struct mat logit = fix_in_acc(f, "row_gate/logit", 5, 1, 4, 0);
    struct mat dout2 = fix_in(f, "row_gate/dout", 5, 14, 1, 0);
    struct mat out2 = fix_act(f, 5, 14), dx = fix_act(f, 5, 14);
    struct mat dlogit = fix_acc(f, 5, 1);

    CALL(f, swiglu, .out = out, .gu = gu, .weight = weight);
    CALL(f, swiglu_bwd, .dgu = dgu, .dweight = dweight, .dout = dout,
         .gu = gu, .weight = weight);
    near_golden(f, "swiglu/out", out, 5e-6);
    near_golden(f, "swiglu/dgu", dgu, 5e-6);
    near_golden(f, "swiglu/dweight", dweight, 5e-6);
    CALL(f, row_gate, .out = out2, .x = x, .logit = logit);
    CALL(f, row_gate_bwd, .dx = dx, .dlogit = dlogit, .dout = dout2, .x = x,
         .logit = logit);
    near_golden(f, "row_gate/out", out2, 5e-6);
    near_golden(f, "row_gate/dx", dx, 5e-6);
    near_golden(f, "row_gate/dlogit", dlogit, 5e-6);
}

/* ---- linear with adapter, rotary ---------------------------------------- */

static void linear(struct fix *f)
{
    const double s = 8;
    struct mat x = fix_in(f, "linear/x", 9, 24, 1, 0);
    struct mat w = fix_in(f, "linear/w", 40, 24, 1, 0);
    struct mat a = fix_in(f, "linear/a", 4, 24, 1, 0);
    struct mat b = fix_in(f, "linear/b", 40, 4, 1, 0);
    struct mat dy = fix_in(f, "linear/dy", 9, 40, 1, 0);
    struct mat h = fix_act(f, 9, 4), dh = fix_act(f, 9, 4);
    struct mat y = fix_act(f, 9, 40), dx = fix_act(f, 9, 24);
    struct mat da = fix_act(f, 4, 24), db = fix_act(f, 40, 4);

    CALL(f, gemm, .c = y, .a = x, .b = w, .trans_b = true, .alpha = 1);
    CALL(f, gemm, .c = h, .a = x, .b = a, .trans_b = true, .alpha = 1);
    CALL(f, gemm, .c = y, .a = h, .b = b, .trans_b = true, .alpha = s,
         .beta = 1);
    near_golden(f, "linear/y", y, 5e-6);
    CALL(f, gemm, .c = dh, .a = dy, .b = b, .alpha = s);
    CALL(f, gemm, .c = db, .a = dy, .b = h, .trans_a = true, .alpha = s);
    CALL(f, gemm, .c = da, .a = dh, .b = x, .trans_a = true, .alpha = 1);
    CALL(f, gemm, .c = dx, .a = dy, .b = w, .alpha = 1);
    CALL(f, gemm, .c = dx, .a = dh, .b = a, .alpha = 1, .beta = 1);
    near_golden(f, "linear/db", db, 5e-6);
    near_golden(f, "linear/da", da, 5e-6);
    near_golden(f, "linear/dx", dx, 5e-6);
}

static void rotary(struct fix *f)
{
    static const int32_t pos[] = {0, 1, 5, 1000, 65537, 100000};
    struct mat x = fix_in(f, "rotary/x", 6, 48, 1, 0);
    struct mat dy = fix_in(f, "rotary/dy", 6, 48, 1, 0);
    struct mat table = fix_acc(f, 100001, 4), y = fix_act(f, 6, 48);
    struct mat back = fix_act(f, 6, 48);

    CALL(f, rotary_table, .table = table, .theta = 1e7);
    CALL(f, rotary, .y = y, .x = x, .table = table, .pos = pos, .heads = 3,
         .head_dim = 16, .sign = 1);
    near_golden(f, "rotary/y", y, 2e-6);
    CALL(f, rotary, .y = back, .x = y, .table = table, .pos = pos,
         .heads = 3, .head_dim = 16, .sign = -1);
    fix_near("rotated back", back, x,
             f->d->act == DT_F64 ? 1e-14 : f->d->act == DT_F32 ? 2e-7 : 1e-2);
    /* in place, as backward */
    CALL(f, rotary, .y = dy, .x = dy, .table = table, .pos = pos, .heads = 3,
         .head_dim = 16, .sign = -1);
    near_golden(f, "rotary/dx", dy, 2e-6);
}

/* ---- attention ---------------------------------------------------------- */

static void check_attention(struct fix *f, const char *op, int64_t rows,
                            int64_t heads, int64_t kv, int64_t dim,
                            const struct slice *slice, int64_t n_slice)
{
    char name[64];
#define NAMED(what) (snprintf(name, sizeof name, "%s/" what, op), name)
    struct mat q = fix_in(f, NAMED("q"), rows, heads * dim, 1, 0);
    struct mat k = fix_in(f, NAMED("k"), rows, kv * dim, 1, 0);
    struct mat v = fix_in(f, NAMED("v"), rows, kv * dim, 1, 0);
    struct mat dout = fix_in(f, NAMED("dout"), rows, heads * dim, 1, 0);
    struct mat dlse = fix_in_acc(f, NAMED("dlse"), rows, heads, 1, 0);
    struct mat out = fix_act(f, rows, heads * dim);
    struct mat lse = fix_acc(f, rows, heads);
    struct mat dq = fix_act(f, rows, heads * dim);
    struct mat dk = fix_acc(f, rows, kv * dim);
    struct mat dv = fix_acc(f, rows, kv * dim);
    double scale = 1 / sqrt((double)dim);

    CALL(f, attention, .out = out, .lse = lse, .q = q, .k = k, .v = v,
         .heads = heads, .kv_heads = kv, .scale = scale, .slice = slice,
         .n_slice = n_slice);
    near_golden(f, NAMED("out"), out, 5e-6);
    near_golden(f, NAMED("lse"), lse, 5e-6);
    CALL(f, attention_bwd, .dq = dq, .dk = dk, .dv = dv, .q = q, .k = k,
         .v = v, .out = out, .lse = lse, .dout = dout, .dlse = dlse,
         .heads = heads, .kv_heads = kv, .scale = scale, .slice = slice,
         .n_slice = n_slice);
    near_golden(f, NAMED("dq"), dq, 5e-6);
    near_golden(f, NAMED("dk"), dk, 5e-6);
    near_golden(f, NAMED("dv"), dv, 5e-6);
#undef NAMED
}

static void attention(struct fix *f)
{
    static const struct slice packed[] = {
        {0, 1, 0, 1, 0, true}, {1, 70, 1, 70, 0, true},
        {71, 300, 71, 300, 0, true}
    };
    static const struct slice tree[] = {
        {0, 40, 0, 40, 0, true}, {40, 30, 0, 40, 0, false},
        {40, 30, 40, 30, 0, true}, {70, 25, 0, 40, 0, false},
        {70, 25, 70, 25, 0, true}
    };

    check_attention(f, "attention", 371, 4, 2, 8, packed, 3);
    check_attention(f, "attention_tree", 97, 3, 1, 16, tree, 5);
}

static void merge(struct fix *f)
{
    struct mat o1 = fix_in(f, "merge/o1", 6, 16, 1, 0);
    struct mat o2 = fix_in(f, "merge/o2", 6, 16, 1, 0);
    struct mat l1 = fix_in_acc(f, "merge/l1", 6, 2, 4, 0);
    struct mat l2 = fix_in_acc(f, "merge/l2", 6, 2, 4, 0);
    struct mat o = fix_zero(fix_acc(f, 6, 16)), lse = fix_acc(f, 6, 2);
    struct mat tape_o = fix_acc(f, 6, 16), tape_lse = fix_acc(f, 6, 2);
    struct mat d_acc = fix_in_acc(f, "merge/dout", 6, 16, 1, 0);
    struct mat dlse_acc = fix_in_acc(f, "merge/dlse", 6, 2, 1, 0);
    struct mat d_o = fix_act(f, 6, 16), dl = fix_acc(f, 6, 2);

    CALL(f, fill, .x = lse, .value = -(double)INFINITY);
    CALL(f, merge, .o_acc = o, .lse_acc = lse, .o = o1, .lse = l1,
         .heads = 2);
    CALL(f, merge, .o_acc = o, .lse_acc = lse, .tape_o = tape_o,
         .tape_lse = tape_lse, .o = o2, .lse = l2, .heads = 2);
    near_golden(f, "merge/out", o, 5e-6);
    near_golden(f, "merge/lse", lse, 5e-6);
    CALL(f, merge_bwd, .d_acc = d_acc, .dlse_acc = dlse_acc, .d_o = d_o,
         .dlse = dl, .tape_o = tape_o, .tape_lse = tape_lse, .o = o2,
         .lse = l2, .heads = 2);
    near_golden(f, "merge/do2", d_o, 5e-6);
    near_golden(f, "merge/dl2", dl, 5e-6);
    CALL(f, merge_bwd, .d_acc = d_acc, .dlse_acc = dlse_acc, .d_o = d_o,
         .dlse = dl, .o = o1, .lse = l1, .heads = 2);
    near_golden(f, "merge/do1", d_o, 5e-6);
    near_golden(f, "merge/dl1", dl, 5e-6);
    assert_true(fix_inner(d_acc, d_acc) == 0);
    assert_true(fix_inner(dlse_acc, dlse_acc) == 0);
}

/* ---- delta net ---------------------------------------------------------- */

static void conv(struct fix *f)
{
    static const struct dev_piece piece[] = {
        {0, 1, -1, -1}, {1, 2, 1, -1}, {3, 3, -1, -1}, {6, 9, 1, -1}
    };
    struct mat x = fix_in(f, "conv/x", 15, 12, 1, 0);
    struct mat w = fix_in(f, "conv/w", 12, 4, 1, 0);
    struct mat dy = fix_in(f, "conv/dy", 15, 12, 1, 0);
    struct mat halo = fix_act(f, 6, 12);    /* state 0 is nobody's: NaN */
    struct mat dhalo = fix_zero(fix_acc(f, 6, 12));
    struct mat y = fix_act(f, 15, 12), dx = fix_act(f, 15, 12);

    fix_fill(fix_rows(halo, 3, 3), "conv/halo", 1, 0);
    CALL(f, conv, .y = y, .x = x, .w = w, .halo = halo, .piece = piece,
         .n_piece = 4);
    CALL(f, conv_bwd, .dx = dx, .dhalo = dhalo, .dy = dy, .x = x, .w = w,
         .halo = halo, .piece = piece, .n_piece = 4);
    near_golden(f, "conv/y", y, 2e-6);
    near_golden(f, "conv/dx", dx, 2e-6);
    near_golden(f, "conv/dhalo", fix_rows(dhalo, 3, 3), 2e-6);
    assert_true(fix_inner(fix_rows(dhalo, 0, 3), fix_rows(dhalo, 0, 3)) == 0);
}

static void gdn_gates(struct fix *f)
{
    struct mat a = fix_in(f, "gdn_gates/a", 9, 3, 32, 0);
    struct mat b = fix_in(f, "gdn_gates/b", 9, 3, 4, 0);
    struct mat a_log = fix_in(f, "gdn_gates/a_log", 1, 3, 1, 0);
    struct mat dt_bias = fix_in(f, "gdn_gates/dt_bias", 1, 3, 1, 0);
    struct mat dg = fix_in_acc(f, "gdn_gates/dg", 9, 3, 1, 0);
    struct mat dbeta = fix_in_acc(f, "gdn_gates/dbeta", 9, 3, 1, 0);
    struct mat g = fix_acc(f, 9, 3), beta = fix_acc(f, 9, 3);
    struct mat da = fix_act(f, 9, 3), db = fix_act(f, 9, 3);

    CALL(f, gdn_gates, .g = g, .beta = beta, .a = a, .b = b, .a_log = a_log,
         .dt_bias = dt_bias);
    CALL(f, gdn_gates_bwd, .da = da, .db = db, .dg = dg, .dbeta = dbeta,
         .a = a, .beta = beta, .a_log = a_log, .dt_bias = dt_bias);
    near_golden(f, "gdn_gates/g", g, 2e-6);
    near_golden(f, "gdn_gates/beta", beta, 2e-6);
    near_golden(f, "gdn_gates/da", da, 2e-6);
    near_golden(f, "gdn_gates/db", db, 2e-6);
}

/* Pieces of 1, 63, 64, 65 and 130 rows. States 0 to 4 are the pieces' last,
** state 5 the one from which the fourth and the fifth start. */
static void delta(struct fix *f)
{
    enum { T = 323, N = 2, K = 16, V = 8, S = N * K * V };
    static const struct dev_piece piece[] = {
        {0, 1, -1, 0}, {1, 63, -1, 1}, {64, 64, -1, 2}, {128, 65, 5, 3},
        {193, 130, 5, 4}
    };
    struct mat q = fix_in(f, "delta/q", T, N * K, 0.25, 0);
    struct mat k = fix_in(f, "delta/k", T, N * K, 0.25, 0);
    struct mat v = fix_in(f, "delta/v", T, N * V, 1, 0);
    struct mat g = fix_in_acc(f, "delta/g", T, N, 0.25, -0.25);
    struct mat beta = fix_in_acc(f, "delta/beta", T, N, 0.5, 0.5);
    struct mat states = fix_acc(f, 6, S), dstates = fix_acc(f, 6, S);
    struct mat d_o = fix_in(f, "delta/do", T, N * V, 1, 0);
    struct mat o = fix_act(f, T, N * V), g_cum = fix_acc(f, T, N);
    struct mat x = fix_act(f, T, N * 64), dq = fix_act(f, T, N * K);
    struct mat dk = fix_act(f, T, N * K), dv = fix_act(f, T, N * V);
    struct mat dg = fix_acc(f, T, N), dbeta = fix_acc(f, T, N);

    fix_fill(fix_rows(states, 5, 1), "delta/s0", 1, 0);
    fix_fill(fix_rows(dstates, 0, 5), "delta/ds", 1, 0);
    fix_zero(fix_rows(dstates, 5, 1));
    CALL(f, delta, .o = o, .states = states, .g_cum = g_cum, .x = x, .q = q,
         .k = k, .v = v, .g = g, .beta = beta, .heads = N, .k_dim = K,
         .v_dim = V, .scale = 0.25, .piece = piece, .n_piece = 5);
    near_golden(f, "delta/o", o, 5e-6);
    near_golden(f, "delta/s", fix_rows(states, 0, 5), 5e-6);
    CALL(f, delta_bwd, .dq = dq, .dk = dk, .dv = dv, .dg = dg,
         .dbeta = dbeta, .dstates = dstates, .d_o = d_o, .states = states,
         .g_cum = g_cum, .x = x, .q = q, .k = k, .v = v, .beta = beta,
         .heads = N, .k_dim = K, .v_dim = V, .scale = 0.25, .piece = piece,
         .n_piece = 5);
    near_golden(f, "delta/dq", dq, 5e-6);
    near_golden(f, "delta/dk", dk, 5e-6);
    near_golden(f, "delta/dv", dv, 5e-6);
    near_golden(f, "delta/dg", dg, 2e-5);
    near_golden(f, "delta/dbeta", dbeta, 2e-5);
    near_golden(f, "delta/ds0", fix_rows(dstates, 5, 1), 5e-6);
}

/* ---- MoE, head, optimizer ----------------------------------------------- */

static void check_router(struct fix *f, bool norm)
{
    char name[64];
    const char *op = norm ? "router" : "router_plain";
#define NAMED(what) (snprintf(name, sizeof name, "%s/" what, op), name)
    struct mat logits = fix_in_acc(f, NAMED("logits"), 11, 8, 2, 0);
    struct mat dweight = fix_in_acc(f, NAMED("dweight"), 11, 2, 1, 0);
    struct mat scores = fix_acc(f, 11, 8), map = fix_new(f, 11, 8, DT_U8);
    struct mat idx = fix_new(f, 11, 2, DT_I64), weight = fix_acc(f, 11, 2);
    struct mat dlogits = fix_acc(f, 11, 8);
    const struct golden_array *want = golden_find(&golden, NAMED("idx"), 22);
    int64_t i;

    CALL(f, router, .logits = logits, .scores = scores, .map = map,
         .idx = idx, .weight = weight, .norm = norm);
    for (i = 0; i < 22; i++)
        assert_int_equal(((int64_t *)idx.p)[i], golden_i64(want, i));
    near_golden(f, NAMED("scores"), scores, 5e-6);
    near_golden(f, NAMED("weight"), weight, 5e-6);
    CALL(f, router_bwd, .dlogits = dlogits, .dweight = dweight,
         .scores = scores, .idx = idx, .weight = weight, .norm = norm);
    near_golden(f, NAMED("dlogits"), dlogits, 5e-6);
#undef NAMED
}

static void router(struct fix *f)
{
    check_router(f, true);
    check_router(f, false);
}

/* loss and its gradient, the latter in place of the logits. */
static void cross_entropy(struct fix *f)
{
    static const int32_t target[] = {3, 999, -1, 0, 512, -1, 511};
    struct mat logits = fix_in(f, "cross_entropy/logits", 7, 1000, 8, 0);
    struct mat weight = fix_fill(fix_acc(f, 7, 1),
                                 "cross_entropy/weight", 0.5, 0.5);
    const struct golden_array *want = golden_find(&golden,
                                                  "cross_entropy/loss", 1);
    double loss = 0, exact = golden_f64(want, 0);

    CALL(f, cross_entropy, .logits = logits, .target = target,
         .weight = weight.p, .loss_sum = &loss);
    if (f->d->act != DT_BF16)
        assert_true(fabs(loss - exact) < (f->d->act == DT_F64 ? 1e-6 : 1e-5));
    CALL(f, cross_entropy, .dlogits = logits, .logits = logits,
         .target = target, .weight = weight.p, .loss_sum = &loss);
    fix_differ("twice the loss", fabs(loss / (2 * exact) - 1),
               f->d->act == DT_BF16 ? 1e-2 : 1e-6);
    near_golden(f, "cross_entropy/dlogits", logits,
                1e-5);
}

static void adam(struct fix *f)
{
    struct mat p = fix_in(f, "adam/p", 3, 7, 1, 0);
    struct mat m = fix_zero(fix_acc(f, 3, 7)), v = fix_zero(fix_acc(f, 3, 7));
    int64_t step;

    for (step = 1; step <= 3; step++) {
        char name[32];
        snprintf(name, sizeof name, "adam/g%d", (int)step);
        CALL(f, adam, .p = p, .g = fix_in(f, name, 3, 7, 1, 0), .m = m,
             .v = v, .lr = 0.01, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8,
             .step = step);
    }
    near_golden(f, "adam/result", p, 2e-6);
}

/* One f32 step with betas near 1: v is (1 - beta2) g^2 to the last bits; with
** beta2 rounded before the subtraction it would be off by 1.3e-5. */
static void test_adam_rest(void **state)
{
    struct mat p, g, m, v;
    struct fix f;

    (void)state;
    fix_open(&f, DT_F32);
    p = fix_in(&f, "p", 1, 1, 1, 0);
    g = fix_act(&f, 1, 1);
    fix_set(g, 0, 0, 2);
    m = fix_zero(fix_acc(&f, 1, 1));
    v = fix_zero(fix_acc(&f, 1, 1));
    CALL(&f, adam, .p = p, .g = g, .m = m, .v = v, .lr = 0.01, .beta1 = 0.9,
         .beta2 = 0.999, .eps = 1e-8, .step = 1);
    assert_true(fabs(fix_get(m, 0, 0) / 0.2 - 1) < 1e-7);
    assert_true(fabs(fix_get(v, 0, 0) / 0.004 - 1) < 1e-7);
    fix_close(&f);
}

/* The generator itself, its bits and its numbers in every type. */
static void generator(struct fix *f)
{
    const struct golden_array *bits = golden_find(&golden, "generator/bits",
                                                  5);
    const struct golden_array *value = golden_find(&golden,
                                                   "generator/values", 5);
    uint64_t stream = random_stream("generator");
    struct mat x = fix_act(f, 2, 2);
    uint64_t i;

    for (i = 0; i < 5; i++) {
        assert_true(random_bits(7, stream, i)
                    == (uint64_t)golden_i64(bits, (int64_t)i));
        assert_true(random_value(7, stream, i, 3, 0.1)
                    == golden_f64(value, (int64_t)i));
    }
    /* elements 1 to 4 of the stream, rounded once */
    CALL(f, random, .x = x, .seed = 7, .stream = stream, .first = 1,
         .scale = 3, .offset = 0.1);
    for (i = 0; i < 4; i++) {
        struct mat one = fix_act(f, 1, 1);
        fix_set(one, 0, 0, golden_f64(value, (int64_t)i + 1));
        assert_true(fix_get(x, (int64_t)i / 2, (int64_t)i % 2)
                    == fix_get(one, 0, 0));
    }
}

/* ---- running ------------------------------------------------------------ */

static void in_all_types(void (*check)(struct fix *))
{
    static const enum dtype types[] = {DT_F64, DT_F32, DT_BF16};
    struct fix f;
    int i;

    for (i = 0; i < 3; i++) {
        fix_open(&f, types[i]);
        check(&f);
        fix_close(&f);
    }
}

#define CHECK(name) \
    static void test_##name(void **state) { (void)state; in_all_types(name); }
CHECK(norms) CHECK(gated_norm) CHECK(gates) CHECK(mlp) CHECK(linear)
CHECK(rotary) CHECK(attention) CHECK(merge) CHECK(conv) CHECK(gdn_gates)
CHECK(delta) CHECK(router) CHECK(cross_entropy) CHECK(adam) CHECK(generator)

/* A file cut anywhere, or with any one byte of its sizes raised, is refused
** or read inside its bounds (the sanitizer build looks). */
static void test_reader(void **state)
{
    static const unsigned char file[] =
        "PPGOLDEN\1\0\0\0\1\0\0\0\3\0a/b\0\1\2\0\0\0\0\0\0\0ABCDEFGHIJKLMNOP";
    size_t n = sizeof file - 1, i;
    struct golden g;

    (void)state;
    for (i = 0; i <= n; i++) {
        unsigned char *p = malloc(i > 0 ? i : 1);
        assert_non_null(p);
        memcpy(p, file, i);
        assert_true(golden_parse(p, i, &g) == (i == n));
        golden_free(&g);
    }
    for (i = 0; i < 31; i++) {
        unsigned char *p = malloc(n);
        assert_non_null(p);
        memcpy(p, file, n);
        p[i] = (unsigned char)(p[i] + 0x71);
        if (i < 18 || i > 20) assert_false(golden_parse(p, n, &g));
        else golden_parse(p, n, &g);    /* the name may be anything */
        golden_free(&g);
    }
}

static int close_golden(void **state)
{
    (void)state;
    golden_free(&golden);
    return 0;
}

static int open_golden(void **state)
{
    (void)state;
    golden_open(&golden, OPS);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reader), cmocka_unit_test(test_norms),
        cmocka_unit_test(test_gated_norm), cmocka_unit_test(test_gates),
        cmocka_unit_test(test_mlp), cmocka_unit_test(test_linear),
        cmocka_unit_test(test_rotary), cmocka_unit_test(test_attention),
        cmocka_unit_test(test_merge), cmocka_unit_test(test_conv),
        cmocka_unit_test(test_gdn_gates), cmocka_unit_test(test_delta),
        cmocka_unit_test(test_adam_rest), cmocka_unit_test(test_router),
        cmocka_unit_test(test_cross_entropy),
        cmocka_unit_test(test_adam), cmocka_unit_test(test_generator)
    };

    return cmocka_run_group_tests(tests, open_golden, close_golden);
}
