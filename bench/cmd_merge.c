/* cmd_merge.c - "peakproof merge": the shards of a run become one folder */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/version.h"
#include "bench/command.h"
#include "record/read.h"
#include "record/record.h"
#include "run/run.h"

#define RUN_JSON_LIMIT ((size_t)16 << 20)
#define FILE_LIMIT ((size_t)1 << 34)

struct shard {
    const char *dir;
    char whole[64];
    int64_t number, of;
};

static int read_text(const json_t *o, const char *key, const char *dir,
                     char *out, size_t cap, struct err *e)
{
    const char *v = json_string_value(
        json_object_get(json_object_get(o, "environment"), key));

    if (v == NULL || strlen(v) >= cap)
        return err_set(e, ERR_INPUT, "%s/run.json: no %s: not of a run with "
                       "--shard", dir, key);
    snprintf(out, cap, "%s", v);
    return ERR_OK;
}

/* What a folder's run.json says of the run it is a part of. */
static int read_shard(const char *dir, struct shard *out, struct err *e)
{
    struct buf path = BUF_INIT;
    char shard[64] = "";
    json_t *o = NULL;
    int rc;

    out->dir = dir;
    buf_printf(&path, "%s/run.json", dir);
    if (path.failed) return err_nomem(e);
    rc = js_load(path.data, RUN_JSON_LIMIT, &o, e);
    buf_free(&path);
    if (rc == ERR_OK)
        rc = read_text(o, "whole", dir, out->whole, sizeof out->whole, e);
    if (rc == ERR_OK) rc = read_text(o, "shard", dir, shard, sizeof shard, e);
    if (rc == ERR_OK && sscanf(shard, "%" SCNd64 "/%" SCNd64, &out->number,
                               &out->of) != 2)
        rc = err_set(e, ERR_INPUT, "%s/run.json: shard: '%s' is none", dir,
                     shard);
    if (rc == ERR_OK && !json_is_true(json_object_get(o, "finished")))
        rc = err_set(e, ERR_INPUT, "%s: the run is not finished (go on with "
                     "run --resume)", dir);
    json_decref(o);
    return rc;
}

static int by_number(const void *a, const void *b)
{
    const struct shard *x = a, *y = b;
    return x->number < y->number ? -1 : x->number > y->number;
}

/* All of one run, each there once. */
static int check_shards(const struct shard *s, int n, struct err *e)
{
    int i;

    for (i = 0; i < n; i++) {
        bool twice = i > 0 && s[i].number == i;
        if (strcmp(s[i].whole, s[0].whole) != 0 || s[i].of != s[0].of)
            return err_set(e, ERR_INPUT, "%s and %s: not shards of the same "
                           "run", s[0].dir, s[i].dir);
        if (s[i].number != i + 1)
            return err_set(e, ERR_INPUT, "shard %d of %" PRId64 " is %s",
                           twice ? i : i + 1, s[0].of,
                           twice ? "there twice" : "missing");
    }
    if (n == s[0].of) return ERR_OK;
    return err_set(e, ERR_INPUT, "shard %d of %" PRId64 " is missing", n + 1,
                   s[0].of);
}

/* A file's rows, its header left out. */
static int read_rows(const char *dir, enum record_file f, struct buf *out,
                     struct err *e)
{
    struct buf path = BUF_INIT, text = BUF_INIT, header = BUF_INIT;
    int rc;

    buf_printf(&path, "%s/%s", dir, record_file_name(f));
    record_put_header(&header, f);
    if (path.failed || header.failed) return err_nomem(e);
    rc = file_read(path.data, FILE_LIMIT, &text, e);
    if (rc == ERR_OK && (text.len < header.len ||
                         memcmp(text.data, header.data, header.len) != 0))
        rc = err_set(e, ERR_INPUT, "%s: not the columns of this version",
                     path.data);
    if (rc == ERR_OK)
        buf_put(out, text.data + header.len, text.len - header.len);
    if (rc == ERR_OK && out->failed) rc = err_nomem(e);
    buf_free(&path);
    buf_free(&text);
    buf_free(&header);
    return rc;
}

static int append_shard(struct record *r, const char *dir, struct err *e)
{
    struct record_text t;
    int f, rc = ERR_OK;

    memset(&t, 0, sizeof t);
    for (f = 0; f < RECORD_CASE_FILES && rc == ERR_OK; f++)
        rc = read_rows(dir, (enum record_file)f, &t.file[f], e);
    if (rc == ERR_OK && t.file[RECORD_CASES].len > 0)
        rc = record_append(r, &t, e);
    record_text_free(&t);
    return rc;
}

/* What the shard's own run checked (--check). */
static int add_checks(struct record *r, const char *dir, struct err *e)
{
    struct record_set *set;
    int rc = record_read(dir, &set, e);
    int64_t i;

    if (rc != ERR_OK) return rc;
    for (i = 0; i < set->n_check && rc == ERR_OK; i++)
        rc = record_check(r, &set->check[i], e);
    record_set_free(set);
    return rc;
}

/* Every shard there, finished, of one run: or there would be no folder. */
static int check_merged(struct record *r, int n, struct err *e)
{
    struct record_check c = {
        .check = "shards", .cases = n,
        .note = "cases: shards, each there once, finished and of one run"
    };

    return record_check(r, &c, e);
}

/* OUT, from the shards in order; it is replaced once it is whole. */
static int write_all(const char *dir, const struct shard *s, int n,
                     struct err *e)
{
    struct record_info info = {.identity = s[0].whole, .command = "peakproof "
                               "merge", .commit = peakproof_version};
    struct err late = {ERR_OK, ""};
    struct record *r;
    int i, closed, rc = record_open(dir, RECORD_REPLACE, &info, &r, e);

    if (rc != ERR_OK) return rc;
    for (i = 0; i < n && rc == ERR_OK; i++)
        rc = append_shard(r, s[i].dir, e);
    for (i = 0; i < n && rc == ERR_OK; i++) rc = add_checks(r, s[i].dir, e);
    if (rc == ERR_OK) rc = check_merged(r, n, e);
    closed = record_close(r, rc == ERR_OK, &late);
    if (rc == ERR_OK && closed != ERR_OK) {
        *e = late;
        rc = closed;
    }
    return rc;
}

/* Opening OUT empties it. */
static int check_out(const char *out, const char *dir, struct err *e)
{
    char *to = realpath(out, NULL), *from = realpath(dir, NULL);
    bool same = to != NULL && from != NULL && strcmp(to, from) == 0;

    free(to);
    free(from);
    if (!same) return ERR_OK;
    return err_set(e, ERR_USAGE, "merge: %s is one of the shards, and would be "
                   "emptied first (choose another OUT)", out);
}

/* Opens every shard, holds them against each other, writes OUT. */
static int run(const struct args *a, struct err *e)
{
    int n = a->n_operand - 1, i, rc = ERR_OK;
    struct shard *s = calloc((size_t)n, sizeof *s);
    struct run_summary sum = {.source = NULL};
    struct buf out = BUF_INIT;

    if (s == NULL) return err_nomem(e);
    for (i = 0; i < n && rc == ERR_OK; i++) {
        rc = check_out(a->operand[0], a->operand[i + 1], e);
        if (rc == ERR_OK) rc = read_shard(a->operand[i + 1], &s[i], e);
    }
    if (rc == ERR_OK) {
        qsort(s, (size_t)n, sizeof *s, by_number);
        rc = check_shards(s, n, e);
    }
    if (rc == ERR_OK) rc = write_all(a->operand[0], s, n, e);
    if (rc == ERR_OK) rc = run_summary(a->operand[0], &sum, e);
    if (rc == ERR_OK) run_summary_text(&sum, &out);
    run_summary_free(&sum);
    free(s);
    return rc == ERR_OK ? out_put(&out, e) : rc;
}

static const struct command_option options[] = {
    {NULL, 0, NULL, NULL, NULL, false}
};

static const char *const examples[] = {
    "peakproof run --shard 1/2 --totals --out s1 sweep.lua",
    "peakproof merge out s1 s2",
    NULL
};

const struct command cmd_merge = {
    .name = "merge",
    .synopsis = "OUT DIR...",
    .about = "the shards of a run (run --shard) become one folder",
    .text = "Puts the records of all shards of one run, which may have been "
            "made on different machines, into OUT, in order: the bytes that "
            "the run without --shard writes. checks.csv has those of every "
            "shard, and that all were there. A shard that is missing, there "
            "twice, unfinished or of another run is an error, and so is an "
            "OUT that is one of them.",
    .option = options,
    .operand = "OUT and the shards' folders",
    .min_operands = 2,
    .max_operands = -1,
    .exits = {ERR_RUN, ERR_INPUT},
    .examples = examples,
    .run = run,
};
