/* run_plain.c - see run_plain.h */
#include "bench/run_plain.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/plan_args.h"
#include "bench/run_lists.h"

/* What shapes.lua is given; the first is what says that no scenario is. */
static const char *const options[] = {
    "lengths", "model", "cp", "ep", "lora-rank", "layers", "waves", NULL
};

static int check(const struct args *a, bool on, struct err *e)
{
    int i;

    for (i = 1; options[i] != NULL && !on; i++)
        if (args_has(a, options[i]))
            return err_set(e, ERR_USAGE, "run: --%s goes with --lengths only "
                           "(a scenario says it itself)", options[i]);
    if (on && (a->n_operand > 0 || a->n_setting > 0))
        return err_set(e, ERR_USAGE, "run: --lengths stands instead of a "
                       "scenario and its settings");
    if (!on && a->n_operand == 0)
        return err_set(e, ERR_USAGE, "run needs a SCENARIO.lua (or --lengths; "
                       "'peakproof help run' tells more)");
    return ERR_OK;
}

/* --model as plan takes it: one here is named by its whole path, because
** shapes.lua looks beside itself. */
static int put_model(const struct args *a, struct buf *b, struct err *e)
{
    char *name = NULL;
    int rc = plan_args_model_named(args_text(a, "model"), &name, e);

    if (rc == ERR_OK && (args_has(a, "model") || *name == '/'))
        buf_printf(b, "model=%s", name);
    free(name);
    return rc;
}

/* "lora_rank=8,16" of --lora-rank; nothing where it was not given. */
static int put_setting(const struct args *a, const char *name, struct buf *b,
                       struct err *e)
{
    char *p;

    if (strcmp(name, "model") == 0) return put_model(a, b, e);
    if (!args_has(a, name)) return ERR_OK;
    buf_printf(b, "%s=", name);
    for (p = b->data; p != NULL && *p != '\0' && *p != '='; p++)
        if (*p == '-') *p = '_';
    return run_lists_put(a, name, b, e);
}

int run_plain_read(const struct args *a, struct run_plain *out,
                   struct err *e)
{
    static char shapes[] = "shapes.lua";
    int64_t waves;
    int i, rc;

    out->on = args_has(a, options[0]);
    out->operand[0] = shapes;
    rc = check(a, out->on, e);
    if (rc == ERR_OK) rc = args_int(a, "waves", 1, 1000, &waves, e);
    for (i = 0; rc == ERR_OK && out->on && options[i] != NULL; i++) {
        struct buf b = BUF_INIT;

        rc = put_setting(a, options[i], &b, e);
        if (rc == ERR_OK && b.failed) rc = err_nomem(e);
        if (rc == ERR_OK && b.len > 0) out->setting[out->n_setting++] = b.data;
        else buf_free(&b);
    }
    if (rc == ERR_OK && out->on) rc = run_lists_check(a, e);
    return rc;
}

void run_plain_free(struct run_plain *p)
{
    while (p->n_setting > 0) free(p->setting[--p->n_setting]);
}

int run_shard_read(const struct args *a, int64_t *shard, int64_t *of,
                   struct err *e)
{
    const char *text = args_text(a, "shard");
    char end;

    if (text == NULL) return ERR_OK;
    if (sscanf(text, "%" SCNd64 "/%" SCNd64 "%c", shard, of, &end) == 2 &&
        *shard >= 1 && *shard <= *of && *of <= 100000)
        return ERR_OK;
    return err_set(e, ERR_USAGE, "run: --shard: '%s' is not I/N, from 1/N to "
                   "N/N", text);
}

/* ---- --estimator --------------------------------------------------------- */

/* Every name of an estimator must say which one it is. */
static int check_estimators(const struct scenario_estimators *a,
                            const struct scenario_estimators *b,
                            const char *file, struct err *e)
{
    int64_t i, k;

    for (i = 0; i < scenario_estimator_count(a); i++) {
        const char *name = scenario_estimator_name(a, i);
        for (k = 0; k < scenario_estimator_count(b); k++)
            if (strcmp(name, scenario_estimator_name(b, k)) == 0)
                return err_set(e, ERR_USAGE, "run: %s: estimator '%s' is "
                               "there twice (give it another name)", file,
                               name);
    }
    return ERR_OK;
}

int run_estimators_load(const struct args *a, const struct scenario_set *set,
                        const struct scenario_limits *limits,
                        struct run_context *x, struct err *e)
{
    int n, i, k, rc = ERR_OK;
    const char *const *file = args_list(a, "estimator", &n);
    struct scenario_estimators **list;

    x->extra = list = calloc((size_t)n + 1, sizeof(void *));
    if (list == NULL) return err_nomem(e);
    for (i = 0; i < n && rc == ERR_OK; i++) {
        rc = scenario_estimator_load(file[i], set->data, limits, &list[i], e);
        if (rc != ERR_OK) break;
        x->n_extra++;
        for (k = 0; k < i && rc == ERR_OK; k++)
            rc = check_estimators(list[i], list[k], file[i], e);
        for (k = 0; k < set->n && rc == ERR_OK; k++)
            rc = check_estimators(list[i], set->s[k]->estimators, file[i], e);
    }
    return rc;
}
