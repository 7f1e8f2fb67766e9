/* run_data.c - see run_data.h */
#include "bench/run_data.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/num.h"
#include "dev/random.h"

#define TOKEN_FILE_LIMIT ((size_t)1 << 30)

int64_t run_labels(const struct scenario_case *c, const struct rank_plan *p)
{
    return c->head_rows < 0 ? p->attention_rows
                            : num_min(c->head_rows, p->attention_rows);
}

void run_data_free(struct run_data *d)
{
    free(d->ids);
    free(d->target);
    free(d->weight);
    *d = (struct run_data){0};
}

/* ---- ids ---------------------------------------------------------------- */

static void draw_ids(const struct scenario_case *c, const struct model *m,
                     int32_t *ids, int64_t n)
{
    uint64_t stream = random_stream("tokens");
    int64_t i;

    for (i = 0; i < n; i++)
        ids[i] = (int32_t)(random_bits(c->seed, stream, (uint64_t)i) %
                           (uint64_t)m->vocab);
}

static int too_few(const char *path, int64_t have, int64_t need,
                   struct err *e)
{
    return err_set(e, ERR_INPUT, "%s: holds %" PRId64 " tokens, the batch has "
                   "%" PRId64, path, have, need);
}

static int check_id(const char *path, const struct model *m, int64_t i,
                    int64_t id, struct err *e)
{
    if (id >= 0 && id < m->vocab) return ERR_OK;
    return err_set(e, ERR_INPUT, "%s: token %" PRId64 ": %" PRId64 " is not "
                   "below the vocabulary of %" PRId64, path, i, id, m->vocab);
}

/* Numbers between blanks. */
static int parse_ids(const char *path, char *text, const struct model *m,
                     int32_t *ids, int64_t n, struct err *e)
{
    static const char blanks[] = " \t\r\n";
    char *save = NULL, *word = strtok_r(text, blanks, &save);
    int64_t i, id;
    int rc = ERR_OK;

    for (i = 0; i < n && word != NULL && rc == ERR_OK; i++) {
        if (!num_parse(word, 0, INT32_MAX, &id))
            return err_set(e, ERR_INPUT, "%s: token %" PRId64 ": '%.20s' is "
                           "not a token id", path, i, word);
        rc = check_id(path, m, i, id, e);
        ids[i] = (int32_t)id;
        word = strtok_r(NULL, blanks, &save);
    }
    return rc == ERR_OK && i < n ? too_few(path, i, n, e) : rc;
}

static int take_bytes(const char *path, const struct buf *text,
                      const struct model *m, int32_t *ids, int64_t n,
                      struct err *e)
{
    int64_t i;
    int rc = ERR_OK;

    if ((int64_t)text->len < n)
        return too_few(path, (int64_t)text->len, n, e);
    for (i = 0; i < n && rc == ERR_OK; i++) {
        ids[i] = (unsigned char)text->data[i];
        rc = check_id(path, m, i, ids[i], e);
    }
    return rc;
}

static int read_ids(const struct scenario_case *c, const struct model *m,
                    int32_t *ids, int64_t n, struct err *e)
{
    struct buf text = BUF_INIT;
    const char *dot = strrchr(c->tokens, '.');
    int rc = file_read(c->tokens, TOKEN_FILE_LIMIT, &text, e);

    if (rc == ERR_OK && text.len == 0)
        rc = too_few(c->tokens, 0, n, e);
    else if (rc == ERR_OK && dot != NULL && strcmp(dot, ".ids") == 0)
        rc = parse_ids(c->tokens, text.data, m, ids, n, e);
    else if (rc == ERR_OK)
        rc = take_bytes(c->tokens, &text, m, ids, n, e);
    buf_free(&text);
    return rc;
}

/* ---- targets ------------------------------------------------------------ */

/* What follows the last row of segment i: its first child's first token. */
static int32_t next_token(const struct batch *b, const int32_t *ids, int64_t i)
{
    const struct segment *child = &b->seg[i] + 1;

    if (i + 1 == b->n_seg || child->parent != i) return 0;
    return ids[child->start];
}

static void set_targets(const struct batch *b, struct run_data *d)
{
    int64_t i, row, end;

    for (i = 0; i < b->n_seg; i++) {
        end = b->seg[i].start + b->seg[i].tokens;
        for (row = b->seg[i].start; row + 1 < end; row++)
            d->target[row] = d->ids[row + 1];
        d->target[end - 1] = next_token(b, d->ids, i);
    }
}

/* Takes the label off every row behind a rank's first n. */
static void unlabel(const struct rank_plan *p, int64_t n, int32_t *target)
{
    int64_t i, k;

    for (i = 0; i < p->n_attention; i++) {
        const struct range *r = &p->attention[i];
        for (k = 0; k < r->len; k++, n--)
            if (n <= 0) target[r->start + k] = -1;
    }
}

static void set_weights(const struct plan *p, struct run_data *d)
{
    int64_t i, n = 0;

    for (i = 0; i < p->tokens; i++) n += d->target[i] >= 0;
    for (i = 0; i < p->tokens; i++)
        d->weight[i] = d->target[i] >= 0 ? 1.0f / (float)n : 0;
}

int run_data_make(const struct scenario_case *c, const struct model *m,
                  const struct plan *p, struct run_data *out, struct err *e)
{
    size_t n = (size_t)p->tokens;
    struct run_data d = {0};
    int64_t r;
    int rc = ERR_OK;

    d.ids = malloc((n + 1) * sizeof *d.ids);
    d.target = malloc((n + 1) * sizeof *d.target);
    d.weight = malloc((n + 1) * sizeof *d.weight);
    if (d.ids == NULL || d.target == NULL || d.weight == NULL)
        rc = err_nomem(e);
    else if (c->tokens != NULL)
        rc = read_ids(c, m, d.ids, p->tokens, e);
    else
        draw_ids(c, m, d.ids, p->tokens);
    if (rc != ERR_OK) {
        run_data_free(&d);
        return rc;
    }
    set_targets(p->batch, &d);
    for (r = 0; r < p->cp; r++)
        unlabel(&p->rank[r], run_labels(c, &p->rank[r]), d.target);
    set_weights(p, &d);
    d.step = (struct step_data){.ids = d.ids, .target = d.target,
                                .weight = d.weight};
    *out = d;
    return ERR_OK;
}
