/* cmd_list.c - "peakproof list": scenarios, their options and cases */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "bench/command.h"
#include "bench/list_models.h"
#include "run/data_dir.h"
#include "run/scenarios.h"

static json_t *option_json(const struct scenario_option *o)
{
    json_t *v = json_object();

    json_object_set_new(v, "name", json_string(o->name));
    json_object_set_new(v, "type", json_string(o->type));
    json_object_set_new(v, "default", o->default_value
                        ? json_string(o->default_value) : json_null());
    json_object_set_new(v, "value", o->value ? json_string(o->value)
                                             : json_null());
    json_object_set_new(v, "help", o->help ? json_string(o->help)
                                           : json_null());
    return v;
}

static json_t *case_json(const struct scenario_case *c)
{
    json_t *v = json_object();

    json_object_set_new(v, "name", json_string(c->name));
    json_object_set_new(v, "about", c->about ? json_string(c->about)
                                             : json_null());
    json_object_set_new(v, "cp", json_integer(c->cp));
    json_object_set_new(v, "ep", json_integer(c->ep));
    json_object_set_new(v, "waves", json_integer(c->waves));
    json_object_set_new(v, "tokens", json_integer(
        c->batch_kind == BATCH_LAYOUT ? c->layout_tokens : c->batch.tokens));
    return v;
}

static json_t *scenario_json(const struct scenario *s)
{
    json_t *v = json_object(), *options = json_array(), *cases = json_array();
    int64_t i;

    for (i = 0; i < s->n_option; i++)
        json_array_append_new(options, option_json(&s->option[i]));
    for (i = 0; i < s->n_case; i++)
        json_array_append_new(cases, case_json(&s->kase[i]));
    json_object_set_new(v, "name", json_string(s->name));
    json_object_set_new(v, "file", json_string(s->path));
    json_object_set_new(v, "about", s->about ? json_string(s->about)
                                             : json_null());
    json_object_set_new(v, "options", options);
    json_object_set_new(v, "cases", cases);
    return v;
}

static int put_json(const struct scenario_set *set, struct err *e)
{
    json_t *v = json_object(), *list = json_array();
    int i;

    for (i = 0; i < set->n; i++)
        json_array_append_new(list, scenario_json(set->s[i]));
    json_object_set_new(v, "format", json_integer(1));
    json_object_set_new(v, "scenarios", list);
    return out_json(v, e);
}

/* One line a scenario. */
static void put_short(const struct scenario_set *set, struct buf *b)
{
    int i, width = 0;

    for (i = 0; i < set->n; i++)
        if ((int)strlen(set->s[i]->name) > width)
            width = (int)strlen(set->s[i]->name);
    for (i = 0; i < set->n; i++) {
        const struct scenario *s = set->s[i];
        buf_printf(b, "%-*s %4" PRId64 " cases  %s\n", width, s->name,
                   s->n_case, s->about ? s->about : "");
    }
}

/* One scenario in full: what can be set, and the cases that come of it. */
static void put_long(const struct scenario *s, struct buf *b)
{
    int64_t i;
    int width = 0;

    buf_printf(b, "%s: %s\n", s->name, s->about ? s->about : "");
    if (s->n_option > 0) buf_puts(b, "options (set them after --):\n");
    for (i = 0; i < s->n_option; i++) {
        const struct scenario_option *o = &s->option[i];
        buf_printf(b, "  %s=%s  (%s, default %s) %s\n", o->name, o->value,
                   o->type, o->default_value, o->help ? o->help : "");
    }
    buf_puts(b, "cases:\n");
    for (i = 0; i < s->n_case; i++)
        if ((int)strlen(s->kase[i].name) > width)
            width = (int)strlen(s->kase[i].name);
    for (i = 0; i < s->n_case; i++)
        buf_printf(b, "  %-*s%s%s\n", s->kase[i].about ? width : 0,
                   s->kase[i].name, s->kase[i].about ? "  " : "",
                   s->kase[i].about ? s->kase[i].about : "");
}

static int load_shipped(const struct args *a, struct scenario_set *set,
                        struct err *e)
{
    struct scenario_limits limits = {0};
    char *data = NULL, **path = NULL;
    int n = 0, rc = data_dir(&data, e);

    if (rc == ERR_OK) rc = scenarios_shipped(data, &path, &n, e);
    if (rc == ERR_OK)
        rc = scenarios_load(path, n, a->setting, a->n_setting, &limits, set,
                            e);
    scenarios_free_paths(path, n);
    free(data);
    return rc;
}

/* Models, all scenarios that are shipped, or the one that is named. */
static int run(const struct args *a, struct err *e)
{
    struct scenario_limits limits = {.unsafe = args_has(a, "unsafe")};
    struct scenario_set set;
    struct buf b = BUF_INIT;
    int rc;

    if (args_has(a, "models"))
        return a->n_operand == 0 && a->n_setting == 0
               ? list_models(a->json, e)
               : err_set(e, ERR_USAGE, "list: --models takes no scenario");
    if (a->n_operand == 0)
        rc = load_shipped(a, &set, e);
    else
        rc = scenarios_load(a->operand, a->n_operand, a->setting,
                            a->n_setting, &limits, &set, e);
    if (rc != ERR_OK) return rc;
    if (a->json) {
        rc = put_json(&set, e);
    } else {
        if (a->n_operand == 0) put_short(&set, &b);
        else put_long(set.s[0], &b);
        rc = out_put(&b, e);
    }
    scenarios_free(&set);
    return rc;
}

static const struct command_option options[] = {
    {"models", 0, NULL, "the shipped models instead, with what they are",
     NULL, false},
    {"unsafe", 0, NULL, "let the scenario use io and os", NULL, false},
    {NULL, 0, NULL, NULL, NULL, false}
};

static const char *const examples[] = {
    "peakproof list", "peakproof list pr-accuracy",
    "peakproof list sweep -- count=3", "peakproof list --models", NULL
};

const struct command cmd_list = {
    .name = "list",
    .synopsis = "[SCENARIO.lua | --models] [--unsafe] [--json] "
                "[-- name=value...]",
    .about = "scenarios, their options and cases; the shipped models",
    .text = "Without an operand: the shipped scenarios, one a line. With "
            "one: its options with their defaults, and its cases, as the "
            "settings after -- make them.",
    .option = options,
    .operand = "SCENARIO.lua",
    .max_operands = 1,
    .settings = true,
    .exits = {ERR_RUN, ERR_INPUT},
    .examples = examples,
    .run = run,
};
