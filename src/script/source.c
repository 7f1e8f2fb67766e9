/* source.c - see source.h */
#include "script/source.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum token { END, NAME, STRING, NUMBER, OTHER };

struct scan {
    const char *p, *end;    /* *end is NUL */
    int line;
    enum token token;       /* the token before p */
    struct source_word text;    /* its text; of STRING what is inside */
    char before;            /* the token before it, if one character; else 0 */
};

static void advance(struct scan *s, const char *to)
{
    for (; s->p < to; s->p++) s->line += *s->p == '\n';
}

/* At "[": the number of "=" if "[[", "[=[", ... opens here, else -1. */
static int long_bracket(const char *p)
{
    int n = 0;

    while (p[1 + n] == '=') n++;
    return p[1 + n] == '[' ? n : -1;
}

static void scan_long(struct scan *s, int level)
{
    const char *p = s->p + level + 2;

    s->text.p = p;
    for (; p < s->end; p++) {
        int n = 0;
        if (*p != ']') continue;
        while (p[1 + n] == '=') n++;
        if (n == level && p[1 + n] == ']') break;
    }
    s->text.n = (size_t)(p - s->text.p);
    advance(s, p < s->end ? p + level + 2 : s->end);
}

static void scan_quoted(struct scan *s)
{
    const char quote = *s->p, *p = s->p + 1;

    s->text.p = p;
    while (p < s->end && *p != quote && *p != '\n')
        p += *p == '\\' && p + 1 < s->end ? 2 : 1;
    s->text.n = (size_t)(p - s->text.p);
    advance(s, p < s->end ? p + 1 : p);
}

static void skip_blank(struct scan *s)
{
    for (;;) {
        while (s->p < s->end && isspace((unsigned char)*s->p))
            advance(s, s->p + 1);
        if (s->p[0] != '-' || s->p[1] != '-') return;
        s->p += 2;
        if (*s->p == '[' && long_bracket(s->p) >= 0)
            scan_long(s, long_bracket(s->p));
        else
            while (s->p < s->end && *s->p != '\n') s->p++;
    }
}

static bool is_word(const char *p, bool number)
{
    if (isalnum((unsigned char)*p) || *p == '_') return true;
    if (!number) return false;
    return *p == '.' || ((*p == '-' || *p == '+') && strchr("eEpP", p[-1]));
}

static void scan_word(struct scan *s)
{
    const char *p = s->p + 1;
    bool number = isdigit((unsigned char)*s->p) != 0;

    s->token = number ? NUMBER : NAME;
    while (is_word(p, number)) p++;
    s->text.p = s->p;
    s->text.n = (size_t)(p - s->p);
    s->p = p;
}

static void next(struct scan *s)
{
    s->before = s->token == OTHER ? *s->text.p : '\0';
    skip_blank(s);
    if (s->p >= s->end) {
        s->token = END;
    } else if (*s->p == '"' || *s->p == '\'') {
        s->token = STRING;
        scan_quoted(s);
    } else if (*s->p == '[' && long_bracket(s->p) >= 0) {
        s->token = STRING;
        scan_long(s, long_bracket(s->p));
    } else if (isalnum((unsigned char)*s->p) || *s->p == '_') {
        scan_word(s);
    } else {
        s->token = OTHER;
        s->text.p = s->p++;
        s->text.n = 1;
    }
}

static bool is_other(const struct scan *s, char c)
{
    return s->token == OTHER && *s->text.p == c;
}

/* The token is the first of a literal value, or of something else. */
static void scan_value(struct scan *s, struct source_word *value)
{
    const char *minus = NULL;

    if (is_other(s, '-')) {
        minus = s->text.p;
        next(s);
    }
    if (s->token != STRING && s->token != NUMBER && s->token != NAME) return;
    if (minus != NULL && minus + 1 != s->text.p) return;
    value->p = minus != NULL ? minus : s->text.p;
    value->n = s->text.n + (minus != NULL);
}

/* Whether the tokens from here on are key = value or ["key"] = value; eats
** those that it looked at and leaves s at the first of the value, or at one
** that may begin another key. */
static bool scan_key(struct scan *s, struct source_key *k)
{
    bool bracket = is_other(s, '[');
    /* in a table, or t.key; else it names a variable */
    bool field = s->before != '\0' && strchr("{,;.", s->before) != NULL;

    if (bracket) next(s);
    if (s->token != (bracket ? STRING : NAME) || (!bracket && !field)) {
        if (!bracket && s->token != END) next(s);
        return false;
    }
    k->key = s->text;
    k->line = s->line;
    next(s);
    if (bracket) {
        if (!is_other(s, ']')) return false;
        next(s);
    }
    if (!is_other(s, '=')) return false;
    next(s);
    return !is_other(s, '=');           /* a comparison is no key */
}

static bool append(struct source *s, const struct source_key *k)
{
    if (s->n == s->cap) {
        size_t cap = s->cap == 0 ? 64 : 2 * s->cap;
        struct source_key *more = realloc(s->key, cap * sizeof *more);
        if (more == NULL) return false;
        s->key = more;
        s->cap = cap;
    }
    s->key[s->n++] = *k;
    return true;
}

static char *keep(struct source *s, const char *text, size_t len)
{
    char *copy = malloc(len + 1);
    char **more = realloc(s->text, (s->n_text + 1) * sizeof *more);

    if (more != NULL) s->text = more;
    if (copy == NULL || more == NULL) {
        free(copy);
        return NULL;
    }
    memcpy(copy, text, len);
    copy[len] = '\0';
    s->text[s->n_text++] = copy;
    return copy;
}

bool source_add(struct source *s, const char *file, const char *text,
                size_t len)
{
    const char *name = keep(s, file, strlen(file));
    const char *copy = keep(s, text, len);
    struct scan scan = {copy, copy + len, 1, END, {NULL, 0}, '\0'};

    if (name == NULL || copy == NULL) return false;
    next(&scan);
    while (scan.token != END) {
        struct source_key k = {{NULL, 0}, {NULL, 0}, name, 0};
        if (!scan_key(&scan, &k)) continue;
        scan_value(&scan, &k.value);
        if (!append(s, &k)) return false;
    }
    return true;
}

void source_free(struct source *s)
{
    for (size_t i = 0; i < s->n_text; i++) free(s->text[i]);
    free(s->text);
    free(s->key);
    memset(s, 0, sizeof *s);
}

static bool word_is(const struct source_word *w, const char *text)
{
    return w->n == strlen(text) && memcmp(w->p, text, w->n) == 0;
}

const struct source_key *source_find(const struct source *s, const char *key,
                                     const char *value, const char *file,
                                     int near)
{
    const struct source_key *same = NULL, *only = NULL;
    size_t count = 0;

    for (size_t i = 0; i < s->n; i++) {
        const struct source_key *k = &s->key[i];
        if (!word_is(&k->key, key)) continue;
        count++;
        only = k;
        if (*value == '\0' || !word_is(&k->value, value)) continue;
        if (file != NULL && strcmp(k->file, file) == 0 && k->line >= near)
            return k;
        if (same == NULL) same = k;
    }
    if (same != NULL) return same;
    return count == 1 ? only : NULL;
}
