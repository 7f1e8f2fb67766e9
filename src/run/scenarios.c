/* scenarios.c - see scenarios.h */
#include "run/scenarios.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/suggest.h"
#include "run/data_dir.h"

/* As named, or among the shipped ones, also without its ".lua"; out->len is
** 0 where it is nowhere. */
static void find_file(const char *name, const char *data, struct buf *out)
{
    static const char *const end[] = {"", ".lua"};
    int i;

    for (i = 0; i < 4; i++) {
        out->len = 0;
        if (i < 2)
            buf_printf(out, "%s%s", name, end[i]);
        else if (strchr(name, '/') == NULL)
            buf_printf(out, "%s/scenarios/%s%s", data, name, end[i - 2]);
        if (out->failed || strcmp(name, "-") == 0 ||
            (out->len > 0 && access(out->data, F_OK) == 0))
            return;
    }
    out->len = 0;
}

/* What may have been meant. */
static int not_found(const char *name, const char *data, struct err *e)
{
    struct buf dir = BUF_INIT;
    char near[64] = "";

    if (strchr(name, '=') != NULL)
        return err_set(e, ERR_USAGE, "%s: no scenario (options come last, "
                       "after --: ... -- %s)", name, name);
    buf_printf(&dir, "%s/scenarios", data);
    if (strchr(name, '/') == NULL)
        suggest_file(buf_text(&dir), name, ".lua", near, sizeof near);
    buf_free(&dir);
    return err_set(e, ERR_INPUT, "%s: No such file or directory, here or in "
                   "%s/scenarios (%s%s%speakproof list names those)", name,
                   data, *near ? "did you mean " : "", near,
                   *near ? "? " : "");
}

static int check_name(const struct scenario_set *set, const struct scenario *s,
                      struct err *e)
{
    int i;

    for (i = 0; i < set->n; i++)
        if (strcmp(set->s[i]->name, s->name) == 0)
            return err_set(e, ERR_USAGE, "%s: scenario '%s' is already there "
                           "from %s", s->path, s->name, set->s[i]->path);
    return ERR_OK;
}

/* One operand becomes one scenario of the set, or an error that says where it
** was looked for. */
static int load_one(struct scenario_set *set, const char *name,
                    char **setting, int n_setting,
                    const struct scenario_limits *limits, struct err *e)
{
    struct buf path = BUF_INIT;
    struct scenario *s;
    int rc;

    find_file(name, set->data, &path);
    rc = path.failed ? err_nomem(e)
         : path.len == 0 ? not_found(name, set->data, e)
         : scenario_load(path.data, set->data, setting, n_setting, limits, &s,
                         e);
    buf_free(&path);
    if (rc != ERR_OK) return rc;
    rc = check_name(set, s, e);
    if (rc != ERR_OK) {
        scenario_free(s);
        return rc;
    }
    set->s[set->n++] = s;
    return ERR_OK;
}

int scenarios_load(char **path, int n, char **setting, int n_setting,
                   const struct scenario_limits *limits,
                   struct scenario_set *out, struct err *e)
{
    struct scenario_set set = {NULL, 0, NULL};
    int i, rc = data_dir(&set.data, e);

    if (rc != ERR_OK) return rc;
    set.s = calloc((size_t)n + 1, sizeof(struct scenario *));
    if (set.s == NULL) rc = err_nomem(e);
    for (i = 0; i < n && rc == ERR_OK; i++)
        rc = load_one(&set, path[i], setting, n_setting, limits, e);
    if (rc != ERR_OK) {
        scenarios_free(&set);
        return rc;
    }
    *out = set;
    return ERR_OK;
}

void scenarios_free(struct scenario_set *set)
{
    int i;

    for (i = 0; i < set->n; i++) scenario_free(set->s[i]);
    free(set->s);
    free(set->data);
    *set = (struct scenario_set){NULL, 0, NULL};
}

static int is_scenario(const struct dirent *d)
{
    size_t n = strlen(d->d_name);
    return n > 4 && strcmp(d->d_name + n - 4, ".lua") == 0;
}

int scenarios_shipped(const char *data, char ***out, int *n, struct err *e)
{
    struct dirent **entry = NULL;
    struct buf dir = BUF_INIT;
    char **path;
    bool whole = true;
    int count, i;

    buf_printf(&dir, "%s/scenarios", data);
    if (dir.failed) return err_nomem(e);
    count = scandir(dir.data, &entry, is_scenario, alphasort);
    if (count < 0) {
        err_set(e, ERR_RUN, "%s: %s", dir.data, strerror(errno));
        buf_free(&dir);
        return ERR_RUN;
    }
    path = calloc((size_t)count + 1, sizeof *path);
    for (i = 0; i < count; i++) {
        struct buf b = BUF_INIT;
        buf_printf(&b, "%s/%s", dir.data, entry[i]->d_name);
        free(entry[i]);
        whole &= path != NULL && !b.failed;
        if (whole) path[i] = b.data;
        else buf_free(&b);
    }
    free(entry);
    buf_free(&dir);
    if (!whole) {
        if (path != NULL) scenarios_free_paths(path, count);
        return err_nomem(e);
    }
    *out = path;
    *n = count;
    return ERR_OK;
}

void scenarios_free_paths(char **path, int n)
{
    int i;

    for (i = 0; i < n; i++) free(path[i]);
    free(path);
}
