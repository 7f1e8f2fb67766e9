/*
** test_snapshot_answers.c - whole files and what must be said of them:
** tests/golden/snapshots/answers.tsv; and, for the files of a folder that the
** environment variable SNAPSHOTS names, that every address is predicted and
** the trace leads to the state that the file has.
*/
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "snapshot/account.h"

#define FOLDER "tests/golden/snapshots/"

/* How one line asks. */
struct asked {
    struct account_ask ask;
    struct mem_config set;
};

/* "by=pool" groups; anything else is a setting. */
static void take_setting(struct asked *q, const struct snapshot *s,
                         char *text)
{
    char *mark = strchr(text, '=');
    enum setting_effect effect;
    struct err e;

    q->ask = (struct account_ask){.by = BY_FRAME, .set_text = text};
    if (mark == NULL) return;
    *mark++ = '\0';
    if (strcmp(text, "by") == 0) {
        for (int i = 0; compose_names[i] != NULL; i++)
            if (strcmp(compose_names[i], mark) == 0)
                q->ask.by = (enum compose_by)i;
        return;
    }
    q->set = s->config;
    assert_int_equal(settings_set(&q->set, text, mark, &effect, &e), 0);
    if (effect == SETTING_USED) q->ask.set = &q->set;
}

/* The member at a path "a.0.b"; NULL: there is none. */
static json_t *at_path(json_t *v, char *path)
{
    char *rest, *word;

    for (word = strtok_r(path, ".", &rest); word != NULL && v != NULL;
         word = strtok_r(NULL, ".", &rest))
        v = json_is_array(v) ? json_array_get(v, strtoul(word, NULL, 10))
                             : json_object_get(v, word);
    return v;
}

static json_t *answer(const char *file, char *setting)
{
    char path[200];
    struct snapshot s = {0};
    struct account a;
    struct asked q = {0};
    struct err e = {0};
    json_t *v;

    snprintf(path, sizeof path, FOLDER "%s", file);
    if (snapshot_load(path, &s, &e) != ERR_OK) print_error("%s\n", e.text);
    assert_int_equal(e.code, 0);
    take_setting(&q, &s, setting);
    if (account_device(&s, 0, path, &q.ask, &a, &e) != ERR_OK)
        print_error("%s\n", e.text);
    assert_int_equal(e.code, 0);
    v = account_json(&a, &q.ask);
    assert_non_null(v);
    account_free(&a);
    snapshot_free(&s);
    return v;
}

static void check_line(char *line)
{
    char shown[300], *rest, *file, *setting, *path, *want, *text;
    json_t *v, *have;

    snprintf(shown, sizeof shown, "%s", line);
    file = strtok_r(line, "\t", &rest);
    setting = strtok_r(NULL, "\t", &rest);
    path = strtok_r(NULL, "\t", &rest);
    want = strtok_r(NULL, "\t", &rest);
    assert_non_null(want);
    v = answer(file, setting);
    have = at_path(v, path);
    text = have != NULL ? json_dumps(have, JSON_ENCODE_ANY) : strdup("-");
    if (strcmp(text, want) != 0) print_error("%s: %s\n", shown, text);
    assert_string_equal(text, want);
    free(text);
    json_decref(v);
}

static void test_answers(void **state)
{
    struct buf b = BUF_INIT;
    char *line, *rest;
    struct err e;
    int lines = 0;

    (void)state;
    assert_int_equal(file_read(FOLDER "answers.tsv", 1 << 20, &b, &e),
                     ERR_OK);
    for (line = strtok_r(b.data, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        if (line[0] == '#') continue;
        check_line(line);
        lines++;
    }
    assert_true(lines > 60);
    buf_free(&b);
}

/* ---- a user's own files ------------------------------------------------- */

static void check_device(const struct snapshot *s, int64_t device,
                         const char *path, int64_t *predicted)
{
    struct account_ask ask = {.by = BY_FRAME};
    struct account a;
    struct err e = {0};

    if (account_device(s, device, path, &ask, &a, &e) != ERR_OK)
        print_error("%s\n", e.text);
    assert_int_equal(e.code, 0);
    assert_memory_equal(&a.walk.final, &a.walk.recorded,
                        sizeof a.walk.final);
    if (a.predicted) {
        if (a.replay.address_mismatches != 0)
            print_error("%s: device %d\n", path, (int)device);
        assert_int_equal(a.replay.address_mismatches, 0);
        assert_int_equal(a.replay.segment_mismatches, 0);
        assert_int_equal(a.replay.block_mismatches, 0);
        assert_memory_equal(&a.walk.peak, &a.replay.peak,
                            sizeof a.walk.peak);
        ++*predicted;
    }
    account_free(&a);
}

static void test_folder(void **state)
{
    const char *folder = getenv("SNAPSHOTS");
    int64_t files = 0, predicted = 0;
    struct dirent *d;
    DIR *dir;

    (void)state;
    if (folder == NULL) {
        skip();
        return;
    }
    dir = opendir(folder);
    assert_non_null(dir);
    while ((d = readdir(dir)) != NULL) {
        struct snapshot s = {0};
        char path[1024];
        struct err e = {0};

        if (strstr(d->d_name, ".pickle") == NULL) continue;
        snprintf(path, sizeof path, "%s/%s", folder, d->d_name);
        if (snapshot_load(path, &s, &e) != ERR_OK)
            print_error("%s\n", e.text);
        assert_int_equal(e.code, 0);
        for (int64_t i = 0; i < s.n_device; i++)
            check_device(&s, i, path, &predicted);
        snapshot_free(&s);
        files++;
    }
    closedir(dir);
    printf("SNAPSHOTS: %d files, %d devices predicted\n", (int)files,
           (int)predicted);
    assert_true(files > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_folder),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
