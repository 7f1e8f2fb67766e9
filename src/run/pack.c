/* pack.c - see run.h: a result as one byte string, and back */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/run.h"

static void put_number(struct buf *b, int64_t n)
{
    buf_put(b, (const char *)&n, sizeof n);
}

static void put_text(struct buf *b, const char *s, size_t n)
{
    put_number(b, (int64_t)n);
    buf_put(b, s, n);
}

void case_result_pack(const struct case_result *r, struct buf *out)
{
    struct buf rows = BUF_INIT;
    int64_t i;

    record_text_pack(&r->rows, &rows);
    put_number(out, r->code);
    put_number(out, r->status);
    put_number(out, r->outside);
    put_number(out, r->n_file);
    put_text(out, r->message, strlen(r->message));
    put_text(out, buf_text(&rows), rows.len);
    put_text(out, buf_text(&r->table), r->table.len);
    put_text(out, buf_text(&r->json), r->json.len);
    put_text(out, buf_text(&r->complaint), r->complaint.len);
    for (i = 0; i < r->n_file; i++) {
        put_number(out, r->file[i].kind);
        put_text(out, r->file[i].name, strlen(r->file[i].name));
        put_text(out, buf_text(&r->file[i].text), r->file[i].text.len);
    }
    if (rows.failed) out->failed = true;
    buf_free(&rows);
}

struct cursor { const char *p; size_t left; bool bad, short_of_memory; };

static int64_t get_number(struct cursor *c)
{
    int64_t n = 0;

    if (c->left < sizeof n) {
        c->bad = true;
        return 0;
    }
    memcpy(&n, c->p, sizeof n);
    c->p += sizeof n;
    c->left -= sizeof n;
    return n;
}

/* One of n words. */
static int64_t get_word(struct cursor *c, int64_t n)
{
    int64_t i = get_number(c);

    if (i >= 0 && i < n) return i;
    c->bad = true;
    return 0;
}

/* The next text, borrowed; *n its length. */
static const char *get_text(struct cursor *c, size_t *n)
{
    int64_t len = get_number(c);
    const char *p = c->p;

    *n = 0;
    if (len < 0 || (uint64_t)len > c->left) c->bad = true;
    if (c->bad) return "";
    *n = (size_t)len;
    c->p += len;
    c->left -= (size_t)len;
    return p;
}

static void get_buf(struct cursor *c, struct buf *out)
{
    size_t n;
    const char *p = get_text(c, &n);

    buf_put(out, p, n);
    if (out->failed) c->bad = c->short_of_memory = true;
}

static void get_files(struct cursor *c, struct case_result *r, int64_t n)
{
    int64_t i;

    if (n < 0 || (uint64_t)n > c->left) c->bad = true;
    if (c->bad || n == 0) return;
    r->file = calloc((size_t)n, sizeof *r->file);
    if (r->file == NULL) c->bad = c->short_of_memory = true;
    for (i = 0; i < n && !c->bad; i++) {
        struct buf name = BUF_INIT;
        r->file[i].kind = (enum run_file_kind)get_word(c, RUN_FILE_KINDS);
        get_buf(c, &name);
        r->file[i].name = name.data;    /* its NUL is there */
        if (name.len == 0 || strlen(name.data) != name.len) c->bad = true;
        get_buf(c, &r->file[i].text);
        r->n_file++;
    }
}

int case_result_unpack(const char *data, size_t len, struct case_result *out,
                       struct err *e)
{
    struct cursor c = {data, len, false, false};
    struct case_result r = {0};
    int64_t n_file;
    const char *text;
    size_t n;
    int rc = ERR_OK;

    r.code = (enum err_code)get_word(&c, ERR_INTERRUPTED + 1);
    r.status = (enum record_status)get_word(&c, STATUS_COUNT);
    r.outside = get_number(&c);
    n_file = get_number(&c);
    text = get_text(&c, &n);
    if (n >= sizeof r.message || memchr(text, '\0', n) != NULL) c.bad = true;
    else memcpy(r.message, text, n);
    text = get_text(&c, &n);
    if (!c.bad) rc = record_text_unpack(text, n, &r.rows, e);
    get_buf(&c, &r.table);
    get_buf(&c, &r.json);
    get_buf(&c, &r.complaint);
    get_files(&c, &r, n_file);
    if (rc == ERR_OK && c.short_of_memory) rc = err_nomem(e);
    if (rc == ERR_OK && (c.bad || c.left != 0))
        rc = err_set(e, ERR_RUN, "its result is not whole");
    if (rc != ERR_OK) {
        case_result_free(&r);
        return rc;
    }
    *out = r;
    return ERR_OK;
}
