/* libs.c - see libs.h */
#include "dev/libs.h"

#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The first file of the pattern dir/rest/name that loads. */
static void *in_folder(const char *dir, const char *rest, const char *name)
{
    char pattern[PATH_MAX];
    void *lib = NULL;
    glob_t found;
    size_t i;

    if (dir == NULL || snprintf(pattern, sizeof pattern, "%s/%s/%s", dir,
                                rest, name) >= (int)sizeof pattern ||
        glob(pattern, 0, NULL, &found) != 0) return NULL;
    for (i = 0; i < found.gl_pathc && lib == NULL; i++)
        lib = dlopen(found.gl_pathv[i], RTLD_NOW | RTLD_LOCAL);
    globfree(&found);
    return lib;
}

static void *in_wheels(const char *prefix, const char *name)
{
    return in_folder(prefix, "lib/python3*/site-packages/nvidia/*/lib", name);
}

/* The folders of PATH that hold a python3: its wheels are beside bin. */
static void *beside_python(const char *name)
{
    const char *p = getenv("PATH"), *end;
    char dir[PATH_MAX];
    void *lib = NULL;

    for (; p != NULL && lib == NULL; p = *end == ':' ? end + 1 : NULL) {
        end = strchr(p, ':') != NULL ? strchr(p, ':') : p + strlen(p);
        if (snprintf(dir, sizeof dir, "%.*s/python3", (int)(end - p), p) >=
                (int)sizeof dir || access(dir, X_OK) != 0) continue;
        snprintf(dir, sizeof dir, "%.*s/..", (int)(end - p), p);
        lib = in_wheels(dir, name);
    }
    return lib;
}

void *libs_open(const char *name, struct err *e)
{
    void *lib = dlopen(name, RTLD_NOW | RTLD_LOCAL);

    if (lib == NULL) lib = in_folder(getenv("CUDA_HOME"), "lib*", name);
    if (lib == NULL) lib = in_folder("/usr/local/cuda", "lib*", name);
    if (lib == NULL) lib = in_wheels(getenv("VIRTUAL_ENV"), name);
    if (lib == NULL) lib = in_wheels(getenv("CONDA_PREFIX"), name);
    if (lib == NULL) lib = beside_python(name);
    if (lib == NULL)
        err_set(e, ERR_DEVICE, "%.60s is not where the loader looks "
                "(LD_LIBRARY_PATH), nor below CUDA_HOME or /usr/local/cuda, "
                "nor in the wheels of the python3 in PATH", name);
    return lib;
}
