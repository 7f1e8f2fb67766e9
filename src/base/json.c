/* json.c - see json.h */
#include "base/json.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clean.h"
#include "base/file.h"
#include "base/suggest.h"

#define DEFAULT_LIMIT ((size_t)64 << 20)

/* ---- memory ---------------------------------------------------------- */

/* jansson does not always say that its trouble was memory: a reader calls the
** text wrong, loses a letter, or trips over its own token; whoever sets a key
** in an object that could not be made may not look. So what it is refused is
** noted here; a reader is then served from a reserve, with which it goes on
** soundly to a result that is thrown away. */
static _Thread_local bool refused, reading;
static _Thread_local _Alignas(16) char reserve[16384];
static _Thread_local size_t reserve_used;

static void *take(size_t n)
{
    void *p = malloc(n);

    if (p != NULL) return p;
    refused = true;
    n = (n + 15) / 16 * 16;
    if (!reading || n > sizeof reserve - reserve_used) return NULL;
    p = reserve + reserve_used;
    reserve_used += n;
    return p;
}

/* What is of the reserve stays until the reader has ended. */
static void give(void *p)
{
    uintptr_t at = (uintptr_t)p, first = (uintptr_t)reserve;

    if (at < first || at >= first + sizeof reserve) free(p);
}

static void use_take(void)
{
    json_set_alloc_funcs(take, give);
}

static void js_init(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, use_take);
}

void js_begin(void)
{
    js_init();
    refused = false;
}

bool js_refused(void)
{
    return refused;
}

/* ---- reading --------------------------------------------------------- */

static bool find_too_big(const struct js *at, struct js *out)
{
    const char *key;
    json_t *v;
    int64_t i;

    if (json_is_real(at->v) && fabs(json_real_value(at->v)) >= 0x1p63) {
        *out = *at;
        return true;
    }
    for (i = 0; json_is_array(at->v) && i < js_size(at); i++) {
        struct js item = js_item(at, i);
        if (find_too_big(&item, out)) return true;
    }
    json_object_foreach(at->v, key, v) {
        struct js member = js_get(at, key);
        if (find_too_big(&member, out)) return true;
    }
    return false;
}

/* The reader says in which line a whole number leaves 64 bits; people look
** for the key. So read once more, such numbers as fractions. */
static int too_big(const char *text, size_t len, const char *origin,
                   const json_error_t *why, struct err *e)
{
    json_t *v = json_loadb(text, len, JSON_DECODE_INT_AS_REAL, NULL);
    struct js top = js_top(v, origin), at;
    int rc;

    if (v != NULL && find_too_big(&top, &at))
        rc = js_error(&at, e, "%g does not fit 64 bits (line %d)",
                      json_real_value(at.v), why->line);
    else
        rc = refused ? err_nomem(e)
                     : err_set(e, ERR_INPUT, "%s:%d: %s", origin, why->line,
                               why->text);
    json_decref(v);
    return rc;
}

int js_parse(const char *text, size_t len, const char *origin, json_t **out,
             struct err *e)
{
    bool before, short_of_memory;
    json_error_t why;
    json_t *v;

    js_init();
    before = refused;
    refused = false;
    reserve_used = 0;
    reading = true;
    v = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
    reading = false;
    short_of_memory = refused;
    refused = before;
    if (short_of_memory) {
        json_decref(v);
        return err_nomem(e);
    }
    if (v == NULL && json_error_code(&why) == json_error_numeric_overflow)
        return too_big(text, len, origin, &why, e);
    if (v == NULL)
        return err_set(e, ERR_INPUT, "%s:%d: not JSON: %s (column %d)", origin,
                       why.line, why.text, why.column);
    *out = v;
    return ERR_OK;
}

int js_load(const char *path, size_t limit, json_t **out, struct err *e)
{
    struct buf text = BUF_INIT;
    int rc = file_read(path, limit ? limit : DEFAULT_LIMIT, &text, e);
    size_t mark = text_mark(buf_text(&text), text.len);

    if (rc == ERR_OK)
        rc = js_parse(buf_text(&text) + mark, text.len - mark,
                      strcmp(path, "-") == 0 ? "standard input" : path, out,
                      e);
    buf_free(&text);
    return rc;
}

struct js js_top(json_t *v, const char *origin)
{
    struct js at = {v, origin, ""};
    return at;
}

int js_error(const struct js *at, struct err *e, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return err_set(e, ERR_INPUT, "%s: %s%s%s", at->origin, at->path,
                   at->path[0] ? ": " : "", text);
}

/* "an array", "a string", ... for messages. */
static const char *kind_of(const json_t *v)
{
    if (v == NULL) return "missing";
    switch (json_typeof(v)) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "an array";
    case JSON_STRING: return "a string";
    case JSON_INTEGER: return "a whole number";
    case JSON_REAL: return "a fraction";
    case JSON_TRUE: return "true";
    case JSON_FALSE: return "false";
    default: return "null";
    }
}

static int wrong_kind(const struct js *at, const char *want, struct err *e)
{
    return js_error(at, e, "must be %s, is %s", want, kind_of(at->v));
}

static int unknown_key(const struct js *at, const char *key,
                       const char *const *known, struct err *e)
{
    const char *near = suggest(key, known);

    if (near != NULL)
        return js_error(at, e, "unknown key '%.60s' (did you mean '%s'?)", key,
                        near);
    return js_error(at, e, "unknown key '%.60s'", key);
}

int js_object(const struct js *at, const char *const *known, struct err *e)
{
    const char *key;
    json_t *v;

    if (!json_is_object(at->v)) return wrong_kind(at, "an object", e);
    if (known == NULL) return ERR_OK;
    json_object_foreach(at->v, key, v) {
        const char *const *k = known;
        while (*k != NULL && strcmp(*k, key) != 0) k++;
        if (*k == NULL) return unknown_key(at, key, known, e);
    }
    return ERR_OK;
}

/* out->path = at->path + what, cut in front when too long. */
static void extend(const struct js *at, const char *what, struct js *out)
{
    size_t cap = sizeof out->path, old = strlen(at->path), add = strlen(what);

    out->origin = at->origin;
    if (add >= cap) add = cap - 1;
    if (old + add >= cap) old = cap - 1 - add;
    memmove(out->path, at->path, old);
    memcpy(out->path + old, what, add);
    out->path[old + add] = '\0';
}

struct js js_get(const struct js *object, const char *key)
{
    struct js out;
    char what[128];

    assert(key != NULL);
    snprintf(what, sizeof what, "%s%s", object->path[0] ? "." : "", key);
    extend(object, what, &out);
    out.v = json_object_get(object->v, key);
    return out;
}

bool js_is_null(const struct js *at)
{
    return at->v == NULL || json_is_null(at->v);
}

int js_need(const struct js *object, const char *key, struct js *out,
            struct err *e)
{
    struct js at;

    if (!json_is_object(object->v)) return wrong_kind(object, "an object", e);
    at = js_get(object, key);
    if (at.v == NULL) return js_error(&at, e, "missing");
    *out = at;
    return ERR_OK;
}

int js_array(const struct js *at, int64_t n, struct err *e)
{
    if (!json_is_array(at->v)) return wrong_kind(at, "an array", e);
    if (n >= 0 && js_size(at) != n)
        return js_error(at, e, "has %" PRId64 " elements, must have %" PRId64,
                        js_size(at), n);
    return ERR_OK;
}

int64_t js_size(const struct js *array)
{
    return (int64_t)json_array_size(array->v);
}

struct js js_item(const struct js *array, int64_t i)
{
    struct js out;
    char what[32];

    assert(i >= 0);
    snprintf(what, sizeof what, "[%" PRId64 "]", i);
    extend(array, what, &out);
    out.v = json_array_get(array->v, (size_t)i);
    return out;
}

int js_int(const struct js *at, int64_t lo, int64_t hi, int64_t *out,
           struct err *e)
{
    int64_t v;

    assert(lo <= hi);
    if (!json_is_integer(at->v)) return wrong_kind(at, "a whole number", e);
    v = (int64_t)json_integer_value(at->v);
    if (v < lo || v > hi)
        return js_error(at, e, "%" PRId64 " is not from %" PRId64 " to %"
                        PRId64, v, lo, hi);
    *out = v;
    return ERR_OK;
}

int js_double(const struct js *at, double *out, struct err *e)
{
    if (!json_is_number(at->v)) return wrong_kind(at, "a number", e);
    *out = json_number_value(at->v);
    return ERR_OK;
}

int js_bool(const struct js *at, bool *out, struct err *e)
{
    if (!json_is_boolean(at->v)) return wrong_kind(at, "true or false", e);
    *out = json_is_true(at->v);
    return ERR_OK;
}

int js_string(const struct js *at, const char **out, struct err *e)
{
    if (!json_is_string(at->v)) return wrong_kind(at, "a string", e);
    *out = json_string_value(at->v);
    return ERR_OK;
}

int js_need_int(const struct js *o, const char *key, int64_t lo, int64_t hi,
                int64_t *out, struct err *e)
{
    struct js at;
    int rc = js_need(o, key, &at, e);
    return rc != ERR_OK ? rc : js_int(&at, lo, hi, out, e);
}

int js_need_double(const struct js *o, const char *key, double *out,
                   struct err *e)
{
    struct js at;
    int rc = js_need(o, key, &at, e);
    return rc != ERR_OK ? rc : js_double(&at, out, e);
}

int js_need_bool(const struct js *o, const char *key, bool *out,
                 struct err *e)
{
    struct js at;
    int rc = js_need(o, key, &at, e);
    return rc != ERR_OK ? rc : js_bool(&at, out, e);
}

int js_need_string(const struct js *o, const char *key, const char **out,
                   struct err *e)
{
    struct js at;
    int rc = js_need(o, key, &at, e);
    return rc != ERR_OK ? rc : js_string(&at, out, e);
}

int js_opt_int(const struct js *o, const char *key, int64_t lo, int64_t hi,
               int64_t *out, struct err *e)
{
    struct js at = js_get(o, key);
    return at.v == NULL ? ERR_OK : js_int(&at, lo, hi, out, e);
}

int js_opt_double(const struct js *o, const char *key, double *out,
                  struct err *e)
{
    struct js at = js_get(o, key);
    return at.v == NULL ? ERR_OK : js_double(&at, out, e);
}

int js_opt_bool(const struct js *o, const char *key, bool *out,
                struct err *e)
{
    struct js at = js_get(o, key);
    return at.v == NULL ? ERR_OK : js_bool(&at, out, e);
}

int js_opt_string(const struct js *o, const char *key, const char **out,
                  struct err *e)
{
    struct js at = js_get(o, key);
    return at.v == NULL ? ERR_OK : js_string(&at, out, e);
}

int js_ints(const struct js *at, int64_t n, int64_t lo, int64_t hi,
            int64_t **out, int64_t *n_out, struct err *e)
{
    int rc = js_array(at, n, e);
    int64_t size = js_size(at), i, *v;

    assert(lo <= hi);
    if (rc != ERR_OK) return rc;
    v = calloc((size_t)size + 1, sizeof *v);
    if (v == NULL) return err_nomem(e);
    for (i = 0; i < size && rc == ERR_OK; i++) {
        struct js item = js_item(at, i);
        rc = js_int(&item, lo, hi, &v[i], e);
    }
    if (rc != ERR_OK) {
        free(v);
        return rc;
    }
    *out = v;
    if (n_out != NULL) *n_out = size;
    return ERR_OK;
}

/* ---- writing ------------------------------------------------------------ */

json_t *js_text(const char *text)
{
    size_t n = strlen(text), at = 0;
    char *copy;
    json_t *v;

    if (text_valid(text, n) == n) return json_string(text);
    copy = strdup(text);
    if (copy == NULL) return NULL;
    for (;;) {
        at += text_valid(copy + at, n - at);
        if (at == n) break;
        copy[at] = '?';
    }
    v = json_string(copy);
    free(copy);
    return v;
}

static void put_indent(struct buf *b, int depth)
{
    buf_putc(b, '\n');
    for (; depth > 0; depth--) buf_puts(b, "  ");
}

static void put_scalar(struct buf *b, const json_t *v)
{
    /* 15 digits: 7.45 stays 7.45 */
    char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));

    if (text == NULL)
        b->failed = true;
    else
        buf_puts(b, text);
    free(text);
}

static bool all_plain(const json_t *array)
{
    size_t i;
    json_t *v;

    json_array_foreach(array, i, v) {
        if (json_is_object(v) || json_is_array(v)) return false;
    }
    return true;
}

static void put_value(struct buf *b, const json_t *v, int depth);

static void put_array(struct buf *b, const json_t *array, int depth)
{
    bool plain = all_plain(array);
    size_t i;
    json_t *v;

    buf_putc(b, '[');
    json_array_foreach(array, i, v) {
        if (i > 0) buf_puts(b, plain ? ", " : ",");
        if (!plain) put_indent(b, depth + 1);
        put_value(b, v, depth + 1);
    }
    if (!plain) put_indent(b, depth);
    buf_putc(b, ']');
}

static void put_object(struct buf *b, const json_t *object, int depth)
{
    const char *sep = "", *key;
    json_t *v;

    buf_putc(b, '{');
    json_object_foreach((json_t *)(uintptr_t)object, key, v) {
        json_t *name = json_string(key);
        buf_puts(b, sep);
        put_indent(b, depth + 1);
        put_scalar(b, name);
        json_decref(name);
        buf_puts(b, ": ");
        put_value(b, v, depth + 1);
        sep = ",";
    }
    if (*sep != '\0') put_indent(b, depth);
    buf_putc(b, '}');
}

static void put_value(struct buf *b, const json_t *v, int depth)
{
    if (json_is_array(v))
        put_array(b, v, depth);
    else if (json_is_object(v))
        put_object(b, v, depth);
    else
        put_scalar(b, v);
}

void js_put(struct buf *b, const json_t *v)
{
    put_value(b, v, 0);
    buf_putc(b, '\n');
    if (refused) b->failed = true;
}
