/* device.c - see device.h */
#include "bench/device.h"

#include <string.h>

const char *const device_names[] = {"dry", "cpu", "cuda", NULL};

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
    return err_set(e, ERR_DEVICE, "device %s: not in this build (use --device "
                   "dry)", name);
}

const char *device_about(const char *name)
{
    if (strcmp(name, "dry") == 0)
        return "full-size cases anywhere; peaks are simulated";
    if (strcmp(name, "cpu") == 0)
        return "small models with real numbers; peaks are measured";
    return "GPUs; peaks are measured";
}
