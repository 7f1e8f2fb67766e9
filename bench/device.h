/*
** device.h - the devices by name, as --device and doctor see them.
*/
#ifndef BENCH_DEVICE_H
#define BENCH_DEVICE_H

#include "base/err.h"
#include "dev/dev.h"

extern const char *const device_names[];    /* "dry", "cpu", "cuda", NULL */

/* The device's table, or ERR_DEVICE with the reason and the remedy. */
int device_find(const char *name, const struct dev_ops **out, struct err *e)
    MUST_CHECK;
/* One line on what a device that was found is good for. */
const char *device_about(const char *name);

#endif
