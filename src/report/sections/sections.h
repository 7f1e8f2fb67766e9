/*
** sections.h - the sections of the report, one function each. A section
** whose cases are not in the folder says which command makes them. Internal
** to report.
** Inside src/report.
*/
#ifndef REPORT_SECTIONS_H
#define REPORT_SECTIONS_H

#include "report/view.h"

/* sec_summary.c: the change in a sentence; every claim in a line. */
void sec_result(struct view *v);
void sec_summary(struct view *v);
/* How many cold waves each estimator is under for, in a line each. */
void sec_verdict(struct view *v);
/* sec_table.c: the published table beside ours. */
void sec_table(struct view *v);
void sec_raw(struct view *v);
/* sec_ranks.c: what the two ranks hold. */
void sec_ranks(struct view *v);
/* The same of a reader's own cases. */
void sec_terms(struct view *v);
void sec_attention(struct view *v);
/* sec_measured.c: simulated against measured peaks: by series; every cell.
** sec_estimates.c: the estimates of the same cells. */
void sec_measured(struct view *v);
/* Its sentence alone. */
void sec_measured_short(struct view *v);
void sec_measured_cells(struct view *v);
void sec_measured_estimates(struct view *v);
/* sec_fidelity.c: distance from the implied peaks, by routing, by category;
** what the EP allowance costs. */
void sec_fidelity(struct view *v);
void sec_allowance(struct view *v);
/* What the rank at the peak holds of dispatched rows in the layer of the
** peak, over the same of base, which is balanced; NaN where not known. */
double sec_share_at_peak(const struct record_found *base,
                         const struct record_found *c);
/* sec_random.c: the published random cases with routers of random weights. */
void sec_random(struct view *v);
/* Least and most cold admitted error of the estimator over these routers, for
** a published case; false where there is none. */
bool sec_random_range(const struct view *v, const struct record_found *base,
                      const char *estimator, double out[2]);
/* sec_stack.c and sec_waves.c: many waves: ranges, those under; pairing,
** adapters. */
void sec_stack(struct view *v);
/* sec_sensitivity.c: what only a GPU can decide, made otherwise. */
void sec_sensitivity(struct view *v);
/* sec_one_gpu.c: from the same scenario, full recompute at CP1. */
void sec_one_gpu(struct view *v);
void sec_pairing(struct view *v);
void sec_adapters(struct view *v);
/* sec_checks.c: mirror, one LSE, bounds, all checks, fallbacks. */
void sec_mirror(struct view *v);
void sec_one_lse(struct view *v);
void sec_bound(struct view *v);
void sec_checks(struct view *v);
void sec_fallbacks(struct view *v);
/* sec_inventory.c: what a recomputed layer keeps. */
void sec_inventory(struct view *v);
/* sec_cases.c: every case; what each number is. */
void sec_cases(struct view *v);
void sec_words(struct view *v);
/* sec_device.c: what a device that computes reached. */
void sec_losses(struct view *v);
void sec_rank_peaks(struct view *v);
void sec_same_as_dry(struct view *v);
/* sec_sweep.c: runs of totals, of many drawn waves; nothing where the folder
** is of no such run. */
bool view_has_sweep(const struct view *v);
void sec_sweep(struct view *v);
/* That of another folder, in a sentence. */
void sec_sweep_short(struct view *v, struct view *sweep);
/* sec_knowledge.c: variants of a price that know less of routing; nothing
** where no case has them. */
void sec_knowledge(struct view *v);
/* sec_timing.c: what takes how long (timing.md). */
void sec_timing(struct view *v);

#endif
