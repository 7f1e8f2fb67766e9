/*
** pickle.c - see pickle.h. A table gives every opcode its function and the
** function's argument. They return false once the error is set.
*/
#include "snapshot/pickle.h"

#include <stdlib.h>
#include <string.h>

/* What reading may take: real snapshots need about 8 bytes for each byte. */
#define MEMORY_FACTOR 24
#define MEMORY_LEAST ((size_t)1 << 20)
#define MEMORY_MOST ((size_t)8 << 30)

struct values {             /* a growing array; owned */
    struct pickle *at;
    size_t n, cap;
};

struct reader {
    const unsigned char *data;
    size_t len, at, opcode;     /* opcode: where the current one stands */
    const char *origin;
    struct arena *arena;
    struct values stack, memo;
    size_t *mark;               /* stack heights; owned */
    size_t n_mark, cap_mark;
    size_t taken, most;         /* memory */
    bool stopped;
    struct err *e;
};

static bool bad(const struct reader *r, const char *why)
{
    (void)err_set(r->e, ERR_INPUT, "%s: byte %zu: %s", r->origin, r->opcode,
                  why);
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
    if (n > (r->most - r->taken) / size)
        return bad(r, "the pickle needs too much memory for its size");
    r->taken += n * size;
    return true;
}

/* ---- bytes -------------------------------------------------------------- */

/* The next n bytes; NULL when there are fewer. */
static const unsigned char *take(struct reader *r, uint64_t n)
{
    const unsigned char *p = r->data + r->at;

    if (n > r->len - r->at) {
        (void)bad(r, "the file ends too early");
        return NULL;
    }
    r->at += (size_t)n;
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
    size_t cap = have + n > 2 * to->cap ? have + n : 2 * to->cap;
    struct pickle *p;

    if (n <= to->cap - have) return true;
    if (!budget(r, cap, sizeof *p)) return false;
    p = ARENA_TAKE(r->arena, (int64_t)cap, struct pickle);
    if (p == NULL) return no_memory(r);
    if (have > 0) memcpy(p, to->at, have * sizeof *p);
    to->at = p;
    to->cap = cap;
    return true;
}

/* Moves the values from "from" to the top into a container. */
static bool move(struct reader *r, struct pickle_items *to, unsigned type,
                 size_t from)
{
    size_t n = r->stack.n - from, per = per_item(type), have = to->n * per;

    if (n % per != 0) return bad(r, "a key without a value");
    if (n == 0) return true;
    if (!grow(r, to, have, n)) return false;
    memcpy(to->at + have, r->stack.at + from, n * sizeof *to->at);
    to->n += n / per;
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

static bool new_string(struct reader *r, unsigned width)
{
    const unsigned char *p;
    uint64_t n;

    if (!take_number(r, width, &n)) return false;
    p = take(r, n);
    if (p == NULL) return false;
    if (n > UINT32_MAX) return bad(r, "a string over 4 GiB");
    return push(r, (struct pickle){.type = PICKLE_STRING, .len = (uint32_t)n,
                                   .v.s = (const char *)p});
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

    if (!take_number(r, width, &n)) return false;
    return n <= r->len - r->at || bad(r, "the file ends too early");
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

static bool step(struct reader *r)
{
    const unsigned char *code;

    r->opcode = r->at;
    code = take(r, 1);
    if (code == NULL) return false;
    if (op[*code].run == NULL)
        return bad(r, "an opcode that no memory snapshot uses");
    return op[*code].run(r, op[*code].arg);
}

static bool read_all(struct reader *r, struct pickle *out)
{
    if (r->len < 2 || r->data[0] != 0x80)
        return bad(r, "not a pickle of protocol 2 to 5");
    while (!r->stopped)
        if (!step(r)) return false;
    if (r->n_mark > 0 || r->stack.n != 1)
        return bad(r, "the pickle ends with more or less than one value");
    if (r->at != r->len) return bad(r, "bytes follow the end of the pickle");
    *out = r->stack.at[0];
    return true;
}

int pickle_read(const char *data, size_t len, const char *origin,
                struct arena *a, struct pickle *out, struct err *e)
{
    struct err own;
    struct reader r = {.data = (const unsigned char *)data, .len = len,
                       .origin = origin, .arena = a,
                       .e = e != NULL ? e : &own};
    bool ok;

    r.most = len > MEMORY_MOST / MEMORY_FACTOR ? MEMORY_MOST
           : MEMORY_LEAST + MEMORY_FACTOR * len;
    ok = read_all(&r, out);
    free(r.stack.at);
    free(r.memo.at);
    free(r.mark);
    return ok ? ERR_OK : (int)r.e->code;
}

bool pickle_is(const struct pickle *s, const char *text)
{
    return s->type == PICKLE_STRING && s->len == strlen(text)
        && memcmp(s->v.s, text, s->len) == 0;
}

const struct pickle *pickle_get(const struct pickle *d, const char *key)
{
    const struct pickle_items *items = d->v.items;

    if (d->type != PICKLE_DICT || items->n > PICKLE_KEYS) return NULL;
    for (size_t i = items->n; i-- > 0;)
        if (pickle_is(&items->at[2 * i], key)) return &items->at[2 * i + 1];
    return NULL;
}

const char *pickle_type_name(const struct pickle *p)
{
    static const char *const name[] = {
        "None", "a bool", "an integer", "a float", "a string", "a list",
        "a tuple", "a dict", "an integer beyond 64 bits"
    };
    return name[p->type];
}
