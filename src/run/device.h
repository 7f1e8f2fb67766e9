/*
** device.h - the devices by name, as --device and doctor see them.
*/
#ifndef RUN_DEVICE_H
#define RUN_DEVICE_H

#include "base/err.h"
#include "dev/dev.h"
#include "dev/module.h"

extern const char *const device_names[];    /* "dry", "cpu", "cuda", NULL */

/* The device's table, or ERR_DEVICE with the reason and the remedy; for cuda
** the module must load and a GPU be there. */
int device_find(const char *name, const struct dev_ops **out, struct err *e)
    MUST_CHECK;
/* One line on what a device that was found is good for. */
const char *device_about(const char *name);
/* The CUDA module, loaded at the first call. ERR_DEVICE as above; there may
** be no GPU. */
int device_module(const struct cuda_module **out, struct err *e) MUST_CHECK;

#endif
