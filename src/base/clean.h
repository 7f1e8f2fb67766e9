/*
** clean.h - text of a file: UTF-8, and safe to print.
*/
#ifndef BASE_CLEAN_H
#define BASE_CLEAN_H

#include <stddef.h>

/* What a terminal, JSON or XML must not see (controls, bytes that are no
** UTF-8) becomes '?', also where text was cut in the middle of a character. */
void text_clean(char *text);
/* The same of n bytes, which a NUL follows and some may be; tabs and the ends
** of lines stay. */
void text_clean_lines(char *text, size_t n);
/* Bytes of the text before its first control character; n: it has none. */
size_t text_plain(const char *text, size_t n);
/* Bytes of the text before the first that is no UTF-8; n: all is. */
size_t text_valid(const char *text, size_t n);
/* Bytes of the mark of byte order (U+FEFF) that the n bytes of text begin
** with, as some editors leave one: 3, or 0. Every reader of a text skips it. */
size_t text_mark(const char *text, size_t n);

#endif
