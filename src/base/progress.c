/* progress.c - see progress.h */
#include "base/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/terminal.h"

#define PERIOD_NS 100000000

static int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void progress_init(struct progress *p)
{
    struct winsize w;

    *p = (struct progress){.on = terminal_wants(STDERR_FILENO), .width = 80};
    if (p->on && ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 0)
        p->width = w.ws_col;
}

void progress_show(struct progress *p, int64_t done, int64_t total,
                   const char *text)
{
    char line[512];
    int64_t now;

    if (!p->on) return;
    now = now_ns();
    if (p->shown && done != total && now - p->last_ns < PERIOD_NS) return;
    snprintf(line, sizeof line, "[%*" PRId64 "/%" PRId64 "] %s",
             snprintf(NULL, 0, "%" PRId64, total), done, total, text);
    /* \033[K clears what an earlier, longer line left */
    fprintf(stderr, "\r%.*s\033[K", p->width - 1, line);
    fflush(stderr);
    p->shown = true;
    p->last_ns = now;
}

void progress_clear(struct progress *p)
{
    if (!p->shown) return;
    fputs("\r\033[K", stderr);
    fflush(stderr);
    p->shown = false;
}
