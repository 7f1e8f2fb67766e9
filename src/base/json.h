/*
** json.h - strict walks over JSON, over jansson.
**
** A struct js is a value and where it stands, so that every complaint names
** file and path: "facts.json: groups[0].gdn_rows[1]: must be from 0 to ...".
** It borrows the jansson value; copy it freely. Integers stay 64-bit
** integers; 1.0 is not one, and neither is a number too big for 64 bits.
** Repeated keys are refused by the reader.
*/
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct js {
    json_t *v;              /* borrowed; NULL: not there */
    const char *origin;     /* file name for messages; borrowed */
    char path[192];         /* "" at the top */
};

/* Reads a file ("-": standard input; at most limit bytes, 0: 64 MiB; a mark of
** byte order is skipped), or text. The caller owns *out (json_decref); js_top
** makes the walker. */
int js_load(const char *path, size_t limit, json_t **out, struct err *e)
    MUST_CHECK;
int js_parse(const char *text, size_t len, const char *origin, json_t **out,
             struct err *e) MUST_CHECK;
struct js js_top(json_t *v, const char *origin);

/* jansson's memory. js_begin forgets what was refused in this thread;
** js_refused says whether anything was since, so that what was built may lack
** a part (a text that js_parse refuses does not count: it says so itself).
** js_put does not print such a thing. */
void js_begin(void);
bool js_refused(void);

/* An error about this value: "ORIGIN: PATH: text", ERR_INPUT. */
int js_error(const struct js *at, struct err *e, const char *fmt, ...)
    ERR_PRINTF(3, 4);

/* The value must be an object; with known (NULL-terminated) not NULL, one
** without other keys: an unknown key is named with the nearest known one. */
int js_object(const struct js *at, const char *const *known, struct err *e)
    MUST_CHECK;
/* The member; out->v is NULL when it is absent. null is a value: js_is_null.*/
struct js js_get(const struct js *object, const char *key);
bool js_is_null(const struct js *at);   /* absent or null */
int js_need(const struct js *object, const char *key, struct js *out,
            struct err *e) MUST_CHECK;
/* The value must be an array (of n elements, n >= 0). */
int js_array(const struct js *at, int64_t n, struct err *e) MUST_CHECK;
int64_t js_size(const struct js *array);
struct js js_item(const struct js *array, int64_t i);

/* The value itself as what it must be. Strings are borrowed. */
int js_int(const struct js *at, int64_t lo, int64_t hi, int64_t *out,
           struct err *e) MUST_CHECK;
int js_double(const struct js *at, double *out, struct err *e) MUST_CHECK;
int js_bool(const struct js *at, bool *out, struct err *e) MUST_CHECK;
int js_string(const struct js *at, const char **out, struct err *e) MUST_CHECK;
/* A member that must be there, ... */
int js_need_int(const struct js *o, const char *key, int64_t lo, int64_t hi,
                int64_t *out, struct err *e) MUST_CHECK;
int js_need_double(const struct js *o, const char *key, double *out,
                   struct err *e) MUST_CHECK;
int js_need_bool(const struct js *o, const char *key, bool *out,
                 struct err *e) MUST_CHECK;
int js_need_string(const struct js *o, const char *key, const char **out,
                   struct err *e) MUST_CHECK;
/* ... or one that may be absent (null is not absent, and an error): then
** *out keeps what the caller put there. */
int js_opt_int(const struct js *o, const char *key, int64_t lo, int64_t hi,
               int64_t *out, struct err *e) MUST_CHECK;
int js_opt_double(const struct js *o, const char *key, double *out,
                  struct err *e) MUST_CHECK;
int js_opt_bool(const struct js *o, const char *key, bool *out,
                struct err *e) MUST_CHECK;
int js_opt_string(const struct js *o, const char *key, const char **out,
                  struct err *e) MUST_CHECK;
/* An array of integers, of n elements when n >= 0; *out is malloc'ed (never
** NULL on success), its length in *n_out (may be NULL). */
int js_ints(const struct js *at, int64_t n, int64_t lo, int64_t hi,
            int64_t **out, int64_t *n_out, struct err *e) MUST_CHECK;

/* A string value of any text: bytes that are no UTF-8, which JSON cannot hold,
** become '?'. NULL: out of memory. */
json_t *js_text(const char *text);

/* Appends the value as text: keys in the order they were set, two blanks of
** indent, arrays of plain numbers on one line, a final line end. *b fails when
** js_refused. */
void js_put(struct buf *b, const json_t *v);

#endif
