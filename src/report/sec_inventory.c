/*
** sec_inventory.c - every tensor of a recomputed layer that waits for its
** backward, from a trace, beside what is published about such layers.
*/
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/sections.h"

static bool is_kept(const struct record_item *x)
{
    return strcmp(x->allocated_in, "recompute") == 0 &&
           strcmp(x->freed_in, "backward") == 0;
}

static double per_row(const struct record_item *x)
{
    return x->rows > 0 ? (double)x->bytes / (double)x->rows : (double)NAN;
}

/* Bytes per row that categories first to last keep. */
static double kept_row(const struct record_found *c, const char *kind,
                       const char *category)
{
    double sum = 0;
    int64_t i;

    for (i = 0; i < c->n_item; i++) {
        const struct record_item *x = &c->item[i];
        if (x->rank == 0 && is_kept(x) && x->rows > 0 &&
            strcmp(x->kind, kind) == 0 && strcmp(x->category, category) == 0)
            sum += per_row(x);
    }
    return sum;
}

static void put_tensors(struct view *v, const struct record_found *c,
                        const char *kind, bool kept)
{
    struct table *t;
    int64_t i;
    char id[64];

    snprintf(id, sizeof id, "inventory-%s-%s", kind, kept ? "kept" : "passing");
    t = doc_table(v->d, id, "category|operator|>tensors|>bytes a row|>bytes"
                  "|until");
    for (i = 0; i < c->n_item; i++) {
        const struct record_item *x = &c->item[i];
        if (x->rank != 0 || strcmp(x->kind, kind) != 0 ||
            strcmp(x->allocated_in, "recompute") != 0 || is_kept(x) != kept)
            continue;
        cell_code(v->d, t, x->category);
        cell_code(v->d, t, x->op);
        cell_count(v->d, t, x->count);
        cell_number(v->d, t, per_row(x), 1);
        cell_bytes(v->d, t, x->bytes);
        if (*x->freed_in == '\0') cell_text(v->d, t, "stays");
        else cell_code(v->d, t, x->freed_after);
    }
}

static void put_compare(struct view *v, struct table *t, const char *what,
                        double ours, const char *key, double scale)
{
    double theirs = figure(v->published, "%s", key) * scale;

    cell_text(v->d, t, what);
    cell_number(v->d, t, ours, 1);
    cell_number(v->d, t, theirs, 1);
    cell_percent(v->d, t, 100.0 * (ours - theirs) / theirs, false);
}

/* What published figures there are on a layer's own rows. */
static void put_summary(struct view *v, const struct record_found *c)
{
    struct table *t = doc_table(v->d, "inventory", "kept for backward, bytes "
                                "a row|>ours|>published|>difference");

    put_compare(v, t, "attention layer, own rows (trace)",
                kept_row(c, "attention", "attention"),
                "trace.attention_row", 1000);
    put_compare(v, t, "GDN layer (trace, CP2)", kept_row(c, "gdn", "gdn"),
                "trace.gdn_row.cp2", 1000);
    put_compare(v, t, "MoE routing state (trace)",
                kept_row(c, "attention", "moe_routing"),
                c->shape.ep > 1 ? "trace.moe_routing_row.ep2"
                                : "trace.moe_routing_row.ep1", 1);
}

void sec_inventory(struct view *v)
{
    const struct record_found *c = NULL;
    int64_t i;
    char name[200];

    doc_heading(v->d, 2, "inventory", "What a recomputed layer keeps");
    for (i = 0; i < v->n_case && c == NULL; i++)
        if (v->kase[i]->n_item > 0) c = v->kase[i];
    if (c == NULL) {
        view_absent(v, "the tensors of a layer", "pr-accuracy");
        return;
    }
    doc_para(v->d, "From the allocation trace of `%s`, rank 0, first wave: "
             "the last layer of each kind. Bytes are requested bytes; rows "
             "are the rank's rows in that layer's layout, so tensors of "
             "routed pairs show the pairs' bytes spread over local rows.",
             view_name(c, name, sizeof name));
    put_summary(v, c);
    doc_heading(v->d, 3, "inventory-attention", "Attention layer: kept until "
                "its backward");
    put_tensors(v, c, "attention", true);
    doc_heading(v->d, 3, "inventory-gdn", "GDN layer: kept until its "
                "backward");
    put_tensors(v, c, "gdn", true);
    doc_heading(v->d, 3, "inventory-passing", "Passing tensors: freed before "
                "backward begins");
    doc_para(v->d, "Allocated in the layer's recompute and freed in it, "
             "after the operator named; some are live at the peak.");
    put_tensors(v, c, "attention", false);
    put_tensors(v, c, "gdn", false);
}
