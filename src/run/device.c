/* device.c - see device.h */
#include "run/device.h"

#include <stdlib.h>
#include <string.h>

#include "base/version.h"

const char *const device_names[] = {"dry", "cpu", "cuda", NULL};

int device_module(const struct cuda_module **out, struct err *e)
{
    static const struct cuda_module *loaded;
    int rc = ERR_OK;

    if (loaded == NULL)
        rc = module_open(getenv("PEAKPROOF_MODULE_PATH"), peakproof_prefix,
                         peakproof_version, &loaded, e);
    if (rc == ERR_OK) *out = loaded;
    return rc;
}

static int find_cuda(const struct dev_ops **out, struct err *e)
{
    const struct cuda_module *m;
    int n, rc = device_module(&m, e);

    if (rc == ERR_OK) rc = m->count(&n, e);
    if (rc != ERR_OK) return err_wrap(e, "device cuda");
    *out = m->ops;
    return ERR_OK;
}

int device_find(const char *name, const struct dev_ops **out, struct err *e)
{
    if (strcmp(name, "dry") == 0) {
        *out = &dev_dry;
        return ERR_OK;
    }
    if (strcmp(name, "cpu") == 0) {
        *out = &dev_cpu;
        return ERR_OK;
    }
    return find_cuda(out, e);
}

const char *device_about(const char *name)
{
    if (strcmp(name, "dry") == 0)
        return "full-size cases anywhere; peaks are simulated";
    if (strcmp(name, "cpu") == 0)
        return "small models with real numbers; peaks are measured";
    return "GPUs; peaks are measured";
}
