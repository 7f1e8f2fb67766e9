/*
** dev.h - a device: where segments of memory come from and which kernels
** run on them. Three exist: dry (addresses only), cpu, cuda (a module).
**
** A struct dev belongs to one rank and one thread. Pointers in kernel
** arguments are what the device's segments are made of: made-up numbers on
** dry, host pointers on cpu, device pointers on cuda.
*/
#ifndef DEV_DEV_H
#define DEV_DEV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "dev/kernel.h"
#include "mem/mem.h"

struct dev_options {
    int rank;               /* of this process's run */
    int gpu;                /* cuda: device index */
    enum dtype act;         /* activations and weights: bf16, f32 or f64 */
    uint64_t limit_bytes;   /* dry, cpu: device size, 0 for none */
};

struct dev_ops {
    const char *name;
    bool computes;          /* false: kernels is NULL, nothing is touched */
    int (*open)(const struct dev_options *o, struct dev **out, struct err *e);
    void (*close)(struct dev *d);
    /* Copies between host memory and the device; both return when done. */
    int (*upload)(struct dev *d, void *dst, const void *src, size_t n,
                  struct err *e);
    int (*download)(struct dev *d, void *dst, const void *src, size_t n,
                    struct err *e);
    int (*sync)(struct dev *d, struct err *e);
    /* The driver's view of memory in bytes; on cpu the system's: what can be
    ** had without swapping, and all there is; (optional). */
    int (*memory)(struct dev *d, uint64_t *free_bytes, uint64_t *total_bytes,
                  struct err *e);
    /* A GEMM workspace of n bytes that the step took from the allocator and
    ** keeps while the device is used; (optional). */
    int (*workspace)(struct dev *d, void *p, size_t n, struct err *e);
    /* Copies within the device, also out of the memory of another rank of
    ** this process that shares it, after what was asked before: with mark
    ** and after; (optional). */
    int (*copy)(struct dev *d, void *dst, const void *src, size_t n,
                struct err *e);
    /* Sets mark i (0 or 1) of d behind all that was asked of it; what is
    ** asked of d from here on comes after where other's mark i stands now.
    ** Neither waits. A thread may call after on another's device while that
    ** one does not set the mark; (optional). */
    int (*mark)(struct dev *d, int i, struct err *e);
    int (*after)(struct dev *d, struct dev *other, int i, struct err *e);
};

/* Devices embed this as their first member. */
struct dev {
    const struct dev_ops *ops;
    const struct kernels *k;    /* NULL where nothing is computed */
    enum dtype act;             /* activations, weights, adapter gradients */
    enum dtype acc;             /* accumulators: f32, or f64 where act is */
    struct mem_source source;   /* segments for the rank's allocator */
};

#ifdef __cplusplus
extern "C" {
#endif

extern const struct dev_ops dev_dry;
extern const struct dev_ops dev_cpu;
/* The library that dev_cpu multiplies with, and the kernels it has chosen for
** this processor, which the order of its sums depends on. ERR_DEVICE where it
** is not there. */
int dev_cpu_blas(const char **text, struct err *e) MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
