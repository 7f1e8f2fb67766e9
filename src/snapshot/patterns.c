/* patterns.c - pattern files, see compose.h */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clean.h"
#include "base/file.h"
#include "snapshot/compose.h"

#define FILE_MOST ((size_t)1 << 20)

static char *trim(char *s)
{
    char *end;

    s += strspn(s, " \t\r");
    end = s + strlen(s);
    while (end > s && strchr(" \t\r", end[-1]) != NULL) *--end = '\0';
    return s;
}

/* A pattern may stand anywhere in a frame, so stars go around it. */
static int add(struct patterns *p, const char *group, const char *glob,
               struct err *e)
{
    struct pattern *line = realloc(p->line, ((size_t)p->n + 1)
                                            * sizeof *line);
    size_t n = strlen(glob) + 3;
    struct pattern *x;

    if (line == NULL) return err_nomem(e);
    p->line = line;
    x = &line[p->n];
    x->group = strdup(group);
    x->glob = malloc(n);
    if (x->group == NULL || x->glob == NULL) {
        free(x->group);
        free(x->glob);
        return err_nomem(e);
    }
    snprintf(x->glob, n, "*%s*", glob);
    p->n++;
    return ERR_OK;
}

/* Errors name the line: pattern files are written by hand. */
static int parse(struct patterns *p, const char *path, char *text,
                 struct err *e)
{
    char *rest = text, *line;
    int rc = ERR_OK;

    for (int number = 1; rc == ERR_OK && rest != NULL; number++) {
        char *colon;

        line = rest;
        rest = strchr(line, '\n');
        if (rest != NULL) *rest++ = '\0';
        line = trim(line);
        if (*line == '\0' || *line == '#') continue;
        colon = strchr(line, ':');
        if (colon == NULL || colon == line || *trim(colon + 1) == '\0')
            return err_set(e, ERR_INPUT, "%s:%d: must be GROUP: PATTERN",
                           path, number);
        *colon = '\0';
        rc = add(p, trim(line), trim(colon + 1), e);
    }
    return rc;
}

int patterns_load(const char *path, struct patterns *out, struct err *e)
{
    struct patterns p = {0};
    struct buf b = BUF_INIT;
    int rc = file_read(path, FILE_MOST, &b, e);

    if (rc == ERR_OK && strlen(buf_text(&b)) < b.len)
        rc = err_set(e, ERR_INPUT, "%s: holds a NUL byte, so it is no text",
                     path);
    if (rc == ERR_OK && b.len > 0)
        rc = parse(&p, path, b.data + text_mark(b.data, b.len), e);
    if (rc == ERR_OK && p.n == 0)
        rc = err_set(e, ERR_INPUT, "%s: no GROUP: PATTERN line", path);
    buf_free(&b);
    if (rc != ERR_OK) {
        patterns_free(&p);
        return rc;
    }
    *out = p;
    return ERR_OK;
}

void patterns_free(struct patterns *p)
{
    for (int64_t i = 0; i < p->n; i++) {
        free(p->line[i].group);
        free(p->line[i].glob);
    }
    free(p->line);
    *p = (struct patterns){0};
}
