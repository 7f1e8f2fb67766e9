/*
** bench_program.c - times of the whole program, best of five, the most memory
** one process of it held, and where there is a bar, how much of it that is.
** Processor time is that of all its threads and workers: what a loaded machine
** leaves of it does not change it much. The program lies beside this one's
** folder.
*/
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define OUT "/tmp/peakproof-bench"

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double seconds(const struct timeval *t)
{
    return (double)t->tv_sec + 1e-6 * (double)t->tv_usec;
}

/* Runs the program quietly; its exit code, the memory held in KiB and the
** processor's seconds added. */
static int run(const char *program, const char *const *words, long *kib,
               double *cpu)
{
    struct rusage used;
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        char *argv[32] = {NULL};
        int i, null = open("/dev/null", O_WRONLY);
        argv[0] = strdup(program);
        for (i = 0; words[i] != NULL && i < 30; i++)
            argv[i + 1] = strdup(words[i]);
        dup2(null, STDOUT_FILENO);
        execv(program, argv);
        _exit(127);
    }
    if (pid < 0 || wait4(pid, &status, 0, &used) != pid) return -1;
    *cpu += seconds(&used.ru_utime) + seconds(&used.ru_stime);
    if (used.ru_maxrss > *kib) *kib = used.ru_maxrss;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

struct bar { double seconds, mb; };     /* at most; 0: none */

static void tell(const char *what, double best, double cpu, double mb,
                 struct bar bar)
{
    printf("%-40s %7.3f s, %7.3f of processors, %5.1f MB", what, best, cpu,
           mb);
    if (bar.seconds > 0)
        printf("; of %g s %.2f", bar.seconds, best / bar.seconds);
    if (bar.mb > 0) printf(", of %g MB %.2f", bar.mb, mb / bar.mb);
    putchar('\n');
}

/* Commands run one after the other, runs times; the best counts. */
static int measure(const char *what, const char *program,
                   const char *const *const *commands, int runs,
                   struct bar bar)
{
    double best = 1e9, least = 1e9;
    long kib = 0;
    int i, k, code;

    for (i = 0; i < runs; i++) {
        double start = now(), cpu = 0, took;
        for (k = 0; commands[k] != NULL; k++) {
            code = run(program, commands[k], &kib, &cpu);
            if (code != 0) {
                fprintf(stderr, "%s: exit code %d\n", what, code);
                return 1;
            }
        }
        took = now() - start;
        if (took < best) best = took;
        if (cpu < least) least = cpu;
    }
    tell(what, best, least, (double)kib * 1024 / 1e6, bar);
    return 0;
}

int main(int argc, char **argv)
{
    static const char *const accuracy[] = {
        "run", "--out", OUT, "lua/scenarios/pr-accuracy.lua", NULL
    };
    static const char *const report[] = {"report", OUT, NULL};
    static const char *const stack[] = {
        "run", "--out", OUT, "-j", "2", "lua/scenarios/full-stack.lua", NULL
    };
    static const char *const fit2[] = {
        "fit", "--memory", "80G", "--lengths", "90000", "--ep", "2", NULL
    };
    static const char *const fit8[] = {
        "fit", "--memory", "80G", "--lengths", "700000", "--cp", "8", "--ep",
        "8", NULL
    };
    static const char *const sweep[] = {
        "run", "--totals", "--out", OUT, "-j", "2", "lua/scenarios/sweep.lua",
        "--", "count=10000", NULL
    };
    static const char *const *const with_report[] = {accuracy, report, NULL};
    static const char *const *const waves[] = {stack, NULL};
    static const char *const *const fits2[] = {fit2, NULL};
    static const char *const *const fits8[] = {fit8, NULL};
    static const char *const *const sweeps[] = {sweep, NULL};
    char program[4096];
    const char *slash = strrchr(argv[0], '/');
    int rc;

    (void)argc;
    snprintf(program, sizeof program, "%.*s../peakproof",
             slash != NULL ? (int)(slash - argv[0]) + 1 : 0, argv[0]);
    rc = measure("pr-accuracy and its twins, with report", program,
                 with_report, 5, (struct bar){0, 0});
    rc |= measure("full stack, 400 cold waves, -j 2", program, waves, 5,
                  (struct bar){0, 0});
    rc |= measure("fit, 90,000 tokens at CP2", program, fits2, 5,
                  (struct bar){0.3, 0});
    rc |= measure("fit, 700,000 tokens at CP8", program, fits8, 5,
                  (struct bar){1, 0});
    rc |= measure("sweep of 10,000 cases, -j 2", program, sweeps, 1,
                  (struct bar){60, 300});
    return rc;
}
