/*
** view.h - questions that several sections ask of a run's records. Internal
** to report.
*/
#ifndef REPORT_VIEW_H
#define REPORT_VIEW_H

#include "price/price.h"
#include "record/read.h"
#include "report/doc/doc.h"
#include "report/figures.h"

#define BEFORE PRICE_BUSIEST_RANK
#define AFTER PRICE_PER_RANK

/* The model that the published figures are of. */
#define PUBLISHED_MODEL "Qwen3.6-35B-A3B"

enum { MAX_SUBJECTS = 24 };

/* X(constant, name): the pictures, NAME.svg of NAME.gp and NAME.dat. */
#define PICTURES(X) \
    X(ERRORS, "errors") X(TOKENS, "tokens") X(COMPOSITION, "composition") \
    X(LOSSES, "losses") X(CHANGE, "change") X(MEASURED, "measured")

enum picture {
#define PICTURE(constant, name) PICTURE_##constant,
    PICTURES(PICTURE)
#undef PICTURE
    PICTURE_COUNT
};
enum picture_state {
    PICTURE_NONE,           /* nothing to show */
    PICTURE_SCRIPT,         /* not drawn: there is no gnuplot, or it failed */
    PICTURE_DRAWN
};
struct measured;

/* What every section works on: the document, the cases of one device, the
** published figures. */
struct view {
    struct doc *d;
    const struct record_set *set;
    const struct figures *published;
    const struct record_found **kase;   /* [n_case], owned by view_open */
    int64_t n_case;
    /* those that were measured on real devices (measured.h): not in kase */
    struct measured *measured;          /* [n_measured], owned likewise */
    int64_t n_measured;
    int64_t n_otherwise;    /* those of SENSITIVITY: neither, they are looked
                               for in set */
    /* BEFORE, AFTER, then every other estimator in the order in which the
    ** cases name them (the reader's own); names are the records', the array
    ** view_open's. */
    const char **estimator;             /* [n_estimator] */
    int n_estimator;
    bool published_here;    /* any case is published: view_is_published */
    const enum picture_state *picture;  /* [PICTURE_COUNT] */
    /* the worst cases of a run of totals once more, with all terms; NULL:
    ** there are none */
    const struct record_set *worst;
};

/* The cases of one device ("dry") in order; NULL: of all others than not. */
int view_open(struct view *v, const char *device, struct err *e) MUST_CHECK;
void view_close(struct view *v);

/* Adds a name that is not among the n of *list yet; the list, which is the
** caller's to free, holds the pointer. False: no memory; all is as it was. */
bool view_add_name(const char ***list, int *n,
                   const char *name) MUST_CHECK;

const char *view_picture_name(enum picture p);
/* Links the picture, or says how to draw it; nothing where it shows nothing. */
void view_picture(struct view *v, enum picture p, const char *caption);

/* Why an estimator did not apply, of the first case that says so; "" where
** none does. */
const char *view_reason(const struct view *v, const char *estimator);

/* What a reader of a page knows its folders as. */
#define THIS_FOLDER "this folder"
#define SWEEP_FOLDER "the folder `sweep`"
/* Where the run in a folder is not finished, a paragraph that says so, and that
** what follows covers the cases that are. */
void view_unfinished(struct doc *d, const struct record_set *s,
                     const char *folder);
/* Has any case a peak? */
bool view_has_peak(const struct view *v);
/* The first wave of a temperature that has a peak; -1 when there is none. */
int64_t view_wave(const struct record_found *c, bool cold);
/* Cases of this scenario are what could be otherwise: shown by themselves. */
#define SENSITIVITY "sensitivity"

/* An estimate against the peak of the most-loaded rank. */
struct miss {
    bool known;             /* both are there, and the estimator applies */
    bool under;             /* the estimate is less, by bytes */
    int64_t estimate, peak;
    double percent;         /* NaN when not known */
};
/* term: "raw" or "admitted". */
struct miss view_miss(const struct record_found *c, int64_t wave,
                      const char *estimator, const char *term);
/* The same against requested instead of allocated bytes. */
struct miss view_miss_requested(const struct record_found *c, int64_t wave,
                                const char *estimator, const char *term);

/* "simulated" on dry, "measured" elsewhere. */
const char *view_peak_word(const char *device);

/* Does the case carry published errors, with the routing they are held
** against (balanced)? */
bool view_is_published(const struct record_found *c);
/* Is it one of those that sections look at: a published case, or where there
** is none, any? */
bool view_is_subject(const struct view *v, const struct record_found *c);
/* "The first 24 of 30 cases", where MAX_SUBJECTS leaves some out. */
void view_left_out(struct view *v, int64_t shown);
/* Same model, layers, shape, tokens and rows: equal but for the routing. */
bool view_same_shape(const struct record_found *a,
                     const struct record_found *b);
/* The published case that has this name, or NULL. */
const struct record_found *view_published(const struct view *v,
                                          const char *name);
/* The case of the same device and scenario whose name has this after it. */
const struct record_found *view_sibling(const struct record_set *set,
                                        const struct record_found *like,
                                        const char *suffix);
bool view_has_scenario(const struct view *v, const char *scenario);

/* The peak behind a published cell: our admitted estimate / (1 + error);
** NaN when either is missing. */
double view_implied(const struct record_found *c, const char *estimator,
                    double published_percent);

/* Is the rank's peak in a GDN layer (more gdn than attention bytes)? */
bool view_peak_in_gdn(const struct record_found *c, int64_t wave,
                      int64_t rank);
/* The estimate of one rank for the kind of layer its peak lies in: source
** "per-rank/gdn" or "per-rank/attention". */
const char *view_rank_source(const struct record_found *c, int64_t wave,
                             int64_t rank);
/* Bytes, 0 when they are not there. */
int64_t view_bytes(const struct record_found *c, int64_t wave, int64_t rank,
                   const char *source, const char *term);

/* How a case is named: "scenario/case", in out, which is returned. Bytes that
** would break a code span or a table's row are "?" there. */
const char *view_name(const struct record_found *c, char *out, size_t cap);

/* What people call an estimator: "before", "after", or its own name without
** what would end a column's. Returns out. */
const char *view_label(const char *estimator, char *out, size_t cap);

/* "No case here; this makes them:" and the command. */
void view_absent(struct view *v, const char *what, const char *scenario);
/* The command that makes a section's cases alone. */
void view_command(struct view *v, const char *scenario);

#endif
