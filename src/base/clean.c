/* clean.c - see clean.h */
#include "base/clean.h"

#include <string.h>

/* The length of the UTF-8 character at s, n bytes before the end; 0: it is
** none. */
static size_t character(const unsigned char *s, size_t left)
{
    size_t n = s[0] < 0x80 ? 1 : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
             : s[0] >= 0xe0 && s[0] < 0xf0 ? 3
             : s[0] >= 0xf0 && s[0] < 0xf5 ? 4 : 0;

    if (n > left) return 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80) return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] >= 0xa0)
        || (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] >= 0x90))
        return 0;
    return n;
}

/* C0, DEL, and C1 as UTF-8 has it; s ends with a NUL. */
static int is_control(const unsigned char *s)
{
    return s[0] < 0x20 || s[0] == 0x7f
           || (s[0] == 0xc2 && s[1] >= 0x80 && s[1] < 0xa0);
}

size_t text_plain(const char *text, size_t n)
{
    size_t i = 0;

    while (i < n && !is_control((const unsigned char *)text + i)) i++;
    return i;
}

size_t text_valid(const char *text, size_t n)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t i = 0, more;

    while (i < n && (more = character(s + i, n - i)) > 0) i += more;
    return i;
}

size_t text_mark(const char *text, size_t n)
{
    static const char mark[] = "\xef\xbb\xbf";

    return n >= 3 && memcmp(text, mark, 3) == 0 ? 3 : 0;
}

void text_clean(char *text)
{
    unsigned char *s = (unsigned char *)text;
    size_t left = strlen(text);

    while (left > 0) {
        size_t n = character(s, left);

        if (n == 0 || is_control(s)) *s = '?', n = 1;
        s += n;
        left -= n;
    }
}

void text_clean_lines(char *text, size_t n)
{
    char *p = text;

    for (;;) {
        size_t line = strcspn(p, "\n\t");
        char after = p[line];

        p[line] = '\0';
        text_clean(p);
        p += line;
        if (p == text + n) return;
        *p++ = after != '\0' ? after : '?';
    }
}
