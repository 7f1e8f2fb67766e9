/* args.c - see command.h: from argv to checked options */
#include <assert.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/suggest.h"
#include "bench/command.h"

enum { MAX_OPTIONS = 32, ID_JSON = 1000, ID_HELP };

/* getopt's view of a command's table: ids are indices into it. */
struct tables {
    struct option longs[MAX_OPTIONS + 3];
    char shorts[2 * MAX_OPTIONS + 4];
    const char *names[MAX_OPTIONS + 3];     /* "--out", for suggestions */
    char storage[MAX_OPTIONS][32];
    int n;
};

static int count_options(const struct command *c)
{
    int n = 0;

    while (c->option != NULL && c->option[n].name != NULL) n++;
    assert(n <= MAX_OPTIONS);
    return n;
}

/* getopt_long's tables from the command's own, so that options are listed
** once. */
static void make_tables(const struct command *c, struct tables *t)
{
    size_t s = 0;
    int i;

    memset(t, 0, sizeof *t);
    t->n = count_options(c);
    t->shorts[s++] = ':';       /* tells a missing value from a bad option */
    for (i = 0; i < t->n; i++) {
        const struct command_option *o = &c->option[i];
        t->longs[i] = (struct option){o->name, o->arg != NULL, NULL, 256 + i};
        snprintf(t->storage[i], sizeof t->storage[i], "--%s", o->name);
        t->names[i] = t->storage[i];
        if (o->letter == 0) continue;
        t->shorts[s++] = o->letter;
        if (o->arg != NULL) t->shorts[s++] = ':';
    }
    t->longs[i] = (struct option){"json", 0, NULL, ID_JSON};
    t->longs[i + 1] = (struct option){"help", 0, NULL, ID_HELP};
    t->names[i] = "--json";
    t->names[i + 1] = "--help";
    t->shorts[s] = 'h';
}

/* Index into the table for what getopt returned. */
static int option_index(const struct command *c, const struct tables *t,
                        int got)
{
    int i;

    if (got >= 256) return got - 256;
    for (i = 0; i < t->n; i++)
        if (c->option[i].letter == got) return i;
    assert(!"a letter that getopt knows and the table does not");
    return 0;
}

static int bad_option(const struct command *c, const struct tables *t,
                      const char *word, struct err *e)
{
    char letter[3] = {'-', (char)optopt, '\0'};
    char plain[64];
    const char *near;

    if (optopt > 0 && optopt < 256) word = letter;
    snprintf(plain, sizeof plain, "%.*s", (int)strcspn(word, "="), word);
    near = strncmp(word, "--", 2) == 0 ? suggest(plain, t->names) : NULL;
    if (optopt >= 256)
        return err_set(e, ERR_USAGE, "%s: option '%s' takes no value "
                       "(see peakproof %s --help)", c->name, plain, c->name);
    if (near != NULL)
        return err_set(e, ERR_USAGE, "%s: unknown option '%s' (did you mean "
                       "'%s'?)", c->name, plain, near);
    return err_set(e, ERR_USAGE, "%s: unknown option '%s' (see peakproof %s "
                   "--help)", c->name, plain, c->name);
}

static int missing_value(const struct command *c, const struct tables *t,
                         struct err *e)
{
    const struct command_option *o = &c->option[option_index(c, t, optopt)];

    return err_set(e, ERR_USAGE, "%s: option --%s needs a value (--%s %s)",
                   c->name, o->name, o->name, o->arg);
}

/* An option with a list of values takes no other; the message lists them. */
static int check_value(const struct command *c,
                       const struct command_option *o, const char *value,
                       struct err *e)
{
    const char *near;
    char all[160];
    size_t used = 0;
    int i;

    if (o->values == NULL) return ERR_OK;
    all[0] = '\0';
    for (i = 0; o->values[i] != NULL; i++) {
        if (strcmp(o->values[i], value) == 0) return ERR_OK;
        used += (size_t)snprintf(all + used, sizeof all - used, "%s%s",
                                 i ? ", " : "", o->values[i]);
        assert(used < sizeof all);
    }
    near = i > 5 ? suggest(value, o->values) : NULL;
    if (near != NULL)
        return err_set(e, ERR_USAGE, "%s: --%s: unknown value '%s' (did you "
                       "mean '%s'?)", c->name, o->name, value, near);
    return err_set(e, ERR_USAGE, "%s: --%s: unknown value '%s' (one of %s)",
                   c->name, o->name, value, all);
}

/* One option as getopt found it; given twice only where it repeats. */
static int take(struct args *a, int i, const char *value, int argc,
                struct err *e)
{
    const struct command_option *o = &a->command->option[i];
    struct args_repeat *l = &a->list[i];
    int rc;

    if (o->arg != NULL) {
        rc = check_value(a->command, o, value, e);
        if (rc != ERR_OK) return rc;
        if (a->value[i] != NULL && !o->repeats)
            return err_set(e, ERR_USAGE, "%s: --%s given twice",
                           a->command->name, o->name);
    }
    if (o->repeats) {
        if (l->text == NULL) l->text = calloc((size_t)argc, sizeof *l->text);
        if (l->text == NULL) return err_nomem(e);
        l->text[l->n++] = value;
    }
    a->value[i] = value != NULL ? value : "";
    return ERR_OK;
}

/* The options of argv[0..argc); operands end up behind them. */
static int take_options(struct args *a, int argc, char **argv, bool *help,
                        struct err *e)
{
    struct tables t;
    int got, rc = ERR_OK;

    make_tables(a->command, &t);
    optind = 0;         /* glibc: start anew */
    opterr = 0;
    while (rc == ERR_OK) {
        got = getopt_long(argc, argv, t.shorts, t.longs, NULL);
        if (got == -1) break;
        if (got == ID_HELP || got == 'h') {
            *help = true;
            break;
        }
        if (got == '?')
            rc = bad_option(a->command, &t, argv[optind - 1], e);
        else if (got == ':')
            rc = missing_value(a->command, &t, e);
        else if (got == ID_JSON)
            a->json = true;
        else
            rc = take(a, option_index(a->command, &t, got), optarg, argc, e);
    }
    return rc;
}

static int check_operands(const struct args *a, struct err *e)
{
    const struct command *c = a->command;
    int i;

    for (i = 0; i < a->n_operand; i++)
        if (*a->operand[i] == '\0')
            return err_set(e, ERR_USAGE, "%s: an operand is empty (an unset "
                           "variable?)", c->name);
    if (a->n_operand < c->min_operands)
        return err_set(e, ERR_USAGE, "%s: needs %s (see peakproof %s --help)",
                       c->name, c->operand, c->name);
    if (c->max_operands >= 0 && a->n_operand > c->max_operands)
        return err_set(e, ERR_USAGE, "%s: unexpected '%s' (see peakproof %s "
                       "--help)", c->name, a->operand[c->max_operands],
                       c->name);
    return ERR_OK;
}

static int check_settings(const struct args *a, struct err *e)
{
    int i, j;

    for (i = 0; i < a->n_setting; i++) {
        const char *s = a->setting[i], *mark = strchr(s, '=');

        if (mark == NULL || mark == s)
            return err_set(e, ERR_USAGE, "%s: '%s' after -- must be "
                           "name=value", a->command->name, s);
        for (j = 0; j < i; j++)
            if (strncmp(a->setting[j], s, (size_t)(mark - s) + 1) == 0)
                return err_set(e, ERR_USAGE, "%s: %.*s is set twice after --",
                               a->command->name, (int)(mark - s), s);
    }
    return ERR_OK;
}

/* Where "--" stands, or argc. */
static int find_stop(int argc, char **argv)
{
    int i = 1;

    while (i < argc && strcmp(argv[i], "--") != 0) i++;
    return i;
}

int args_parse(const struct command *c, int argc, char **argv,
               struct args *out, bool *help, struct err *e)
{
    size_t n = (size_t)count_options(c) + 1;
    int stop = find_stop(argc, argv), first, rc, i;
    struct args a = {.command = c, .argc = argc, .argv = argv};

    a.value = calloc(n, sizeof *a.value);
    a.list = calloc(n, sizeof *a.list);
    a.storage = calloc((size_t)argc + 1, sizeof *a.storage);
    if (a.value == NULL || a.list == NULL || a.storage == NULL) {
        args_free(&a);
        return err_nomem(e);
    }
    rc = take_options(&a, stop, argv, help, e);
    first = optind;
    a.operand = a.storage;
    for (i = first; i < stop; i++) a.operand[a.n_operand++] = argv[i];
    a.setting = a.storage + a.n_operand;
    for (i = stop + 1; i < argc; i++) a.setting[a.n_setting++] = argv[i];
    if (!c->settings) {         /* then -- only ends the options */
        a.n_operand += a.n_setting;
        a.n_setting = 0;
    }
    if (rc == ERR_OK && !*help) rc = check_operands(&a, e);
    if (rc == ERR_OK && !*help) rc = check_settings(&a, e);
    if (rc != ERR_OK) {
        args_free(&a);
        return rc;
    }
    *out = a;
    return ERR_OK;
}

void args_free(struct args *a)
{
    int i, n = count_options(a->command);

    for (i = 0; a->list != NULL && i < n; i++) free(a->list[i].text);
    free(a->list);
    free(a->value);
    free(a->storage);
}

static int find(const struct args *a, const char *name)
{
    const struct command_option *o = a->command->option;
    int i;

    for (i = 0; o[i].name != NULL; i++)
        if (strcmp(o[i].name, name) == 0) return i;
    assert(!"an option that is not in the command's table");
    return 0;
}

bool args_has(const struct args *a, const char *name)
{
    return a->value[find(a, name)] != NULL;
}

const char *args_text(const struct args *a, const char *name)
{
    return a->value[find(a, name)];
}

const char *const *args_list(const struct args *a, const char *name, int *n)
{
    int i = find(a, name);

    *n = a->list[i].n;
    return a->list[i].text;
}

int args_int(const struct args *a, const char *name, int64_t lo, int64_t hi,
             int64_t *out, struct err *e)
{
    const char *s = args_text(a, name);

    assert(lo <= hi);
    if (s == NULL || num_parse(s, lo, hi, out)) return ERR_OK;
    if (hi == INT64_MAX)
        return err_set(e, ERR_USAGE, "%s: --%s: '%s' is not a whole number "
                       "of at least %" PRId64, a->command->name, name, s, lo);
    return err_set(e, ERR_USAGE, "%s: --%s: '%s' is not a whole number from "
                   "%" PRId64 " to %" PRId64, a->command->name, name, s, lo,
                   hi);
}

int args_bytes(const struct args *a, const char *name, int64_t *out,
               struct err *e)
{
    const char *s = args_text(a, name);

    if (s == NULL || num_parse_bytes(s, out)) return ERR_OK;
    return err_set(e, ERR_USAGE, "%s: --%s: '%s' is not a number of bytes "
                   "(as in 80G, 72.5GB or 80Gi)", a->command->name,
                   name, s);
}

int args_double(const struct args *a, const char *name, double lo, double hi,
                double *out, struct err *e)
{
    const char *s = args_text(a, name);
    double v;

    assert(lo <= hi);
    if (s == NULL) return ERR_OK;
    if (num_parse_double(s, &v) && v >= lo && v <= hi) {
        *out = v;
        return ERR_OK;
    }
    return err_set(e, ERR_USAGE, "%s: --%s: '%s' is not a number from %g to "
                   "%g", a->command->name, name, s, lo, hi);
}
