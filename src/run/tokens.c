/* tokens.c - see ranks.h: the tokens of a case, and what they are to
** predict */
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clean.h"
#include "base/file.h"
#include "base/num.h"
#include "run/ranks.h"
#include "base/random.h"

#define MAX_FILE ((size_t)1 << 31)

/* ---- ids ---------------------------------------------------------------- */

static void draw_ids(const struct run_work *w, int32_t *id)
{
    uint64_t stream = random_stream("tokens");
    uint64_t vocab = (uint64_t)w->model.vocab;
    int64_t i;

    for (i = 0; i < w->plan->tokens; i++)
        id[i] = (int32_t)(random_bits(w->c->seed, stream, (uint64_t)i) %
                          vocab);
}

static int too_few(const struct run_work *w, int64_t n, struct err *e)
{
    return err_set(e, ERR_INPUT, "%s: holds %" PRId64 " tokens, the batch "
                   "takes %" PRId64 " (use a longer file or a smaller "
                   "batch)", w->c->tokens, n, w->plan->tokens);
}

/* A byte of text is a token. */
static int ids_of_text(const struct run_work *w, const struct buf *text,
                       int32_t *id, struct err *e)
{
    int64_t i, n = w->plan->tokens;

    if ((int64_t)text->len < n) return too_few(w, (int64_t)text->len, e);
    for (i = 0; i < n; i++) {
        id[i] = (unsigned char)text->data[i];
        if (id[i] >= w->model.vocab)
            return err_set(e, ERR_INPUT, "%s: byte %" PRId64 " is %d, but "
                           "the vocabulary holds %" PRId64 " tokens "
                           "(vocab_size)", w->c->tokens, i, (int)id[i],
                           w->model.vocab);
    }
    return ERR_OK;
}

/* The next word of *s, cut off with a zero; NULL at the end. */
static char *next_word(char **s, int64_t *line)
{
    char *word;

    for (; isspace((unsigned char)**s); ++*s) *line += **s == '\n';
    if (**s == '\0') return NULL;
    word = *s;
    while (**s != '\0' && !isspace((unsigned char)**s)) ++*s;
    if (**s != '\0') {
        *line += **s == '\n';
        *(*s)++ = '\0';
    }
    return word;
}

/* Decimal ids between blanks. */
static int ids_of_numbers(const struct run_work *w, struct buf *text,
                          int32_t *id, struct err *e)
{
    int64_t i, v, line = 1, at;
    char *s = text->data, *word;

    if (s != NULL) s += text_mark(s, text->len);
    for (i = 0; i < w->plan->tokens; i++) {
        at = line;
        word = s != NULL ? next_word(&s, &line) : NULL;
        if (word == NULL) return too_few(w, i, e);
        if (!num_parse(word, 0, w->model.vocab - 1, &v))
            return err_set(e, ERR_INPUT, "%s: token %" PRId64 ", near line %"
                           PRId64 ", is '%.40s', not a number from 0 to %"
                           PRId64 " (vocab_size)", w->c->tokens, i, at, word,
                           w->model.vocab - 1);
        id[i] = (int32_t)v;
    }
    return ERR_OK;
}

static bool holds_ids(const char *path)
{
    size_t n = strlen(path);

    return n > 4 && strcmp(path + n - 4, ".ids") == 0;
}

static int read_ids(const struct run_work *w, int32_t *id, struct err *e)
{
    struct buf text = BUF_INIT;
    int rc;

    if (w->c->tokens == NULL) {
        draw_ids(w, id);
        return ERR_OK;
    }
    rc = file_read(w->c->tokens, MAX_FILE, &text, e);
    if (rc == ERR_OK && holds_ids(w->c->tokens))
        rc = ids_of_numbers(w, &text, id, e);
    else if (rc == ERR_OK)
        rc = ids_of_text(w, &text, id, e);
    buf_free(&text);
    return rc;
}

/* ---- targets ------------------------------------------------------------ */

/* Marks labelled rows with their own id, others with -1. */
static void label_rows(const struct run_work *w, const int32_t *id,
                       int32_t *target)
{
    int64_t rank, i, row;

    for (row = 0; row < w->plan->tokens; row++) target[row] = -1;
    for (rank = 0; rank < w->plan->cp; rank++) {
        const struct rank_plan *p = &w->plan->rank[rank];
        int64_t left = w->c->head_rows < 0 ? p->attention_rows
                                           : w->c->head_rows;
        for (i = 0; i < p->n_attention; i++) {
            const struct range *r = &p->attention[i];
            int64_t end = r->start + num_min(r->len, left);
            for (row = r->start; row < end; row++) target[row] = id[row];
            left -= end - r->start;
        }
    }
}

/* Has the last row of segment i one next token? Its only child's first,
** which is the next row. */
static bool goes_on(const struct batch *b, int64_t i)
{
    int64_t child = i + 1;

    return child < b->seg[i].next && b->seg[child].next == b->seg[i].next;
}

/* Targets and weights of labelled rows that have a next token. */
static void set_targets(const struct run_work *w, const int32_t *id,
                        int32_t *target, double *weight)
{
    const struct batch *b = w->plan->batch;
    int64_t i, row, n = 0;

    for (i = 0; i < b->n_seg; i++) {
        int64_t end = b->seg[i].start + b->seg[i].tokens - !goes_on(b, i);
        for (row = b->seg[i].start; row < end; row++) {
            if (target[row] < 0) continue;
            target[row] = id[row + 1];
            weight[row] = 1;
            n++;
        }
    }
    for (row = 0; row < w->plan->tokens && n > 0; row++)
        weight[row] /= (double)n;
}

int run_data_make(const struct run_work *w, struct step_data *out,
                  struct err *e)
{
    size_t n = (size_t)w->plan->tokens + 1;
    int32_t *id = calloc(n, sizeof *id), *target = calloc(n, sizeof *target);
    double *weight = calloc(n, sizeof *weight);
    int rc;

    *out = (struct step_data){.ids = id, .target = target, .weight = weight};
    if (id == NULL || target == NULL || weight == NULL) return err_nomem(e);
    rc = read_ids(w, id, e);
    if (rc != ERR_OK) return rc;
    label_rows(w, id, target);
    set_targets(w, id, target, weight);
    return ERR_OK;
}

void run_data_free(struct step_data *d)
{
    free((void *)d->ids);
    free((void *)d->target);
    free((void *)d->weight);
}
