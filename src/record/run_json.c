/*
** run_json.c - run.json: what wrote a folder, when, and whether it finished.
*/
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "record/write.h"

#define RUN_FORMAT 1

static int set_string(json_t *o, const char *key, const char *s)
{
    return json_object_set_new(o, key, s ? js_text(s) : json_null());
}

/* words: NULL-ended, or NULL. */
static int set_list(json_t *o, const char *key, const char *const *words)
{
    json_t *list = json_array();
    int bad = 0;

    for (; words != NULL && *words != NULL; words++)
        bad |= json_array_append_new(list, js_text(*words));
    return bad | json_object_set_new(o, key, list);
}

static void now_utc(char *out, size_t cap)
{
    time_t t = time(NULL);
    struct tm tm;

    if (gmtime_r(&t, &tm) == NULL ||
        strftime(out, cap, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
        snprintf(out, cap, "unknown");
}

int record_run_describe(struct record *r, const struct record_info *info,
                        struct err *e)
{
    char hash[20], now[32];
    json_t *o, *more = NULL;
    int64_t i;
    int bad;

    snprintf(hash, sizeof hash, "%016" PRIx64,
             hash_bytes(HASH_START, info->identity, strlen(info->identity)));
    now_utc(now, sizeof now);
    js_begin();
    r->run = o = json_object();
    r->owned = json_object();
    bad = json_object_set_new(o, "peakproof_run", json_integer(RUN_FORMAT));
    bad |= json_object_set_new(o, "finished", json_false());
    bad |= set_string(o, "identity", hash);
    bad |= set_string(o, "command", info->command);
    bad |= set_string(o, "commit", info->commit);
    bad |= set_list(o, "scenarios", info->scenario);
    bad |= set_list(o, "settings", info->setting);
    bad |= set_string(o, "begun", now);
    more = json_object();
    for (i = 0; i < info->n_pair; i++)
        bad |= set_string(more, info->pair[i][0], info->pair[i][1]);
    bad |= json_object_set_new(o, "environment", more);
    if (bad && js_refused()) return err_nomem(e);
    return bad ? err_set(e, ERR_RUN, "run.json: cannot hold the command line "
                         "or the environment (is a text not UTF-8?)")
               : ERR_OK;
}

/* "files" from the set of owned ones; false when out of memory. */
static bool list_owned(struct record *r)
{
    json_t *list = json_array(), *value;
    const char *name;
    bool bad = list == NULL;

    json_object_foreach(r->owned, name, value)
        bad |= json_array_append_new(list, json_string(name)) != 0;
    return json_object_set_new(r->run, "files", list) == 0 && !bad;
}

int record_run_write(struct record *r, struct err *e)
{
    struct buf path = BUF_INIT, text = BUF_INIT;
    bool listed = list_owned(r);
    int rc;

    buf_printf(&path, "%s/run.json", r->dir);
    js_put(&text, r->run);
    rc = path.failed || text.failed || !listed ? err_nomem(e)
         : file_write(path.data, text.data, text.len, e);
    buf_free(&path);
    buf_free(&text);
    return rc;
}

/* The earlier run.json, *out NULL when there is none. */
static int read_old(struct record *r, json_t **out, struct err *e)
{
    struct buf path = BUF_INIT;
    int rc;

    *out = NULL;
    buf_printf(&path, "%s/run.json", r->dir);
    if (path.failed) return err_nomem(e);
    rc = record_look(path.data, &r->is_run, e);
    if (rc == ERR_OK && r->is_run) rc = js_load(path.data, 0, out, e);
    if (rc == ERR_OK && *out != NULL &&
        !json_is_integer(json_object_get(*out, "peakproof_run"))) {
        json_decref(*out);
        *out = NULL;
        rc = err_set(e, ERR_USAGE, "%s: not written by this program (choose "
                     "another folder)", path.data);
    }
    buf_free(&path);
    return rc;
}

static int check_resume(const struct record *r, const json_t *old,
                        struct err *e)
{
    const char *a = json_string_value(json_object_get(old, "identity"));
    const char *b = json_string_value(json_object_get(r->run, "identity"));

    if (a != NULL && strcmp(a, b) == 0) return ERR_OK;
    return err_set(e, ERR_USAGE, "%s: holds a run of other scenarios or "
                   "settings (repeat its command, or leave out --resume to "
                   "replace it)", r->dir);
}

/* The files of the run before are this one's to remove. */
static int take_owned(struct record *r, const json_t *old, struct err *e)
{
    json_t *value;
    size_t i;

    json_array_foreach(json_object_get(old, "files"), i, value)
        if (json_is_string(value) &&
            json_object_set_new(r->owned, json_string_value(value),
                                json_true()) != 0)
            return err_nomem(e);
    return ERR_OK;
}

int record_own(struct record *r, const char *const *name, int64_t n,
               struct err *e)
{
    struct buf path = BUF_INIT;
    size_t before = json_object_size(r->owned);
    int64_t i;
    int rc = ERR_OK;

    for (i = 0; rc == ERR_OK && i < n; i++) {
        struct stat st;
        if (json_object_get(r->owned, name[i]) != NULL) continue;
        path.len = 0;
        buf_printf(&path, "%s/%s", r->dir, name[i]);
        if (path.failed)
            rc = err_nomem(e);
        else if (lstat(path.data, &st) == 0 || errno != ENOENT)
            rc = err_set(e, ERR_USAGE, "%s: is there already, and not of a "
                         "run (remove it, or choose another folder)",
                         path.data);
        else if (json_object_set_new(r->owned, name[i], json_true()) != 0)
            rc = err_nomem(e);
    }
    buf_free(&path);
    return rc != ERR_OK || json_object_size(r->owned) == before
           ? rc : record_run_write(r, e);
}

int record_disown(struct record *r,
                  int (*remove)(void *ctx, const char *name, struct err *e),
                  void *ctx, struct err *e)
{
    const char *name;
    json_t *value;

    json_object_foreach(r->owned, name, value) {
        int rc = remove(ctx, name, e);
        if (rc != ERR_OK) return rc;
    }
    json_object_clear(r->owned);
    return ERR_OK;
}

int record_run_check(struct record *r, enum record_mode mode, struct err *e)
{
    json_t *old;
    int rc = read_old(r, &old, e);

    if (rc == ERR_OK) rc = take_owned(r, old, e);
    if (rc != ERR_OK) {
        json_decref(old);
        return rc;
    }
    if (mode == RECORD_RESUME && old != NULL) rc = check_resume(r, old, e);
    if (mode == RECORD_APPEND &&
        !json_is_true(json_object_get(old, "finished")))
        rc = err_set(e, ERR_USAGE, "%s: %s", r->dir, old == NULL ?
                     "no run there" : "its run is not finished (finish it "
                     "with run --resume)");
    if (rc == ERR_OK && mode == RECORD_APPEND) {
        json_decref(r->run);    /* the run stays what it was */
        r->run = json_incref(old);
    }
    json_decref(old);
    return rc;
}

int record_run_end(struct record *r, bool finished, struct err *e)
{
    char now[32];

    now_utc(now, sizeof now);
    if (json_object_set_new(r->run, "finished", json_boolean(finished)) != 0 ||
        set_string(r->run, "ended", now) != 0)
        return err_nomem(e);
    return record_run_write(r, e);
}
