/*
** numbers.h - numbers of the host to a device and back, whatever type they
** have there.
** Inside src/step.
*/
#ifndef STEP_NUMBERS_H
#define STEP_NUMBERS_H

#include "dev/dev.h"

/* n numbers to packed bf16, f32 or f64 memory of the device, rounded once. */
int numbers_up(struct dev *d, void *to, enum dtype t, const double *v,
               int64_t n, struct err *e) MUST_CHECK;
int numbers_down(struct dev *d, double *out, const void *from, enum dtype t,
                 int64_t n, struct err *e) MUST_CHECK;

#endif
