/* corpus.c - the sequences waves are packed from; see batch.h */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/csv.h"
#include "batch/batch.h"
#include "batch/tree.h"

struct corpus {
    int64_t n;
    int64_t *tokens;        /* [n] of each sequence */
    int64_t *leaf;          /* [n] segment of tree; NULL without a tree */
    struct batch tree;      /* the whole tree, depth first */
    bool lacks_tree;
};

/* One batch being made from some of the tree. All arrays [tree.n_seg]. */
struct subset {
    bool *used;             /* on a chosen path */
    bool *ends;             /* a chosen sequence ends here */
    int64_t *children;      /* chosen children */
    int64_t *at;            /* segment of the new tree it became part of */
    int64_t *parent, *tokens;   /* the new tree */
    int64_t n;
};

static int read_sequence(struct corpus *c, const struct csv_table *t,
                         int64_t i, const int64_t *column,
                         const int64_t *where, struct err *e)
{
    const struct segment *s;
    int64_t leaf = 0;
    int rc = csv_int(t, i, column[0], 1, BATCH_MAX_TOKENS, &c->tokens[i], e);

    if (rc != ERR_OK || c->leaf == NULL) return rc;
    rc = csv_int(t, i, column[1], 0, c->tree.n_seg - 1, &leaf, e);
    if (rc != ERR_OK) return rc;
    c->leaf[i] = where[leaf];
    s = &c->tree.seg[where[leaf]];
    if (s->position + s->tokens != c->tokens[i])
        return csv_error_at(t, i, column[0], e, "%" PRId64 ", but the path to "
                            "segment %" PRId64 " of the tree has %" PRId64
                            " tokens", c->tokens[i], leaf,
                            s->position + s->tokens);
    return ERR_OK;
}

/* With a tree a sequence is its leaf, without one its length. */
static int read_sequences(struct corpus *c, const char *path,
                          const int64_t *where, struct err *e)
{
    struct csv_table *t;
    int64_t column[2] = {0, 0}, i;
    int rc = csv_load(path, 0, &t, e);

    if (rc != ERR_OK) return rc;
    rc = csv_column(t, "tokens", &column[0], e);
    if (rc == ERR_OK && where != NULL)
        rc = csv_column(t, "leaf_segment", &column[1], e);
    c->lacks_tree = where == NULL && csv_find(t, "leaf_segment") >= 0;
    c->n = csv_rows(t);
    if (rc == ERR_OK && c->n < 1)
        rc = err_set(e, ERR_INPUT, "%s: no sequences", path);
    if (rc == ERR_OK) {
        c->tokens = calloc((size_t)c->n, sizeof *c->tokens);
        if (where != NULL) c->leaf = calloc((size_t)c->n, sizeof *c->leaf);
        if (c->tokens == NULL || (where != NULL && c->leaf == NULL))
            rc = err_nomem(e);
    }
    for (i = 0; i < c->n && rc == ERR_OK; i++)
        rc = read_sequence(c, t, i, column, where, e);
    csv_table_free(t);
    return rc;
}

static int read_tree(struct corpus *c, const char *path, int64_t **where,
                     struct err *e)
{
    struct tree t;
    int64_t bad = -1;
    int rc = tree_load(path, &t, e);

    if (rc != ERR_OK) return rc;
    *where = calloc((size_t)t.n + 1, sizeof **where);
    if (*where == NULL) {
        rc = err_nomem(e);
    } else {
        rc = tree_to_batch(t.parent, t.tokens, t.n, *where, &bad, &c->tree, e);
        if (rc == ERR_INPUT) rc = tree_blame(&t, bad, e);
    }
    tree_free(&t);
    return rc;
}

int corpus_load(const char *sequences_path, const char *tree_path,
                struct corpus **out, struct err *e)
{
    struct corpus *c = calloc(1, sizeof *c);
    int64_t *where = NULL;
    int rc = c == NULL ? err_nomem(e) : ERR_OK;

    if (rc == ERR_OK && tree_path != NULL)
        rc = read_tree(c, tree_path, &where, e);
    if (rc == ERR_OK) rc = read_sequences(c, sequences_path, where, e);
    free(where);
    if (rc != ERR_OK) {
        corpus_free(c);
        return rc;
    }
    *out = c;
    return ERR_OK;
}

void corpus_free(struct corpus *c)
{
    if (c == NULL) return;
    free(c->tokens);
    free(c->leaf);
    batch_free(&c->tree);
    free(c);
}

int64_t corpus_count(const struct corpus *c)
{
    return c->n;
}

bool corpus_lacks_tree(const struct corpus *c)
{
    return c->lacks_tree;
}

int corpus_find_tree(const char *sequences_path, char **out, struct err *e)
{
    static const char end[] = "-sequences.csv";
    size_t len = strlen(sequences_path), stem;
    struct buf b = BUF_INIT;

    *out = NULL;
    if (len < sizeof end - 1) return ERR_OK;
    stem = len - (sizeof end - 1);
    if (strcmp(sequences_path + stem, end) != 0) return ERR_OK;
    buf_put(&b, sequences_path, stem);
    buf_puts(&b, "-prefix-tree.csv");
    if (b.failed) return err_nomem(e);
    if (access(b.data, R_OK) == 0)
        *out = b.data;
    else
        buf_free(&b);
    return ERR_OK;
}

/* ---- subsets ------------------------------------------------------------ */

/* A sequence that is chosen twice would be packed once and counted twice. */
static int check_pick(const struct corpus *c, const int64_t *pick, int64_t n,
                      struct err *e)
{
    bool *seen;
    int64_t i;
    int rc = ERR_OK;

    if (n < 1) return err_set(e, ERR_INPUT, "no sequences chosen");
    seen = calloc((size_t)c->n, sizeof *seen);
    if (seen == NULL) return err_nomem(e);
    for (i = 0; i < n && rc == ERR_OK; i++) {
        if (pick[i] < 0 || pick[i] >= c->n)
            rc = err_set(e, ERR_INPUT, "sequence %" PRId64 " does not exist "
                         "(0 to %" PRId64 ")", pick[i], c->n - 1);
        else if (seen[pick[i]])
            rc = err_set(e, ERR_INPUT, "sequence %" PRId64 " is chosen twice",
                         pick[i]);
        else
            seen[pick[i]] = true;
    }
    free(seen);
    return rc;
}

static int pick_lengths(const struct corpus *c, const int64_t *pick, int64_t n,
                        struct batch *out, struct err *e)
{
    int64_t *lengths = calloc((size_t)n, sizeof *lengths), i;
    int rc;

    if (lengths == NULL) return err_nomem(e);
    for (i = 0; i < n; i++) lengths[i] = c->tokens[pick[i]];
    rc = batch_from_lengths(lengths, n, out, e);
    free(lengths);
    return rc;
}

static void mark_paths(const struct corpus *c, const int64_t *pick, int64_t n,
                       struct subset *s)
{
    int64_t i, j;

    for (i = 0; i < n; i++) {
        s->ends[c->leaf[pick[i]]] = true;
        for (j = c->leaf[pick[i]]; j >= 0 && !s->used[j];
             j = c->tree.seg[j].parent) {
            s->used[j] = true;
            if (c->tree.seg[j].parent >= 0)
                s->children[c->tree.seg[j].parent]++;
        }
    }
}

/* Depth-first order makes an only child's rows follow its parent's. */
static void join_only_children(const struct batch *tree, struct subset *s)
{
    int64_t i;

    for (i = 0; i < tree->n_seg; i++) {
        int64_t p = tree->seg[i].parent;
        if (!s->used[i]) continue;
        if (p >= 0 && s->children[p] == 1 && !s->ends[p]) {
            s->at[i] = s->at[p];
        } else {
            s->parent[s->n] = p < 0 ? -1 : s->at[p];
            s->at[i] = s->n++;
        }
        s->tokens[s->at[i]] += tree->seg[i].tokens;
    }
}

/* The radix tree of the chosen leaves alone, prefixes that now are one
** joined. */
static int pick_subtree(const struct corpus *c, const int64_t *pick, int64_t n,
                        struct batch *out, struct err *e)
{
    size_t segs = (size_t)c->tree.n_seg;
    int64_t *numbers = calloc(segs, 4 * sizeof *numbers), bad;
    bool *flags = calloc(segs, 2 * sizeof *flags);
    struct subset s = {0};
    int rc = numbers == NULL || flags == NULL ? err_nomem(e) : ERR_OK;

    if (rc == ERR_OK) {
        s.used = flags;
        s.ends = flags + segs;
        s.children = numbers;
        s.at = numbers + segs;
        s.parent = numbers + 2 * segs;
        s.tokens = numbers + 3 * segs;
        mark_paths(c, pick, n, &s);
        join_only_children(&c->tree, &s);
        rc = tree_to_batch(s.parent, s.tokens, s.n, NULL, &bad, out, e);
        if (rc == ERR_OK) out->n_seq = n;
    }
    free(numbers);
    free(flags);
    return rc;
}

int corpus_batch(const struct corpus *c, const int64_t *pick, int64_t n,
                 struct batch *out, struct err *e)
{
    int rc = check_pick(c, pick, n, e);

    assert(n >= 0);
    if (rc != ERR_OK) return rc;
    return c->leaf == NULL ? pick_lengths(c, pick, n, out, e)
                           : pick_subtree(c, pick, n, out, e);
}

/* ---- packing ------------------------------------------------------------ */

/* Tokens that sequence s adds to wave, whose segments carry its number. */
static int64_t add_path(const struct corpus *c, int64_t s, int64_t wave,
                        int64_t *in_wave)
{
    int64_t j, tokens = 0;

    if (c->leaf == NULL) return c->tokens[s];
    for (j = c->leaf[s]; j >= 0 && in_wave[j] != wave;
         j = c->tree.seg[j].parent) {
        in_wave[j] = wave;
        tokens += c->tree.seg[j].tokens;
    }
    return tokens;
}

/* in_wave is [segments]; waves count from 1 there. */
static int pack(const struct corpus *c, const int64_t *pick, int64_t n,
                int64_t budget, int64_t *in_wave, int64_t *first,
                int64_t *waves, struct err *e)
{
    int64_t i, tokens = 0, w = 1;

    for (i = 0; i < n; i++) {
        if (c->tokens[pick[i]] > budget)
            return err_set(e, ERR_INPUT, "sequence %" PRId64 " has %" PRId64
                           " tokens, more than a wave's %" PRId64, pick[i],
                           c->tokens[pick[i]], budget);
        tokens += add_path(c, pick[i], w, in_wave);
        if (tokens <= budget) continue;
        first[w++] = i;
        tokens = add_path(c, pick[i], w, in_wave);
    }
    first[w] = n;
    *waves = w;
    return ERR_OK;
}

int corpus_pack(const struct corpus *c, const int64_t *pick, int64_t n,
                int64_t budget, int64_t **first, int64_t *waves,
                struct err *e)
{
    int64_t *in_wave, *cuts;
    int rc = check_pick(c, pick, n, e);

    if (rc != ERR_OK) return rc;
    in_wave = calloc((size_t)c->tree.n_seg + 1, sizeof *in_wave);
    cuts = calloc((size_t)n + 1, sizeof *cuts);
    if (in_wave == NULL || cuts == NULL)
        rc = err_nomem(e);
    else
        rc = pack(c, pick, n, budget, in_wave, cuts, waves, e);
    free(in_wave);
    if (rc == ERR_OK)
        *first = cuts;
    else
        free(cuts);
    return rc;
}
