/* A folder of safetensors: every number as stored, every damage by name. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "model/checkpoint.h"
#include "safetensors.h"

#define ONE "model.safetensors"
#define X "{\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}"

static void refused(const char *dir, const char *text)
{
    struct checkpoint *c = NULL;
    struct err e;
    int rc = checkpoint_open(dir, &c, &e);

    if (rc != ERR_INPUT || strstr(e.text, text) == NULL ||
        strchr(e.text, '\n') != NULL)
        fail_msg("expected \"%s\", got %d \"%s\"", text, rc, rc ? e.text : "");
    assert_null(c);
}

/* A folder with one file of this header and n bytes of data. */
static void damaged(const char *header, int64_t len, size_t n,
                    const char *text)
{
    static const char data[64];
    char *dir = st_folder();

    st_raw(dir, ONE, header, len, data, n);
    refused(dir, text);
    st_remove(dir);
}

/* What is not a finite number is named where it is read, not blamed on what
** is computed from it. */
static void test_not_finite(void **state)
{
    static const float bad[][2] = {{1, NAN}, {-INFINITY, 1}};
    static const char *const said[] = {
        "model.safetensors: x: element 1 is NaN, not a finite number",
        "model.safetensors: x: element 0 is infinite, not a finite number"
    };
    int i;

    (void)state;
    for (i = 0; i < 2; i++) {
        char *dir = st_folder();
        struct checkpoint *c = NULL;
        double out[2];
        struct err e;
        st_raw(dir, ONE, X, -1, bad[i], sizeof bad[i]);
        assert_int_equal(checkpoint_open(dir, &c, &e), ERR_OK);
        assert_int_equal(checkpoint_read(c, checkpoint_get(c, "x"), 0, 2, out,
                                         &e), ERR_INPUT);
        if (strstr(e.text, said[i]) == NULL) fail_msg("%s", e.text);
        checkpoint_close(c);
        st_remove(dir);
    }
}

static void test_damage(void **state)
{
    (void)state;
    damaged(X, 1000, 8, "model.safetensors: a header of 1000 bytes does not "
            "fit the file (truncated?)");
    damaged(X, INT64_MAX, 8, "does not fit the file");
    damaged(X, 200000000, 8, "does not fit the file");
    damaged(X, -1, 7, "x.data_offsets");
    damaged("{\"x\":{\"dtype\":\"F32\",\"shape\":[2],"
            "\"data_offsets\":[0,4]}}", -1, 8, "the shape needs other bytes");
    damaged("{\"x\":{\"dtype\":\"F32\",\"shape\":[2],"
            "\"data_offsets\":[8,0]}}", -1, 8, "the shape needs other bytes");
    damaged("{\"x\":{\"dtype\":\"F32\",\"shape\":[2],"
            "\"data_offsets\":[-8,0]}}", -1, 8, "x.data_offsets");
    damaged("{\"x\":{\"dtype\":\"F32\",\"shape\":[2],"
            "\"data_offsets\":[0]}}", -1, 8, "x.data_offsets");
    damaged("{\"x\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],"
            "\"data_offsets\":[0,8]}}", -1, 8, "does not fit 64-bit sizes");
    damaged("{\"x\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904],"
            "\"data_offsets\":[0,8]}}", -1, 8, "the shape needs other bytes");
    damaged("{\"x\":{\"dtype\":\"F32\",\"shape\":[2],"
            "\"data_offsets\":[0,8]},\"y\":{\"dtype\":\"F32\",\"shape\":[2],"
            "\"data_offsets\":[4,12]}}", -1, 12, "y.data_offsets: lies over x");
    damaged("{\"x\":{\"dtype\":\"I64\",\"shape\":[1],"
            "\"data_offsets\":[0,9]}}", -1, 8, "x.data_offsets");
    damaged("{\"x\":{\"dtype\":\"F32\",\"shape\":[2]}}", -1, 8,
            "data_offsets");
    damaged("{\"x\":7}", -1, 8, "model.safetensors: x");
    damaged("[]", -1, 8, "model.safetensors");
    damaged("{\"x\":", -1, 8, "model.safetensors");
}

static void test_short_files(void **state)
{
    char *dir = st_folder(), gone[] = "/tmp/peakproof-no-such-folder";
    struct checkpoint *c = NULL;
    struct err e;

    (void)state;
    refused(dir, "no *.safetensors file in this folder");
    st_write(dir, ONE, "1234567", 7);
    refused(dir, "too short for a safetensors file");
    st_write(dir, ONE, "", 0);
    refused(dir, "too short for a safetensors file");
    refused(gone, gone);
    st_raw(dir, ONE, "{\"__metadata__\":{\"format\":\"pt\"}}", -1, "", 0);
    assert_int_equal(checkpoint_open(dir, &c, &e), ERR_OK);
    assert_int_equal(checkpoint_count(c), 0);
    checkpoint_close(c);
    checkpoint_close(NULL);
    st_remove(dir);
}

/* A FIFO has no writer to wait for; a folder of that name is none either. */
static void test_no_file(void **state)
{
    char *dir = st_folder(), path[200];

    (void)state;
    snprintf(path, sizeof path, "%s/" ONE, dir);
    assert_int_equal(mkfifo(path, 0600), 0);
    refused(dir, ONE ": not a regular file");
    st_remove(dir);
}

/* Tensors that no model asks for may be of any type and shape. */
static void test_beside(void **state)
{
    static const char header[] =
        "{\"conv\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,2],"
        "\"data_offsets\":[8,16]},"
        "\"rows\":{\"dtype\":\"I64\",\"shape\":[1],"
        "\"data_offsets\":[0,8]},"
        "\"x\":{\"dtype\":\"F32\",\"shape\":[2],"
        "\"data_offsets\":[16,24]}}";
    const struct checkpoint_tensor *t = NULL;
    const int64_t one = 1, two = 2;
    const int64_t data[3] = {-3, 0, 0};
    struct checkpoint *c = NULL;
    char *dir = st_folder();
    struct err e;
    double x = 0;

    (void)state;
    st_raw(dir, ONE, header, -1, data, sizeof data);
    assert_int_equal(checkpoint_open(dir, &c, &e), ERR_OK);
    assert_int_equal(checkpoint_count(c), 3);
    assert_string_equal(checkpoint_at(c, 1)->name, "rows");
    assert_int_equal(checkpoint_at(c, 1)->type, CKPT_I64);
    assert_int_equal(checkpoint_at(c, 0)->type, CKPT_OTHER);
    assert_int_equal(checkpoint_find(c, "x", &two, 1, &t, &e), ERR_OK);
    assert_int_equal(checkpoint_find(c, "rows", &one, 1, &t, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "rows is of a type or shape that is not"));
    assert_int_equal(checkpoint_find_any(c, "rows", &one, 1, &t, &e), ERR_OK);
    assert_int_equal(checkpoint_read(c, t, 0, 1, &x, &e), ERR_OK);
    assert_true(x == -3);
    assert_int_equal(checkpoint_find(c, "conv", &two, 1, &t, &e), ERR_INPUT);
    checkpoint_close(c);
    st_remove(dir);
}

/* ---- numbers ------------------------------------------------------------- */

static void check_read(const struct checkpoint *c, const char *name,
                       int64_t n, const double *want)
{
    const struct checkpoint_tensor *t = NULL;
    double got[4];
    struct err e;
    int64_t i;

    assert_int_equal(checkpoint_find(c, name, &n, 1, &t, &e), ERR_OK);
    assert_int_equal(checkpoint_read(c, t, 0, n, got, &e), ERR_OK);
    for (i = 0; i < n; i++) assert_true(got[i] == want[i]);
    assert_int_equal(checkpoint_read(c, t, n - 1, 1, got, &e), ERR_OK);
    assert_true(got[0] == want[n - 1]);
    assert_int_equal(checkpoint_read(c, t, n, 1, got, &e), ERR_RUN);
    assert_int_equal(checkpoint_read(c, t, -1, 1, got, &e), ERR_RUN);
    assert_int_equal(checkpoint_read(c, t, 0, n + 1, got, &e), ERR_RUN);
}

static void test_types(void **state)
{
    static const char header[] =
        "{\"d\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[0,16]},"
        "\"f\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[16,24]},"
        "\"h\":{\"dtype\":\"F16\",\"shape\":[4],\"data_offsets\":[24,32]},"
        "\"b\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[32,36]}}";
    const double d[2] = {0.1, -1e300}, f[2] = {0.5, (double)-3e38f};
    const float f32[2] = {0.5f, -3e38f};
    /* 1.5, -2, the smallest subnormal, the largest */
    const uint16_t h[4] = {0x3E00, 0xC000, 0x0001, 0x7BFF};
    const double h_want[4] = {1.5, -2, 0x1p-24, 65504};
    const uint16_t b[2] = {0x3F80, 0xC049};     /* 1, -3.140625 */
    const double b_want[2] = {1, -3.140625};
    char data[36], *dir = st_folder();
    struct checkpoint *c = NULL;
    struct err e;

    (void)state;
    memcpy(data, d, 16);
    memcpy(data + 16, f32, 8);
    memcpy(data + 24, h, 8);
    memcpy(data + 32, b, 4);
    st_raw(dir, ONE, header, -1, data, sizeof data);
    assert_int_equal(checkpoint_open(dir, &c, &e), ERR_OK);
    assert_int_equal(checkpoint_count(c), 4);
    check_read(c, "d", 2, d);
    check_read(c, "f", 2, f);
    check_read(c, "h", 4, h_want);
    check_read(c, "b", 2, b_want);
    checkpoint_close(c);
    st_remove(dir);
}

/* ---- names --------------------------------------------------------------- */

static void test_find(void **state)
{
    const int64_t two[2] = {2, 1}, three = 3;
    const struct checkpoint_tensor *t = NULL;
    char *dir = st_folder(), want[200];
    struct checkpoint *c = NULL;
    struct err e;

    (void)state;
    st_raw(dir, ONE, X, -1, "12345678", 8);
    assert_int_equal(checkpoint_open(dir, &c, &e), ERR_OK);
    assert_int_equal(checkpoint_find(c, "y", two, 1, &t, &e), ERR_INPUT);
    snprintf(want, sizeof want, "%s: tensor y is missing", dir);
    assert_string_equal(e.text, want);
    assert_int_equal(checkpoint_find(c, "x", two, 2, &t, &e), ERR_INPUT);
    snprintf(want, sizeof want, "%s/" ONE ": x has shape [2], the model needs "
             "[2, 1]", dir);
    assert_string_equal(e.text, want);
    assert_int_equal(checkpoint_find(c, "x", &three, 1, &t, &e), ERR_INPUT);
    assert_null(t);
    checkpoint_close(c);
    st_remove(dir);
}

static const char index_two[] =
    "{\"metadata\":{\"total_size\":16},\"weight_map\":{\"x\":\"a.safetensors\","
    "\"y\":\"b.safetensors\"}}";

/* Two shards by their index, which leaves other files of the folder alone. */
static void test_shards(void **state)
{
    const float x[2] = {1, 2}, y[2] = {3, 4};
    const double want_x[2] = {1, 2}, want_y[2] = {3, 4};
    char *dir = st_folder(), y_header[] = X;
    struct checkpoint *c = NULL;
    struct err e;

    (void)state;
    y_header[2] = 'y';
    st_raw(dir, "a.safetensors", X, -1, x, 8);
    st_raw(dir, "b.safetensors", y_header, -1, y, 8);
    st_write(dir, "c.safetensors", "rubbish", 7);
    refused(dir, "c.safetensors: too short");
    st_write(dir, "model.safetensors.index.json", index_two,
             sizeof index_two - 1);
    assert_int_equal(checkpoint_open(dir, &c, &e), ERR_OK);
    assert_int_equal(checkpoint_count(c), 2);
    check_read(c, "x", 2, want_x);
    check_read(c, "y", 2, want_y);
    checkpoint_close(c);
    st_raw(dir, "b.safetensors", X, -1, y, 8);
    refused(dir, "x is in");
    st_remove(dir);
}

static void test_index(void **state)
{
    static const struct { const char *json, *text; } bad[] = {
        {"{}", "weight_map"},
        {"{\"weight_map\":7}", "weight_map"},
        {"{\"weight_map\":{\"x\":7}}", "weight_map"},
        {"{\"weight_map\":{\"x\":\"../a.safetensors\"}}",
         "must be a file of this folder"},
        {"{\"weight_map\":{\"x\":\"gone.safetensors\"}}",
         "gone.safetensors: No such file"},
        {"{", "model.safetensors.index.json"},
    };
    char *dir = st_folder();
    size_t i;

    (void)state;
    st_raw(dir, "a.safetensors", X, -1, "12345678", 8);
    for (i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        st_write(dir, "model.safetensors.index.json", bad[i].json,
                 strlen(bad[i].json));
        refused(dir, bad[i].text);
    }
    st_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_damage), cmocka_unit_test(test_short_files),
        cmocka_unit_test(test_types), cmocka_unit_test(test_beside),
        cmocka_unit_test(test_no_file), cmocka_unit_test(test_find),
        cmocka_unit_test(test_shards), cmocka_unit_test(test_index),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
