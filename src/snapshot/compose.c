/* compose.c - see compose.h */
#include "snapshot/compose.h"

#include <assert.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/category.h"
#include "base/clean.h"
#include "base/hash.h"

const char *const compose_names[] = {
    [BY_FRAME] = "frame", [BY_MODULE] = "module", [BY_FILE] = "file",
    [BY_CATEGORY] = "category", [BY_SIZE] = "size", [BY_STREAM] = "stream",
    [BY_POOL] = "pool", [BY_AGE] = "age", [BY_PATTERN] = NULL
};

static const char *const unknown_key = "(no frames)";
static const char *const before_key = "(before the trace)";

/* ---- keys --------------------------------------------------------------- */

static void frame_key(const struct stack_frame *f, char *key, size_t n)
{
    snprintf(key, n, "%s (%s:%" PRIu64 ")", f->name, f->file, f->line);
}

/* ".../site-packages/transformers/models/x.py" is transformers.models.x. */
static void module_key(const struct stack_frame *f, char *key, size_t n)
{
    const char *at = strstr(f->file, "-packages/");
    size_t len;

    at = at != NULL ? strchr(at, '/') + 1 : f->file;
    while (*at == '/' || (*at == '.' && at[1] == '/')) at++;
    snprintf(key, n, "%s", at);
    len = strlen(key);
    if (len > 3 && strcmp(key + len - 3, ".py") == 0) key[len - 3] = '\0';
    for (char *c = key; *c != '\0'; c++)
        if (*c == '/') *c = '.';
}

/* Our own files say "phase/category" or "phase/category/layer N". */
static const char *own_category(const struct snapshot *s, uint32_t stack,
                                char *key, size_t n)
{
    const struct stack_frame *f;
    const char *at;
    size_t len;

    if (stacks_depth(&s->stacks, stack) == 0) return NULL;
    f = stacks_at(&s->stacks, stack, 0);
    at = strchr(f->file, '/');
    if (at == NULL) return NULL;
    len = strcspn(++at, "/");
    for (int c = 0; c < CAT_COUNT; c++) {
        const char *name = category_name((enum category)c);

        if (strlen(name) != len || strncmp(name, at, len) != 0) continue;
        snprintf(key, n, "%s", name);
        return key;
    }
    return NULL;
}

static void pattern_key(const struct snapshot *s, const struct patterns *p,
                        uint32_t stack, char *key, size_t n)
{
    uint32_t depth = stacks_depth(&s->stacks, stack);

    for (int64_t i = 0; i < p->n; i++)
        for (uint32_t k = 0; k < depth; k++) {
            frame_key(stacks_at(&s->stacks, stack, k), key, n);
            if (fnmatch(p->line[i].glob, key, 0) != 0) continue;
            snprintf(key, n, "%s", p->line[i].group);
            return;
        }
    snprintf(key, n, "%s", depth > 0 ? "(no pattern)" : unknown_key);
}

static void age_key(int64_t age, char *key, size_t n)
{
    int64_t most = 10;

    while (most <= age) most *= 10;
    snprintf(key, n, most == 10 ? "under 10 events" : "%" PRId64 " to %"
             PRId64 " events", most / 10, most - 1);
}

static void place_key(const struct snapshot *s, enum compose_by by,
                      const struct patterns *p, const struct live_block *b,
                      char *key, size_t n)
{
    const struct stack_frame *f = compose_user_frame(&s->stacks, b->stack);

    if (f == NULL)
        snprintf(key, n, "%s", b->event < 0 ? before_key : unknown_key);
    else if (by == BY_FRAME)
        frame_key(f, key, n);
    else if (by == BY_MODULE)
        module_key(f, key, n);
    else if (by == BY_FILE)
        snprintf(key, n, "%s", f->file);
    else
        pattern_key(s, p, b->stack, key, n);
}

void compose_key(const struct snapshot *s, enum compose_by by,
                 const struct patterns *p, const struct live_block *b,
                 int64_t now, char *key, size_t n)
{
    const struct snapshot_lane *l = s->n_lane > 0 ? &s->lane[b->lane] : NULL;

    assert(n > 0);
    assert(by != BY_PATTERN || p != NULL);
    if (by == BY_SIZE)
        snprintf(key, n, "%" PRIu64 " B", b->requested);
    else if (by == BY_STREAM)
        snprintf(key, n, "stream %" PRIu64, l->stream);
    else if (by == BY_POOL)
        snprintf(key, n, "pool (%" PRIu32 ", %" PRIu32 ")", l->pool[0],
                 l->pool[1]);
    else if (by == BY_AGE && b->event < 0)
        snprintf(key, n, "%s", before_key);
    else if (by == BY_AGE)
        age_key(now - b->event, key, n);
    else if (by == BY_CATEGORY && b->category != 0)
        snprintf(key, n, "%s", s->category[b->category - 1]);
    else if (by != BY_CATEGORY)
        place_key(s, by, p, b, key, n);
    else if (own_category(s, b->stack, key, n) == NULL)
        snprintf(key, n, "(no category)");
    text_clean(key);
}

/* ---- groups ------------------------------------------------------------- */

struct table {              /* groups by key */
    struct composition *c;
    int64_t *slot;          /* index plus 1 */
    size_t cap;
};

static uint64_t hash(const char *s)
{
    uint64_t h = hash_text(HASH_START, s);

    return h ^ h >> 29;
}

/* Twice as many groups and slots, all entered anew. */
static bool table_grow(struct table *t)
{
    size_t cap = t->cap > 0 ? 2 * t->cap : 64;
    int64_t *slot = calloc(cap, sizeof *slot);
    struct group *g = realloc(t->c->group, cap / 2 * sizeof *g);

    if (g != NULL) t->c->group = g;
    if (slot == NULL || g == NULL) {
        free(slot);
        return false;
    }
    for (int64_t i = 0; i < t->c->n_group; i++) {
        size_t at = hash(t->c->group[i].key) & (cap - 1);

        while (slot[at] != 0) at = (at + 1) & (cap - 1);
        slot[at] = i + 1;
    }
    free(t->slot);
    t->slot = slot;
    t->cap = cap;
    return true;
}

/* The group of a key, new or known; NULL: no host memory. */
static struct group *table_get(struct table *t, const char *key)
{
    struct composition *c = t->c;
    size_t at;

    if (2 * ((size_t)c->n_group + 1) > t->cap && !table_grow(t)) return NULL;
    at = hash(key) & (t->cap - 1);
    for (; t->slot[at] != 0; at = (at + 1) & (t->cap - 1))
        if (strcmp(c->group[t->slot[at] - 1].key, key) == 0)
            return &c->group[t->slot[at] - 1];
    c->group[c->n_group] = (struct group){strdup(key), 0, 0};
    if (c->group[c->n_group].key == NULL) return NULL;
    t->slot[at] = ++c->n_group;
    return &c->group[c->n_group - 1];
}

static int most_first(const void *a, const void *b)
{
    const struct group *x = a, *y = b;

    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    return strcmp(x->key, y->key);
}

/* Keeps the ten largest, the earlier of equals first. */
static void note_large(struct composition *c, const struct live_block *b)
{
    const int most = (int)(sizeof c->largest / sizeof *c->largest);
    int at = c->n_largest;

    while (at > 0 && (c->largest[at - 1].size < b->size
                      || (c->largest[at - 1].size == b->size
                          && c->largest[at - 1].addr > b->addr)))
        at--;
    if (at == most) return;
    if (c->n_largest < most) c->n_largest++;
    memmove(&c->largest[at + 1], &c->largest[at],
            (size_t)(c->n_largest - at - 1) * sizeof *b);
    c->largest[at] = *b;
}

/* Groups what is live now; the caller has walked to the event. */
static int compose_now(const struct snapshot *s, const struct live *l,
                       enum compose_by by, const struct patterns *p,
                       struct composition *c, struct err *e)
{
    struct table t = {.c = c};
    int rc = ERR_OK;

    for (int64_t i = 0; i < l->n && rc == ERR_OK; i++) {
        const struct live_block *b = &l->block[i];
        struct group *g;
        char key[512];

        compose_key(s, by, p, b, c->event, key, sizeof key);
        g = table_get(&t, key);
        if (g == NULL) {
            rc = err_nomem(e);
            break;
        }
        g->bytes += b->size;
        g->blocks++;
        c->allocated += b->size;
        if (b->event < 0) c->before += b->size;
        note_large(c, b);
    }
    free(t.slot);
    if (c->n_group > 0)
        qsort(c->group, (size_t)c->n_group, sizeof *c->group, most_first);
    return rc;
}

int compose(const struct snapshot *s, const struct rewind *start,
            const struct walk *w, enum compose_by by,
            const struct patterns *p, const int64_t *event, int64_t n,
            struct composition *out, struct err *e)
{
    struct live_block gone;
    struct live l;
    int64_t at = -1;
    int rc = live_start(&l, s, start, w) ? ERR_OK : err_nomem(e);

    assert(n >= 0 && w->events == s->device[w->device].n_event);
    for (int64_t i = 0; i < n; i++)
        out[i] = (struct composition){.event = event[i]};
    for (int64_t i = 0; i < n && rc == ERR_OK; i++) {
        while (at < event[i] && rc == ERR_OK)
            if (!live_step(&l, ++at, &gone)) rc = err_nomem(e);
        if (rc == ERR_OK) rc = compose_now(s, &l, by, p, &out[i], e);
    }
    live_free(&l);
    return rc;
}

void composition_free(struct composition *c)
{
    for (int64_t i = 0; i < c->n_group; i++) free(c->group[i].key);
    free(c->group);
    *c = (struct composition){0};
}

/* ---- changes ------------------------------------------------------------ */

static int by_key(const void *a, const void *b)
{
    return strcmp(((const struct change *)a)->key,
                  ((const struct change *)b)->key);
}

static int largest_change(const void *a, const void *b)
{
    const struct change *x = a, *y = b;
    int64_t i = llabs(x->after - x->before), j = llabs(y->after - y->before);

    return i != j ? (i < j ? 1 : -1) : strcmp(x->key, y->key);
}

int compose_change(const struct composition *from,
                   const struct composition *to, struct change **out,
                   int64_t *n, struct err *e)
{
    int64_t all = from->n_group + to->n_group, k = 0;
    struct change *c = calloc((size_t)all + 1, sizeof *c);

    if (c == NULL) return err_nomem(e);
    for (int64_t i = 0; i < from->n_group; i++)
        c[k++] = (struct change){from->group[i].key,
                                 (int64_t)from->group[i].bytes, 0};
    for (int64_t i = 0; i < to->n_group; i++)
        c[k++] = (struct change){to->group[i].key, 0,
                                 (int64_t)to->group[i].bytes};
    qsort(c, (size_t)k, sizeof *c, by_key);
    *n = 0;
    for (int64_t i = 0; i < k; i++) {
        if (*n > 0 && strcmp(c[*n - 1].key, c[i].key) == 0) {
            c[*n - 1].before += c[i].before;
            c[*n - 1].after += c[i].after;
        } else {
            c[(*n)++] = c[i];
        }
    }
    qsort(c, (size_t)*n, sizeof *c, largest_change);
    *out = c;
    return ERR_OK;
}
