/* plot.c - what all pictures share, and running gnuplot. */
#include "report/plots/plot.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/num.h"

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
               "%s\n"
               "  unset output\n"
               "}\n", p->name, command);
}

int plot_save(const char *dir, const struct plot *p, struct err *e)
{
    const struct { const char *ext; const struct buf *text; } file[] = {
        {"dat", &p->dat}, {"gp", &p->gp},
    };
    /* of a plot that is not whole nothing: it may even lack a name */
    int i, rc = p->dat.failed || p->gp.failed ? err_nomem(e) : ERR_OK;

    for (i = 0; i < 2 && rc == ERR_OK; i++) {
        const struct buf *text = file[i].text;
        struct buf path = BUF_INIT;

        buf_printf(&path, "%s/%s.%s", dir, p->name, file[i].ext);
        rc = path.failed ? err_nomem(e)
             : file_write(path.data, buf_text(text), text->len, e);
        buf_free(&path);
    }
    return rc;
}

bool plot_name_ok(const char *name)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
        "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

    return *name != '\0' && *name != '-' &&
           name[strspn(name, plain)] == '\0';
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

void plot_label(struct buf *b, const char *before, const char *estimator,
                const char *after)
{
    char name[80], text[160];

    snprintf(text, sizeof text, "%s%s%s", before,
             view_label(estimator, name, sizeof name), after);
    plot_quote(b, text);
}

/* The largest raw error of a case; below 0 where there is none. */
static double worst_of(const struct view *v, const struct record_found *c)
{
    double worst = -1;
    int k;

    for (k = 0; k < v->n_estimator; k++) {
        struct miss m = view_miss(c, view_wave(c, true), v->estimator[k],
                                  "raw");
        if (m.known && fabs(m.percent) > worst) worst = fabs(m.percent);
    }
    return worst;
}

/* Puts c in the place of the one that is best known, which goes, and c last;
** or leaves it out. */
static void keep_worst(const struct view *v, const struct record_found **c,
                       int n, const struct record_found *more)
{
    int best = 0, i;

    for (i = 1; i < n; i++)
        if (worst_of(v, c[i]) < worst_of(v, c[best])) best = i;
    if (worst_of(v, more) <= worst_of(v, c[best])) return;
    memmove(&c[best], &c[best + 1], (size_t)(n - best - 1) * sizeof *c);
    c[n - 1] = more;
}

int plot_choose(const struct view *v, const struct record_found **out,
                int max, bool *worst)
{
    int n = 0, pass;
    int64_t i;

    *worst = false;
    for (pass = 0; pass < 2 && n == 0; pass++)
        for (i = 0; i < v->n_case; i++) {
            const struct record_found *c = v->kase[i];
            if (view_wave(c, true) < 0 || worst_of(v, c) < 0 ||
                (pass == 0 && !view_is_published(c))) continue;
            *worst |= n == max;
            if (n == max) keep_worst(v, out, n, c);
            else out[n++] = c;
        }
    return n;
}

const char *plot_palette(int i)
{
    static const char *const colour[] = {
        "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00",
        "#8c6d1f", "#666666"
    };

    return colour[i % 8];
}

int plot_mark(int64_t ep)
{
    return ep == 1 ? 9 : ep == 2 ? 7 : ep == 4 ? 5 : ep == 8 ? 13 : 11;
}

/* The child: gnuplot in dir, with nothing to read and its talk into talk. */
static void become_gnuplot(const char *dir, char **argv, int talk)
{
    int null = open("/dev/null", O_RDWR);

    if (null >= 0) {
        dup2(null, 0);
        dup2(null, 1);
    }
    dup2(talk, 2);
    if (chdir(dir) == 0) execvp(argv[0], argv);
    _exit(errno == ENOENT ? 127 : 126);
}

/* ---- a gnuplot's end ---------------------------------------------------- */

/* How long one may take, in seconds; 0 where the environment says nonsense. */
static int64_t patience(void)
{
    const char *s = getenv("PEAKPROOF_GNUPLOT_SECONDS");
    int64_t n = 60;

    return s == NULL || num_parse(s, 1, 86400, &n) ? n : 0;
}

/* Milliseconds of a clock that nobody sets. */
static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* What comes out of fd until its end or the time that is given, as far as it
** fits. */
static void read_talk(int fd, int64_t until, char *out, size_t cap)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    char more[512];
    size_t len = 0;
    int64_t left;

    while ((left = until - now_ms()) > 0) {
        ssize_t n = poll(&p, 1, (int)left) > 0 ? read(fd, more, sizeof more)
                                               : -1;
        size_t take = n > 0 ? (size_t)n : 0;
        if (n == 0 || (n < 0 && errno != EINTR)) break;
        if (take > cap - 1 - len) take = cap - 1 - len;
        memcpy(out + len, more, take);
        len += take;
    }
    out[len] = '\0';
}

/* Waits for the child, which is ended when its time is over; true when it was
** not. */
static bool wait_for(pid_t child, int64_t until, int *status)
{
    static const struct timespec pause = {0, 1000000};
    pid_t got;

    while ((got = waitpid(child, status, WNOHANG)) == 0 && now_ms() < until)
        nanosleep(&pause, NULL);
    if (got == child) return true;
    kill(child, SIGKILL);
    while (waitpid(child, status, 0) < 0 && errno == EINTR) continue;
    return false;
}

/* Warnings are dropped; the talk is part of the error when it fails. */
static int run(const char *dir, char **argv, bool *missing, struct err *e)
{
    char talk[600] = "", *p;
    int64_t seconds = patience(), until = now_ms() + seconds * 1000;
    int status = 0, fd[2];
    pid_t child;
    bool ended;

    if (seconds == 0)
        return err_set(e, ERR_USAGE, "PEAKPROOF_GNUPLOT_SECONDS: must be a "
                       "number from 1 to 86400");
    if (pipe(fd) != 0)
        return err_set(e, ERR_RUN, "gnuplot: %s", strerror(errno));
    child = fork();
    if (child == 0) {
        close(fd[0]);
        become_gnuplot(dir, argv, fd[1]);
    }
    if (child < 0) err_set(e, ERR_RUN, "gnuplot: %s", strerror(errno));
    close(fd[1]);
    if (child > 0) read_talk(fd[0], until, talk, sizeof talk);
    close(fd[0]);
    if (child < 0) return ERR_RUN;
    ended = wait_for(child, until, &status);
    *missing = ended && WIFEXITED(status) && WEXITSTATUS(status) == 127;
    if (*missing || (ended && WIFEXITED(status) && WEXITSTATUS(status) == 0))
        return ERR_OK;
    for (p = talk; *p != '\0'; p++)
        if (*p == '\n') *p = ' ';
    if (!ended)
        return err_set(e, ERR_RUN, "gnuplot on %s/%s: took longer than %" PRId64
                       " s (PEAKPROOF_GNUPLOT_SECONDS)", dir, argv[1],
                       seconds);
    if (WIFSIGNALED(status))
        return err_set(e, ERR_RUN, "gnuplot on %s/%s: ended by signal %d", dir,
                       argv[1], WTERMSIG(status));
    return err_set(e, ERR_RUN, "gnuplot failed on %s/%s: %s", dir, argv[1],
                   talk);
}

/* A gnuplot may end well and have drawn nothing, on a full disk say. */
static int look(const char *dir, const char *name, struct err *e)
{
    static const char *const ext[] = {"svg", "png"};
    int i, rc = ERR_OK;

    for (i = 0; i < 2 && rc == ERR_OK; i++) {
        struct buf path = BUF_INIT;
        struct stat st;
        buf_printf(&path, "%s/%s.%s", dir, name, ext[i]);
        if (path.failed)
            rc = err_set(e, ERR_RUN, "gnuplot on %s: out of host memory", name);
        else if (stat(path.data, &st) != 0 || st.st_size == 0)
            rc = err_set(e, ERR_RUN, "gnuplot drew no %s", path.data);
        buf_free(&path);
    }
    return rc;
}

int plot_run(const char *dir, const char *name, bool *missing, struct err *e)
{
    char program[] = "gnuplot", *argv[] = {program, NULL, NULL};
    struct buf script = BUF_INIT;
    int rc;

    *missing = false;
    buf_printf(&script, "%s.gp", name);
    argv[1] = script.data;
    rc = script.failed ? err_nomem(e) : run(dir, argv, missing, e);
    buf_free(&script);
    return rc == ERR_OK && !*missing ? look(dir, name, e) : rc;
}
