/*
** shim.c - preloaded into the program by tests/run-faults.sh: the n-th call of
** a kind fails, once, as the system would have it fail.
**
**   PEAKPROOF_FAULT=KIND:N          N counts calls of the process itself
**   PEAKPROOF_FAULT=child.KIND:N    of those that it forks, all together
**   PEAKPROOF_FAULT=count           none fails
**   PEAKPROOF_FAULT_LOG=FILE        gets "fired" and where from when one
**                                   failed, and "KIND N" for each kind at the
**                                   end of the process: its calls
**
** Counters lie in memory that forked processes share, so that among workers
** one call fails and not one in each. A process that is exec'ed (gnuplot) is
** left alone. Calls of excluded_name are counted and let pass.
**
** Standard output is the only stream that the program writes results to, so
** fwrite, fflush and fclose are writes when they are of stdout; glibc's own
** calls of write cannot be stood in for.
*/
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SECONDS = 20 };      /* what takes longer hangs: SIGALRM ends it */

enum kind {
    K_MALLOC, K_OPEN, K_WRITE, K_RENAME, K_FORK, K_THREAD, K_SYNC, K_MKDIR,
    K_PIPE, K_PAIR, K_TRUNCATE, KINDS
};

static const char *const kind_name[KINDS] = {
    [K_MALLOC] = "malloc", [K_OPEN] = "open", [K_WRITE] = "write",
    [K_RENAME] = "rename", [K_FORK] = "fork", [K_THREAD] = "pthread_create",
    [K_SYNC] = "fsync", [K_MKDIR] = "mkdir", [K_PIPE] = "pipe",
    [K_PAIR] = "socketpair", [K_TRUNCATE] = "ftruncate",
};

/* What is not of this project and does not tell its caller that memory is
** short: OpenBLAS dereferences what it did not get, or prints and goes on;
** the Fortran library, which it brings, ends the process with a text of its
** own while it is loaded. */
static const char *const excluded_name[] = {"openblas", "gfortran"};

static struct { _Atomic long own[KINDS], child[KINDS]; } *count;
static long fail_at;                /* 0: none */
static enum kind fail_kind;
static bool fail_child;
static bool in_child;
static char log_name[4096];
static _Thread_local bool busy;     /* inside the shim: nothing counts */

static void put_log(const char *text)
{
    int fd = (int)syscall(SYS_openat, AT_FDCWD, log_name,
                          O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);

    if (fd < 0) return;
    (void)!syscall(SYS_write, fd, text, strlen(text));
    (void)syscall(SYS_close, fd);
}

static void put_frames(void)
{
    void *frame[24];
    int n = backtrace(frame, 24), i;

    for (i = 0; i < n; i++) {
        char line[600];
        Dl_info at;
        if (dladdr(frame[i], &at) == 0 || at.dli_fname == NULL) continue;
        snprintf(line, sizeof line, "  %s +0x%lx %s\n", at.dli_fname,
                 (unsigned long)((char *)frame[i] - (char *)at.dli_fbase),
                 at.dli_sname != NULL ? at.dli_sname : "");
        put_log(line);
    }
}

static bool excluded(void *caller)
{
    bool yes = false;
    Dl_info at;
    size_t i;

    if (dladdr(caller, &at) == 0 || at.dli_fname == NULL) return false;
    for (i = 0; i < sizeof excluded_name / sizeof *excluded_name; i++)
        yes |= strstr(at.dli_fname, excluded_name[i]) != NULL;
    return yes;
}

/* Whether this call is the one that fails. */
static bool now(enum kind kind, void *caller)
{
    _Atomic long *c;
    long n;
    bool fail = false;

    if (count == NULL || busy) return false;
    c = in_child ? &count->child[kind] : &count->own[kind];
    n = atomic_fetch_add(c, 1) + 1;
    if (n != fail_at || kind != fail_kind || in_child != fail_child)
        return false;
    busy = true;
    if (!excluded(caller)) {
        fail = true;
        put_log("fired\n");
        put_frames();
    } else {
        put_log("excluded\n");
    }
    busy = false;
    return fail;
}
#define NOW(kind) now((kind), __builtin_return_address(0))

__attribute__((constructor)) static void begin(void)
{
    const char *s = getenv("PEAKPROOF_FAULT"), *log;
    void *frame[2];
    int k;

    log = getenv("PEAKPROOF_FAULT_LOG");
    if (s == NULL || log == NULL) return;
    snprintf(log_name, sizeof log_name, "%s", log);
    fail_child = strncmp(s, "child.", 6) == 0;
    if (fail_child) s += 6;
    for (k = 0; k < KINDS; k++) {
        size_t n = strlen(kind_name[k]);
        if (strncmp(s, kind_name[k], n) == 0 && s[n] == ':') {
            fail_kind = (enum kind)k;
            fail_at = strtol(s + n + 1, NULL, 10);
        }
    }
    unsetenv("LD_PRELOAD");
    unsetenv("PEAKPROOF_FAULT");
    unsetenv("PEAKPROOF_FAULT_LOG");
    (void)backtrace(frame, 2);      /* loads what it needs */
    count = mmap(NULL, sizeof *count, PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (count == MAP_FAILED) abort();
    alarm(SECONDS);
}

__attribute__((destructor)) static void end(void)
{
    char line[80];
    int k;

    if (count == NULL || in_child) return;
    busy = true;
    for (k = 0; k < KINDS; k++) {
        snprintf(line, sizeof line, "%s %ld\nchild.%s %ld\n", kind_name[k],
                 atomic_load(&count->own[k]), kind_name[k],
                 atomic_load(&count->child[k]));
        put_log(line);
    }
}

/* ---- memory: glibc's own under other names ---------------------------- */

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);

void *malloc(size_t n)
{
    if (!NOW(K_MALLOC)) return __libc_malloc(n);
    errno = ENOMEM;
    return NULL;
}

void *calloc(size_t n, size_t size)
{
    if (!NOW(K_MALLOC)) return __libc_calloc(n, size);
    errno = ENOMEM;
    return NULL;
}

void *realloc(void *p, size_t n)
{
    if (!NOW(K_MALLOC)) return __libc_realloc(p, n);
    errno = ENOMEM;
    return NULL;
}

/* ---- files ------------------------------------------------------------ */

/* "next" becomes the next library's function of that name, found once. */
static void find(const char *name, void *function)
{
    bool was = busy;
    void *p;

    busy = true;
    p = dlsym(RTLD_NEXT, name);
    memcpy(function, &p, sizeof p);
    busy = was;
}
#define NEXT(type, name, arguments) \
    static type (*next) arguments; \
    if (next == NULL) find(name, &next)

static int fail(int error)
{
    errno = error;
    return -1;
}

#define OPEN_LIKE(name, declared, at, path) \
    int name declared \
    { \
        mode_t mode = 0; \
        if (flags & O_CREAT) { \
            va_list ap; \
            va_start(ap, flags); \
            mode = va_arg(ap, mode_t); \
            va_end(ap); \
        } \
        if (NOW(K_OPEN)) return fail(EMFILE); \
        return (int)syscall(SYS_openat, at, path, flags, mode); \
    }

OPEN_LIKE(open, (const char *path, int flags, ...), AT_FDCWD, path)
OPEN_LIKE(open64, (const char *path, int flags, ...), AT_FDCWD, path)
OPEN_LIKE(openat, (int at, const char *path, int flags, ...), at, path)
OPEN_LIKE(openat64, (int at, const char *path, int flags, ...), at, path)

FILE *fopen(const char *path, const char *mode)
{
    NEXT(FILE *, "fopen", (const char *, const char *));
    return NOW(K_OPEN) ? (fail(EMFILE), NULL) : next(path, mode);
}

FILE *fdopen(int fd, const char *mode)
{
    NEXT(FILE *, "fdopen", (int, const char *));
    return NOW(K_OPEN) ? (fail(ENOMEM), NULL) : next(fd, mode);
}

DIR *opendir(const char *path)
{
    NEXT(DIR *, "opendir", (const char *));
    return NOW(K_OPEN) ? (fail(EMFILE), NULL) : next(path);
}

int scandir(const char *path, struct dirent ***list,
            int (*take)(const struct dirent *),
            int (*order)(const struct dirent **, const struct dirent **))
{
    NEXT(int, "scandir", (const char *, struct dirent ***,
                          int (*)(const struct dirent *),
                          int (*)(const struct dirent **,
                                  const struct dirent **)));
    return NOW(K_OPEN) ? fail(EMFILE) : next(path, list, take, order);
}

ssize_t write(int fd, const void *data, size_t n)
{
    return NOW(K_WRITE) ? fail(ENOSPC) : syscall(SYS_write, fd, data, n);
}

ssize_t pwrite(int fd, const void *data, size_t n, off_t at)
{
    return NOW(K_WRITE) ? fail(ENOSPC)
                        : syscall(SYS_pwrite64, fd, data, n, at);
}

size_t fwrite(const void *data, size_t size, size_t n, FILE *f)
{
    NEXT(size_t, "fwrite", (const void *, size_t, size_t, FILE *));
    if (f != stdout || !NOW(K_WRITE)) return next(data, size, n, f);
    errno = ENOSPC;
    return 0;
}

int fflush(FILE *f)
{
    NEXT(int, "fflush", (FILE *));
    return f == stdout && NOW(K_WRITE) ? (fail(ENOSPC), EOF) : next(f);
}

int fclose(FILE *f)
{
    NEXT(int, "fclose", (FILE *));
    return f == stdout && NOW(K_WRITE) ? (fail(ENOSPC), EOF) : next(f);
}

int rename(const char *from, const char *to)
{
    NEXT(int, "rename", (const char *, const char *));
    return NOW(K_RENAME) ? fail(ENOSPC) : next(from, to);
}

/* No disk has to be waited for where nobody pulls a plug. */
int fsync(int fd)
{
    (void)fd;
    return NOW(K_SYNC) ? fail(EIO) : 0;
}

int fdatasync(int fd)
{
    (void)fd;
    return NOW(K_SYNC) ? fail(EIO) : 0;
}

int ftruncate(int fd, off_t length)
{
    NEXT(int, "ftruncate", (int, off_t));
    return NOW(K_TRUNCATE) ? fail(EIO) : next(fd, length);
}

int mkdir(const char *path, mode_t mode)
{
    NEXT(int, "mkdir", (const char *, mode_t));
    return NOW(K_MKDIR) ? fail(ENOSPC) : next(path, mode);
}

int pipe(int fd[2])
{
    NEXT(int, "pipe", (int *));
    return NOW(K_PIPE) ? fail(EMFILE) : next(fd);
}

int socketpair(int domain, int type, int protocol, int fd[2])
{
    NEXT(int, "socketpair", (int, int, int, int *));
    return NOW(K_PAIR) ? fail(EMFILE) : next(domain, type, protocol, fd);
}

/* ---- processes and threads -------------------------------------------- */

pid_t fork(void)
{
    pid_t child;

    NEXT(pid_t, "fork", (void));
    if (NOW(K_FORK)) return fail(EAGAIN);
    child = next();
    if (child == 0) in_child = true;
    return child;
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                   void *(*run)(void *), void *arg)
{
    NEXT(int, "pthread_create", (pthread_t *, const pthread_attr_t *,
                                 void *(*)(void *), void *));
    return NOW(K_THREAD) ? EAGAIN : next(thread, attr, run, arg);
}
