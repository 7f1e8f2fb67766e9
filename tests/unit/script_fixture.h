/*
** script_fixture.h - scenarios from text, for tests of the script module.
** Needs cmocka.h and what it needs before it. Tests run in the repository's
** root: models and data are those of lua/.
*/
#ifndef TESTS_UNIT_SCRIPT_FIXTURE_H
#define TESTS_UNIT_SCRIPT_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "script/scenario.h"

static char fixture_dir[64];

static inline int fixture_setup(void **state)
{
    (void)state;
    strcpy(fixture_dir, "/tmp/peakproof-script-XXXXXX");
    return mkdtemp(fixture_dir) == NULL;
}

static inline int fixture_teardown(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", fixture_dir);
    return system(command);
}

/* The path of a file of the fixture's folder; a static buffer. */
static inline const char *fixture_path(const char *name)
{
    static char path[256];

    snprintf(path, sizeof path, "%s/%s", fixture_dir, name);
    return path;
}

static inline void fixture_write(const char *name, const char *text)
{
    FILE *f = fopen(fixture_path(name), "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, strlen(text), f), strlen(text));
    assert_int_equal(fclose(f), 0);
}

static struct scenario_limits fixture_limits;

/* Loads text as s.lua of the fixture's folder. */
static inline int fixture_load(const char *text, struct scenario **out,
                        struct err *e)
{
    fixture_write("s.lua", text);
    *out = NULL;
    e->text[0] = '\0';
    return scenario_load(fixture_path("s.lua"), "lua", NULL, 0,
                         &fixture_limits, out, e);
}

/* The text must fail with this code, and the message's first line be
** "DIR/s.lua" and then exactly rest. */
static inline void fixture_fails(const char *text, int code, const char *rest)
{
    struct scenario *s;
    struct err e;
    char first[1024], wanted[1024];
    int rc = fixture_load(text, &s, &e);

    snprintf(wanted, sizeof wanted, "%s/s.lua%s", fixture_dir, rest);
    snprintf(first, sizeof first, "%.*s", (int)strcspn(e.text, "\n"), e.text);
    if (rc != code || strcmp(first, wanted) != 0)
        print_error("%s\ncode %d, text: %s\n", text, rc, e.text);
    assert_int_equal(rc, code);
    assert_int_equal(e.code, code);
    assert_string_equal(first, wanted);
    assert_null(s);
}

/* The text must load. */
static inline struct scenario *fixture_good(const char *text)
{
    struct scenario *s;
    struct err e;
    int rc = fixture_load(text, &s, &e);

    if (rc != ERR_OK) print_error("%s\n", e.text);
    assert_int_equal(rc, ERR_OK);
    return s;
}

#define CASE "name = 'a', model = 'Qwen3.6-35B-A3B', "
#define BATCH "batch = batch.lengths{10}, "
#define MINIMAL "return {cases = {{" CASE BATCH "}}}"

#endif
