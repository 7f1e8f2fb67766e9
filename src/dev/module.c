/* module.c - see module.h */
#include "dev/module.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define REMEDY "build it with 'make cuda', or set PEAKPROOF_MODULE_PATH"

static bool is_file(const char *path)
{
    struct stat s;

    return stat(path, &s) == 0 && S_ISREG(s.st_mode);
}

/* dir/peakproof-cuda.so into out[PATH_MAX]; false when it is not there. */
static bool in_folder(const char *dir, char *out)
{
    int n = snprintf(out, PATH_MAX, "%s/%s", dir, PEAKPROOF_MODULE_FILE);

    return n > 0 && n < PATH_MAX && is_file(out);
}

static bool beside_program(char *out)
{
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    char *slash;

    if (n <= 0) return false;
    self[n] = '\0';
    slash = strrchr(self, '/');
    if (slash == NULL) return false;
    *slash = '\0';
    return in_folder(self, out);
}

/* Where a module may lie, in the order that the help tells. */
static int find(const char *path, const char *prefix, char *out,
                struct err *e)
{
    char lib[PATH_MAX];

    if (path != NULL) {
        if (snprintf(out, PATH_MAX, "%s", path) < PATH_MAX && is_file(out))
            return ERR_OK;
        if (in_folder(path, out)) return ERR_OK;
        return err_set(e, ERR_DEVICE, "no CUDA module at '%.300s', where "
                       "PEAKPROOF_MODULE_PATH points (it must be %s, or a "
                       "folder that holds it)", path, PEAKPROOF_MODULE_FILE);
    }
    if (beside_program(out)) return ERR_OK;
    if (snprintf(lib, sizeof lib, "%s/lib/peakproof", prefix) <
            (int)sizeof lib && in_folder(lib, out))
        return ERR_OK;
    return err_set(e, ERR_DEVICE, "no CUDA module: %s is neither beside the "
                   "program nor in %.300s/lib/peakproof (" REMEDY ")",
                   PEAKPROOF_MODULE_FILE, prefix);
}

int module_open(const char *path, const char *prefix, const char *version,
                const struct cuda_module **out, struct err *e)
{
    const struct cuda_module *m;
    char file[PATH_MAX];
    void *so;
    int rc = find(path, prefix, file, e);

    if (rc != ERR_OK) return rc;
    so = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (so == NULL)
        return err_set(e, ERR_DEVICE, "the CUDA module would not load: %.600s "
                       "(the libraries it names must be on LD_LIBRARY_PATH, "
                       "or " REMEDY ")", dlerror());
    m = dlsym(so, PEAKPROOF_MODULE_SYMBOL);
    if (m == NULL) {
        dlclose(so);
        return err_set(e, ERR_DEVICE, "%.600s is no CUDA module of peakproof "
                       "(" REMEDY ")", file);
    }
    if (strcmp(m->version, version) != 0) {
        rc = err_set(e, ERR_DEVICE, "%.600s is version %.100s, the program "
                     "is %.100s (build both anew: make all cuda)", file,
                     m->version, version);
        dlclose(so);
        return rc;
    }
    *out = m;
    return ERR_OK;
}
