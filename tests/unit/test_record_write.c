/*
** Files of a run: frozen columns, quoting, what survives a crash at any byte,
** what a full disk leaves, whose folder is refused.
*/
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/file.h"
#include "record_fixture.h"

static struct record *start(const char *dir, enum record_mode mode)
{
    struct record *r = NULL;
    struct err e;

    if (record_open(dir, mode, &fixture_info, &r, &e) != ERR_OK)
        fail_msg("%s", e.text);
    return r;
}

static void stop(struct record *r, bool done)
{
    struct err e;

    if (record_close(r, done, &e) != ERR_OK) fail_msg("%s", e.text);
}

static void add(struct record *r, const char *name, int64_t unit)
{
    struct fixture f;
    struct err e;

    fixture_case(&f, "s", name, unit);
    if (record_case(r, &f.kase, &e) != ERR_OK) fail_msg("%s", e.text);
}

static void load(const char *dir, enum record_file f, struct buf *out)
{
    struct err e;

    if (file_read(fixture_path(dir, record_file_name(f)), 1 << 24, out, &e))
        fail_msg("%s", e.text);
}

static void load_all(const char *dir, struct buf text[RECORD_FILES])
{
    int f;

    memset(text, 0, RECORD_FILES * sizeof *text);
    for (f = 0; f < RECORD_FILES; f++)
        load(dir, (enum record_file)f, &text[f]);
}

static void free_all(struct buf text[RECORD_FILES])
{
    int f;

    for (f = 0; f < RECORD_FILES; f++) buf_free(&text[f]);
}

static void same_files(const char *dir, const struct buf want[RECORD_FILES])
{
    struct buf have[RECORD_FILES];
    int f;

    load_all(dir, have);
    for (f = 0; f < RECORD_FILES; f++)
        assert_string_equal(buf_text(&have[f]), buf_text(&want[f]));
    free_all(have);
}

static void put_file(const char *dir, const char *name, const char *text,
                     size_t len)
{
    FILE *f = fopen(fixture_path(dir, name), "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, len, f), len);
    fclose(f);
}

static void test_columns_are_frozen(void **state)
{
    static const char *const want[RECORD_FILES] = {
        "device,scenario,case,wave,temperature,rank,source,term,bytes,status,"
        "note\n",
        "device,scenario,case,wave,temperature,rank,allocated,requested,"
        "reserved,event,phase,layer,operator,category,received_pairs,"
        "hybridep_bytes,retained_bytes,start_bytes\n",
        "device,scenario,case,rank,layer,layer_kind,category,operator,count,"
        "bytes,rows,bytes_per_row,allocated_in,freed_in,freed_after\n",
        "device,scenario,case,wave,temperature,loss\n",
        "device,scenario,case,wave,temperature,rank,what,ns\n",
        "device,scenario,case,wave,temperature,rank,what,bytes\n",
        "device,scenario,case,about,model,layers,cp,ep,tp,pp,lora_rank,dtype,"
        "weights,recompute,recompute_modules,grad,compiled,wave,"
        "batch,tokens,sequences,attention_rows,gdn_rows,routed_rows,"
        "top_k,head_rows,output_bytes,routing,seed,waves,"
        "published_before_cold,published_before_warm,published_after_cold,"
        "published_after_warm,series,measured_bytes,measured_first_bytes,"
        "measured_retained_bytes,measured_note,printed_estimate,printed_by,"
        "otherwise,"
        "records,peaks,checksum,status,note\n",
        "check,cases,seed,failed,worst,note\n",
    };
    char *dir = fixture_dir();
    int f;

    (void)state;
    stop(start(dir, RECORD_REPLACE), true);
    for (f = 0; f < RECORD_FILES; f++) {
        struct buf b = BUF_INIT;
        load(dir, (enum record_file)f, &b);
        assert_string_equal(buf_text(&b), want[f]);
        buf_free(&b);
    }
    fixture_remove(dir);
}

/* The rows of one small case, to the byte. */
static void test_rows(void **state)
{
    struct fixture f;
    struct record_text t;
    struct err e;

    (void)state;
    memset(&t, 0, sizeof t);
    fixture_case(&f, "s, with \"quotes\"", " c", 1000000);
    f.kase.n_wave = 1;
    f.kase.published_before_cold = 18.2;
    f.kase.recompute = "selective";
    f.kase.modules = "core_attn+mlp";
    f.kase.compiled = false;
    f.kase.kind = "hidden";
    f.kase.series = "B";
    f.kase.measured_peak = 33;
    f.kase.measured_retained = 22;
    f.kase.printed_estimate = 44;
    f.kase.printed_by = "retained-split6";
    f.wave[0].n_estimate = f.wave[0].n_variant = f.wave[0].n_timing = 0;
    f.wave[0].n_rank = 0;
    f.wave[0].status = f.kase.status = STATUS_OOM;
    f.wave[0].note = "rank 1:\nfull";
    f.wave[0].has_loss = true;
    f.wave[0].loss = 0.1;
    f.kase.n_tensor = 1;
    assert_int_equal(record_render(&f.kase, &t, &e), ERR_OK);
    assert_string_equal(buf_text(&t.file[RECORD_RECORDS]),
        "dry,\"s, with \"\"quotes\"\"\",\" c\",0,cold,max,peak,total,,oom,"
        "\"rank 1:\nfull\"\n");
    assert_string_equal(buf_text(&t.file[RECORD_PEAKS]), "");
    assert_string_equal(buf_text(&t.file[RECORD_LOSSES]),
        "dry,\"s, with \"\"quotes\"\"\",\" c\",0,cold,0.1\n");
    assert_string_equal(buf_text(&t.file[RECORD_INVENTORY]),
        "dry,\"s, with \"\"quotes\"\"\",\" c\",0,39,attention,attention,"
        "attn.norm,1,214958080,52480,4096.00,recompute,backward,"
        "attn.qkv.dgrad\n");
    assert_string_equal(buf_text(&t.file[RECORD_CASES]),
        "dry,\"s, with \"\"quotes\"\"\",\" c\",,Qwen3.6-35B-A3B,40,2,2,1,1,8,"
        "bf16,random,selective,core_attn+mlp,yes,no,hidden,layout,96794,0,"
        "52480 44314,48194 48600,48397,8,0,0,balanced,1,1,18.2,,,,B,33,,22,,44,"
        "retained-split6,,1,0,"
        "18821d2c0fdf3330,oom,\n");
    record_text_free(&t);
}

static void test_peak_rows(void **state)
{
    struct fixture f;
    struct record_text t;
    struct err e;
    const char *s;

    (void)state;
    memset(&t, 0, sizeof t);
    fixture_case(&f, "s", "c", 1000000);
    f.rank[1][0].peak.tag.layer = -1;
    assert_int_equal(record_render(&f.kase, &t, &e), ERR_OK);
    s = buf_text(&t.file[RECORD_PEAKS]);
    assert_non_null(strstr(s, "dry,s,c,0,cold,1,230781376,230777280,"
        "232878528,4711,recompute,39,moe.fc2.sum,moe_experts,387176,1000,"
        "24000000,1048576\n"));
    assert_non_null(strstr(s, "recompute,,moe.fc2.sum"));
    s = buf_text(&t.file[RECORD_RECORDS]);
    assert_non_null(strstr(s, "dry,s,c,0,cold,1,peak,rounding,4096,ok,\n"));
    assert_non_null(strstr(s, "dry,s,c,0,cold,max,peak,total,230781376,ok,"));
    assert_non_null(strstr(s, ",0,per-rank/gdn,gdn,"));
    assert_non_null(strstr(s, ",1,per-rank/stages,moe_workspace.gdn,18,ok"));
    record_text_free(&t);
}

/* Sums that do not hold are refused, not written. */
static void test_wrong_sums(void **state)
{
    struct fixture f;
    struct record_text t;
    struct err e;

    (void)state;
    memset(&t, 0, sizeof t);
    fixture_case(&f, "s", "c", 1000000);
    f.rank[1][1].peak.by[CAT_OTHER]++;
    assert_int_equal(record_render(&f.kase, &t, &e), ERR_WRONG);
    assert_non_null(strstr(e.text, "s/c: wave 1 rank 1: the categories sum"));
    fixture_case(&f, "s", "c", 1000000);
    f.estimate[1].raw++;
    assert_int_equal(record_render(&f.kase, &t, &e), ERR_WRONG);
    assert_non_null(strstr(e.text, "the terms of per-rank sum to"));
    assert_null(t.file[RECORD_RECORDS].data);
}

static void test_pack(void **state)
{
    struct fixture f;
    struct record_text t, u;
    struct buf b = BUF_INIT;
    struct err e;
    size_t n;

    (void)state;
    memset(&t, 0, sizeof t);
    memset(&u, 0, sizeof u);
    fixture_case(&f, "s", "c", 1000000);
    f.kase.n_wave = 1;
    assert_int_equal(record_render(&f.kase, &t, &e), ERR_OK);
    record_text_pack(&t, &b);
    assert_int_equal(record_text_unpack(b.data, b.len, &u, &e), ERR_OK);
    for (n = 0; n < RECORD_CASE_FILES; n++)
        assert_string_equal(buf_text(&u.file[n]), buf_text(&t.file[n]));
    record_text_free(&u);
    for (n = 0; n < b.len; n += n < 64 ? 1 : 509)
        assert_int_equal(record_text_unpack(b.data, n, &u, &e), ERR_RUN);
    memset(b.data, 0xff, 8);    /* a length near 2^64 */
    assert_int_equal(record_text_unpack(b.data, b.len, &u, &e), ERR_RUN);
    record_text_free(&t);
    buf_free(&b);
}

/* The sizes of all files after k cases, k = 0, 1, 2. */
static void write_cases(const char *dir, size_t size[3][RECORD_FILES],
                        struct buf text[RECORD_FILES])
{
    struct record *r = start(dir, RECORD_REPLACE);
    int k, f;

    for (k = 0; k < 3; k++) {
        if (k > 0) add(r, k == 1 ? "one" : "two, quoted", 1000000 * k);
        for (f = 0; f < RECORD_FILES; f++) {
            struct stat st;
            stat(fixture_path(dir, record_file_name((enum record_file)f)),
                 &st);
            size[k][f] = (size_t)st.st_size;
        }
    }
    stop(r, false);
    load_all(dir, text);
}

/*
** A crash while the second case is written: every file before one is whole,
** that one ends at any byte, those after it do not have the case. Resuming
** keeps case one, and writing two again gives the same bytes.
*/
static void test_resume_after_any_byte(void **state)
{
    char *dir = fixture_dir();
    struct buf text[RECORD_FILES];
    size_t size[3][RECORD_FILES], at;
    int cut, f;

    (void)state;
    write_cases(dir, size, text);
    for (cut = 0; cut < RECORD_CASE_FILES; cut++) {
        size_t step = (size[2][cut] - size[1][cut]) / 40 + 1;
        for (at = size[1][cut]; at <= size[2][cut]; at += step) {
            enum record_status s;
            struct record *r;
            bool done;
            for (f = 0; f < RECORD_CASE_FILES; f++)
                put_file(dir, record_file_name((enum record_file)f),
                         text[f].data, f < cut ? size[2][f] :
                         f > cut ? size[1][f] : at);
            r = start(dir, RECORD_RESUME);
            assert_true(record_has(r, "dry", "s", "one", &s));
            assert_int_equal(s, STATUS_OK);
            done = record_has(r, "dry", "s", "two, quoted", &s);
            assert_int_equal(done, cut == RECORD_CASES && at == size[2][cut]);
            if (!done) add(r, "two, quoted", 2000000);
            stop(r, true);
            same_files(dir, text);
        }
    }
    free_all(text);
    fixture_remove(dir);
}

/* A commit mark whose rows never reached the disk does not count. */
static void test_mark_without_rows(void **state)
{
    char *dir = fixture_dir();
    struct buf text[RECORD_FILES];
    size_t size[3][RECORD_FILES];
    enum record_status s;
    struct record *r;

    (void)state;
    write_cases(dir, size, text);
    put_file(dir, "records.csv", text[0].data, size[2][0] - 10);
    r = start(dir, RECORD_RESUME);
    assert_true(record_has(r, "dry", "s", "one", &s));
    assert_false(record_has(r, "dry", "s", "two, quoted", &s));
    add(r, "two, quoted", 2000000);
    stop(r, true);
    same_files(dir, text);
    free_all(text);
    fixture_remove(dir);
}

static void test_same_case_twice(void **state)
{
    char *dir = fixture_dir();
    struct record *r = start(dir, RECORD_REPLACE);
    struct fixture f;
    struct err e;

    (void)state;
    add(r, "one", 1000000);
    fixture_case(&f, "s", "one", 1000000);
    assert_int_equal(record_case(r, &f.kase, &e), ERR_USAGE);
    assert_non_null(strstr(e.text, "case dry,s,one stands twice"));
    stop(r, true);
    fixture_remove(dir);
}

static void test_checks(void **state)
{
    const struct record_check c = {"mirror-executor", 10000,
                                   18446744073709551615u, 0, -3, "bytes, max"};
    char *dir = fixture_dir();
    struct record *r = start(dir, RECORD_REPLACE);
    struct buf b = BUF_INIT;
    enum record_status status;
    struct err e;

    (void)state;
    assert_int_equal(record_check(r, &c, &e), ERR_OK);
    stop(r, true);
    load(dir, RECORD_CHECKS, &b);
    assert_non_null(strstr(buf_text(&b), "\nmirror-executor,10000,"
                           "18446744073709551615,0,-3,\"bytes, max\"\n"));
    buf_free(&b);
    r = start(dir, RECORD_APPEND);              /* keeps them, takes more */
    add(r, "imported", 1000000);
    stop(r, true);
    r = start(dir, RECORD_APPEND);
    assert_true(record_has(r, "dry", "s", "imported", &status));
    stop(r, true);
    load(dir, RECORD_CHECKS, &b);
    assert_non_null(strstr(buf_text(&b), "mirror-executor"));
    buf_free(&b);
    stop(start(dir, RECORD_RESUME), true);      /* they are made anew */
    load(dir, RECORD_CHECKS, &b);
    assert_null(strstr(buf_text(&b), "mirror-executor"));
    buf_free(&b);
    fixture_remove(dir);
}

static void refuse(const char *dir, enum record_mode mode,
                   const struct record_info *info, const char *why)
{
    struct record *r = NULL;
    struct err e;

    assert_int_equal(record_open(dir, mode, info, &r, &e), ERR_USAGE);
    assert_null(r);
    if (strstr(e.text, why) == NULL) fail_msg("%s", e.text);
}

static void test_whose_folder(void **state)
{
    struct record_info other = fixture_info;
    char *dir = fixture_dir();
    struct record *r;

    (void)state;
    refuse(dir, RECORD_APPEND, &fixture_info, "no run there");
    put_file(dir, "peaks.csv", "name,score\n", 11);
    refuse(dir, RECORD_REPLACE, &fixture_info, "not the columns");
    assert_int_not_equal(access(fixture_path(dir, "records.csv"), F_OK), 0);
    unlink(fixture_path(dir, "peaks.csv"));
    put_file(dir, "run.json", "{\"a\":1}\n", 8);
    refuse(dir, RECORD_REPLACE, &fixture_info, "not written by this program");
    unlink(fixture_path(dir, "run.json"));

    r = start(dir, RECORD_REPLACE);
    refuse(dir, RECORD_REPLACE, &fixture_info, "another run writes there");
    add(r, "one", 1000000);
    stop(r, false);
    refuse(dir, RECORD_APPEND, &fixture_info, "is not finished");
    other.identity = "something else";
    refuse(dir, RECORD_RESUME, &other, "other scenarios or settings");
    stop(start(dir, RECORD_REPLACE), true);
    fixture_remove(dir);
}

/* No file may grow past a limit that the second case does not fit in. */
static void test_full_disk(void **state)
{
    char *dir = fixture_dir();
    struct buf text[RECORD_FILES];
    size_t size[3][RECORD_FILES];
    struct rlimit old, now;
    struct record *r;
    struct fixture f;
    struct err e;

    (void)state;
    write_cases(dir, size, text);
    free_all(text);
    r = start(dir, RECORD_REPLACE);
    add(r, "one", 1000000);
    load_all(dir, text);
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    now = old;
    now.rlim_cur = size[2][RECORD_RECORDS] - 100;
    setrlimit(RLIMIT_FSIZE, &now);
    fixture_case(&f, "s", "two, quoted", 2000000);
    assert_int_equal(record_case(r, &f.kase, &e), ERR_RUN);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_non_null(strstr(e.text, "records.csv: File too large"));
    same_files(dir, text);
    stop(r, false);
    free_all(text);
    fixture_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_columns_are_frozen),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_peak_rows),
        cmocka_unit_test(test_wrong_sums),
        cmocka_unit_test(test_pack),
        cmocka_unit_test(test_resume_after_any_byte),
        cmocka_unit_test(test_mark_without_rows),
        cmocka_unit_test(test_same_case_twice),
        cmocka_unit_test(test_checks),
        cmocka_unit_test(test_whose_folder),
        cmocka_unit_test(test_full_disk),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
