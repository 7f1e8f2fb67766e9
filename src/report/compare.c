/* compare.c - see compare.h. */
#include "report/compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/keyset.h"
#include "record/read.h"
#include "report/doc/doc.h"
#include "report/doc/render.h"
#include "report/view.h"

struct work {
    struct record_set *old, *new;
    struct keyset ids;      /* cases of new: key to number */
    struct keyset sources[2];   /* estimators and the like of old, of new; 1:
                                   told to be there alone */
    bool *seen;             /* [new->n_case] */
    struct doc d;
    struct table *changes;  /* NULL until something differs */
    struct comparison *out;
};

static bool put_key(struct buf *b, const struct record_found *c)
{
    b->len = 0;
    buf_printf(b, "%s\n%s\n%s", c->shape.device, c->shape.scenario,
               c->shape.name);
    return !b->failed;
}

static int index_new(struct work *w, struct err *e)
{
    struct buf key = BUF_INIT;
    int64_t i;
    int rc = ERR_OK;

    w->seen = calloc((size_t)w->new->n_case + 1, sizeof *w->seen);
    if (w->seen == NULL) return err_nomem(e);
    for (i = 0; rc == ERR_OK && i < w->new->n_case; i++)
        if (!put_key(&key, &w->new->kase[i]) ||
            !keyset_add(&w->ids, key.data, key.len, i)) rc = err_nomem(e);
    buf_free(&key);
    return rc;
}

/* ---- what ran ------------------------------------------------------------ */

static void put_words(struct work *w, struct table *t, const json_t *list)
{
    struct buf b = BUF_INIT;
    json_t *word;
    size_t i;

    json_array_foreach(list, i, word)
        if (json_is_string(word))
            buf_printf(&b, "%s%s", i > 0 ? " " : "",
                       json_string_value(word));
    if (b.len > 0) cell_code(&w->d, t, b.data);
    else cell_none(&w->d, t);
    if (b.failed) w->d.failed = true;
    buf_free(&b);
}

/* A folder's commit, scenarios, settings and command, as run.json has them; a
** run may have lost its own. */
static void put_run(struct work *w, struct table *t,
                    const struct record_set *set)
{
    static const char *const list[] = {"scenarios", "settings"};
    const char *text = json_string_value(json_object_get(set->run, "command"));

    doc_row(&w->d, t);
    cell_code(&w->d, t, set->dir);
    cell_text(&w->d, t, json_string_value(json_object_get(set->run,
                                                          "commit")));
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        put_words(w, t, json_object_get(set->run, list[i]));
    if (text != NULL) cell_code(&w->d, t, text);
    else cell_none(&w->d, t);
}

static void put_runs(struct work *w)
{
    struct table *t = doc_table(&w->d, "runs", "run|commit|scenarios|settings"
                                "|command");

    put_run(w, t, w->old);
    put_run(w, t, w->new);
}

/* A case that a run has not come to is no difference between the two. */
static void put_unfinished(struct work *w)
{
    bool old = !w->old->finished, new = !w->new->finished;

    if (old || new)
        doc_para(&w->d, "The %s not finished: cases that %s may be to come.",
                 old && new ? "runs are" : old ? "old run is" : "new run is",
                 old && new ? "one of them lacks" : "it lacks");
}

/* ---- sources that one run alone has -------------------------------------- */

static int index_sources(const struct record_set *set, struct keyset *out,
                         struct err *e)
{
    int64_t i, k;

    for (i = 0; i < set->n_case; i++)
        for (k = 0; k < set->kase[i].n_row; k++) {
            const char *name = set->kase[i].row[k].source;
            size_t len = strlen(name);

            if (keyset_find(out, name, len) != NULL) continue;
            if (!keyset_add(out, name, len, 0)) return err_nomem(e);
        }
    return ERR_OK;
}

static bool has_source(const struct work *w, int side, const char *name)
{
    return keyset_find(&w->sources[side], name, strlen(name)) != NULL;
}

/* Whether "per-rank" of "per-rank/unpaired" is alone too. */
static bool goes_with_another(const struct work *w, int side, const char *name)
{
    const char *slash = strchr(name, '/');

    return slash != NULL && keyset_find(&w->sources[!side], name,
                                        (size_t)(slash - name)) == NULL;
}

/* Says of a source, once, that one run alone has it. */
static void put_source(struct work *w, int side, const char *name)
{
    int64_t *told = keyset_find(&w->sources[side], name, strlen(name));

    if (*told || has_source(w, !side, name)) return;
    *told = 1;
    if (goes_with_another(w, side, name)) return;
    doc_para(&w->d, "%s is in the %s run alone: not compared.", name,
             side == 0 ? "old" : "new");
}

/* An estimator that was added, say: it has nothing to be compared with. In the
** order in which the run names them. */
static void put_sources(struct work *w)
{
    int side;
    int64_t i, k;

    for (side = 0; side < 2; side++) {
        const struct record_set *set = side == 0 ? w->old : w->new;

        for (i = 0; i < set->n_case; i++)
            for (k = 0; k < set->kase[i].n_row; k++)
                put_source(w, side, set->kase[i].row[k].source);
    }
}

/* ---- cases --------------------------------------------------------------- */

static bool is_same_row(const struct record_row *a, const struct record_row *b)
{
    return a->wave == b->wave && a->rank == b->rank &&
           strcmp(a->source, b->source) == 0 && strcmp(a->term, b->term) == 0;
}

/* The row of c that answers to r: rows mostly stand in the same place. */
static const struct record_row *partner(const struct record_found *c,
                                        int64_t place,
                                        const struct record_row *r)
{
    if (place < c->n_row && is_same_row(&c->row[place], r))
        return &c->row[place];
    return record_get(c, r->wave, r->rank, r->source, r->term);
}

static bool differ(const struct record_row *a, const struct record_row *b)
{
    if (a == NULL || b == NULL) return true;
    return a->measured != b->measured || a->status != b->status ||
           (a->measured && a->bytes != b->bytes);
}

/* Figures that get a line of their own; the others are counted. */
static bool is_headline(const struct record_row *r)
{
    return r->rank == RECORD_MAX && (strcmp(r->term, "total") == 0 ||
                                     strcmp(r->term, "raw") == 0);
}

static void put_side(struct work *w, struct table *t,
                     const struct record_row *r)
{
    if (r != NULL && r->measured)
        cell_bytes(&w->d, t, r->bytes);
    else
        cell_text(&w->d, t, r ? record_status_name(r->status) : NULL);
}

/* A figure that one folder alone has is a change too. */
static void put_change(struct work *w, const struct record_found *c,
                       const struct record_row *a, const struct record_row *b)
{
    const struct record_row *r = a ? a : b;
    struct table *t = w->changes;
    char name[200];
    bool both = a && b && a->measured && b->measured;

    if (t == NULL)
        w->changes = t = doc_table(&w->d, "changes", "case|>wave|what|>old"
                                   "|>new|>difference|>relative");
    doc_row(&w->d, t);
    cell_code(&w->d, t, view_name(c, name, sizeof name));
    cell_count(&w->d, t, r->wave);
    cell_printf(&w->d, t, "%s, %s", r->source, r->term);
    put_side(w, t, a);
    put_side(w, t, b);
    if (both) cell_diff(&w->d, t, b->bytes - a->bytes);
    else cell_none(&w->d, t);
    cell_percent(&w->d, t, both && a->bytes != 0 ? 100.0 *
                 (double)(b->bytes - a->bytes) / (double)a->bytes
                 : (double)NAN, false);
}

/* Compares one case; returns how many figures differ, those without a line
** of their own in *more. */
static int64_t compare_case(struct work *w, const struct record_found *a,
                            const struct record_found *b, int64_t *more)
{
    int64_t i, n = 0;

    for (i = 0; i < a->n_row; i++) {
        const struct record_row *x = &a->row[i], *y = partner(b, i, x);
        if (!differ(x, y) || !has_source(w, 1, x->source)) continue;
        n++;
        if (is_headline(x)) put_change(w, a, x, y);
        else ++*more;
    }
    for (i = 0; i < b->n_row; i++) {
        const struct record_row *y = &b->row[i];
        if (partner(a, i, y) != NULL || !has_source(w, 0, y->source)) continue;
        n++;
        if (is_headline(y)) put_change(w, b, NULL, y);
        else ++*more;
    }
    return n;
}

/* By name, not by place: cases may have been added between. */
static int compare_cases(struct work *w, int64_t *more, struct err *e)
{
    struct buf key = BUF_INIT;
    int64_t i;
    int rc = ERR_OK;

    for (i = 0; rc == ERR_OK && i < w->old->n_case; i++) {
        const struct record_found *c = &w->old->kase[i];
        const int64_t *at;
        if (!put_key(&key, c)) {
            rc = err_nomem(e);
            break;
        }
        at = keyset_find(&w->ids, key.data, key.len);
        if (at == NULL) {
            w->out->only_old++;
            continue;
        }
        w->seen[*at] = true;
        if (compare_case(w, c, &w->new->kase[*at], more) > 0)
            w->out->changed++;
        else
            w->out->same++;
    }
    for (i = 0; i < w->new->n_case; i++) w->out->only_new += !w->seen[i];
    buf_free(&key);
    return rc;
}

/* Cases that one side alone has. */
static void put_alone(struct work *w)
{
    struct buf key = BUF_INIT;
    struct table *t;
    int64_t i;
    char name[200];

    if (w->out->only_old + w->out->only_new == 0) return;
    t = doc_table(&w->d, "alone", "case|only in");
    for (i = 0; i < w->old->n_case + w->new->n_case; i++) {
        bool old = i < w->old->n_case;
        const struct record_found *c = old ? &w->old->kase[i]
            : &w->new->kase[i - w->old->n_case];
        if (!put_key(&key, c)) w->d.failed = true;
        if (w->d.failed) break;
        if (old ? keyset_find(&w->ids, key.data, key.len) != NULL
                : w->seen[i - w->old->n_case]) continue;
        doc_row(&w->d, t);
        cell_code(&w->d, t, view_name(c, name, sizeof name));
        cell_text(&w->d, t, old ? w->old->dir : w->new->dir);
    }
    buf_free(&key);
}

/* Two runs are told apart before anything is told of their cases. */
static int put_all(struct work *w, struct err *e)
{
    int64_t more = 0;
    int rc = index_new(w, e);

    if (rc == ERR_OK) rc = index_sources(w->old, &w->sources[0], e);
    if (rc == ERR_OK) rc = index_sources(w->new, &w->sources[1], e);
    if (rc != ERR_OK) return rc;
    doc_heading(&w->d, 1, "compare", "peakproof: two runs");
    put_unfinished(w);
    put_runs(w);
    put_sources(w);
    rc = compare_cases(w, &more, e);
    if (rc != ERR_OK) return rc;
    put_alone(w);
    doc_para(&w->d, "%d cases the same, %d changed (%d figures beside those "
             "above), %d only in the old run, %d only in the new.",
             (int)w->out->same, (int)w->out->changed, (int)more,
             (int)w->out->only_old, (int)w->out->only_new);
    return w->d.failed ? err_nomem(e) : ERR_OK;
}

int report_compare(const char *old_dir, const char *new_dir,
                   struct buf *text, json_t **json, struct comparison *out,
                   struct err *e)
{
    struct work w = {.out = out};
    int rc;

    memset(out, 0, sizeof *out);
    rc = record_read(old_dir, &w.old, e);
    if (rc == ERR_OK) rc = record_read(new_dir, &w.new, e);
    if (rc == ERR_OK) rc = put_all(&w, e);
    if (rc == ERR_OK) {
        if (json != NULL) *json = render_json(&w.d);
        else render_md(&w.d, text);
        if (json ? *json == NULL : text->failed) rc = err_nomem(e);
    }
    doc_free(&w.d);
    keyset_free(&w.ids);
    keyset_free(&w.sources[0]);
    keyset_free(&w.sources[1]);
    free(w.seen);
    record_set_free(w.old);
    record_set_free(w.new);
    return rc;
}
