/*
** bench_program.c - times of the whole program, best of five, and the most
** memory one process of it held. The program lies beside this one's folder.
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

/* Runs the program quietly; its exit code, and the memory held in KiB. */
static int run(const char *program, const char *const *words, long *kib)
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
    if (used.ru_maxrss > *kib) *kib = used.ru_maxrss;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

/* One line: what, best time, memory. Commands run one after the other. */
static int measure(const char *what, const char *program,
                   const char *const *const *commands)
{
    double best = 1e9, start, took;
    long kib = 0;
    int i, k, code;

    for (i = 0; i < 5; i++) {
        start = now();
        for (k = 0; commands[k] != NULL; k++) {
            code = run(program, commands[k], &kib);
            if (code != 0) {
                fprintf(stderr, "%s: exit code %d\n", what, code);
                return 1;
            }
        }
        took = now() - start;
        if (took < best) best = took;
    }
    printf("%-44s %7.3f s best of 5, %5.1f MB\n", what, best,
           (double)kib * 1024 / 1e6);
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
    static const char *const *const with_report[] = {accuracy, report, NULL};
    static const char *const *const waves[] = {stack, NULL};
    char program[4096];
    const char *slash = strrchr(argv[0], '/');
    int rc;

    (void)argc;
    snprintf(program, sizeof program, "%.*s../peakproof",
             slash != NULL ? (int)(slash - argv[0]) + 1 : 0, argv[0]);
    rc = measure("pr-accuracy and its twins, with report", program,
                 with_report);
    rc |= measure("full stack, 400 cold waves, -j 2", program, waves);
    return rc;
}
