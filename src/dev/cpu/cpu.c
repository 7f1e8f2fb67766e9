/*
** cpu.c - the cpu device: segments from anonymous mappings, which cost
** nothing until they are touched, and the scratch buffer of its kernels.
*/
#include "dev/cpu/cpu.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifndef PEAKPROOF_PLAIN_GEMM
#include "base/file.h"
#include "dev/cpu/blas_load.h"
#endif

static struct cpu *cpu_of(struct dev *d)
{
    return (struct cpu *)d;
}

/* ---- segments ----------------------------------------------------------- */

/* Segments lie one behind the other in a range that is reserved when the
** device is opened, as on dry: where the allocator chooses by address, both
** choose alike. Where so much room cannot be had (a limit on address space),
** or is used up, the system chooses. */
#define ROOM (UINT64_C(1) << 40)
#define ALIGN (UINT64_C(2) << 20)

static void reserve_room(struct cpu *c)
{
    void *p = mmap(NULL, ROOM, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    c->room = p == MAP_FAILED ? NULL : p;
}

static void *map_segment(struct cpu *c, uint64_t bytes)
{
    uint64_t span = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    bool fits = c->room != NULL && span <= ROOM - c->room_used;
    void *p = mmap(fits ? c->room + c->room_used : NULL, (size_t)bytes,
                   PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE |
                   (fits ? MAP_FIXED : 0), -1, 0);

    if (fits && p != MAP_FAILED) c->room_used += span;
    return p;
}

static int segment_get(void *ctx, uint64_t bytes, uint64_t *addr,
                       struct err *e)
{
    struct cpu *c = ctx;
    void *p = MAP_FAILED;

    if (c->limit == 0 || bytes <= c->limit - c->taken)
        p = map_segment(c, bytes);
    if (p == MAP_FAILED)
        return err_set(e, ERR_OOM, "cpu: no segment of %llu bytes (%llu are "
                       "taken, limit %llu)", (unsigned long long)bytes,
                       (unsigned long long)c->taken,
                       (unsigned long long)c->limit);
    c->taken += bytes;
    *addr = (uint64_t)(uintptr_t)p;
    return ERR_OK;
}

/* Addresses of the reserved range are not given out again. */
static void segment_put(void *ctx, uint64_t addr, uint64_t bytes)
{
    struct cpu *c = ctx;
    char *p = (char *)(uintptr_t)addr;

    if (c->room != NULL && p >= c->room && p < c->room + ROOM)
        mmap(p, (size_t)bytes, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    else
        munmap(p, (size_t)bytes);
    c->taken -= bytes;
}

/* ---- the device --------------------------------------------------------- */

static int load_blas(struct err *e)
{
#ifndef PEAKPROOF_PLAIN_GEMM
    return cpu_blas_load(e);
#else
    (void)e;
    return ERR_OK;
#endif
}

int dev_cpu_blas(const char **text, struct err *e)
{
    int rc = load_blas(e);

    if (rc != ERR_OK) return rc;
#ifndef PEAKPROOF_PLAIN_GEMM
    *text = cpu_blas()->config();
#else
    *text = "no BLAS";
#endif
    return ERR_OK;
}

/* The type of activations picks the table of kernels; one is compiled for
** each. */
static int cpu_open(const struct dev_options *o, struct dev **out,
                    struct err *e)
{
    bool f64 = o->act == DT_F64;
    struct cpu *c;
    int rc;

    if (o->act != DT_BF16 && o->act != DT_F32 && !f64)
        return err_set(e, ERR_USAGE, "cpu: activations must be bf16, f32 or "
                       "f64");
    rc = load_blas(e);
    if (rc != ERR_OK) return rc;
    c = calloc(1, sizeof *c);
    if (c == NULL) return err_nomem(e);
    reserve_room(c);
    c->limit = o->limit_bytes;
    c->dev.ops = &dev_cpu;
    c->dev.k = f64 ? &cpu_kernels_f64 : &cpu_kernels_f32;
    c->dev.act = o->act;
    c->dev.acc = f64 ? DT_F64 : DT_F32;
    c->dev.source = (struct mem_source){c, segment_get, segment_put};
    *out = &c->dev;
    return ERR_OK;
}

static void cpu_close(struct dev *d)
{
    if (d == NULL) return;
    if (cpu_of(d)->room != NULL) munmap(cpu_of(d)->room, ROOM);
    free(cpu_of(d)->scratch);
    free(d);
}

static int cpu_copy(struct dev *d, void *dst, const void *src, size_t n,
                    struct err *e)
{
    (void)d;
    (void)e;
    if (n > 0) memcpy(dst, src, n);
    return ERR_OK;
}

#define MEMINFO "/proc/meminfo"

/* A field of it in bytes. */
static int meminfo(const char *field, uint64_t *out, struct err *e)
{
    FILE *f = fopen(MEMINFO, "r");
    size_t n = strlen(field);
    char line[128];
    bool found = false;

    if (f == NULL && errno != ENOENT) return file_error(e, MEMINFO, errno);
    while (f != NULL && !found && fgets(line, sizeof line, f) != NULL) {
        found = strncmp(line, field, n) == 0 && line[n] == ':';
        if (found) *out = (uint64_t)strtoull(line + n + 1, NULL, 10) * 1024;
    }
    if (f != NULL) fclose(f);
    if (found) return ERR_OK;
    return err_set(e, ERR_DEVICE, "cpu: " MEMINFO " does not say how much "
                   "memory is there");
}

static int cpu_memory(struct dev *d, uint64_t *free_bytes,
                      uint64_t *total_bytes, struct err *e)
{
    int rc = meminfo("MemAvailable", free_bytes, e);

    (void)d;
    return rc != ERR_OK ? rc : meminfo("MemTotal", total_bytes, e);
}

static int cpu_sync(struct dev *d, struct err *e)
{
    (void)d;
    (void)e;
    return ERR_OK;
}

const struct dev_ops dev_cpu = {
    .name = "cpu",
    .computes = true,
    .open = cpu_open,
    .close = cpu_close,
    .upload = cpu_copy,
    .download = cpu_copy,
    .sync = cpu_sync,
    .memory = cpu_memory,
};
