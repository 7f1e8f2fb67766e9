/* clean.c - see clean.h */
#include "base/clean.h"

#include <stddef.h>

/* The length of the UTF-8 character at s; 0: it is none, or a control. */
static size_t character(const unsigned char *s)
{
    size_t n = s[0] < 0x80 ? 1 : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
             : s[0] >= 0xe0 && s[0] < 0xf0 ? 3
             : s[0] >= 0xf0 && s[0] < 0xf5 ? 4 : 0;

    if (n == 1) return s[0] >= 0x20 && s[0] != 0x7f;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80) return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] >= 0xa0)
        || (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] >= 0x90)
        || (s[0] == 0xc2 && s[1] < 0xa0))
        return 0;
    return n;
}

void text_clean(char *text)
{
    unsigned char *s = (unsigned char *)text;

    while (*s != '\0') {
        size_t n = character(s);

        if (n == 0) *s = '?';
        s += n > 0 ? n : 1;
    }
}
