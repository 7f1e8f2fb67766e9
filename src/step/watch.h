/*
** watch.h - which operator's output is the first that is not finite.
**
** For a wave that is run once more to find that out, on a device whose memory
** the host can read: after every kernel all tensors that live are looked at.
** Tensors are zeroed when they are taken, so that none holds an infinity that
** nobody computed. "Minus infinity" is a value where no key was seen: of
** tensors of log-sum-exps it does not count.
** Inside src/step.
*/
#ifndef STEP_WATCH_H
#define STEP_WATCH_H

#include "step/rank_state.h"

/* NULL when the host is short of memory. */
struct watch *watch_new(void);
void watch_free(struct watch *w);           /* NULL is fine */

/* Of the step's watch, which may not be NULL: a tensor was taken, is given
** back; a kernel has run. The first find goes to s->found. */
void watch_take(struct step *s, const struct tensor *t, const char *op);
void watch_drop(struct step *s, const struct mem_block *b);
void watch_ran(struct step *s, const char *kernel);

#endif
