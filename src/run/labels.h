/*
** labels.h - tokens and labels that a trainer says, from a file.
**
** JSONL (any name): a line a sequence, {"tokens": [...]} and if wanted
** "mask", "weights" (a number a token), "weight" (of the sequence) and
** "segment", the batch's segment at whose end it ends; left out, line i ends
** at the i-th leaf. tokens[t], t > 0, is the target of the row of tokens[t-1]
** where mask[t] is not 0, with weight * weights[t]. Sequences that share a
** prefix hold the same tokens there; what several say of one row and target
** adds up, other targets are further labels of the row. So the loss of a
** packed tree is that of its expanded sequences.
**
** X.safetensors: what is packed, a row an element: "tokens" and "targets"
** [rows] integers (a target below 0: no label), "weights" [rows], and if
** wanted "more_rows", "more_targets", "more_weights" [n], further labels.
**
** Weights are divided by their sum, or taken as they are (loss = "sum").
** Inside src/run.
*/
#ifndef RUN_LABELS_H
#define RUN_LABELS_H

#include "run/work.h"

struct run_labels {
    struct step_data data;
    int64_t head[PLAN_MAX_RANKS];   /* labelled rows of each rank */
    int64_t more[PLAN_MAX_RANKS];   /* and their further labels */
    int64_t total;                  /* labels of all ranks */
};

/* Reads the case's labels for its plan. ERR_INPUT names file, line and key.
** Free with run_labels_free; NULL is fine. */
int run_labels_read(const struct run_work *w, struct run_labels **out,
                    struct err *e) MUST_CHECK;
void run_labels_free(struct run_labels *l);

/* ---- inside: what a file is read into ----------------------------------- */

struct label { int64_t row; int32_t target; double weight; };

struct label_list {
    const struct run_work *w;
    const char *path;
    int32_t *id;            /* [rows], -1: not said yet */
    struct label *label;
    int64_t n, cap;
    /* where the search for the next line's leaf begins, and leaves before */
    int64_t segment, leaves;
};

int labels_add(struct label_list *l, struct label x, struct err *e)
    MUST_CHECK;
int labels_of_lines(struct label_list *l, struct err *e) MUST_CHECK;
int labels_of_tensors(struct label_list *l, struct err *e) MUST_CHECK;

#endif
