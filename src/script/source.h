/*
** source.h - where keys stand in the text of scripts.
**
** Lua tables do not know their lines. For messages about a key of a table,
** the text is scanned once for "key = value" and ["key"] = value, skipping
** comments and strings, and the complaint names the line that holds the key
** with that very value. Only messages depend on it.
** Inside src/script.
*/
#ifndef SCRIPT_SOURCE_H
#define SCRIPT_SOURCE_H

#include <stdbool.h>
#include <stddef.h>

struct source_word { const char *p; size_t n; };   /* not terminated */

struct source_key {
    struct source_word key;
    struct source_word value;   /* a literal's text, n = 0 if there is none */
    const char *file;
    int line;
};

struct source {
    struct source_key *key;
    size_t n, cap;
    char **text;            /* what the words above point into */
    size_t n_text;
};

/* Adds the keys of a file; false when memory runs out (then some are
** missing and the source is still good). */
bool source_add(struct source *s, const char *file, const char *text,
                size_t len);
void source_free(struct source *s);

/* The key with that value ("" when not a literal) at or after line near of
** file (NULL: any), else anywhere, else the key's only place; else NULL. */
const struct source_key *source_find(const struct source *s, const char *key,
                                     const char *value, const char *file,
                                     int near);

#endif
