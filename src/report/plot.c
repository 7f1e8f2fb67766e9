/* plot.c - what all pictures share, and running gnuplot. */
#include "report/plot.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

void plot_free(struct plot *p)
{
    buf_free(&p->dat);
    buf_free(&p->gp);
}

void plot_begin(struct plot *p, const char *name, int width, int height)
{
    p->name = name;
    buf_printf(&p->gp,
               "# %s.gp - draws %s.svg and %s.png from %s.dat\n"
               "reset\n"
               "set encoding utf8\n"
               "svg = \"svg size %d,%d dynamic enhanced font 'sans,14' "
               "background '#ffffff'\"\n"
               "png = \"pngcairo size %d,%d enhanced font 'sans,11'\"\n"
               "set datafile missing '?'\n"
               "set border 3 linecolor '#555555'\n"
               "set tics nomirror out\n"
               "set grid ytics linecolor '#dddddd' linewidth 1\n",
               name, name, name, name, width, height, width, height);
}

void plot_draw(struct plot *p, const char *command)
{
    buf_printf(&p->gp,
               "do for [kind in \"svg png\"] {\n"
               "  set terminal @svg\n"
               "  if (kind eq \"png\") { set terminal @png }\n"
               "  set output \"%s.\".kind\n"
               "  plot %s\n"
               "  unset output\n"
               "}\n", p->name, command);
}

void plot_quote(struct buf *b, const char *s)
{
    buf_putc(b, '"');
    for (; *s != '\0'; s++) {
        if (*s == '`' || (unsigned char)*s < ' ') {
            buf_putc(b, '?');
            continue;
        }
        if (strchr("_^{}@&~", *s) != NULL) buf_puts(b, "\\\\");
        if (*s == '"' || *s == '\\') buf_putc(b, '\\');
        buf_putc(b, *s);
    }
    buf_putc(b, '"');
}

/* The child: gnuplot in dir, its talk to nowhere but errors to fd 2. */
static void become_gnuplot(const char *dir, char **argv)
{
    int null = open("/dev/null", O_RDWR);

    if (null >= 0) {
        dup2(null, 0);
        dup2(null, 1);
    }
    if (chdir(dir) == 0) execvp(argv[0], argv);
    _exit(errno == ENOENT ? 127 : 126);
}

static int run(const char *dir, char **argv, bool *missing, struct err *e)
{
    pid_t child;
    int status;

    child = fork();
    if (child < 0)
        return err_set(e, ERR_RUN, "gnuplot: %s", strerror(errno));
    if (child == 0) become_gnuplot(dir, argv);
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return err_set(e, ERR_RUN, "gnuplot: %s", strerror(errno));
    *missing = WIFEXITED(status) && WEXITSTATUS(status) == 127;
    if (*missing || (WIFEXITED(status) && WEXITSTATUS(status) == 0))
        return ERR_OK;
    return err_set(e, ERR_RUN, "gnuplot failed on a script in %s (its "
                   "message is above)", dir);
}

int plot_run(const char *dir, const char *const *name, int n, bool *missing,
             struct err *e)
{
    char **argv = calloc((size_t)n + 2, sizeof *argv);
    char program[] = "gnuplot";
    int rc = ERR_OK, i;

    *missing = false;
    if (argv == NULL) return err_nomem(e);
    argv[0] = program;
    for (i = 0; i < n; i++) {
        size_t len = strlen(name[i]) + sizeof ".gp";
        argv[i + 1] = malloc(len);
        if (argv[i + 1] == NULL) rc = err_nomem(e);
        else snprintf(argv[i + 1], len, "%s.gp", name[i]);
    }
    if (rc == ERR_OK) rc = run(dir, argv, missing, e);
    for (i = 0; i < n; i++) free(argv[i + 1]);
    free(argv);
    return rc;
}
