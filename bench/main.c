/*
** main.c - finds the command, runs it, reports the failure, flushes.
**
** In this tree bench/ is the command line of the benchmark and nothing else:
** main, options, help, output, a file a command. What the commands call lies
** below src/; how fast it is, is measured in tests/bench.
*/
#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/json.h"
#include "base/suggest.h"
#include "bench/command.h"

enum { MAX_COMMANDS = 32 };

static int unknown_command(const char *word, struct err *e)
{
    const char *names[MAX_COMMANDS + 1] = {NULL}, *near;
    int i;

    for (i = 0; i < MAX_COMMANDS && commands[i] != NULL; i++)
        names[i] = commands[i]->name;
    near = suggest(word, names);
    if (near != NULL)
        return err_set(e, ERR_USAGE, "unknown command '%s' (did you mean "
                       "'%s'?)", word, near);
    return err_set(e, ERR_USAGE, "unknown command '%s' (see peakproof --help)",
                   word);
}

static int run_command(const struct command *c, int argc, char **argv,
                       struct err *e)
{
    struct buf text = BUF_INIT;
    struct args a;
    bool help = false;
    int rc = args_parse(c, argc, argv, &a, &help, e);

    if (rc != ERR_OK) return rc;
    if (help) {
        help_command(c, &text);
        rc = out_put(&text, e);
    } else {
        a.all = commands;
        rc = c->run(&a, e);
    }
    args_free(&a);
    return rc;
}

/* "peakproof" alone, or options before any command. */
static int run_bare(const char *word, struct err *e)
{
    char name[] = "version", *version[] = {name, NULL};
    struct buf text = BUF_INIT;

    if (word == NULL)
        return err_set(e, ERR_USAGE, "no command (see peakproof --help)");
    if (strcmp(word, "--version") == 0)
        return run_command(command_find(commands, "version"), 1, version, e);
    if (strcmp(word, "--help") != 0 && strcmp(word, "-h") != 0)
        return err_set(e, ERR_USAGE, "unknown option '%s' (options follow the "
                       "command; see peakproof --help)", word);
    help_program(commands, &text);
    return out_put(&text, e);
}

static int run(int argc, char **argv, struct err *e)
{
    const struct command *c;

    if (argc < 2 || argv[1][0] == '-')
        return run_bare(argc < 2 ? NULL : argv[1], e);
    c = command_find(commands, argv[1]);
    if (c == NULL) return unknown_command(argv[1], e);
    return run_command(c, argc - 1, argv + 1, e);
}

/* Standard streams that are closed would give their numbers to the next
** files opened, and output would end in those. They get a file that can only
** be used the other way, so that reading or writing is an error as before. */
static void hold_standard_streams(void)
{
    int fd;

    for (fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 &&       /* open takes the lowest free */
            open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0)
            return;
}

/* The stack grows up to its limit, which may be raised while it is small. Too
** small a limit would end the program without a word. */
static int check_stack(struct err *e)
{
    enum { NEEDED = 1 << 20 };
    struct rlimit r;

    if (getrlimit(RLIMIT_STACK, &r) != 0 || r.rlim_cur == RLIM_INFINITY ||
        r.rlim_cur >= NEEDED) return ERR_OK;
    r.rlim_cur = r.rlim_max < NEEDED ? r.rlim_max : NEEDED;
    if (setrlimit(RLIMIT_STACK, &r) == 0 && r.rlim_cur >= NEEDED)
        return ERR_OK;
    return err_set(e, ERR_RUN, "a stack of %llu bytes is too small (ulimit -s "
                   "%d)", (unsigned long long)r.rlim_cur, NEEDED / 1024);
}

/* In one write, so that what ranks say to one terminal stays apart, and not by
** fprintf, which takes 8 KiB of a stack that may be too small for it. */
static void tell(const struct err *e)
{
    char line[sizeof e->text + 16];

    snprintf(line, sizeof line, "peakproof: %s\n", e->text);
    fputs(line, stderr);
}

int main(int argc, char **argv)
{
    struct err e = {ERR_OK, ""};
    int rc;

    hold_standard_streams();
    js_begin();
    setlocale(LC_NUMERIC, "C");
    signal(SIGPIPE, SIG_IGN);       /* a closed pipe is a write error */
    signal(SIGXFSZ, SIG_IGN);       /* and so is a file size limit */
    rc = check_stack(&e);
    if (rc == ERR_OK) rc = run(argc, argv, &e);
    if (rc != ERR_OK && e.text[0] != '\0') tell(&e);
    if (!out_finish() && rc == ERR_OK) rc = ERR_RUN;
    return rc;
}
