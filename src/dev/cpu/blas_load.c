/* blas_load.c - see blas_load.h */
#include "dev/cpu/blas_load.h"

#ifndef PEAKPROOF_PLAIN_GEMM

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Filled once, by the first rank that opens a cpu device. */
static struct cpu_blas functions;
static char why_not[256];
static enum err_code code = ERR_DEVICE;     /* where there is a why_not */

/* A function of the library; dlsym gives object pointers. */
static void find(void *lib, const char *name, void *function, size_t size)
{
    void *p = dlsym(lib, name);

    if (p == NULL)
        snprintf(why_not, sizeof why_not, "OpenBLAS has no %s", name);
    memcpy(function, &p, size);
}

/* The loader's text is all that it tells of the cause: a library that is not
** there or none, or a machine that is short of something. */
static void not_loaded(const char *why)
{
    bool absent = strstr(why, "No such file") != NULL;

    code = absent || strstr(why, "ELF") != NULL ? ERR_DEVICE : ERR_RUN;
    snprintf(why_not, sizeof why_not, "%s%s", why,
             absent ? " (apt-get install libopenblas0)" : "");
}

static void load(void)
{
    void (*set_threads)(int) = NULL;
    void *lib;

    setenv("OPENBLAS_NUM_THREADS", "1", 1);     /* read while it is loaded */
    lib = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    if (lib == NULL) {
        not_loaded(dlerror());
        return;
    }
    find(lib, "cblas_sgemm", &functions.sgemm, sizeof functions.sgemm);
    find(lib, "cblas_dgemm", &functions.dgemm, sizeof functions.dgemm);
    find(lib, "openblas_get_config", &functions.config,
         sizeof functions.config);
    find(lib, "openblas_set_num_threads", &set_threads, sizeof set_threads);
    /* a program may have had the library before the variable was set */
    if (set_threads != NULL) set_threads(1);
}

int cpu_blas_load(struct err *e)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, load);
    if (why_not[0] != '\0')
        return err_set(e, code, "cpu: %s", why_not);
    return ERR_OK;
}

const struct cpu_blas *cpu_blas(void)
{
    return &functions;
}

#endif
