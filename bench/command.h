/*
** command.h - what a command of the program is: a table from which its
** options are parsed and its help is written, and a function.
**
** A command lives in bench/cmd_NAME.c as "const struct command cmd_NAME" and
** stands in the list of commands.c. It puts its result on standard output
** through out_put or out_json and nothing else there; talk goes to standard
** error (say_warning). On failure it returns the exit code with the reason in
** e, which main prints; the code alone with e->text "" when it has said all.
*/
#ifndef BENCH_COMMAND_H
#define BENCH_COMMAND_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct command_option {
    const char *name;       /* long name, without dashes; NULL ends a table */
    char letter;            /* also -l; 0: none */
    const char *arg;        /* what its value is, "DIR"; NULL: a flag */
    const char *help;       /* one sentence, lower case, the default in it */
    const char *const *values;  /* the only values allowed, NULL-ended */
    bool repeats;           /* may be given several times */
};

struct args;

struct command {
    const char *name;
    const char *synopsis;   /* what follows "peakproof NAME"; lines by \n */
    const char *about;      /* one line for the list of commands */
    const char *text;       /* paragraphs, separated by \n\n, wrapped here */
    const struct command_option *option;    /* --json and --help are added */
    const char *operand;    /* what an operand is, for messages: "DIR" */
    int min_operands, max_operands;         /* max -1: any number */
    bool settings;          /* takes "-- name=value..." at the end */
    int exits[9];           /* exit codes other than 0 and 2, 0 ends */
    const char *const *examples;            /* full lines, NULL-ended */
    int (*run)(const struct args *a, struct err *e);
};

/* All commands in the order of the help; NULL-ended. main alone reads it: a
** command that needs the list is given it (args.all). */
extern const struct command *const commands[];
/* One of such a list, or NULL. */
const struct command *command_find(const struct command *const *all,
                                   const char *name);

/* ---- what was given ------------------------------------------------------
** Names must stand in the command's table (asserted). Text is borrowed from
** argv. */
struct args {
    const struct command *command;
    const struct command *const *all;   /* commands, where main calls */
    const char **value;     /* [options of the table], NULL: not given */
    struct args_repeat { const char **text; int n; } *list;
    bool json;
    char **operand;
    int n_operand;
    char **setting;         /* "name=value" after --, checked to have a = */
    int n_setting;
    char **storage;         /* owned: operands and settings */
    int argc;               /* the words as given, options first */
    char **argv;
};

bool args_has(const struct args *a, const char *name);
/* The last value given, or NULL. */
const char *args_text(const struct args *a, const char *name);
/* All values of an option that repeats, in order. */
const char *const *args_list(const struct args *a, const char *name, int *n);
/* The value as a whole number in [lo, hi]; *out is left alone when the option
** was not given. ERR_USAGE names option and bounds. */
int args_int(const struct args *a, const char *name, int64_t lo, int64_t hi,
             int64_t *out, struct err *e) MUST_CHECK;
int args_bytes(const struct args *a, const char *name, int64_t *out,
               struct err *e) MUST_CHECK;
int args_double(const struct args *a, const char *name, double lo, double hi,
                double *out, struct err *e) MUST_CHECK;

/* argv[0] is the command's name. ERR_USAGE says what is wrong in one line.
** *help is set when --help was given: then nothing else is checked. */
int args_parse(const struct command *c, int argc, char **argv,
               struct args *out, bool *help, struct err *e) MUST_CHECK;
void args_free(struct args *a);

/* ---- help, generated from the tables ------------------------------------ */
extern const struct command_option command_common[];    /* of every command */
extern const struct command_exit {
    int code;
    const char *text;
    const char *more;       /* goes on with it where there is room; "" */
} command_exits[];
extern const int command_n_exits;
/* All of them, with what more there is to say. */
void help_exits(struct buf *out);
void help_program(const struct command *const *all, struct buf *out);
void help_command(const struct command *c, struct buf *out);
/* Every command and option; owned. */
json_t *help_json(const struct command *const *all);

/* ---- output -------------------------------------------------------------
** Writes to standard output never fail here: the first that was lost is told
** at exit by out_finish, and main ends with ERR_RUN. */
/* Writes b, which is emptied; ERR_RUN only when b itself had failed. */
int out_put(struct buf *b, struct err *e) MUST_CHECK;
void out_text(const char *s, size_t n);
void out_flush(void);
/* What a command prints is dropped meanwhile: for one that calls another. */
void out_mute(bool on);
bool out_finish(void);          /* closes; false, and said, when lost */
/* v as JSON; takes over the reference. */
int out_json(json_t *v, struct err *e) MUST_CHECK;
/* "peakproof: warning: ..." on standard error. */
void say_warning(const char *fmt, ...) ERR_PRINTF(1, 2);
/* "peakproof: ..." there, as main says what a command failed with: for one of
** several that goes on. */
void say_error(const struct err *e);

#endif
