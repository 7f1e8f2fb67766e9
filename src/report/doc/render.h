/*
** render.h - a document as Markdown, HTML, CSV or JSON. All four append to
** out; a failed allocation shows as out->failed (or ERR_RUN).
** Inside src/report.
*/
#ifndef REPORT_RENDER_H
#define REPORT_RENDER_H

#include <jansson.h>

#include "base/buf.h"
#include "base/err.h"
#include "report/doc/doc.h"

/* GitHub's Markdown; tables are padded, so they read well as they are. */
void render_md(const struct doc *d, struct buf *out);
/* One page, styles inside, pictures as files beside it. */
void render_html(const struct doc *d, const char *title, struct buf *out);
/* table,row,column,value: one number a row, as exact as it is known. */
void render_csv(const struct doc *d, struct buf *out);
/* {"format":1,"sections":[{"id","title","text":[],"commands":[],
** "tables":[{"id","columns":[],"rows":[[]]}],"plots":[]}]}; the caller owns
** the value, NULL without memory. Cells are numbers, texts or null. */
json_t *render_json(const struct doc *d);

#endif
