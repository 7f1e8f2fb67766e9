/*
** pickle.c - see pickle.h. A table gives every opcode its function and the
** function's argument; the few that make up nearly all of a snapshot are done
** in the loop. All return false once the error is set.
*/
#include "snapshot/pickle.h"

#include <stdlib.h>
#include <string.h>

#include "snapshot/window.h"

/* What reading may take: real snapshots need less than a byte for a byte. */
#define MEMORY_FACTOR 24
#define MEMORY_LEAST ((uint64_t)1 << 20)

enum { WORD_LENGTHS = 32, WORDS_MOST = 64 };

struct values {             /* a growing array; owned */
    struct pickle *at;
    size_t n, cap;
};

struct reader {
    struct window w;
    uint64_t opcode;            /* where the current one stands */
    const struct pickle_hooks *hooks;
    uint16_t words[WORD_LENGTHS][WORDS_MOST + 1];   /* by length, 0 ends */
    const char *origin;
    struct arena *arena;
    struct values stack, memo;
    size_t *mark;               /* stack heights; owned */
    size_t n_mark, cap_mark;
    uint64_t taken;             /* memory */
    bool stopped;
    struct err *e;
};

static bool bad(const struct reader *r, const char *why)
{
    (void)err_set(r->e, ERR_INPUT, "%s: byte %llu: %s", r->origin,
                  (unsigned long long)r->opcode, why);
    return false;
}

static bool no_memory(const struct reader *r)
{
    (void)err_nomem(r->e);
    return false;
}

/* Counts memory before it is taken. */
static bool budget(struct reader *r, size_t n, size_t size)
{
    uint64_t most = MEMORY_LEAST + MEMORY_FACTOR * (r->w.gone + r->w.len);

    if (n > (most - r->taken) / size)
        return bad(r, "the pickle needs too much memory for its size");
    r->taken += n * size;
    return true;
}

/* ---- bytes -------------------------------------------------------------- */

/* The next n bytes, until more are taken; NULL when there are fewer. */
static const unsigned char *take(struct reader *r, uint64_t n)
{
    const char *why = NULL;
    const unsigned char *p = window_take(&r->w, n, &why, r->e);

    if (p == NULL && why != NULL) (void)bad(r, why);
    return p;
}

/* A little-endian number of width (at most 8) bytes. */
static bool take_number(struct reader *r, unsigned width, uint64_t *out)
{
    const unsigned char *p = take(r, width);
    uint64_t v = 0;

    if (p == NULL) return false;
    while (width-- > 0) v = v << 8 | p[width];
    *out = v;
    return true;
}

/* ---- stack -------------------------------------------------------------- */

static bool add(struct reader *r, struct values *a, struct pickle v)
{
    if (a->n == a->cap) {
        size_t cap = a->cap > 0 ? 2 * a->cap : 256;
        struct pickle *p;

        if (!budget(r, cap - a->cap, sizeof *p)) return false;
        p = realloc(a->at, cap * sizeof *p);
        if (p == NULL) return no_memory(r);
        a->at = p;
        a->cap = cap;
    }
    a->at[a->n++] = v;
    return true;
}

static bool push(struct reader *r, struct pickle v)
{
    return add(r, &r->stack, v);
}

static bool push_uint(struct reader *r, uint64_t u)
{
    return push(r, (struct pickle){.type = PICKLE_INT, .v.u = u});
}

static bool push_int(struct reader *r, int64_t i)
{
    return push(r, (struct pickle){.type = PICKLE_INT, .negative = i < 0,
                                   .v.i = i});
}

/* The values above the topmost mark belong to it and are all that can be
** reached: there must be n of them. */
static bool need(const struct reader *r, size_t n)
{
    size_t floor = r->n_mark > 0 ? r->mark[r->n_mark - 1] : 0;

    return r->stack.n - floor >= n || bad(r, "the stack is empty");
}

static bool push_mark(struct reader *r, unsigned arg)
{
    (void)arg;
    if (r->n_mark == r->cap_mark) {
        size_t cap = r->cap_mark > 0 ? 2 * r->cap_mark : 64;
        size_t *p;

        if (!budget(r, cap - r->cap_mark, sizeof *p)) return false;
        p = realloc(r->mark, cap * sizeof *p);
        if (p == NULL) return no_memory(r);
        r->mark = p;
        r->cap_mark = cap;
    }
    r->mark[r->n_mark++] = r->stack.n;
    return true;
}

/* Takes down the topmost mark; *from is the first value above it. */
static bool pop_mark(struct reader *r, size_t *from)
{
    if (r->n_mark == 0) return bad(r, "no mark on the stack");
    *from = r->mark[--r->n_mark];
    return true;
}

/* ---- containers --------------------------------------------------------- */

static size_t per_item(unsigned type)
{
    return type == PICKLE_DICT ? 2 : 1;
}

/* Makes room for n more values beside the first "have". */
static bool grow(struct reader *r, struct pickle_items *to, size_t have,
                 size_t n)
{
    size_t cap = to->room > 0 ? (size_t)1 << (to->room - 1) : 0;
    uint8_t room = to->room > 0 ? to->room : 1;
    struct pickle *p;

    if (n <= cap - have) return true;
    if (n > UINT32_MAX - have) return bad(r, "a list of over 2^32 values");
    while ((size_t)1 << (room - 1) < have + n) room++;
    cap = (size_t)1 << (room - 1);
    if (!budget(r, cap, sizeof *p)) return false;
    p = ARENA_TAKE(r->arena, (int64_t)cap, struct pickle);
    if (p == NULL) return no_memory(r);
    if (have > 0) memcpy(p, to->u.at, have * sizeof *p);
    to->u.at = p;
    to->room = room;
    return true;
}

/* Shows the hooks what fills a container; true when all is well, and *taken
** when nothing is left to do. */
static bool offer(struct reader *r, struct pickle_items *to, unsigned type,
                  const struct pickle *v, size_t n, bool *taken)
{
    const struct pickle_hooks *h = r->hooks;
    struct err why = {0};
    int rc = ERR_OK;

    *taken = false;
    if (h == NULL) return true;
    if (type == PICKLE_DICT && to->held != 0)
        return bad(r, "a dict that is filled twice");
    if (to->held == 0 && to->n > 0) return true;
    if (type != PICKLE_DICT)
        rc = h->list(h->ctx, type, v, n, to, &why);
    else if (n > 2)         /* a single pair may be one of many to come */
        rc = h->dict(h->ctx, v, n / 2, to, &why);
    *taken = to->held != 0;
    if (rc == ERR_INPUT) return bad(r, why.text);
    if (rc != ERR_OK) return no_memory(r);
    return true;
}

/* Moves the values from "from" to the top into a container. */
static bool move(struct reader *r, struct pickle_items *to, unsigned type,
                 size_t from)
{
    size_t n = r->stack.n - from, per = per_item(type), have = to->n * per;
    const struct pickle *v;
    bool taken;

    if (n % per != 0) return bad(r, "a key without a value");
    if (n == 0) return true;
    v = r->stack.at + from;
    if (!offer(r, to, type, v, n, &taken)) return false;
    if (!taken) {
        if (!grow(r, to, have, n)) return false;
        memcpy(to->u.at + have, v, n * sizeof *v);
        to->n += (uint32_t)(n / per);
    }
    r->stack.n = from;
    return true;
}

/* A new container of the values from "from" to the top, which it replaces. */
static bool collect(struct reader *r, unsigned type, size_t from)
{
    struct pickle_items *items;

    if (!budget(r, 1, sizeof *items)) return false;
    items = ARENA_TAKE(r->arena, 1, struct pickle_items);
    if (items == NULL) return no_memory(r);
    if (!move(r, items, type, from)) return false;
    return push(r, (struct pickle){.type = (uint8_t)type, .v.items = items});
}

static bool new_empty(struct reader *r, unsigned type)
{
    return collect(r, type, r->stack.n);
}

static bool new_tuple(struct reader *r, unsigned n)
{
    return need(r, n) && collect(r, PICKLE_TUPLE, r->stack.n - n);
}

static bool new_marked(struct reader *r, unsigned type)
{
    size_t from;

    return pop_mark(r, &from) && collect(r, type, from);
}

/* Moves the n values on top into the container below them. */
static bool add_items(struct reader *r, unsigned type, size_t n)
{
    const struct pickle *c;

    if (!need(r, n + 1)) return false;
    c = &r->stack.at[r->stack.n - n - 1];
    if (c->type != type)
        return bad(r, "items for what is neither a list nor a dict");
    return move(r, c->v.items, type, r->stack.n - n);
}

static bool add_one(struct reader *r, unsigned type)
{
    return add_items(r, type, per_item(type));
}

static bool add_marked(struct reader *r, unsigned type)
{
    size_t from;

    return pop_mark(r, &from) && add_items(r, type, r->stack.n - from);
}

/* ---- plain values ------------------------------------------------------- */

static bool new_none(struct reader *r, unsigned arg)
{
    (void)arg;
    return push(r, (struct pickle){.type = PICKLE_NONE});
}

static bool new_bool(struct reader *r, unsigned value)
{
    return push(r, (struct pickle){.type = PICKLE_BOOL, .v.b = value != 0});
}

static bool new_uint(struct reader *r, unsigned width)
{
    uint64_t u;

    return take_number(r, width, &u) && push_uint(r, u);
}

static bool new_int32(struct reader *r, unsigned width)
{
    uint64_t u;

    return take_number(r, width, &u)
        && push_int(r, (int64_t)(int32_t)(uint32_t)u);
}

/* Two's complement, little-endian; what lies beyond 64 bits must be the sign
** alone. */
static bool new_long(struct reader *r, unsigned width)
{
    const unsigned char *p;
    uint64_t n, v = 0;
    bool negative, big = false;

    if (!take_number(r, width, &n)) return false;
    p = take(r, n);
    if (p == NULL) return false;
    negative = n > 0 && p[n - 1] >= 0x80;
    for (uint64_t i = 8; i < n; i++)
        if (p[i] != (negative ? 0xff : 0)) big = true;
    for (uint64_t i = 8; i-- > 0;)
        v = v << 8 | (i < n ? p[i] : negative ? 0xff : 0);
    if (big || (negative && v >> 63 == 0))
        return push(r, (struct pickle){.type = PICKLE_BIG});
    return negative ? push_int(r, (int64_t)v) : push_uint(r, v);
}

static bool new_float(struct reader *r, unsigned width)
{
    const unsigned char *p = take(r, width);
    uint64_t v = 0;
    double f;

    if (p == NULL) return false;
    for (unsigned i = 0; i < width; i++) v = v << 8 | p[i];
    memcpy(&f, &v, sizeof f);
    return push(r, (struct pickle){.type = PICKLE_FLOAT, .v.f = f});
}

/* The number of the word that s is; 0: none. */
static uint16_t word_of(const struct reader *r, const unsigned char *s,
                        uint64_t n)
{
    const uint16_t *w;

    if (n >= WORD_LENGTHS) return 0;
    for (w = r->words[n]; *w != 0; w++)
        if (memcmp(r->hooks->word[*w - 1], s, (size_t)n) == 0) return *w;
    return 0;
}

/* A word that hooks know becomes theirs: no copy, and compared by number. */
static bool new_string(struct reader *r, unsigned width)
{
    struct pickle v = {.type = PICKLE_STRING};
    const unsigned char *p;
    uint64_t n;

    if (!take_number(r, width, &n)) return false;
    p = take(r, n);
    if (p == NULL) return false;
    if (n > UINT32_MAX) return bad(r, "a string over 4 GiB");
    v.len = (uint32_t)n;
    v.word = word_of(r, p, n);
    if (v.word != 0) {
        v.v.s = r->hooks->word[v.word - 1];
    } else {
        char *copy;

        if (!budget(r, (size_t)n + 1, 1)) return false;
        copy = ARENA_TAKE(r->arena, (int64_t)n + 1, char);
        if (copy == NULL) return no_memory(r);
        memcpy(copy, p, (size_t)n);
        v.v.s = copy;
    }
    return push(r, v);
}

/* ---- memo --------------------------------------------------------------- */

/* Entries come in order, from 0 or from 1. */
static bool put(struct reader *r, uint64_t index)
{
    struct pickle top;

    if (!need(r, 1)) return false;
    top = r->stack.at[r->stack.n - 1];
    if (index == 1 && r->memo.n == 0
        && !add(r, &r->memo, (struct pickle){.type = PICKLE_NONE}))
        return false;
    if (index > r->memo.n) return bad(r, "a memo entry out of order");
    if (index == r->memo.n) return add(r, &r->memo, top);
    r->memo.at[index] = top;
    return true;
}

static bool put_next(struct reader *r, unsigned arg)
{
    (void)arg;
    return put(r, r->memo.n);
}

static bool put_numbered(struct reader *r, unsigned width)
{
    uint64_t index;

    return take_number(r, width, &index) && put(r, index);
}

static bool get(struct reader *r, unsigned width)
{
    uint64_t index;

    if (!take_number(r, width, &index)) return false;
    if (index >= r->memo.n) return bad(r, "no such memo entry");
    return push(r, r->memo.at[index]);
}

/* ---- frame and end ------------------------------------------------------ */

static bool protocol(struct reader *r, unsigned width)
{
    uint64_t version;

    if (!take_number(r, width, &version)) return false;
    return (version >= 2 && version <= 5)
        || bad(r, "the pickle's protocol is not 2 to 5");
}

static bool frame(struct reader *r, unsigned width)
{
    uint64_t n;

    /* a frame's length says nothing that what is in it does not */
    if (!take_number(r, width, &n)) return false;
    return r->w.in->fill != NULL || n <= r->w.len - r->w.at
        || bad(r, "the file ends too early");
}

static bool stop(struct reader *r, unsigned arg)
{
    (void)arg;
    r->stopped = true;
    return true;
}

static bool refuse(struct reader *r, unsigned arg)
{
    (void)arg;
    return bad(r, "the pickle would make objects or run code; a memory "
               "snapshot does not");
}

static const struct {
    bool (*run)(struct reader *r, unsigned arg);
    unsigned arg;
} op[256] = {
    [0x80] = {protocol, 1}, [0x95] = {frame, 8}, ['.'] = {stop, 0},
    ['('] = {push_mark, 0},
    ['}'] = {new_empty, PICKLE_DICT}, [']'] = {new_empty, PICKLE_LIST},
    ['d'] = {new_marked, PICKLE_DICT}, ['l'] = {new_marked, PICKLE_LIST},
    ['t'] = {new_marked, PICKLE_TUPLE}, [')'] = {new_tuple, 0},
    [0x85] = {new_tuple, 1}, [0x86] = {new_tuple, 2}, [0x87] = {new_tuple, 3},
    ['a'] = {add_one, PICKLE_LIST}, ['s'] = {add_one, PICKLE_DICT},
    ['e'] = {add_marked, PICKLE_LIST}, ['u'] = {add_marked, PICKLE_DICT},
    ['N'] = {new_none, 0}, [0x88] = {new_bool, 1}, [0x89] = {new_bool, 0},
    ['K'] = {new_uint, 1}, ['M'] = {new_uint, 2}, ['J'] = {new_int32, 4},
    [0x8a] = {new_long, 1}, [0x8b] = {new_long, 4}, ['G'] = {new_float, 8},
    [0x8c] = {new_string, 1}, ['X'] = {new_string, 4},
    [0x8d] = {new_string, 8},
    [0x94] = {put_next, 0}, ['q'] = {put_numbered, 1},
    ['r'] = {put_numbered, 4}, ['h'] = {get, 1}, ['j'] = {get, 4},
    /* GLOBAL, STACK_GLOBAL, REDUCE, BUILD, INST, OBJ, NEWOBJ, NEWOBJ_EX,
    ** PERSID, BINPERSID, EXT1, EXT2, EXT4 */
    ['c'] = {refuse, 0}, [0x93] = {refuse, 0}, ['R'] = {refuse, 0},
    ['b'] = {refuse, 0}, ['i'] = {refuse, 0}, ['o'] = {refuse, 0},
    [0x81] = {refuse, 0}, [0x92] = {refuse, 0}, ['P'] = {refuse, 0},
    ['Q'] = {refuse, 0}, [0x82] = {refuse, 0}, [0x83] = {refuse, 0},
    [0x84] = {refuse, 0},
};

/* ---- reading ------------------------------------------------------------ */

/* Most of a snapshot's bytes name frames that were named before. */
static bool get_run(struct reader *r)
{
    struct window *w = &r->w;

    while (w->len - w->at >= 5 && w->data[w->at] == 'j') {
        const unsigned char *p = w->data + w->at + 1;
        uint32_t i = p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16
                   | (uint32_t)p[3] << 24;

        if (i >= r->memo.n) break;
        if (r->stack.n == r->stack.cap) {
            if (!push(r, r->memo.at[i])) return false;
        } else {
            r->stack.at[r->stack.n++] = r->memo.at[i];
        }
        w->at += 5;
    }
    return true;
}

static bool step(struct reader *r)
{
    const unsigned char *code;

    r->opcode = r->w.gone + r->w.at;
    code = take(r, 1);
    if (code == NULL) return false;
    if (op[*code].run == NULL)
        return bad(r, "an opcode that no memory snapshot uses");
    return op[*code].run(r, op[*code].arg);
}

static bool check_start(struct reader *r)
{
    const unsigned char *p = NULL;
    struct err why = {0};
    int rc = window_peek(&r->w, 2, &p, &why);

    if (rc != ERR_OK) {
        *r->e = why;
        return false;
    }
    if (p != NULL && p[0] == 0x1f && p[1] == 0x8b)
        return bad(r, "compressed by gzip (zcat FILE | peakproof replay -)");
    return (p != NULL && p[0] == 0x80)
        || bad(r, "not a pickle of protocol 2 to 5");
}

/* Nothing may follow; a stream is read on to its end to know. */
static bool check_end(struct reader *r, struct pickle *out)
{
    const unsigned char *more = NULL;

    if (r->n_mark > 0 || r->stack.n != 1)
        return bad(r, "the pickle ends with more or less than one value");
    if (window_peek(&r->w, 1, &more, r->e) != ERR_OK) return false;
    if (more != NULL) return bad(r, "bytes follow the end of the pickle");
    *out = r->stack.at[0];
    return true;
}

static bool read_all(struct reader *r, struct pickle *out)
{
    if (!check_start(r)) return false;
    while (!r->stopped) {
        if (!step(r) || !get_run(r)) return false;
    }
    return check_end(r, out);
}

static void sort_words(struct reader *r)
{
    size_t n;

    for (uint16_t i = 0; r->hooks->word[i] != NULL; i++) {
        uint16_t *w = r->words[strlen(r->hooks->word[i])];

        for (n = 0; w[n] != 0; n++) {}
        w[n] = (uint16_t)(i + 1);
    }
}

int pickle_stream(const struct pickle_input *in, const char *origin,
                  const struct pickle_hooks *hooks, struct arena *a,
                  struct pickle *out, uint64_t *read, struct err *e)
{
    struct err own;
    struct reader r = {.w = WINDOW_INIT(in), .hooks = hooks,
                       .origin = origin, .arena = a,
                       .e = e != NULL ? e : &own};
    bool ok;

    if (hooks != NULL) sort_words(&r);
    ok = read_all(&r, out);
    if (read != NULL) *read = r.w.gone + r.w.at;
    free(r.w.own);
    free(r.stack.at);
    free(r.memo.at);
    free(r.mark);
    return ok ? ERR_OK : (int)r.e->code;
}
