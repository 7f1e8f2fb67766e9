/* Any bytes: the reader gives a table or an error. Whatever table it gives,
** written again and read again, is the same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/csv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void put_row(const struct csv_table *t, int64_t row, struct buf *b)
{
    int64_t i;

    for (i = 0; i < csv_columns(t); i++) {
        if (i > 0) buf_putc(b, ',');
        csv_put(b, row < 0 ? csv_name(t, i) : csv_cell(t, row, i));
    }
    buf_putc(b, '\n');
}

static int same(const char *a, const char *b)
{
    if (a == NULL || b == NULL) return a == b;
    return strcmp(a, b) == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct csv_table *t, *u;
    struct buf b = BUF_INIT;
    struct err e;
    int64_t i, j;

    if (csv_parse_text((const char *)data, size, "f", &t, &e) != ERR_OK)
        return 0;
    for (i = -1; i < csv_rows(t); i++) put_row(t, i, &b);
    /* one empty cell alone is a blank line, and those are skipped */
    if (csv_columns(t) > 1) {
        if (csv_parse_text(b.data, b.len, "g", &u, &e) != ERR_OK) abort();
        if (csv_rows(t) != csv_rows(u)) abort();
        for (i = 0; i < csv_rows(t); i++)
            for (j = 0; j < csv_columns(t); j++)
                if (!same(csv_cell(t, i, j), csv_cell(u, i, j))) abort();
        csv_table_free(u);
    }
    buf_free(&b);
    csv_table_free(t);
    return 0;
}
