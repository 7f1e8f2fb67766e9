/* Scripts that never end, grow without end, or try to outlive a limit: each
** ends soon, with exit code 3 and the line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "tests/unit/script_fixture.h"

#define INSTRUCTIONS \
    ": the script runs more than 2 million instructions (does a loop never " \
    "end?)"
#define MEMORY ": the script needs more than 24 MiB of memory"

static void ends(const char *text, const char *how)
{
    char rest[200];

    snprintf(rest, sizeof rest, ":1%s", how);
    fixture_fails(text, ERR_INPUT, rest);
}

static void test_instructions(void **state)
{
    static const char *const text[] = {
        "while true do end",
        "for i = 1, math.huge do end",
        "local function f() return f() end f()",
        "while true do pcall(function() while true do end end) end",
        "pcall(function() while true do end end) " MINIMAL,
        "local function f() return pcall(f) end while true do f() end",
        "while true do pcall(error) end",
        "xpcall(function() while true do end end, function() while true do "
            "end end) " MINIMAL,
        "while true do xpcall(error, function() error('again') end) end",
        "local t = setmetatable({}, {__index = function(t, k) while true do "
            "end end}) return t.x",
        "error(setmetatable({}, {__tostring = function() while true do end "
            "end}))",
        "do local x <close> = setmetatable({}, {__close = function() while "
            "true do end end}) end",
        "local t = setmetatable({}, {__eq = function() while true do end "
            "end}) return t == setmetatable({}, getmetatable(t))",
        "load('while true do end', '=s.lua')()",
        "local s = ('x = 1 '):rep(100000) while true do load(s) end",
    };

    (void)state;
    for (size_t i = 0; i < sizeof text / sizeof *text; i++)
        ends(text[i], INSTRUCTIONS);
}

/* Library functions whose work no instruction shows. */
static void test_library(void **state)
{
    static const char *const text[] = {
        "string.rep('', 1 << 62)",
        "string.rep('ab', 1 << 60, 'c')",
        "('a'):rep(1000):find(('.-'):rep(20) .. 'b')",
        "('a'):rep(1000):match(('a*'):rep(9) .. 'b')",
        "('a'):rep(1000):gsub(('(a*)'):rep(9) .. 'b', '')",
        "('a'):rep(1000):gmatch(('[^b]+'):rep(9) .. 'b')",
        "('a'):rep(100):find(('a?'):rep(100) .. ('a'):rep(100))",
        "('a'):rep(30000):find(('%b()'):rep(3))",
        "('x'):rep(100000):find(('x'):rep(50000) .. 'y', 1, true)",
        "table.move({}, 1, 1 << 62, 2)",
        "table.move({}, 1, 2^62, 2)",
        "local t = setmetatable({}, {__len = function() return 1 << 60 end})"
            " table.insert(t, 1, 2)",
        "local t = setmetatable({}, {__len = function() return 1 << 60 end})"
            " table.remove(t, 1)",
        "local t = setmetatable({}, {__len = function() return 1 << 30 end,"
            " __index = rawlen}) table.sort(t)",
        "table.concat(setmetatable({}, {__index = function() return '' end}),"
            " '', 1, 1 << 62)",
        "table.unpack({}, 1, 1e7)",
        "local t = {} for i = 1, 1000 do t[i] = '' end while true do "
            "table.concat(t) end",
        "local t = {} for i = 1, 1000 do t[i] = 1 end while true do "
            "table.insert(t, 1, 1) table.remove(t, 1) end",
        "local s = ('x'):rep(100000) while true do s:byte(-1) s:len() "
            "utf8.len(s) end",
        "local s = (' '):rep(100000) for i = 1, 200 do tonumber(s, 10) end",
        "local s, t = ('x'):rep(1000000), {} for i = 1, 9000 do t[i] = s end "
            "table.sort(t)",
        "batch.random{count = 1000000, length = 1} batch.random{count = "
            "1000000, length = 1} batch.random{count = 1, length = 1}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof text / sizeof *text; i++)
        ends(text[i], INSTRUCTIONS);
}

static void test_memory(void **state)
{
    static const char *const text[] = {
        "local t = {} for i = 1, 1e9 do t[i] = {i} end",
        "local s = 'x' while true do s = s .. s end",
        "local t, x = {}, ('x'):rep(10000) while true do t[#t + 1] = x .. #t "
            "end",
        "pcall(function() local s = 'x' while true do s = s .. s end end) "
            MINIMAL,
        "while true do pcall(function() local s = 'x' while true do s = s .. "
            "s end end) end",
        "local t = {} while true do t = {t, t} end",
        "local t = {} for i = 1, 1e9 do t[i] = function() return i end end",
        "local x = ('x'):rep(1000):rep(14000) x = x .. x",
        "local p = {} for i = 1, 3000 do p[i] = 'abcdefgh' end "
            "local s = table.concat(p) for i = 1, 1e4 do p[i] = s end "
            "s = table.concat(p, s, 1, 2000)",
        "local b = {} for i = 1, 1000 do b[i] = batch.random{count = 1000, "
            "length = 1} end",
    };

    (void)state;
    for (size_t i = 0; i < sizeof text / sizeof *text; i++)
        ends(text[i], MEMORY);
}

/* Errors of deep recursion are Lua's own, and end as soon. */
static void test_recursion(void **state)
{
    (void)state;
    fixture_fails("local t = setmetatable({}, {__index = function(t, k) "
                  "return t[k + 1] end}) return t[1]", ERR_INPUT,
                  ":1: C stack overflow");
    fixture_fails("local function f() return 1 + f() end f()", ERR_INPUT,
                  ":1: the script needs more than 24 MiB of memory");
    fixture_fails(
        "local t = setmetatable({}, {}) getmetatable(t).__index = t return "
        "t.x", ERR_INPUT, ":1: '__index' chain too long; possible loop");
}

static void test_not_there(void **state)
{
    (void)state;
    fixture_fails("setmetatable({}, {__gc = function() while true do end end"
                  "})", ERR_INPUT, ":1: __gc is not available in scenarios");
    fixture_fails("return io.open('x')", ERR_INPUT,
                  ":1: attempt to index a nil value (global 'io') (io is there "
                  "with --unsafe alone; options after -- and csv.rows{file} "
                  "need none)");
    fixture_fails("os.execute('ls')", ERR_INPUT,
                  ":1: attempt to index a nil value (global 'os') (os is there "
                  "with --unsafe alone; options after -- and csv.rows{file} "
                  "need none)");
    fixture_fails("return coroutine.wrap(f)", ERR_INPUT,
                  ":1: attempt to index a nil value (global 'coroutine') "
                  "(coroutine is there with --unsafe alone; options after -- "
                  "and csv.rows{file} need none)");
    fixture_fails("assert(load('\\27Lua'))", ERR_INPUT,
                  ":1: attempt to load a binary chunk (mode is 't')");
    fixture_fails("load(function() end)", ERR_INPUT,
                  ":1: load takes a string in scenarios");
    fixture_fails("\033Lua", ERR_INPUT,
                  ": attempt to load a binary chunk (mode is 't')");
}

/* Legal scripts do not run into the charges. */
static void test_plenty(void **state)
{
    (void)state;
    scenario_free(fixture_good(
        "local n = 0 for i = 1, 400 do local a, b = "
        "('ep2.seq-' .. i):match('^(%a+%d)%.seq%-(%d+)$') n = n + b end "
        "assert(n == 80200) local t = {} for i = 1, 4000 do t[i] = i % 7 end "
        "table.sort(t) assert(t[1] == 0 and #table.concat(t, ',') == 7999) "
        "assert(('a,b,,c'):gsub(',', ';') == 'a;b;;c') "
        "assert(select(2, pcall(error, 'x')) == 'x') "
        "assert(not xpcall(error, function(m) return m end)) "
        "local ok, a, b = xpcall(function(...) return ... end, print, 1, 2) "
        "assert(ok and a == 1 and b == 2) "
        "local v = {} assert(load('x = ...', 'n', 't', v))(5) "
        "assert(v.x == 5 and x == nil) assert(not load('=')) "
        "assert(('%5.1f|%s'):format(2.25, {} ~= nil) == '  2.2|true') "
        "assert(#('ab'):rep(3, '-') == 8 and ('x'):rep(-1) == '') "
        MINIMAL));
}

/* A limit so small that not even the libraries fit. */
static void test_tiny_limit(void **state)
{
    struct scenario_limits l = {.instructions = 1000};
    struct scenario *s;
    struct err e;

    (void)state;
    fixture_write("s.lua", MINIMAL);
    for (l.memory_bytes = 1; l.memory_bytes < 100000; l.memory_bytes += 997) {
        int rc = scenario_load(fixture_path("s.lua"), "lua", NULL, 0, &l, &s,
                               &e);
        if (rc == ERR_OK) scenario_free(s);
        assert_true(rc == ERR_OK || rc == ERR_INPUT);
        if (rc == ERR_INPUT)
            assert_non_null(strstr(e.text, "bytes of memory"));
    }
}

/* Seconds of processor time since the program began. */
static double seconds(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

/* A comparison is one instruction, whatever it compares: here 30 million
** pieces of nothing. The limit of time holds all the same. */
static void test_long_texts(void **state)
{
    struct scenario_limits l = {.seconds = 1};
    double from = seconds();
    struct scenario *s;
    struct err e;

    (void)state;
    fixture_write("s.lua", "local a = ('\\0'):rep(1000):rep(30000)\n"
                  "local b = a:sub(1, -2) .. 'a'\n"
                  "while true do local less = a < b end");
    assert_int_equal(scenario_load(fixture_path("s.lua"), "lua", NULL, 0, &l,
                                   &s, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "s.lua:3: the script runs longer than 1 "
                                   "s"));
    assert_true(seconds() - from < 6);
}

static atomic_int flag;

static void test_interrupt(void **state)
{
    struct scenario_limits l = {.interrupt = &flag};
    struct scenario *s;
    struct err e;

    (void)state;
    flag = 1;
    fixture_write("s.lua", "while true do pcall(function() while true do end "
                  "end) end");
    assert_int_equal(scenario_load(fixture_path("s.lua"), "lua", NULL, 0, &l,
                                   &s, &e), ERR_INTERRUPTED);
    assert_string_equal(e.text, "interrupted");
    assert_int_equal(e.code, ERR_INTERRUPTED);
    flag = 0;
    fixture_write("s.lua", MINIMAL);
    assert_int_equal(scenario_load(fixture_path("s.lua"), "lua", NULL, 0, &l,
                                   &s, &e), ERR_OK);
    scenario_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_instructions),
        cmocka_unit_test(test_library),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_recursion),
        cmocka_unit_test(test_not_there),
        cmocka_unit_test(test_plenty),
        cmocka_unit_test(test_tiny_limit),
        cmocka_unit_test(test_long_texts),
        cmocka_unit_test(test_interrupt),
    };

    fixture_limits.instructions = 2000000;
    fixture_limits.memory_bytes = 24 << 20;
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
