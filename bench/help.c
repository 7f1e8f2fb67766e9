/* help.c - see command.h: help written from the command tables */
#include <stdio.h>
#include <string.h>

#include "bench/command.h"

enum { WIDTH = 79, OPTION_COLUMN = 26 };

const struct command_exit command_exits[] = {
    {0, "ok", ""},
    {1, "the run failed, or a file could not be read or written", ""},
    {2, "usage: unknown command, option or value", ""},
    {3, "a bad input file: scenario, config, CSV, facts, snapshot", ""},
    {4, "a check failed", " (run --check, compare --check)"},
    {5, "device not available", ""},
    {6, "out of memory in the workload (also a record)", ""},
    {7, "wrong numbers", ": a loss that is not finite, or allocations or "
        "peaks that are not those of the dry device"},
    {130, "interrupted; finished cases are kept", " (run --resume goes on)"},
};
enum { N_EXITS = sizeof command_exits / sizeof command_exits[0] };
const int command_n_exits = N_EXITS;

const struct command_option command_common[] = {
    {"json", 0, NULL, "print the result as JSON", NULL, false},
    {"help", 'h', NULL, "print this help", NULL, false},
    {NULL, 0, NULL, NULL, NULL, false}
};

/* Appends text wrapped at WIDTH; the first line goes on at column at, the
** others start at column indent. "\n\n" in text begins a paragraph. */
static void put_wrapped(struct buf *b, const char *text, int at, int indent)
{
    int col = at;
    bool fresh = true;      /* no word on this line yet */

    while (*text != '\0') {
        int n = (int)strcspn(text, " \n");
        if (n > 0 && !fresh && col + 1 + n > WIDTH) {
            buf_printf(b, "\n%*s", indent, "");
            col = indent;
            fresh = true;
        }
        if (n > 0) {
            buf_printf(b, "%s%.*s", fresh ? "" : " ", n, text);
            col += n + !fresh;
            fresh = false;
        }
        text += n;
        if (strncmp(text, "\n\n", 2) == 0) {
            buf_printf(b, "\n\n%*s", indent, "");
            col = indent;
            fresh = true;
        }
        text += strspn(text, " \n");
    }
    buf_putc(b, '\n');
}

/* One line of the help: the left column, then the text beside or below it. */
static void put_option(struct buf *b, const struct command_option *o)
{
    char left[64], text[512];
    int n, i;

    n = snprintf(left, sizeof left, "  %c%c%s --%s%s%s",
                 o->letter ? '-' : ' ', o->letter ? o->letter : ' ',
                 o->letter ? "," : " ", o->name, o->arg ? " " : "",
                 o->arg ? o->arg : "");
    buf_puts(b, left);
    if (n < OPTION_COLUMN - 1)
        buf_printf(b, "%*s", OPTION_COLUMN - n, "");
    else
        buf_printf(b, "\n%*s", OPTION_COLUMN, "");
    n = snprintf(text, sizeof text, "%s%s", o->help,
                 o->repeats ? "; may be repeated" : "");
    for (i = 0; o->values != NULL && o->values[i] != NULL; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, "%s%s",
                      i ? ", " : "; one of ", o->values[i]);
    put_wrapped(b, text, OPTION_COLUMN, OPTION_COLUMN);
}

static void put_exit(struct buf *b, int code)
{
    int i;

    for (i = 0; i < N_EXITS; i++)
        if (command_exits[i].code == code)
            buf_printf(b, "  %3d  %s\n", code, command_exits[i].text);
}

void help_exits(struct buf *out)
{
    enum { INDENT = 5 };
    char text[200];
    int i;

    for (i = 0; i < N_EXITS; i++) {
        snprintf(text, sizeof text, "%s%s", command_exits[i].text,
                 command_exits[i].more);
        buf_printf(out, "%3d  ", command_exits[i].code);
        put_wrapped(out, text, INDENT, INDENT);
    }
}

static bool may_exit(const struct command *c, int code)
{
    int i;

    if (code == ERR_OK || code == ERR_USAGE) return true;
    for (i = 0; c->exits[i] != 0; i++)
        if (c->exits[i] == code) return true;
    return false;
}

/* "usage: peakproof run [...]", wrapped between words. */
static void put_usage(struct buf *b, const struct command *c)
{
    int at = (int)strlen("usage: peakproof ") + (int)strlen(c->name) + 1;

    buf_printf(b, "usage: peakproof %s ", c->name);
    put_wrapped(b, c->synopsis, at, at);
}

void help_command(const struct command *c, struct buf *out)
{
    const struct command_option *o;
    int i;

    put_usage(out, c);
    buf_puts(out, "\n");
    put_wrapped(out, c->text, 0, 0);
    buf_puts(out, "\nOptions:\n");
    for (o = c->option; o != NULL && o->name != NULL; o++) put_option(out, o);
    for (o = command_common; o->name != NULL; o++) put_option(out, o);
    buf_puts(out, "\nExit codes:\n");
    for (i = 0; i < N_EXITS; i++)
        if (may_exit(c, command_exits[i].code))
            put_exit(out, command_exits[i].code);
    buf_puts(out, "\nExamples:\n");
    for (i = 0; c->examples[i] != NULL; i++)
        buf_printf(out, "  %s\n", c->examples[i]);
}

const struct command *command_find(const struct command *const *all,
                                   const char *name)
{
    int i;

    for (i = 0; all[i] != NULL; i++)
        if (strcmp(all[i]->name, name) == 0) return all[i];
    return NULL;
}

void help_program(const struct command *const *all, struct buf *out)
{
    int i;

    buf_puts(out, "usage: peakproof COMMAND [options] [operands]\n\n");
    put_wrapped(out, "Proves a training-memory estimate against the peak that "
                "a training step reaches: Lua scenarios describe a step, a "
                "workload executes it and measures each rank's peak, "
                "estimators price the same step from its plan alone.", 0, 0);
    buf_puts(out, "\nCommands:\n");
    for (i = 0; all[i] != NULL; i++) {
        buf_printf(out, "  %-9s ", all[i]->name);
        put_wrapped(out, all[i]->about, 12, 12);
    }
    buf_puts(out, "\n\"peakproof help COMMAND\" tells its options and "
             "examples; further topics:\nexit-codes, environment, files, "
             "terms, models, scenarios, batch, estimators,\nsnapshots.\n");
}

/* ---- the same as JSON --------------------------------------------------- */

/* The same for programs; what is absent is null, so that keys are always
** there. */
static json_t *option_json(const struct command_option *o)
{
    json_t *v = json_object();
    char letter[2] = {o->letter, '\0'};
    int i;

    json_object_set_new(v, "name", json_string(o->name));
    json_object_set_new(v, "letter",
                        o->letter ? json_string(letter) : json_null());
    json_object_set_new(v, "value", o->arg ? json_string(o->arg)
                                           : json_null());
    json_object_set_new(v, "help", json_string(o->help));
    json_object_set_new(v, "repeats", json_boolean(o->repeats));
    if (o->values != NULL) {
        json_t *values = json_array();
        for (i = 0; o->values[i] != NULL; i++)
            json_array_append_new(values, json_string(o->values[i]));
        json_object_set_new(v, "values", values);
    }
    return v;
}

static json_t *command_json(const struct command *c)
{
    json_t *v = json_object(), *options = json_array(), *codes = json_array();
    const struct command_option *o;
    int i;

    for (o = c->option; o != NULL && o->name != NULL; o++)
        json_array_append_new(options, option_json(o));
    for (o = command_common; o->name != NULL; o++)
        json_array_append_new(options, option_json(o));
    for (i = 0; i < N_EXITS; i++)
        if (may_exit(c, command_exits[i].code))
            json_array_append_new(codes, json_integer(command_exits[i].code));
    json_object_set_new(v, "name", json_string(c->name));
    json_object_set_new(v, "synopsis", json_string(c->synopsis));
    json_object_set_new(v, "about", json_string(c->about));
    json_object_set_new(v, "options", options);
    json_object_set_new(v, "exit_codes", codes);
    return v;
}

json_t *help_json(const struct command *const *all)
{
    json_t *v = json_object(), *list = json_array(), *codes = json_object();
    char key[8];
    int i;

    for (i = 0; all[i] != NULL; i++)
        json_array_append_new(list, command_json(all[i]));
    for (i = 0; i < N_EXITS; i++) {
        snprintf(key, sizeof key, "%d", command_exits[i].code);
        json_object_set_new(codes, key, json_string(command_exits[i].text));
    }
    json_object_set_new(v, "format", json_integer(1));
    json_object_set_new(v, "commands", list);
    json_object_set_new(v, "exit_codes", codes);
    return v;
}
