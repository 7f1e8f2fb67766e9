/* explain_plot.c - see explain_plot.h */
#include "bench/explain_plot.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "bench/command.h"
#include "report/plots/plot.h"
#include "run/scenarios.h"
#include "run/timeline.h"

enum { MAX_WORDS = 256 };

/* ---- the case, once more ------------------------------------------------- */

/* The words of a list in run.json, borrowed from it, and how many they are;
** standard input, which is gone, is none. */
static int read_words(const json_t *run, const char *key,
                      char *out[MAX_WORDS], int *n)
{
    const json_t *list = json_object_get(run, key);
    size_t i;

    *n = 0;
    for (i = 0; i < json_array_size(list) && *n < MAX_WORDS; i++) {
        const char *s = json_string_value(json_array_get(list, i));
        if (s != NULL && strcmp(s, "-") != 0)
            out[(*n)++] = (char *)(uintptr_t)s;
    }
    return *n;
}

/* The scenarios that the folder's run was made of, read again as they were
** set. */
static int load(const char *dir, struct scenario_set *out, struct err *e)
{
    struct scenario_limits limits = {0};
    char *path[MAX_WORDS], *setting[MAX_WORDS];
    struct buf file = BUF_INIT;
    json_t *run = NULL;
    int n, n_setting, rc;

    buf_printf(&file, "%s/run.json", dir);
    rc = file.failed ? err_nomem(e) : js_load(file.data, 0, &run, e);
    if (rc == ERR_OK && read_words(run, "scenarios", path, &n) == 0)
        rc = err_set(e, ERR_INPUT, "%s: names no scenario that the case could "
                     "be run from once more (merge and import leave none)",
                     file.data);
    if (rc == ERR_OK) {
        read_words(run, "settings", setting, &n_setting);
        rc = scenarios_load(path, n, setting, n_setting, &limits, out, e);
    }
    json_decref(run);
    buf_free(&file);
    return rc;
}

static int find(const struct scenario_set *set, const struct record_found *c,
                const struct scenario **s, int64_t *i, struct err *e)
{
    int k;

    for (k = 0; k < set->n; k++) {
        *s = set->s[k];
        if (strcmp((*s)->name, c->shape.scenario) != 0) continue;
        for (*i = 0; *i < (*s)->n_case; ++*i)
            if (strcmp((*s)->kase[*i].name, c->shape.name) == 0)
                return ERR_OK;
    }
    return err_set(e, ERR_INPUT, "%s/%s: no longer a case of the scenario that "
                   "made the records (run it again)", c->shape.scenario,
                   c->shape.name);
}

/* A timeline is in no record: the wave is run once more, and must have its
** peak. */
static int look(const char *dir, const struct record_found *c,
                const struct record_peak *p, struct timeline *out,
                struct err *e)
{
    const struct scenario *s = NULL;
    struct scenario_set set;
    int64_t i = 0;
    int rc = load(dir, &set, e);

    if (rc != ERR_OK) return rc;
    rc = find(&set, c, &s, &i, e);
    if (rc == ERR_OK) rc = run_timeline(s, i, p->wave, p->rank, out, e);
    scenarios_free(&set);
    if (rc == ERR_OK && (int64_t)out->peak.allocated != p->allocated)
        rc = err_set(e, ERR_INPUT, "%s/%s: its peak on the dry device is %"
                     PRIu64 " bytes, and %" PRId64 " in the records (the "
                     "scenario or the program has changed, or another device "
                     "wrote them)", c->shape.scenario, c->shape.name,
                     out->peak.allocated, p->allocated);
    return rc;
}

/* ---- the picture --------------------------------------------------------- */

static int draw(const char *dir, const char *name, struct plot *p,
                struct err *e)
{
    bool missing = false;
    int rc = file_make_dirs(dir, e);

    if (rc == ERR_OK) rc = plot_save(dir, p, e);
    if (rc == ERR_OK) rc = plot_run(dir, name, &missing, e);
    if (rc == ERR_OK && missing)
        say_warning("no gnuplot: %s/%s.gp draws the picture "
                    "(apt-get install gnuplot-nox)", dir, name);
    return rc;
}

/* "a/b/name.svg" into "a/b" and "name", both cut out of file. */
static int split(char *file, const char **dir, const char **name,
                 struct err *e)
{
    char *slash = strrchr(file, '/');
    size_t n;

    *name = slash != NULL ? slash + 1 : file;
    *dir = slash == NULL ? "." : slash == file ? "/" : file;
    n = strlen(*name);
    if (n > 4 && strcmp(*name + n - 4, ".svg") == 0) {
        file[*name - file + (ptrdiff_t)n - 4] = '\0';
        if (slash != NULL) *slash = '\0';
        if (plot_name_ok(*name)) return ERR_OK;
    }
    return err_set(e, ERR_USAGE, "explain: --plot: the picture is a file "
                   "NAME.svg, of letters, digits and . _ -");
}

int explain_plot(const char *file, const char *dir, const char *name,
                 int64_t wave, int64_t rank, struct err *e)
{
    struct plot p = {NULL, BUF_INIT, BUF_INIT};
    struct timeline *t = malloc(sizeof *t);
    char *copy = strdup(file);
    const char *to = NULL, *base = NULL;
    struct record_set *set = NULL;
    const struct record_found *c;
    const struct record_peak *at = NULL;
    int rc = t == NULL || copy == NULL ? err_nomem(e)
                                       : split(copy, &to, &base, e);

    if (rc == ERR_OK) rc = record_read(dir, &set, e);
    if (rc == ERR_OK) rc = record_find(set, name, &c, e);
    if (rc == ERR_OK) {
        at = rank >= 0 ? record_peak_of(c, wave, rank)
                       : record_peak_max(c, wave);
        rc = at == NULL ? err_set(e, ERR_USAGE, "explain: --plot: %s has no "
                                  "peak in wave %" PRId64 ", or no such rank",
                                  name, wave)
                        : look(dir, c, at, t, e);
    }
    if (rc == ERR_OK) {
        plot_timeline(c, wave, at->rank, t, base, &p);
        rc = draw(to, base, &p, e);
    }
    plot_free(&p);
    record_set_free(set);
    free(copy);
    free(t);
    return rc;
}
