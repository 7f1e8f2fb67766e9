/*
** test_base_clean.c - what counts as UTF-8 and as safe to print, held against
** the definition: a character is the shortest form of a number that Unicode
** has (RFC 3629), a control one below 0x20 or from 0x7f to 0x9f.
*/
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/clean.h"

/* The bytes of code point c. */
static size_t encode(uint32_t c, unsigned char *s)
{
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4, i;

    for (i = n; i-- > 1; c >>= 6) s[i] = (unsigned char)(0x80 | (c & 0x3f));
    s[0] = (unsigned char)(n == 1 ? c : (0xf00u >> n & 0xf0) | c);
    return n;
}

static int exists(uint32_t c)
{
    return c < 0xd800 || (c >= 0xe000 && c < 0x110000);
}

/* The length of the character that these n bytes begin with, its number in
** *c; 0: none. Bits first, then whether that number has just these bytes. */
static size_t decode(const unsigned char *s, size_t n, uint32_t *c)
{
    unsigned char again[4];
    size_t len = 0, i;

    while (len < 8 && (s[0] & (0x80 >> len))) len++;
    if (len == 1 || len > 4) return 0;
    if (len == 0) len = 1;
    if (len > n) return 0;
    *c = len == 1 ? s[0] : s[0] & (0x7fu >> len);
    for (i = 1; i < len; i++) *c = *c << 6 | (s[i] & 0x3f);
    if (!exists(*c) || encode(*c, again) != len) return 0;
    return memcmp(s, again, len) == 0 ? len : 0;
}

static void check(const unsigned char *s, size_t n)
{
    unsigned char want[8], got[8];
    size_t valid = 0, at, len;
    uint32_t c;

    while (valid < n && (len = decode(s + valid, n - valid, &c)) > 0)
        valid += len;
    if (text_valid((const char *)s, n) != valid)
        fail_msg("%02x %02x %02x %02x: not valid to %zu", s[0], s[1], s[2],
                 s[3], valid);
    memcpy(want, s, n);
    want[n] = '\0';
    memcpy(got, want, n + 1);
    if (memchr(s, '\0', n) != NULL) return;     /* ends there */
    for (at = 0; at < n; at += len) {
        len = decode(s + at, n - at, &c);
        if (len == 0 || c < 0x20 || (c >= 0x7f && c < 0xa0))
            want[at] = '?', len = 1;
    }
    text_clean((char *)got);
    if (memcmp(got, want, n + 1) != 0)
        fail_msg("%02x %02x %02x %02x: cleaned otherwise", s[0], s[1], s[2],
                 s[3]);
}

/* A whole mark, and within the text. */
static void test_mark(void **state)
{
    static const char text[] = "\xef\xbb\xbf\xef\xbb\xbf";

    (void)state;
    assert_int_equal(text_mark(text, 6), 3);
    assert_int_equal(text_mark(text, 3), 3);
    assert_int_equal(text_mark(text, 2), 0);
    assert_int_equal(text_mark(text + 1, 5), 0);
    assert_int_equal(text_mark("", 0), 0);
}

/* Four bytes: any two, then those at the edges of what may follow. */
static void test_bytes(void **state)
{
    static const unsigned char edge[] = {0x1f, 0x7f, 0x80, 0x8f, 0x90, 0x9f,
                                         0xa0, 0xbf, 0xc0, 0xff};
    unsigned char s[5] = {0};
    size_t i, k;
    int a, b;

    (void)state;
    for (a = 0; a < 256; a++)
        for (b = 0; b < 256; b++)
            for (i = 0; i < sizeof edge; i++)
                for (k = 1; k < sizeof edge; k += 3) {
                    s[0] = (unsigned char)a;
                    s[1] = (unsigned char)b;
                    s[2] = edge[i];
                    s[3] = edge[k];
                    check(s, 4);
                }
    for (a = 0; a < 256; a++) {         /* cut off */
        memset(s, 0x85, sizeof s);
        s[0] = (unsigned char)a;
        for (i = 1; i < 4; i++) check(s, i);
    }
}

static void test_characters(void **state)
{
    unsigned char s[5];
    uint32_t c;

    (void)state;
    for (c = 0; c < 0x110000; c++) {
        size_t n = encode(c, s), plain = n;

        s[n] = '\0';
        assert_int_equal(text_valid((char *)s, n), exists(c) ? n : 0);
        if (c < 0x20 || (c >= 0x7f && c < 0xa0)) plain = 0;
        assert_int_equal(text_plain((char *)s, n), plain);
    }
    assert_int_equal(text_plain("ab\ncd", 5), 2);
    assert_int_equal(text_plain("ab\ncd", 2), 2);
}

/* Tabs and ends of lines stay, a NUL in the midst does not, and what follows
** the text is not touched. */
static void test_lines(void **state)
{
    char s[] = "a\033\tb\n\n\0c\302\233\n\177\0\033";

    (void)state;
    text_clean_lines(s, 12);
    assert_memory_equal(s, "a?\tb\n\n?c??\n?\0\033", sizeof s);
    text_clean_lines(s + 12, 0);
    assert_memory_equal(s + 12, "\0\033", 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mark), cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_characters), cmocka_unit_test(test_lines),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
