/*
** decl.h - strict reading of the tables that a script declares.
**
** A table is opened with the keys it may have; any other key, a list part, or
** a metatable is an error. Then each key is read as what it must be. Every
** complaint is a Lua error "FILE:LINE: WHAT: KEY: why (remedy)"; the line is
** that of the table's origin where it has one, of the key in the text where it
** can be told (source.h), else of the running Lua function, else of the
** declaration that decl_near found.
**
** All functions raise, and leave the Lua stack as they found it unless said.
** Strings and arrays are written through pointers to their owner at once, so
** that nothing is lost when a later key raises.
** Inside src/script.
*/
#ifndef SCRIPT_DECL_H
#define SCRIPT_DECL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "script/state.h"

enum field_type {
    FIELD_INT,              /* int64_t in [lo, hi] */
    FIELD_NUMBER,           /* double in [lo, hi] */
    FIELD_FLAG,             /* bool */
    FIELD_TEXT,             /* char *, owned, not empty */
    FIELD_OTHER             /* read by the caller */
};

struct field {
    const char *key;
    enum field_type type;
    size_t offset;          /* into the struct given to decl_fields */
    int64_t lo, hi;
};

struct decl {
    lua_State *L;
    int table;              /* absolute index */
    char what[160];         /* "case 'real-40'"; "" at the top of a file */
    /* where to look for its keys, and the place of a complaint without one;
    ** line 0: unknown */
    char file[LUA_IDSIZE];
    int line;
    /* of a case: its line is looked for when there is a complaint, and is
    ** that place then; borrowed of the table, or NULL */
    const char *name;
    /* "FILE:LINE" of what the table was made of, which is the place of every
    ** complaint then; borrowed, or NULL */
    const char *origin;
};

#define DECL_INIT(L) {(L), 0, "", "", 0, NULL, NULL}

/* Opens the table at index; fields end with a NULL key. The rest names it. */
void decl_open(struct decl *d, lua_State *L, int index,
               const struct field *fields, const char *fmt, ...)
    ERR_PRINTF(5, 6);
/* Places complaints at and behind the line of this key with this value (""
** for none), if that can be told: for tables that no running code made. */
void decl_near(struct decl *d, const char *key, const char *value);
/* Reads every field that is there and not FIELD_OTHER into base. */
void decl_fields(const struct decl *d, const struct field *fields, void *base);

/* [-0, +1] Pushes the value; its type. */
int decl_get(const struct decl *d, const char *key);
bool decl_has(const struct decl *d, const char *key);
void decl_need(const struct decl *d, const char *key);
/* The value if it is there, and whether it is; *out is else kept. */
bool decl_int(const struct decl *d, const char *key, int64_t lo, int64_t hi,
              int64_t *out);
bool decl_flag(const struct decl *d, const char *key, bool *out);
bool decl_text(const struct decl *d, const char *key, char **out);
/* The same, of a file: its folders may have names of any bytes. */
bool decl_path(const struct decl *d, const char *key, char **out);
/* Index of one of the words of the NULL-terminated list. */
bool decl_word(const struct decl *d, const char *key,
               const char *const *words, int *out);
/* [-0, +(0|1)] Pushes the value, which must be a table. */
bool decl_table(const struct decl *d, const char *key);
/* Length of the list at index: a table with keys 1..n only; max bounds n. */
int64_t decl_list(const struct decl *d, const char *key, int index,
                  int64_t max);

/* A complaint about a key (NULL: about the table). */
_Noreturn void decl_fail(const struct decl *d, const char *key,
                         const char *fmt, ...) ERR_PRINTF(3, 4);
/* That a word is none of the NULL-terminated list. */
_Noreturn void decl_bad_word(const struct decl *d, const char *key,
                             const char *word, const char *const *known);
/* [-0, +0] A value as a message shows it: a short literal, else its type. */
void decl_show(lua_State *L, int index, char *out, size_t size);
/* [raises] calloc of n items; counted as held by the script. */
void *decl_alloc(lua_State *L, int64_t n, size_t size);

#endif
