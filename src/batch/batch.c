/* batch.c - forests of segments laid out as one packed row; see batch.h */
#include "batch/batch.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/num.h"
#include "batch/tree.h"

static int check_tokens(const char *what, int64_t i, int64_t tokens,
                        int64_t *sum, struct err *e)
{
    if (tokens < 1 || tokens > BATCH_MAX_TOKENS)
        return err_set(e, ERR_INPUT, "%s %" PRId64 ": %" PRId64 " tokens "
                       "(1 to %" PRId64 " are possible)", what, i, tokens,
                       BATCH_MAX_TOKENS);
    *sum += tokens;
    if (*sum > BATCH_MAX_TOKENS)
        return err_set(e, ERR_INPUT, "%s %" PRId64 ": the tokens up to here "
                       "add up to %" PRId64 " (a wave holds at most %" PRId64
                       ")", what, i, *sum, BATCH_MAX_TOKENS);
    return ERR_OK;
}

/* Segment i names itself or a later one as its parent: says which mistake
** that is. Parents of later segments are not checked yet. */
static int bad_parent(const int64_t *parent, int64_t i, int64_t n,
                      struct err *e)
{
    int64_t p = parent[i], steps;

    if (p < -1 || p >= n)
        return err_set(e, ERR_INPUT, "segment %" PRId64 ": its parent %" PRId64
                       " does not exist (0 to %" PRId64 ", or -1 for a root)",
                       i, p, n - 1);
    for (steps = 0; p >= 0 && p < n && p != i && steps < n; steps++)
        p = parent[p];
    if (p == i)
        return err_set(e, ERR_INPUT, "segment %" PRId64 ": its parents form a "
                       "cycle through %" PRId64, i, parent[i]);
    return err_set(e, ERR_INPUT, "segment %" PRId64 ": its parent %" PRId64
                   " stands after it (put parents first)", i, parent[i]);
}

static int check_tree(const int64_t *parent, const int64_t *tokens, int64_t n,
                      int64_t *bad, struct err *e)
{
    int64_t i, sum = 0;
    int rc = ERR_OK;

    *bad = -1;
    if (n < 1) return err_set(e, ERR_INPUT, "no segments");
    for (i = 0; i < n && rc == ERR_OK; i++) {
        if (parent[i] < -1 || parent[i] >= i)
            rc = bad_parent(parent, i, n, e);
        else
            rc = check_tokens("segment", i, tokens[i], &sum, e);
        if (rc != ERR_OK) *bad = i;
    }
    return rc;
}

/* order[k] becomes the k-th segment of the depth-first order. The lists of
** children are threaded through first and sibling. */
static void depth_first(const int64_t *parent, int64_t n, int64_t *first,
                        int64_t *sibling, int64_t *order)
{
    int64_t i, k = 0, root = -1;

    for (i = 0; i < n; i++) first[i] = -1;
    for (i = n - 1; i >= 0; i--) {
        int64_t *head = parent[i] < 0 ? &root : &first[parent[i]];
        sibling[i] = *head;
        *head = i;
    }
    for (i = root; i >= 0;) {
        order[k++] = i;
        if (first[i] >= 0) {
            i = first[i];
            continue;
        }
        while (i >= 0 && sibling[i] < 0) i = parent[i];
        if (i >= 0) i = sibling[i];
    }
}

/* Everything of a segment but parent and tokens, in depth-first order. */
static void fill_segments(struct batch *b)
{
    struct segment *s;
    int64_t i;
    int32_t roots = 0;

    for (i = 0; i < b->n_seg; i++) {
        s = &b->seg[i];
        s->start = b->tokens;
        s->next = i + 1;
        if (s->parent < 0) {
            s->root = roots++;
        } else {
            const struct segment *p = &b->seg[s->parent];
            s->position = p->position + p->tokens;
            s->depth = p->depth + 1;
            s->root = p->root;
        }
        b->tokens += s->tokens;
        b->longest = num_max(b->longest, s->position + s->tokens);
    }
    for (i = b->n_seg - 1; i >= 0; i--) {
        s = &b->seg[i];
        if (s->next == i + 1) b->n_seq++;
        if (s->parent >= 0 && b->seg[s->parent].next < s->next)
            b->seg[s->parent].next = s->next;
    }
}

int tree_to_batch(const int64_t *parent, const int64_t *tokens, int64_t n,
                  int64_t *where, int64_t *bad, struct batch *out,
                  struct err *e)
{
    struct batch b = {0};
    int64_t *tmp = NULL, *order, *at, k;
    int rc = check_tree(parent, tokens, n, bad, e);

    if (rc != ERR_OK) return rc;
    tmp = calloc((size_t)n, 4 * sizeof *tmp);
    b.seg = calloc((size_t)n, sizeof *b.seg);
    if (tmp == NULL || b.seg == NULL) {
        free(tmp);
        free(b.seg);
        return err_nomem(e);
    }
    order = tmp + 2 * n;
    at = where != NULL ? where : tmp + 3 * n;
    depth_first(parent, n, tmp, tmp + n, order);
    for (k = 0; k < n; k++) at[order[k]] = k;
    b.n_seg = n;
    for (k = 0; k < n; k++) {
        int64_t p = parent[order[k]];
        b.seg[k].parent = p < 0 ? -1 : at[p];
        b.seg[k].tokens = tokens[order[k]];
    }
    fill_segments(&b);
    free(tmp);
    *out = b;
    return ERR_OK;
}

int batch_from_tree(const int64_t *parent, const int64_t *tokens, int64_t n,
                    struct batch *out, struct err *e)
{
    int64_t bad;

    return tree_to_batch(parent, tokens, n, NULL, &bad, out, e);
}

int batch_from_lengths(const int64_t *lengths, int64_t n, struct batch *out,
                       struct err *e)
{
    struct batch b = {0};
    int64_t i, sum = 0;

    if (n < 1) return err_set(e, ERR_INPUT, "no sequences");
    for (i = 0; i < n; i++) {
        int rc = check_tokens("sequence", i, lengths[i], &sum, e);
        if (rc != ERR_OK) return rc;
    }
    b.seg = calloc((size_t)n, sizeof *b.seg);
    if (b.seg == NULL) return err_nomem(e);
    b.n_seg = n;
    for (i = 0; i < n; i++) {
        b.seg[i].parent = -1;
        b.seg[i].tokens = lengths[i];
    }
    fill_segments(&b);
    *out = b;
    return ERR_OK;
}

void batch_free(struct batch *b)
{
    free(b->seg);
    *b = (struct batch){0};
}
