/*
** sec_measured.c - simulated peaks against measured ones: by series, cell by
** cell, and what no cell covers.
*/
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/measured.h"
#include "report/sections/sections.h"

/* ---- by series ----------------------------------------------------------- */

struct tally {
    int64_t within, shown, missing;     /* of the rest: not counted, not run */
    double worst;                       /* signed */
    struct spread spread;               /* of sizes of counted errors */
};

/* Cells of a series; NULL: all large distinct ones. */
static bool belongs(const struct view *v, int64_t i, const char *series)
{
    if (series == NULL)
        return measured_is_large(&v->measured[i]) &&
               measured_is_distinct(v, i);
    return strcmp(v->measured[i].forward->shape.series, series) == 0;
}

/* How many of a series lie within a bound, and its spread. */
static struct tally tally_of(const struct view *v, const char *series,
                             enum measured_what what, double *x)
{
    struct tally t = {0, 0, 0, NAN, {0, NAN, NAN, NAN}};
    int64_t i, n = 0, measured, ours;

    for (i = 0; i < v->n_measured; i++) {
        const struct measured *m = &v->measured[i];
        double error = measured_error(m, what);
        if (!belongs(v, i, series)) continue;
        if (what == MEASURED_BACKWARD && m->backward == NULL) continue;
        if (what == MEASURED_RETAINED && !measured_pair(m, what, &measured,
                                                        &ours) &&
            m->forward->shape.measured_retained < 0) continue;
        if (!measured_counts(m, what)) { t.shown++; continue; }
        if (isnan(error)) { t.missing++; continue; }
        if (!(fabs(error) <= fabs(t.worst))) t.worst = error;
        t.within += fabs(error) <= 1.0;
        x[n++] = fabs(error);
    }
    t.spread = spread_of(x, n);
    return t;
}

static void put_tally(struct view *v, struct table *t, const char *series,
                      enum measured_what what, double *x)
{
    struct tally k = tally_of(v, series, what, x);

    if (k.spread.n + k.shown + k.missing == 0) return;
    doc_row(v->d, t);
    if (series == NULL) cell_text(v->d, t, "all large, distinct");
    else cell_code(v->d, t, series);
    cell_text(v->d, t, measured_words[what]);
    cell_count(v->d, t, k.spread.n);
    cell_number(v->d, t, k.spread.median, 3);
    cell_percent(v->d, t, k.worst, false);
    cell_count(v->d, t, k.within);
    cell_count(v->d, t, k.shown);
    cell_count(v->d, t, k.missing);
}

static bool is_first_of_series(const struct view *v, int64_t i)
{
    const char *series = v->measured[i].forward->shape.series;
    int64_t k;

    for (k = 0; k < i; k++)
        if (strcmp(v->measured[k].forward->shape.series, series) == 0)
            return false;
    return true;
}

static void put_series(struct view *v)
{
    double *x = malloc((size_t)(v->n_measured + 1) * sizeof *x);
    struct table *t = doc_table(v->d, "measured", "series|compared|>cells"
                                "|>median error, %|>worst|>within 1 %"
                                "|>shown only|>not run");
    int64_t i;
    int what;

    if (x == NULL) v->d->failed = true;
    for (what = 0; x != NULL && what < MEASURED_WHATS; what++)
        put_tally(v, t, NULL, (enum measured_what)what, x);
    for (i = 0; x != NULL && i < v->n_measured; i++)
        for (what = 0; is_first_of_series(v, i) && what < MEASURED_WHATS;
             what++)
            put_tally(v, t, v->measured[i].forward->shape.series,
                      (enum measured_what)what, x);
    free(x);
}

/* Mixtures over ranks are no cell like others: how their rows were routed is
** not known to every table. */
static void put_mixtures(struct view *v)
{
    double least = NAN, most = NAN;
    int64_t i, n = 0;

    for (i = 0; i < v->n_measured; i++) {
        double error = measured_error(&v->measured[i], MEASURED_FORWARD);

        if (v->measured[i].forward->shape.ep < 2 || isnan(error)) continue;
        if (!(error >= least)) least = error;
        if (!(error <= most)) most = error;
        n++;
    }
    if (n == 0) return;
    doc_para(v->d, "Mixtures of experts over ranks, forward: %d cell%s, %+.1f "
             "to %+.1f %%. A cell's note says how its rows are routed here.",
             (int)n, n == 1 ? "" : "s", least, most);
}

/* ---- choices made otherwise ---------------------------------------------- */

static int64_t last_peak(const struct record_found *c, bool requested)
{
    int64_t i, most = -1;

    for (i = 0; c != NULL && i < c->n_peak; i++) {
        const struct record_peak *p = &c->peak[i];
        int64_t bytes = requested ? p->requested : p->allocated;
        if (p->wave == c->waves - 1 && bytes > most) most = bytes;
    }
    return most;
}

/* head: in a word or two. suffix: of the cases with the choice; "": as built.
** requested: not blocks. */
static const struct choice {
    const char *what, *head, *suffix;
    bool requested;
} choices[] = {
    {"as built", "as built", "", false},
    {"the norm's local output goes after the base product", "local norm",
     ".norm-freed", false},
    {"v is copied out of the joined projection, which goes", "v",
     ".v-copied", false},
    {"fused SwiGLU in eager attention models", "SwiGLU", ".fused", false},
    {"of a gathered qkv projection a rank keeps its columns alone", "qkv",
     ".qkv-sliced", false},
    {"the embedding's output stands whole before its share", "embedding",
     ".embedding-whole", false},
    {"the scale of a compiled row-parallel adapter makes a copy", "scale",
     ".adapter-scaled", false},
    {"a compiled row-parallel sum is one kernel with the residual",
     "residual", ".residual-fused", false},
    {"joined projections have a block a weight", "weights", ".weights-apart",
     false},
    {"bytes as requested, not as blocks", "requested", "", true},
};
#define CHOICES (sizeof choices / sizeof *choices)

/* A cell's forward peak with a choice; -1 where it did not run. */
static int64_t chosen(const struct view *v, const struct measured *m,
                      const struct choice *k)
{
    const struct record_found *c = m->forward;

    if (*k->suffix != '\0') c = view_sibling(v->set, c, k->suffix);
    return last_peak(c, k->requested);
}

static double chosen_error(const struct measured *m, int64_t ours)
{
    double measured = (double)m->forward->shape.measured_peak;

    return 100.0 * ((double)ours - measured) / measured;
}

/* How far the cells lie off with a choice, and how many it changes. */
static void put_switch(struct view *v, struct table *t,
                       const struct choice *k, double *x)
{
    int64_t i, n = 0, changed = 0, within[2] = {0, 0};
    double worst = NAN;

    for (i = 0; i < v->n_measured; i++) {
        const struct measured *m = &v->measured[i];
        int64_t ours, built = last_peak(m->forward, false);
        double error;
        if (!belongs(v, i, NULL)) continue;
        ours = chosen(v, m, k);
        if (ours < 0) continue;
        error = chosen_error(m, ours);
        changed += ours != built;
        within[0] += fabs(error) <= 1.0;
        within[1] += fabs(error) <= 3.0;
        if (!(fabs(error) <= fabs(worst))) worst = error;
        x[n++] = fabs(error);
    }
    if (n == 0) return;
    doc_row(v->d, t);
    cell_text(v->d, t, k->what);
    cell_count(v->d, t, n);
    cell_count(v->d, t, changed);
    cell_number(v->d, t, spread_of(x, n).median, 3);
    cell_percent(v->d, t, worst, false);
    cell_count(v->d, t, within[0]);
    cell_count(v->d, t, within[1]);
}

#define LARGE_ERROR 0.3         /* percent of the peak */

static struct table *far_table(struct view *v)
{
    struct buf head = BUF_INIT;
    struct table *t;
    size_t k;

    buf_puts(&head, "cell");
    for (k = 0; k < CHOICES; k++) buf_printf(&head, "|>%s", choices[k].head);
    if (head.failed) v->d->failed = true;
    t = doc_table(v->d, "measured-far", buf_text(&head));
    buf_free(&head);
    return t;
}

/* Large cells further off than that, and what each choice would make of them:
** a candidate for their cause must not move the others away. */
static void put_far(struct view *v)
{
    struct table *t = NULL;
    int64_t i;
    size_t k;

    for (i = 0; i < v->n_measured; i++) {
        const struct measured *m = &v->measured[i];

        if (!belongs(v, i, NULL) ||
            !(fabs(measured_error(m, MEASURED_FORWARD)) > LARGE_ERROR))
            continue;
        if (t == NULL) {
            doc_para(v->d, "Cells of these that lie off by more than %.1f %%, "
                     "in percent with each choice in the same order. A cause "
                     "would bring them nearer and move no others away.",
                     LARGE_ERROR);
            t = far_table(v);
        }
        doc_row(v->d, t);
        cell_code(v->d, t, m->forward->shape.name);
        for (k = 0; k < CHOICES; k++) {
            int64_t ours = chosen(v, m, &choices[k]);

            if (ours < 0) cell_none(v->d, t);
            else cell_number(v->d, t, chosen_error(m, ours), 2);
        }
    }
}

static bool any_switched(const struct view *v)
{
    int64_t i;

    for (i = 0; i < v->n_measured; i++)
        if (belongs(v, i, NULL) &&
            last_peak(v->measured[i].forward, false) >= 0) return true;
    return false;
}

/* Each choice made the other way, to show what it is worth. */
static void put_switches(struct view *v)
{
    double *x;
    struct table *t;
    size_t i;

    if (!any_switched(v)) return;
    x = malloc((size_t)(v->n_measured + 1) * sizeof *x);
    if (x == NULL) {
        v->d->failed = true;
        return;
    }
    doc_para(v->d, "Choices that the cells decide: forward peaks of the large "
             "distinct cells with each made the other way.");
    t = doc_table(v->d, "measured-switches", "choice|>cells|>changed"
                  "|>median error, %|>worst|>within 1 %|>within 3 %");
    for (i = 0; i < CHOICES; i++) put_switch(v, t, &choices[i], x);
    free(x);
    put_far(v);
}

/* ---- what no cell covers ------------------------------------------------- */

/* What no measured cell has, said from the cells and not by heart. */
static void put_uncovered(struct view *v)
{
    bool rank = false, experts = false, head = false;
    struct buf b = BUF_INIT;
    int64_t i;

    for (i = 0; i < v->n_measured; i++) {
        const struct record_case *s = &v->measured[i].forward->shape;
        rank |= s->lora_rank > 1;
        experts |= s->ep > 1 && s->cp > 1;
        head |= strcmp(s->kind, "train") == 0;
    }
    if (!rank) buf_puts(&b, "adapters of a rank above 1, ");
    if (!experts) buf_puts(&b, "experts over ranks together with context "
                               "parallelism, ");
    if (!head) buf_puts(&b, "labels, the head and its loss, ");
    doc_para(v->d, "No cell covers %sreserved memory: there a simulated "
             "figure stands alone.", buf_text(&b));
    if (b.failed) v->d->failed = true;
    buf_free(&b);
}

void sec_measured_short(struct view *v)
{
    struct buf b = BUF_INIT;

    if (v->n_measured == 0) return;
    doc_heading(v->d, 2, "measured-short", "Are simulated peaks true?");
    measured_sentence(v, &b);
    doc_para(v->d, "%s", buf_text(&b));
    if (b.failed) v->d->failed = true;
    buf_free(&b);
}

void sec_measured(struct view *v)
{
    struct buf b = BUF_INIT;

    if (v->n_measured == 0) return;
    doc_heading(v->d, 2, "measured", "Simulated against measured peaks");
    measured_sentence(v, &b);
    doc_para(v->d, "%s A measured peak is a rank's "
             "`max_memory_allocated` less what was allocated before, the "
             "largest of ranks, warm: what only a first forward holds is "
             "taken off where it is known. Ours is the last wave's. The error "
             "is (simulated - measured) / measured; the median is of its "
             "size. Large: dense, cp 1, 400 rows and more, 2,048 where whole "
             "layers run again. Shown only: a cell with a note below.",
             buf_text(&b));
    if (b.failed) v->d->failed = true;
    buf_free(&b);
    put_series(v);
    put_mixtures(v);
    view_picture(v, PICTURE_MEASURED, "Error of simulated peaks by rows");
    put_switches(v);
    put_uncovered(v);
    view_command(v, "measured");
    doc_para(v->d, "A table of one's own, with these columns, becomes the "
             "same section:");
    doc_code(v->d, "peakproof import DIR --table MINE.csv");
}

/* ---- cell by cell -------------------------------------------------------- */

static int64_t first_less_repeat(const struct measured *m, bool ours)
{
    const struct record_found *c = m->forward;
    const struct record_peak *first = record_peak_max(c, 0);
    const struct record_peak *last = record_peak_max(c, c->waves - 1);

    if (!ours) return c->shape.measured_first < 0 ? -1
                      : c->shape.measured_first - c->shape.measured_peak;
    if (c->waves < 2 || first == NULL || last == NULL) return -1;
    return first->allocated - last->allocated;
}

/* Where a counted cell lies further off: bytes of blocks beyond requests, ours
** and, if the requests are right, the measured ones. */
static void put_remainders(struct view *v, struct table *t,
                           const struct measured *m)
{
    const struct record_found *c = m->forward;
    const struct record_peak *last = record_peak_max(c, c->waves - 1);
    double off = measured_error(m, MEASURED_FORWARD);
    int64_t measured, ours;

    if (last == NULL || !measured_is_large(m) || !(fabs(off) > LARGE_ERROR) ||
        !measured_pair(m, MEASURED_FORWARD, &measured, &ours)) {
        cell_none(v->d, t);
        return;
    }
    cell_printf(v->d, t, "remainders of blocks: ours %.1f MB, measured "
                "%.1f",
                (double)(ours - last->requested) / 1e6,
                (double)(measured - last->requested) / 1e6);
}

/* One measured cell; a note says why it does not count. */
static void put_cell(struct view *v, struct table *t,
                     const struct measured *m)
{
    const struct record_case *s = &m->forward->shape;
    const char *note = s->measured_note;
    int64_t measured, ours;
    int what, side;

    if (note[0] == '\0' && m->backward != NULL)
        note = m->backward->shape.measured_note;
    if (m->backward != NULL && m->backward->shape.status != STATUS_OK)
        note = m->backward->shape.note;
    if (s->status != STATUS_OK) note = s->note;
    doc_row(v->d, t);
    cell_code(v->d, t, s->name);
    cell_text(v->d, t, s->model);
    cell_printf(v->d, t, "%d, %d", (int)s->tp, (int)s->cp);
    cell_printf(v->d, t, "%s%s%s%s", s->recompute,
                s->modules[0] != '\0' ? " " : "", s->modules,
                s->compiled ? "" : ", eager");
    cell_count(v->d, t, s->tokens);
    cell_count(v->d, t, s->sequences);
    if (measured_pair(m, MEASURED_FORWARD, &measured, &ours)) {
        cell_bytes(v->d, t, measured);
        cell_bytes(v->d, t, ours);
    } else {
        cell_bytes(v->d, t, s->measured_peak);
        cell_none(v->d, t);
    }
    for (what = 0; what < MEASURED_WHATS; what++)
        cell_number(v->d, t, measured_error(m, (enum measured_what)what), 3);
    for (side = 0; side < 2; side++) {
        int64_t n = first_less_repeat(m, side == 1);
        if (n < 0) cell_none(v->d, t);
        else cell_bytes(v->d, t, n);
    }
    if (note[0] != '\0') cell_text(v->d, t, note);
    else put_remainders(v, t, m);
}

void sec_measured_cells(struct view *v)
{
    struct table *t;
    int64_t i;

    if (v->n_measured == 0) return;
    doc_heading(v->d, 3, "measured-cells", "Every measured cell");
    t = doc_table(v->d, "measured-cells", "cell|model|tp, cp|recompute"
                  "|>rows|>sequences|>measured, B|>simulated, B"
                  "|>forward, %|>retained, %|>forward + backward, %"
                  "|>first less repeat, measured|>ours|note");
    for (i = 0; i < v->n_measured; i++) put_cell(v, t, &v->measured[i]);
}
