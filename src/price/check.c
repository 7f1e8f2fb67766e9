/*
** check.c - facts that cannot be priced at all are errors that name the key;
** facts that the published estimators do not cover get a reason.
*/
#include <stdarg.h>
#include <stdio.h>

#include "base/num.h"
#include "model/param.h"
#include "price/internal.h"

/* Is v in [lo, hi]? Else the error names the key that fmt makes. */
static bool within(struct err *e, int64_t v, int64_t lo, int64_t hi,
                   const char *fmt, ...) ERR_PRINTF(5, 6);

static bool within(struct err *e, int64_t v, int64_t lo, int64_t hi,
                   const char *fmt, ...)
{
    char key[128];
    va_list ap;

    if (v >= lo && v <= hi) return true;
    va_start(ap, fmt);
    vsnprintf(key, sizeof key, fmt, ap);
    va_end(ap);
    err_set(e, ERR_INPUT, "%s: must be from %lld to %lld, is %lld", key,
            (long long)lo, (long long)hi, (long long)v);
    return false;
}

/* Bounds that keep every later product within 64 bits, then what contradicts
** itself. */
static int check_wave(const struct price_facts *f, struct err *e)
{
    const struct {
        const char *key;
        int64_t value, lo, hi;
    } rule[] = {
        {"layers", f->model->layers, 1, MODEL_MAX_LAYERS},
        {"parallel.cp", f->cp, 1, PRICE_MAX_RANKS},
        {"parallel.ep", f->ep, 1, 4096},
        {"parallel.tp", f->tp, 1, 4096},
        {"parallel.pp", f->pp, 1, 4096},
        {"lora_rank", f->lora_rank, 0, PARAM_MAX_LORA_RANK},
        {"head_rows", f->head_rows, 0, PRICE_MAX_ROWS},
        {"output_bytes", f->output_bytes, 0, PRICE_MAX_BYTES},
        {"hybridep_held_rows", f->hybridep_held_rows, -1, PRICE_MAX_ROWS},
        {"packed_length", f->packed_length, -1, PRICE_MAX_ROWS},
        {"packed_rows", f->packed_rows, -1, PRICE_MAX_ROWS},
        {"rank_rows", f->rank_rows, -1, PRICE_MAX_ROWS},
        {"segments", f->segments, -1, PRICE_MAX_ROWS},
        {"gdn_executed_rows", f->gdn_executed_rows, -1, PRICE_MAX_ROWS},
        {"swiglu_widths", f->swiglu_widths, 0, 7},
        {"block[0]", f->q_block, 1, 65536},
        {"block[1]", f->k_block, 1, 65536},
        {"groups (their number)", f->n_group, 1, PRICE_MAX_GROUPS},
    };
    size_t i;

    for (i = 0; i < sizeof rule / sizeof rule[0]; i++)
        if (!within(e, rule[i].value, rule[i].lo, rule[i].hi, "%s",
                    rule[i].key))
            return ERR_INPUT;
    if (f->model->experts == 0 && f->ep > 1)
        return err_set(e, ERR_INPUT, "parallel.ep: %s is dense, it has no "
                       "experts to split (use 1)", f->model->name);
    if (f->model->experts % f->ep != 0)
        return err_set(e, ERR_INPUT, "parallel.ep: %lld does not divide the "
                       "%lld experts of %s", (long long)f->ep,
                       (long long)f->model->experts, f->model->name);
    if ((f->mode.modules & MODULE_MOE) && f->model->experts == 0)
        return err_set(e, ERR_INPUT, "recompute_modules: moe, but %s has no "
                       "experts", f->model->name);
    if (f->hybridep_held_rows >= 0 && f->packed_length < 1)
        return err_set(e, ERR_INPUT, "packed_length: needed where "
                       "hybridep_held_rows is a number");
    return ERR_OK;
}

/* What is pending in group g: its own list, or the facts'. */
static int check_pending(const struct price_facts *f, int64_t g,
                         struct err *e)
{
    const int64_t *pending = price_pending(f, g);
    const char *slot = f->group[g].pending != NULL ? f->group[g].slot : NULL;
    int64_t i;

    for (i = 0; pending != NULL && i <= f->model->layers; i++)
        if (!within(e, pending[i], 0, PRICE_MAX_BYTES,
                    "adapter_pending%s%s[%lld]", slot != NULL ? "." : "",
                    slot != NULL ? slot : "", (long long)i))
            return ERR_INPUT;
    return ERR_OK;
}

/* Stage number i of rank r in group g; own: the rank's attention rows. */
#define STAGE "groups[%lld].stages[%lld][%lld]."
static int check_stage(const struct stage *s, int64_t own, int64_t g,
                       int64_t r, int64_t i, struct err *e)
{
    const int64_t most = PRICE_MAX_ROWS;
    long long a = (long long)g, b = (long long)r, c = (long long)i;

    if (!within(e, s->q, 0, own, STAGE "q", a, b, c)
        || !within(e, s->k, 0, s->local ? own : most, STAGE "k", a, b, c)
        || !within(e, s->q_len, s->q, most, STAGE "q_len", a, b, c)
        || !within(e, s->k_len, s->k, most, STAGE "k_len", a, b, c))
        return ERR_INPUT;
    if (s->q_full && s->q != own)
        return err_set(e, ERR_INPUT, STAGE "q_full: true, but q is %lld of "
                       "the rank's %lld attention rows", a, b, c,
                       (long long)s->q, (long long)own);
    return ERR_OK;
}

/* Every row attends at least to itself, so a rank's local stage takes all of
** its rows; and what it fetches is other ranks'. */
static int check_covers(const struct price_group *p, int64_t g, int64_t r,
                        int64_t others, struct err *e)
{
    int64_t i, own = p->attention_rows[r], local = own > 0 ? 0 : -1;

    for (i = 0; i < p->n_stage[r]; i++) {
        const struct stage *s = &p->stage[r][i];
        if (s->local) local = num_min(s->q, s->k);
        else if (s->k > others)
            return err_set(e, ERR_INPUT, "groups[%lld].stages[%lld][%lld].k: "
                           "%lld keys are fetched, and the other ranks hold "
                           "%lld rows", (long long)g, (long long)r,
                           (long long)i, (long long)s->k, (long long)others);
    }
    if (own == 0 || local == own) return ERR_OK;
    return err_set(e, ERR_INPUT, "groups[%lld].stages[%lld]: its local stage "
                   "must have the rank's %lld attention rows as q and k "
                   "(every row attends to itself)", (long long)g,
                   (long long)r, (long long)own);
}

/* Each stage for itself, then that exactly one is local. */
static int check_stages(const struct price_group *p, int64_t g, int64_t r,
                        struct err *e)
{
    int64_t i, locals = 0;

    if (p->stage == NULL) return ERR_OK;
    if (!within(e, p->n_stage[r], 0, PRICE_MAX_STAGES,
                "groups[%lld].stages[%lld] (their number)", (long long)g,
                (long long)r))
        return ERR_INPUT;
    for (i = 0; i < p->n_stage[r]; i++) {
        const struct stage *s = &p->stage[r][i];
        int rc = check_stage(s, p->attention_rows[r], g, r, i, e);
        if (rc != ERR_OK) return rc;
        if (s->local && ++locals > 1)
            return err_set(e, ERR_INPUT, "groups[%lld].stages[%lld][%lld]."
                           "local: a second local stage", (long long)g,
                           (long long)r, (long long)i);
    }
    return ERR_OK;
}

/* What per-rank-any may be told. */
static int check_list(const int64_t *v, int64_t n, int64_t g,
                      const char *key, struct err *e)
{
    int64_t i;

    for (i = 0; v != NULL && i < n; i++)
        if (!within(e, v[i], 0, PRICE_MAX_ROWS, "groups[%lld].%s[%lld]",
                    (long long)g, key, (long long)i))
            return ERR_INPUT;
    return ERR_OK;
}

static int check_known(const struct price_facts *f, int64_t g, struct err *e)
{
    const struct price_group *p = &f->group[g];
    int rc = check_list(p->gdn_states, f->cp, g, "gdn_states", e);

    if (rc == ERR_OK)
        rc = check_list(p->gdn_chunks, f->cp, g, "gdn_chunks", e);
    if (rc == ERR_OK)
        rc = check_list(p->gdn_sent, f->cp, g, "gdn_sent", e);
    if (rc == ERR_OK)
        rc = check_list(p->sent_rows, f->cp * p->n_sent, g, "sent_rows", e);
    if (rc == ERR_OK)
        rc = check_list(p->routed_pairs, f->cp * f->model->layers, g,
                        "routed_pairs", e);
    return rc;
}

/* Both layouts hold the group's rows, each once. */
static int check_layouts(const struct price_facts *f, int64_t g,
                         struct err *e)
{
    const struct price_group *p = &f->group[g];
    int64_t attention = 0, gdn = 0, r;
    int rc = ERR_OK;

    for (r = 0; r < f->cp; r++) {
        attention = num_sadd(attention, p->attention_rows[r]);
        gdn = num_sadd(gdn, p->gdn_rows[r]);
    }
    if (model_count(f->model, LAYER_GDN) > 0 &&
        model_count(f->model, LAYER_ATTENTION) > 0 && attention != gdn)
        return err_set(e, ERR_INPUT, "groups[%lld].gdn_rows: sum to %lld, "
                       "attention_rows to %lld (both hold the same rows)",
                       (long long)g, (long long)gdn, (long long)attention);
    for (r = 0; rc == ERR_OK && p->stage != NULL && r < f->cp; r++)
        rc = check_covers(p, g, r, attention - p->attention_rows[r], e);
    return rc;
}

/* Rows of all ranks, and that their sum still fits. */
static int check_group(const struct price_facts *f, int64_t g, struct err *e)
{
    const struct price_group *p = &f->group[g];
    long long n = (long long)g;
    int64_t r, rows = 0;

    if (!within(e, p->routed_rows, -1, PRICE_MAX_ROWS,
                "groups[%lld].routed_rows", n)
        || check_known(f, g, e) != ERR_OK)
        return ERR_INPUT;
    for (r = 0; r < f->cp; r++) {
        if (!within(e, p->attention_rows[r], 0, PRICE_MAX_ROWS,
                    "groups[%lld].attention_rows[%lld]", n, (long long)r)
            || !within(e, p->gdn_rows[r], 0, PRICE_MAX_ROWS,
                       "groups[%lld].gdn_rows[%lld]", n, (long long)r))
            return ERR_INPUT;
        if (p->attention_retained != NULL
            && !within(e, p->attention_retained[r], 0, PRICE_MAX_BYTES,
                       "groups[%lld].attention_retained[%lld]", n,
                       (long long)r))
            return ERR_INPUT;
        if (check_stages(p, g, r, e) != ERR_OK) return ERR_INPUT;
        rows = num_max(rows, num_max(p->attention_rows[r], p->gdn_rows[r]));
    }
    if (rows > 0) return ERR_OK;
    return err_set(e, ERR_INPUT, "groups[%lld].attention_rows: no rank holds "
                   "a row", n);
}

int price_check(const struct price_facts *f, struct err *e)
{
    int64_t i;
    int rc = check_wave(f, e);

    for (i = 0; rc == ERR_OK && i < f->n_group; i++) {
        rc = check_pending(f, i, e);
        if (rc == ERR_OK) rc = check_group(f, i, e);
    }
    return rc;
}

int price_check_whole(const struct price_facts *f, struct err *e)
{
    int64_t i;
    int rc = price_check(f, e);

    for (i = 0; rc == ERR_OK && i < f->n_group; i++)
        rc = check_layouts(f, i, e);
    return rc;
}

/* The group with the most rows is to blame. */
int price_too_big(const struct price_facts *f, struct err *e)
{
    int64_t g, worst = 0;

    for (g = 1; g < f->n_group; g++)
        if (price_busiest_rows(f, g) > price_busiest_rows(f, worst)) worst = g;
    return err_set(e, ERR_INPUT, "groups[%lld].attention_rows: %lld rows of "
                   "%lld layers do not fit 64-bit bytes", (long long)worst,
                   (long long)price_busiest_rows(f, worst),
                   (long long)f->model->layers);
}

/* ---- what is not covered ------------------------------------------------- */

#define REASON 160

bool price_refuses(const struct price_facts *f, char reason[REASON])
{
    if (f->tp != 1 || f->pp != 1) {
        snprintf(reason, REASON, "TP%lld PP%lld: only TP1 and PP1 are priced",
                 (long long)f->tp, (long long)f->pp);
        return true;
    }
    if (f->mode.recompute != RECOMPUTE_FULL || f->mode.no_grad ||
        f->mode.wave != WAVE_TRAIN) {
        snprintf(reason, REASON, "prices training waves with full recompute "
                 "only");
        return true;
    }
    return false;
}

static bool lacks_gradients(const struct price_facts *f, char reason[REASON])
{
    int64_t g;

    for (g = 0; g < f->n_group; g++) {
        if (f->group[g].grad) continue;
        snprintf(reason, REASON, "group %lld has no gradients: layouts are "
                 "priced for gradient groups only", (long long)g);
        return true;
    }
    return false;
}

bool price_refuses_layouts(const struct price_facts *f, char reason[REASON])
{
    if (lacks_gradients(f, reason)) return true;
    if (f->softmax_offset)
        snprintf(reason, REASON, "attention has a softmax offset");
    else if (!f->cp_attention)
        snprintf(reason, REASON, "attention is not the project's "
                 "context-parallel attention");
    else
        return false;
    return true;
}

bool price_refuses_ranks(const struct price_facts *f, char reason[REASON])
{
    if (lacks_gradients(f, reason)) return true;
    if (f->cp == 2) return price_refuses_layouts(f, reason);
    snprintf(reason, REASON, "CP%lld: layouts are priced at CP2 only",
             (long long)f->cp);
    return true;
}
