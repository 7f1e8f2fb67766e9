/*
** doc.h - a report before it has a format: headings, paragraphs, commands,
** tables and figures in order. One model, four renderers (render.h).
**
** A cell keeps its number and its kind; how it looks is the renderer's: md
** and html show "+12.4 %", csv and json give 12.4137. Appends remember that
** memory ran out (doc.failed), so a writer checks once, at the end.
*/
#ifndef REPORT_DOC_H
#define REPORT_DOC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

enum cell_kind {
    CELL_NONE,          /* not there: "—" */
    CELL_TEXT,
    CELL_CODE,          /* a name: fixed width where the format has it */
    CELL_LINK,          /* a heading's id, shown as its title with a link */
    CELL_COUNT,         /* 1,234 */
    CELL_BYTES,         /* 1,234,567 */
    CELL_DIFF,          /* signed bytes: +1,234,567 */
    CELL_GB,            /* bytes, shown in GB = 1e9 with 3 decimals */
    CELL_DIFF_GB,       /* the same with a sign */
    CELL_PERCENT,       /* +12.4 %, marked UNDER when under is set */
    CELL_NUMBER         /* a double with the decimals given */
};

struct cell {
    enum cell_kind kind;
    bool under;
    int decimals;           /* CELL_NUMBER */
    int64_t n;              /* COUNT, BYTES, DIFF, GB, DIFF_GB */
    double x;               /* PERCENT, NUMBER */
    char *text;             /* TEXT, CODE, LINK; owned */
};

struct column { char *name; bool right; };

struct table {
    char *id;               /* unique in the document */
    struct column *column;
    int64_t n_column;
    struct cell *cell;      /* row by row; n_cell is a multiple of n_column */
    int64_t n_cell, cap;
};

enum block_kind { BLOCK_HEADING, BLOCK_PARA, BLOCK_ITEM, BLOCK_CODE,
                  BLOCK_TABLE, BLOCK_PLOT, BLOCK_CONTENTS };

struct block {
    enum block_kind kind;
    int level;              /* of a heading, 1 to 3 */
    char *id;               /* of a heading or a plot (its file's stem) */
    char *text;             /* heading, paragraph, command, caption. May use
                               `code`; "|" and the like are plain text */
    struct table *table;
};

struct doc {
    struct block *block;
    int64_t n_block, cap;
    const struct doc *other;    /* where links lead whose heading is not here;
                                   NULL: nowhere */
    const char *other_name;     /* its file, without an end */
    struct table *row;      /* whose row was begun last */
    int64_t lacks;          /* cells that it still needs */
    bool failed;
};

void doc_free(struct doc *d);       /* back to zeros */

void doc_heading(struct doc *d, int level, const char *id, const char *text);
void doc_para(struct doc *d, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Links to the headings of level 2, for people. */
void doc_contents(struct doc *d);
/* One point of a list. */
void doc_item(struct doc *d, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* A command line to run. */
void doc_code(struct doc *d, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* The picture NAME.svg with its data NAME.dat. */
void doc_plot(struct doc *d, const char *name, const char *caption);

/* Columns as "name" (text, left) or ">name" (numbers, right), separated by
** "|". The result is never NULL: without memory a table that takes nothing.
** Borrowed until doc_free. */
struct table *doc_table(struct doc *d, const char *id, const char *columns);

/* Begins a row; as many cells as there are columns must follow through the
** functions below. A cell too many, and a row that begins, or a document that
** goes on, while one is missing, is a defect of the caller (asserted). */
void doc_row(struct doc *d, struct table *t);

void cell_none(struct doc *d, struct table *t);
void cell_text(struct doc *d, struct table *t, const char *s);  /* NULL: none */
void cell_code(struct doc *d, struct table *t, const char *s);
/* To the heading that has this id, which may come later. */
void cell_link(struct doc *d, struct table *t, const char *id);
void cell_printf(struct doc *d, struct table *t, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void cell_count(struct doc *d, struct table *t, int64_t n);
void cell_bytes(struct doc *d, struct table *t, int64_t n);
void cell_diff(struct doc *d, struct table *t, int64_t n);
void cell_gb(struct doc *d, struct table *t, int64_t n);
void cell_diff_gb(struct doc *d, struct table *t, int64_t n);
/* NaN is CELL_NONE in both. */
void cell_percent(struct doc *d, struct table *t, double x, bool under);
void cell_number(struct doc *d, struct table *t, double x, int decimals);

/* How the cell looks for people. */
void cell_show(const struct cell *c, struct buf *out);

/* The text of the heading that has this id, also of the other document's; the
** id itself without one. */
const char *doc_title(const struct doc *d, const char *id);
/* Is the heading in the other document alone? */
bool doc_leads_out(const struct doc *d, const char *id);

static inline int64_t table_rows(const struct table *t)
{
    return t->n_column ? t->n_cell / t->n_column : 0;
}

#endif
