/*
** safetensors.h - writes a safetensors file (format: checkpoint.h).
*/
#ifndef MODEL_SAFETENSORS_H
#define MODEL_SAFETENSORS_H

#include "base/buf.h"
#include "model/checkpoint.h"

/* A file in the making, all of it in memory. */
struct safetensors { struct buf header, data; };
#define SAFETENSORS_INIT {BUF_INIT, BUF_INIT}

/* Adds a tensor of n_dim dims under a name of plain characters: its elements
** rounded to type once, ties to even (exact where they are of that type). */
void safetensors_put(struct safetensors *f, const char *name,
                     enum checkpoint_type type, const int64_t *dim,
                     int64_t n_dim, const double *x);
/* The same for integers, as I64. */
void safetensors_put_ints(struct safetensors *f, const char *name,
                          const int64_t *dim, int64_t n_dim,
                          const int64_t *x);
/* Writes the file (file.h) and frees what was put. */
int safetensors_save(struct safetensors *f, const char *path, struct err *e)
    MUST_CHECK;
void safetensors_free(struct safetensors *f);

/* The nearest bf16, ties to even; NaN stays NaN. */
uint16_t safetensors_bf16(double v);
/* Element i of raw little-endian bytes; 0 of CKPT_OTHER. */
double safetensors_number(const unsigned char *raw, enum checkpoint_type t,
                          int64_t i);

#endif
