/*
** dump.h - a wave's numbers in a file, for comparison with other programs:
** DIR/SCENARIO.CASE.waveN.safetensors of
**
**   loss                     [1]
**   tokens                   [rows] ids of the packed row
**   targets, weights, losses [rows] of each row's label; target -1: none;
**                            losses are not weighted
**   more_rows, more_targets, more_weights, more_losses
**                            [n] further labels, where there are any
**   logit_rows, logits       [n], [n, vocab] of rows asked for that have a
**                            label
**   routes                   [layers, rows, top_k] experts, with experts
**   gradient.NAME            of every adapter tensor, summed over ranks, in
**                            the shape of model/param.h, all experts
**
** Rows are packed rows, the same on any number of ranks.
** Inside src/run.
*/
#ifndef RUN_DUMP_H
#define RUN_DUMP_H

#include "run/ranks.h"

/* What one rank keeps of one wave. */
struct rank_dump {
    struct step_label *label;
    double *loss, *logit;
    int64_t *logit_row, *route;     /* [layers][own rows][top_k] as dumped */
    int64_t n_label, n_logit;
    double **gradient;              /* [n_gradient] of the rank's list */
    int64_t n_gradient;
};

/* Takes the numbers of the wave that a rank's step has just run. */
int run_dump_take(const struct ranks_one *o, struct rank_dump **out,
                  struct err *e) MUST_CHECK;
void run_dump_free(struct rank_dump *d);
/* Writes the files of all waves that every rank finished, into x->dump. */
int run_dump_write(const struct ranks *r, struct err *e) MUST_CHECK;

#endif
