/*
** sec_inventory.c - every tensor of a recomputed layer that waits for its
** backward, from a trace, beside what is published about such layers and
** what a study of the wave recommends to hold.
*/
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/keyset.h"
#include "report/sections/sections.h"

static bool has_kind(const struct record_found *c, const char *kind)
{
    int64_t i;

    for (i = 0; i < c->n_item; i++)
        if (c->item[i].rank == 0 && strcmp(c->item[i].kind, kind) == 0)
            return true;
    return false;
}

static bool is_kept(const struct record_item *x)
{
    return strcmp(x->allocated_in, "recompute") == 0 &&
           strcmp(x->freed_in, "backward") == 0;
}

/* Tensors of one operator and category, joined. */
struct line {
    const char *category, *op, *until;
    int64_t count, bytes, rows, largest;
};

/* The line of this operator and category, made where there is none yet; seen
** knows where each is. NULL without memory. */
static struct line *line_of(struct line *list, int64_t *n,
                            const struct record_item *x, struct buf *key,
                            struct keyset *seen)
{
    int64_t *at;

    key->len = 0;
    buf_puts(key, x->op);
    buf_putc(key, '\0');
    buf_puts(key, x->category);
    if (key->failed) return NULL;
    at = keyset_find(seen, key->data, key->len);
    if (at != NULL) return &list[*at];
    if (!keyset_add(seen, key->data, key->len, *n)) return NULL;
    list[*n] = (struct line){x->category, x->op, "", 0, 0, x->rows, -1};
    return &list[(*n)++];
}

/* The lines of rank 0's layer of a kind, kept or passing, in the order of
** their first allocation; *n of them, the caller's to free. NULL without
** memory: then none, and the document has failed. */
static struct line *gather(struct view *v, const struct record_found *c,
                           const char *kind, bool kept, int64_t *n)
{
    struct line *list = malloc((size_t)(c->n_item + 1) * sizeof *list), *to;
    struct keyset seen = {NULL, 0, 0};
    struct buf key = BUF_INIT;
    int64_t i;

    *n = 0;
    for (i = 0, to = list; i < c->n_item && to != NULL; i++) {
        const struct record_item *x = &c->item[i];
        if (x->rank != 0 || strcmp(x->kind, kind) != 0 ||
            strcmp(x->allocated_in, "recompute") != 0 || is_kept(x) != kept)
            continue;
        to = line_of(list, n, x, &key, &seen);
        if (to == NULL) break;
        to->count += x->count;
        to->bytes += x->bytes;
        if (x->bytes > to->largest) {
            to->largest = x->bytes;
            to->until = *x->freed_in ? x->freed_after : "stays";
        }
    }
    keyset_free(&seen);
    buf_free(&key);
    if (to != NULL) return list;
    v->d->failed = true;
    *n = 0;
    free(list);
    return NULL;
}

/* Routed pairs that rank 0 received, 0 when not known. With balanced routing
** every layer's are the same. */
static int64_t pairs_of(const struct record_found *c)
{
    const struct record_peak *p = record_peak_of(c, view_wave(c, true), 0);

    return p != NULL && strcmp(c->shape.routing, "balanced") == 0 &&
           p->beside.received_pairs > 0 ? p->beside.received_pairs : 0;
}

static bool is_paired(const struct line *x)
{
    return strcmp(x->category, "moe_dispatch") == 0 ||
           strcmp(x->category, "moe_experts") == 0;
}

/* Are the published traces of such cases? */
static bool is_traced(const struct record_found *c)
{
    return strcmp(c->shape.model, PUBLISHED_MODEL) == 0 && c->shape.cp == 2;
}

/* Ours beside what the inventory recommends, tensor by tensor. */
static void put_kept(struct view *v, const struct record_found *c,
                     const char *kind)
{
    int64_t n, i, pairs = pairs_of(c);
    struct line *line = gather(v, c, kind, true, &n);
    struct table *t;
    char id[64];

    snprintf(id, sizeof id, "inventory-%s-kept", kind);
    t = doc_table(v->d, id, "category|operator|what|>tensors|per|>bytes, ours"
                  "|>recommended|>difference|freed after");
    for (i = 0; i < n; i++) {
        struct line *x = &line[i];
        bool by_pair = is_paired(x) && pairs > 0;
        double ours = (double)x->bytes /
                      (double)(by_pair ? pairs : x->rows ? x->rows : 1);
        struct keeping k = {NAN, false, NULL};
        bool known = is_traced(c) &&
                     figure_keeping(v->published, kind, x->op, &k) &&
                     k.per_pair == by_pair;
        doc_row(v->d, t);
        cell_code(v->d, t, x->category);
        cell_code(v->d, t, x->op);
        cell_text(v->d, t, known ? k.what : NULL);
        cell_count(v->d, t, x->count);
        cell_text(v->d, t, by_pair ? "pair" : "row");
        cell_number(v->d, t, ours, 1);
        cell_number(v->d, t, known ? k.bytes : (double)NAN, 0);
        cell_number(v->d, t, known ? ours - k.bytes : (double)NAN, 1);
        cell_code(v->d, t, x->until);
    }
    free(line);
}

/* What comes and goes within the recompute, for which nothing is published. */
static void put_passing(struct view *v, const struct record_found *c,
                        const char *kind)
{
    int64_t n, i;
    struct line *line = gather(v, c, kind, false, &n);
    struct table *t;
    char id[64];

    snprintf(id, sizeof id, "inventory-%s-passing", kind);
    t = doc_table(v->d, id, "layer|category|operator|>tensors|>bytes, all"
                  "|>largest|freed after");
    for (i = 0; i < n; i++) {
        doc_row(v->d, t);
        cell_text(v->d, t, kind);
        cell_code(v->d, t, line[i].category);
        cell_code(v->d, t, line[i].op);
        cell_count(v->d, t, line[i].count);
        cell_bytes(v->d, t, line[i].bytes);
        cell_bytes(v->d, t, line[i].largest);
        cell_code(v->d, t, line[i].until);
    }
    free(line);
}

/* Bytes a row that a category keeps; less op's largest tensor if not NULL. */
static double kept_row(struct view *v, const struct record_found *c,
                       const char *kind, const char *category,
                       const char *less)
{
    int64_t n, i;
    struct line *line = gather(v, c, kind, true, &n);
    double sum = 0;

    for (i = 0; i < n; i++) {
        if (strcmp(line[i].category, category) != 0 || line[i].rows == 0)
            continue;
        sum += (double)line[i].bytes / (double)line[i].rows;
        if (less != NULL && strcmp(line[i].op, less) == 0)
            sum -= (double)line[i].largest / (double)line[i].rows;
    }
    free(line);
    return sum;
}

static void put_compare(struct view *v, struct table *t, const char *what,
                        double ours, const char *key, double scale)
{
    double theirs = figure(v->published, "%s", key) * scale;

    doc_row(v->d, t);
    cell_text(v->d, t, what);
    cell_number(v->d, t, ours, 1);
    cell_number(v->d, t, theirs, 0);
    cell_percent(v->d, t, 100.0 * (ours - theirs) / theirs, false);
}

/* Ours alone: the published figures are of another model or layout. */
static void put_ours(struct view *v, const struct record_found *c)
{
    struct table *t = doc_table(v->d, "inventory", "kept for backward, bytes "
                                "a row|>ours");
    double gdn = kept_row(v, c, "gdn", "gdn", NULL);

    doc_row(v->d, t);
    cell_text(v->d, t, "attention layer");
    cell_number(v->d, t, kept_row(v, c, "attention", "attention", NULL), 1);
    doc_row(v->d, t);
    cell_text(v->d, t, "GDN layer");
    cell_number(v->d, t, gdn > 0 ? gdn : (double)NAN, 1);
    doc_row(v->d, t);
    cell_text(v->d, t, "MoE routing state");
    cell_number(v->d, t, kept_row(v, c, "attention", "moe_routing", NULL), 1);
}

/* What figures there are on a layer's own rows. */
static void put_summary(struct view *v, const struct record_found *c)
{
    struct table *t = doc_table(v->d, "inventory", "kept for backward, bytes "
                                "a row|>ours|>reference|>difference");
    double attention = kept_row(v, c, "attention", "attention", NULL);
    double bare = kept_row(v, c, "attention", "attention", "layer.norm1");
    double gdn = kept_row(v, c, "gdn", "gdn", NULL);

    put_compare(v, t, "attention layer: published trace", attention,
                "trace.attention_row", 1000);
    put_compare(v, t, "attention layer less the normed input: published "
                "trace", bare, "trace.attention_row", 1000);
    put_compare(v, t, "attention layer: recommended", attention,
                "inventory.attention", 1);
    put_compare(v, t, "GDN layer: published trace, CP2", gdn,
                "trace.gdn_row.cp2", 1000);
    put_compare(v, t, "GDN layer inside an island: recommended", gdn,
                "inventory.gdn.inside", 1);
    put_compare(v, t, "MoE routing state: published trace",
                kept_row(v, c, "attention", "moe_routing", NULL),
                c->shape.ep > 1 ? "trace.moe_routing_row.ep2"
                                : "trace.moe_routing_row.ep1", 1);
}

static const char recommended[] =
    " Recommended is what an independent operator-by-operator study of the "
    "traced wave holds (`reports/published/inventory.csv`); it was "
    "guidance, not a quota.";

void sec_inventory(struct view *v)
{
    const struct record_found *c = NULL;
    int64_t i;
    char name[200];

    for (i = 0; i < v->n_case && c == NULL; i++)
        if (v->kase[i]->n_item > 0) c = v->kase[i];
    if (c == NULL && !v->published_here) return;
    doc_heading(v->d, 2, "inventory", "What a recomputed layer keeps");
    if (c == NULL) {
        view_absent(v, "the tensors of a layer", "pr-accuracy");
        return;
    }
    doc_para(v->d, "From the allocation trace of `%s`, rank 0, first wave: "
             "the last layer of each kind, requested bytes. A row is a row "
             "of the layer's layout, a pair one token sent to one expert.%s",
             view_name(c, name, sizeof name), is_traced(c) ? recommended
             : " Published traces are of " PUBLISHED_MODEL " at CP2, so "
             "nothing stands beside it.");
    if (is_traced(c)) put_summary(v, c);
    else put_ours(v, c);
    if (has_kind(c, "attention")) {
        doc_heading(v->d, 3, "inventory-attention", "Attention layer: kept "
                    "until its backward");
        put_kept(v, c, "attention");
    }
    if (has_kind(c, "gdn")) {
        doc_heading(v->d, 3, "inventory-gdn", "GDN layer: kept until its "
                    "backward");
        put_kept(v, c, "gdn");
    }
    doc_heading(v->d, 3, "inventory-passing", "Passing tensors: freed before "
                "backward begins");
    doc_para(v->d, "Allocated in the layer's recompute and freed in it, "
             "after the operator named; an operator's tensors follow each "
             "other, so that their sum is not live at once.");
    if (has_kind(c, "attention")) put_passing(v, c, "attention");
    if (has_kind(c, "gdn")) put_passing(v, c, "gdn");
}
