/* Every complaint about a declaration: one line with file, line, key and,
** where there is one, the word that was meant; exit code 3. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/script_fixture.h"

struct complaint { const char *text, *wanted; };

static void check(const struct complaint *c, size_t n, const char *before,
                  const char *behind)
{
    for (size_t i = 0; i < n; i++) {
        char text[1024];
        snprintf(text, sizeof text, "%s%s%s", before, c[i].text, behind);
        fixture_fails(text, ERR_INPUT, c[i].wanted);
    }
}

#define CHECK(table, before, behind) \
    check(table, sizeof table / sizeof *table, before, behind)

static void test_top(void **state)
{
    static const struct complaint c[] = {
        {"", ": a scenario must return a table (return {name = ..., cases = "
             "...})"},
        {"return 3", ": a scenario must return a table (return {name = ..., "
                     "cases = ...})"},
        {"return {}", ": 'cases' is missing"},
        {"return {\n caes = {}}",
         ":2: unknown key 'caes' (did you mean 'cases'?)"},
        {"return {\n\nfoo = 1, cases = {}}",
         ":3: unknown key 'foo' (known: about cases name options)"},
        {"return {cases = {}, 7}",
         ": has an item at 1, but takes only named keys"},
        {"return setmetatable({cases = {}}, {})",
         ": must be a plain table, without a metatable"},
        {"return {cases = {}}", ":1: cases: there are none"},
        {"return {cases = 'x'}",
         ":1: cases: must be a function or a list, not a string"},
        {"return {cases = {1}}", ":1: case 1: must be a table, not 1"},
        {"return {cases = {a = 1}}",
         ":1: cases: must be a list, but has the key 'a'"},
        {"return {cases = {[1] = 1, [3] = 1}}",
         ":1: cases: must be a list, but has the key 3"},
        {"return {\ncases = function() end}",
         ":2: cases: must be a list, not nil"},
        {"return {name = '', cases = {}}", ":1: name: must not be empty"},
        {"return {name = 3, cases = {}}",
         ":1: name: must be a string, not 3"},
        {"return {about = 'a\\nb', cases = {}}",
         ":1: about: must not hold control characters"},
        {"return {about = 'a\\u{9b}31m', cases = {}}",
         ":1: about: must not hold control characters"},
        {"error('a\\27[31m\\u{9b}31m')", ":1: a [31m??31m"},
        {"return {options = {}, cases = {}}",
         ":1: options: need cases to be a function of them"},
        {"return {cases = }", ":1: unexpected symbol near '}'"},
        {"retrun {}", ":1: attempt to call a nil value (global 'retrun')"},
        {"\n\nerror('mine')", ":3: mine"},
        {"error('mine', 0)", ": mine"},
        {"error({})", ": raised a table instead of a message"},
        {"error(setmetatable({}, {__tostring = function() return 'obj' end}))",
         ": obj"},
        {"error('two\\nlines')", ":1: two lines"},
        {"-- cases = 1\nlocal s = [[\ncases = 2]]\nreturn {cases = 3}",
         ":4: cases: must be a function or a list, not a number"},
        {"local cases = {}\nreturn {cases = cases == 3 and 1}",
         ":2: cases: must be a function or a list, not a boolean"},
        {"local t = {}\nt.cases = 3\nreturn t",
         ":2: cases: must be a function or a list, not a number"},
        {"local t = {}\nt['cases'] = 3\nreturn t",
         ":2: cases: must be a function or a list, not a number"},
        {"--[==[ {cases = 3}\n]] ]==]\nlocal s = '{\\'cases = 3'\nlocal u = "
         "\"{,cases=3\" return {[ [[cases]] ] = 3}",
         ":4: cases: must be a function or a list, not a number"},
    };

    (void)state;
    CHECK(c, "", "");
}

#define X ": case 'x': "

/* Keys of a case that has name, model and batch on line 2; the folder's name
** is put where a message says DIR. */
static void check_case(const struct complaint *c, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct complaint one = c[i];
        char wanted[512];
        const char *dir = strstr(one.wanted, "DIR");
        if (dir != NULL) {
            snprintf(wanted, sizeof wanted, "%.*s%s%s",
                     (int)(dir - one.wanted), one.wanted, fixture_dir,
                     dir + 3);
            one.wanted = wanted;
        }
        check(&one, 1, "local m, b = 'Qwen3.6-35B-A3B', batch.lengths{10}\n"
              "return {cases = {{name = 'x', model = m, batch = b,\n", "}}}");
    }
}

/* A name of 100 letters is one, of 101 none. */
static void test_longest_name(void **state)
{
    static const char text[] =
        "local b = batch.lengths{10}\n"
        "return {cases = {{name = string.rep('n', %d), model = 'tiny',\n"
        "batch = b}}}";
    char full[256], want[256], long_name[100];

    (void)state;
    snprintf(full, sizeof full, text, 100);
    scenario_free(fixture_good(full));
    snprintf(full, sizeof full, text, 101);
    memset(long_name, 'n', 100);        /* what a message shows of it */
    snprintf(want, sizeof want, ":2: case '%.100s': name: may hold up to 100 "
             "letters, digits and ._+=@-", long_name);
    fixture_fails(full, ERR_INPUT, want);
}

static void test_case_numbers(void **state)
{
    static const struct complaint c[] = {
        {"layres = 3", ":3" X "unknown key 'layres' (did you mean "
                       "'layers'?)"},
        {"layers = 0", ":3" X "layers: must be from 1 to 1000000000, not 0"},
        {"layers = 'x'", ":3" X "layers: must be an integer, not 'x'"},
        {"layers = 1.5", ":3" X "layers: must be an integer, not 1.5"},
        {"layers = 2^70",
         ":3" X "layers: must be an integer, not 1.1805916207174e+21"},
        {"layers = {}", ":3" X "layers: must be an integer, not a table"},
        {"cp = 65", ":3" X "cp: must be from 1 to 64, not 65"},
        {"cp = -1", ":3" X "cp: must be from 1 to 64, not -1"},
        {"ep = 0", ":3" X "ep: must be from 1 to 1000000000, not 0"},
        {"seed = -1",
         ":3" X "seed: must be from 0 to 9223372036854775807, not -1"},
        {"waves = 0", ":3" X "waves: must be from 1 to 1000, not 0"},
        {"waves = 1001", ":3" X "waves: must be from 1 to 1000, not 1001"},
        {"lora_alpha = 0/0",
         ":3" X "lora_alpha: must be a number, not nan"},
        {"lora_alpha = 1/0",
         ":3" X "lora_alpha: must be from 0 to 1e+09, not inf"},
        {"softmax_offset = 1",
         ":3" X "softmax_offset: must be true or false, not 1"},
        {"device_bytes = '80Q'",
         ":3" X "device_bytes: must be a number of bytes, as in \"80G\" or "
         "\"512Mi\", not '80Q'"},
        {"device_bytes = 0",
         ":3" X "device_bytes: must be from 1 to 1152921504606846976, not 0"},
    };

    (void)state;
    check_case(c, sizeof c / sizeof *c);
}

static void test_case_words(void **state)
{
    static const struct complaint c[] = {
        {"model = 'Qwen3.6-35B-A3C'", ":3" X "model: no file "
         "'Qwen3.6-35B-A3C' (did you mean 'Qwen3.6-35B-A3B'?)"},
        {"model = 'qwen3.6-27b.json'", ":3" X "model: no file "
         "'qwen3.6-27b.json' (did you mean 'Qwen3.6-27B.json'?)"},
        {"batch = 3", ":3" X "batch: must come from batch.layout, lengths, "
         "random, sequences or tree, not be a number"},
        {"weights = 'nofolder'", ":3" X "weights: no file or folder "
         "'nofolder' (looked in DIR)"},
        {"dtype = 'b16'",
         ":3" X "dtype: unknown value 'b16' (did you mean 'bf16'?)"},
        {"dtype = 'quad'",
         ":3" X "dtype: unknown value 'quad' (known: bf16 f32 f64)"},
        {"recompute = 'slective'", ":3" X "recompute: unknown value "
         "'slective' (did you mean 'selective'?)"},
        {"wave = 'hiden'", ":3" X "wave: unknown value 'hiden' (did you "
         "mean 'hidden'?)"},
        {"grad = 1", ":3" X "grad: must be true or false, not 1"},
        {"compiled = 'no'", ":3" X "compiled: must be true or false, not "
         "'no'"},
        {"recompute_modules = {'mlp'}", ":3" X "recompute_modules: go with "
         "recompute = \"selective\" only, not with \"full\""},
        {"recompute = 'selective', recompute_modules = {'mlp', 'core'}",
         ":3" X "recompute_modules: unknown value 'core' (did you mean "
         "'core_attn'?)"},
        {"otherwise = {'fused', 'quad'}", ":3" X "otherwise: unknown value "
         "'quad' (known: norm-freed v-copied fused autograd rounded "
         "table-late blas-late wide-last router-state qkv-sliced "
         "embedding-whole adapter-scaled residual-fused weights-apart)"},
        {"recompute = 'selective', recompute_modules = {'moe', 'moe'}",
         ":3" X "recompute_modules: names moe twice"},
        {"recompute = 'selective', recompute_modules = {3}",
         ":3" X "recompute_modules: unknown value '' (known: core_attn mlp "
         "moe)"},
        {"recompute = 'selective', recompute_modules = 'mlp'",
         ":3" X "recompute_modules: must be a table, not 'mlp'"},
        {"name = 'a b'", ":3: case 'a b': name: may hold up to 100 letters, "
         "digits and ._+=@-"},
        {"name = 5", ":3: case 1: name: must be a string, not 5"},
    };

    (void)state;
    check_case(c, sizeof c / sizeof *c);
}

static void test_case_tables(void **state)
{
    static const struct complaint c[] = {
        {"routing = 'balancd'", ":3" X "routing: unknown value 'balancd' "
         "(did you mean 'balanced'?)"},
        {"routing = 3", ":3" X "routing: must be \"balanced\", {cv, seed}, "
         "{share, rank}, {hot_expert, factor}, {loads}, {histogram}, or a "
         "list of such, one a wave"},
        {"routing = 'skewed'", ":3" X "routing: must be \"balanced\", {cv, "
         "seed}, {share, rank}, {hot_expert, factor}, {loads}, {histogram}, "
         "or a list of such, one a wave"},
        {"routing = {cv = 1}", ":2" X "routing: 'seed' is missing"},
        {"routing = {cv = 17, seed = 1}",
         ":3" X "routing: cv: must be from 0 to 16, not 17"},
        {"routing = {}",
         ":2" X "routing: must have one of cv, share, hot_expert, "
         "loads and histogram"},
        {"routing = {share = 1, cv = 1}",
         ":2" X "routing: must have one of cv, share, hot_expert, "
         "loads and histogram"},
        {"routing = {{cv = 1, seed = 1}, {share = 1, drift = 1}}",
         ":3" X "routing[2]: drift: goes with 'cv' only"},
        {"routing = {loads = 3}", ":3" X "routing: loads: must be a list of "
         "layers"},
        {"routing = {loads = {}}", ":3" X "routing: loads: must have a "
         "layer"},
        {"routing = {loads = {3}}", ":3" X "routing: loads: must have a list "
         "of experts for each layer"},
        {"routing = {loads = {{}}}", ":3" X "routing: loads: has no experts, "
         "or too many"},
        {"routing = {loads = {{1, 2}, {1}}}", ":3" X "routing: loads: has 1 "
         "experts in layer 1, and 2 in layer 0"},
        {"routing = {loads = {{1, -2}}}", ":3" X "routing: loads: must be "
         "whole numbers from 0 to 2^40"},
        {"routing = {loads = {{1, 2.5}}}", ":3" X "routing: loads: must be "
         "whole numbers from 0 to 2^40"},
        {"routing = {cv = 1, seed = 1, scaled = true}",
         ":3" X "routing: scaled: goes with 'histogram' only"},
        {"routing = {{cv = 1, seed = 1}, 3}",
         ":3" X "routing: of a list, every wave's must be a table"},
        {"routing = {hot_expert = 3}", ":2" X "routing: 'factor' is "
         "missing"},
        {"routing = {share = 1, factor = 3}",
         ":3" X "routing: factor: goes with 'burst' or 'hot_expert' only"},
        {"routing = {share = 1.1, rank = 3}",
         ":3" X "routing: rank: must be below ep, 1"},
        {"cp = 2, ep = 2, routing = {share = 2.5}",
         ":3" X "routing: share: must be at most ep, 2, not 2.5"},
        {"routing = {share = 1, seed = 3}",
         ":3" X "routing: seed: goes with 'cv' only"},
        {"routing = {sed = 3}",
         ":3" X "routing: unknown key 'sed' (did you mean 'seed'?)"},
        {"routing = {histogram = 'no.csv'}",
         ":3" X "routing: histogram: must name a CSV file that is there"},
        {"plan = {cut = 10}", ":3" X "plan: cut: must be less than the "
         "batch's 10 tokens, not 10"},
        {"plan = {profile = 'newer'}",
         ":3" X "plan: profile: unknown value 'newer' (known: old new)"},
        {"plan = 3", ":3" X "plan: must be a table, not 3"},
        {"tolerance = {under = 1}", ":2" X "tolerance: 'over' is missing"},
        {"tolerance = {under = 101, over = 1}",
         ":3" X "tolerance: under: must be from 0 to 100, not 101"},
        {"published = {before = 1}", ":3" X "published: unknown key 'before' "
         "(did you mean 'before_cold'?)"},
    };

    (void)state;
    check_case(c, sizeof c / sizeof *c);
}

/* Of many alike the line is that of the case and of the value. */
static void test_which_line(void **state)
{
    static const struct complaint c[] = {
        {"{name = 'p', model = m, batch = b, layers = 8},\n"
         "{name = 'q', model = m, batch = b, layers = -1},\n",
         ":4: case 'q': layers: must be from 1 to 1000000000, not -1"},
        {"{name = 'p', model = m, batch = b, layers = 8},\n"
         "{name = 'q', model = m, batch = b,\n\nlayers = 2 - 8},\n",
         ":4: case 'q': layers: must be from 1 to 1000000000, not -6"},
        {"{name = 'p', model = m, batch = b},\n\n"
         "{name = 'p', model = m, batch = b}",
         ":2: cases: two have the name 'p'"},
        {"{name = 'p', model = m},", ":3: case 'p': 'batch' is missing"},
        {"{name = 'p', batch = b},", ":3: case 'p': 'model' is missing"},
        {"{model = m, batch = b},", ":2: case 1: 'name' is missing"},
        {"{name = 'p', model = m, batch = batch.layout{attention_rows = "
         "{5}}, cp = 2}", ":3: case 'p': batch: is a layout of 1 ranks, but "
         "cp is 2"},
        {"{name = 'p', model = m, batch = batch.layout{attention_rows = "
         "{5}}, plan = {cut = 1}}", ":3: case 'p': plan: has no meaning for "
         "a recorded layout"},
    };

    (void)state;
    CHECK(c, "local m, b = 'Qwen3.6-35B-A3B', batch.lengths{10}\n"
             "return {cases = {\n", "}}");
}

/* Of a case that was made of a table's row the place is that row. */
static void test_origin(void **state)
{
    struct scenario *s;
    struct err e;

    (void)state;
    assert_int_equal(fixture_load("return {cases = {{name = 'q', model = "
        "'tiny', batch = batch.lengths{10},\norigin = 't.csv:7', plan = {cut "
        "= 10}}}}", &s, &e), ERR_INPUT);
    e.text[strcspn(e.text, "\n")] = '\0';
    assert_string_equal(e.text, "t.csv:7: case 'q': plan: cut: must be less "
                        "than the batch's 10 tokens, not 10");
    assert_null(s);
}

static void test_options(void **state)
{
    static const struct complaint c[] = {
        {"a = {default = 1, max = 0}",
         ":2: option 'a': default: must be at most 0, not 1"},
        {"a = {default = 1, min = 1.5}",
         ":2: option 'a': min: must be an integer"},
        {"a = {default = 'x', min = 1}", ":2: option 'a': min: goes with "
         "numbers only, not a string"},
        {"a = {default = 'x', type = 'int'}",
         ":2: option 'a': default: must be an integer, not 'x'"},
        {"a = {default = 'x', type = 'integer'}", ":2: option 'a': type: "
         "unknown value 'integer' (known: int number string boolean)"},
        {"a = {default = 'x', values = {'y', 'z'}}",
         ":2: option 'a': default: must be one of y, z, not x"},
        {"a = {default = 'x', values = {'x', 2}}",
         ":2: option 'a': values: item 2 must be a string"},
        {"a = {default = {}}",
         ":2: option 'a': default: must be true or false, not a table"},
        {"a = {defalt = 1}",
         ":2: option 'a': unknown key 'defalt' (did you mean 'default'?)"},
        {"a = {}", ":2: option 'a': 'default' is missing"},
        {"a = 3", ":2: option 'a': must be a table, not 3"},
        {"[1] = {default = 1}",
         ":1: options: must have names of letters, digits, _ and - as keys"},
        {"tokens = {default = 1}",
         ":3: no option 'tokns' (did you mean 'tokens'?)"},
    };

    (void)state;
    CHECK(c, "return {options = {\n",
          "},\ncases = function(o) return o.tokns end}");
}

static void test_batches(void **state)
{
    static const struct complaint c[] = {
        {"layout{\n attention_rows = {1, 2}, gdn_rows = {1, 1}}",
         ":2: batch.layout: gdn_rows: must have the same sum as "
         "attention_rows, 3"},
        {"layout{attention_rows = {1, 2}, gdn_rows = {1}}",
         ":1: batch.layout: gdn_rows: must hold one number for each of the 2 "
         "ranks of attention_rows"},
        {"layout{attention_rows = {1, 2}}", ":1: batch.layout: 'stages' is "
         "missing (a list of stages for each of the 2 ranks)"},
        {"layout{attention_rows = {1, 2}, stages = {{}}}", ":1: batch.layout:"
         " stages: must hold one list for each of the 2 ranks"},
        {"layout{attention_rows = {9, 5}, stages = {{{q = 9, k = 9}}, {{q = "
         "5, k = 5},\n{q = 6, k = 9}}}}", ":2: batch.layout: stage 1 of rank "
         "1: q: must be from 0 to 5, not 6"},
        {"layout{attention_rows = {9, 5}, stages = {{{q = 9, k = 9}}, {{q = "
         "5, k = 5}, {q = 5, k = 10}}}}", ":1: batch.layout: stage 1 of rank "
         "1: k: must be from 0 to 9, not 10"},
        {"layout{attention_rows = {9}, stages = {{{q = 9, k = 9, k_len = 8}}"
         "}}", ":1: batch.layout: stage 0 of rank 0: k_len: must be from 9 "
         "to 1099511627776, not 8"},
        {"layout{attention_rows = {9}, stages = {{{q = 8, k = 9, q_full = "
         "true}}}}", ":1: batch.layout: stage 0 of rank 0: q_full: is true, "
         "but q is 8 and the rank holds 9 rows"},
        {"layout{attention_rows = {9}, stages = {{{q = 9, k = 9}, {q = 9, k "
         "= 0, remote = false}}}}", ":1: batch.layout: stage 1 of rank 0: "
         "remote: only a rank's first stage can be local"},
        {"layout{attention_rows = {9}, stages = {{{k = 9}}}}",
         ":1: batch.layout: stage 0 of rank 0: 'q' is missing"},
        {"layout{attention_rows = {0}}",
         ":1: batch.layout: attention_rows: has no rows at all"},
        {"layout{attention_rows = {1 << 41}}", ":1: batch.layout: "
         "attention_rows: item 1 must be an integer from 0 to "
         "1099511627776"},
        {"layout{attention_rows = {}}",
         ":1: batch.layout: attention_rows: must not be empty"},
        {"layout{}", ":1: batch.layout: 'attention_rows' is missing"},
        {"layout(3)", ":1: batch.layout: must be a table, not 3"},
        {"lengths{1, 0}", ":1: batch.lengths: item 2 must be an integer from "
         "1 to 1099511627776"},
        {"lengths{1 << 31}", ":1: batch.lengths: sequence 0: 2147483648 "
         "tokens (1 to 2147483647 are possible)"},
        {"lengths{}", ":1: batch.lengths: no sequences"},
        {"lengths{a = 1}",
         ":1: batch.lengths: must be a list, but has the key 'a'"},
        {"lengths()", ":1: batch.lengths: must be a list, not nil"},
        {"random{count = 3, length = {5, 2}, seed = 1}",
         ":1: batch.random: length: must be a number, or {least, most}"},
        {"random{count = 3, length = {5, 7}}",
         ":1: batch.random: 'seed' is missing"},
        {"random{count = 0, length = 1}",
         ":1: batch.random: count: must be from 1 to 1048576, not 0"},
        {"lenghts{1}", ":1: batch.lenghts: there is no such function (did you "
         "mean batch.lengths?)"},
        {"length{1}", ":1: batch.length: there is no such function (did you "
         "mean batch.lengths?)"},
        {"forest{1}", ":1: batch.forest: there is no such function (peakproof "
         "help batch)"},
        {"tree{'f.csv'}", ":1: batch.tree: has an item at 1, but takes only "
         "named keys (file = 'f.csv'?)"},
        {"tree{7}",
         ":1: batch.tree: has an item at 1, but takes only named keys"},
        {"tree('f.csv')", ":1: batch.tree: must be a table, not 'f.csv' "
         "(write batch.tree{file = 'f.csv'})"},
    };

    (void)state;
    CHECK(c, "return batch.", "");
}

static void test_batch_files(void **state)
{
    static const struct complaint c[] = {
        {"tree{parents = {-1, 3}, lengths = {1, 2}}", ":1: batch.tree: "
         "parents: segment 1: its parent 3 does not exist (0 to 1, or -1 for "
         "a root)"},
        {"tree{parents = {-1}, lengths = {1, 2}}",
         ":1: batch.tree: lengths: must have as many items as parents, 1"},
        {"tree{}", ":1: batch.tree: 'parents' is missing"},
        {"tree{file = 3}", ":1: batch.tree: file: must be a file name, not a "
         "number"},
        {"sequences{file = 'tau-airline-sequences', select = 200}",
         ":1: batch.sequences: select: must be from 0 to 199, not 200"},
        {"sequences{file = 'tau-airline-sequences', select = '1-3,x'}",
         ":1: batch.sequences: select: bad selection '1-3,x' (as in "
         "\"0-19,25\", each once, numbers below 200)"},
        {"sequences{file = 'tau-airline-sequences', select = {1, 1}}",
         ":1: batch.sequences: select: sequence 1 is chosen twice"},
        {"sequences{file = 'tau-airline-sequences', select = {}}",
         ":1: batch.sequences: select: no sequences chosen"},
        {"sequences{file = 'tau-airline-sequences', tree = true}",
         ":1: batch.sequences: tree: must be a file name or false"},
        {"sequences{select = 3}",
         ":1: batch.sequences: 'file' is missing"},
        {"pack{file = 'tau-airline-sequences', tokens = 5000}",
         ":1: batch.pack: select: sequence 0 has 5201 tokens, more than a "
         "wave's 5000"},
        {"pack{file = 'tau-airline-sequences'}",
         ":1: batch.pack: 'tokens' is missing"},
        {"lengths{1}.tokns",
         ":1: a batch has no 'tokns' (did you mean 'tokens'?)"},
    };

    (void)state;
    CHECK(c, "return batch.", "");
}

/* The traceback follows on lines of its own, innermost frame first. */
static void test_traceback(void **state)
{
    struct scenario *s;
    struct err e;
    char wanted[512];

    (void)state;
    assert_int_equal(fixture_load("local function make(n)\n"
                                  "  return batch.random{count = n}\n"
                                  "end\n"
                                  "return make(3)", &s, &e), ERR_INPUT);
    snprintf(wanted, sizeof wanted,
             "%s/s.lua:2: batch.random: 'length' is missing\n"
             "    [C]: in function 'batch.random'\n"
             "    s.lua:2: in function <s.lua:1>\n"
             "    (...tail calls...)", fixture_dir);
    assert_string_equal(e.text, wanted);
    /* a long one keeps the innermost frames, whole lines */
    assert_int_equal(fixture_load(
        "local function a_function_with_a_long_name(n) if n == 0 then "
        "error('deep') end a_function_with_a_long_name(n - 1) end "
        "a_function_with_a_long_name(50)", &s, &e), ERR_INPUT);
    assert_in_range(strlen(e.text), 800, sizeof e.text - 1);
    assert_non_null(strstr(e.text, "/s.lua:1: deep\n    [C]: in function "
                                   "'error'\n    s.lua:1: in upvalue"));
    assert_string_equal(e.text + strlen(e.text) - 6, "_name'");
}

/* Modules are named by their path. */
static void test_module(void **state)
{
    struct scenario *s;
    struct err e;
    char wanted[256];

    (void)state;
    fixture_write("part.lua", "return {name = 'm', model = 'none',\n"
                  "batch = batch.lengths{1}, layers = 0}");
    fixture_write("loop.lua", "return require 'loop'");
    assert_int_equal(fixture_load("return {cases = {require 'part'}}", &s,
                                  &e), ERR_INPUT);
    snprintf(wanted, sizeof wanted, "%s/part.lua:2: case 'm': layers: must be "
             "from 1 to 1000000000, not 0", fixture_dir);
    assert_string_equal(e.text, wanted);
    assert_int_equal(fixture_load("return require 'loop'", &s, &e),
                     ERR_INPUT);
    snprintf(wanted, sizeof wanted, "%s/loop.lua:1: require: module 'loop' "
             "requires itself\n", fixture_dir);
    assert_true(strncmp(e.text, wanted, strlen(wanted)) == 0);
    snprintf(wanted, sizeof wanted, ":1: require: no module 'nope' (no "
             "nope.lua in %s and lua)", fixture_dir);
    fixture_fails("return require 'nope'", ERR_INPUT, wanted);
    fixture_fails("return require '../loop'", ERR_INPUT, ":1: require: bad "
                  "module name '../loop' (letters, digits, _ - and dots)");
    fixture_fails("return require '/etc/passwd'", ERR_INPUT, ":1: require: "
                  "bad module name '/etc/passwd' (letters, digits, _ - and "
                  "dots)");
    fixture_fails("return require 'part.'", ERR_INPUT, ":1: require: bad "
                  "module name 'part.' (letters, digits, _ - and dots)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_top),
        cmocka_unit_test(test_longest_name),
        cmocka_unit_test(test_case_numbers),
        cmocka_unit_test(test_case_words),
        cmocka_unit_test(test_case_tables),
        cmocka_unit_test(test_which_line),
        cmocka_unit_test(test_origin),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_batches),
        cmocka_unit_test(test_batch_files),
        cmocka_unit_test(test_traceback),
        cmocka_unit_test(test_module),
    };

    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
