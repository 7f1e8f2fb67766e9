/*
** clean.h - text of a file that is safe to print.
*/
#ifndef BASE_CLEAN_H
#define BASE_CLEAN_H

/* What a terminal, JSON or XML must not see (controls, bytes that are no
** UTF-8) becomes '?', also where text was cut in the middle of a character. */
void text_clean(char *text);

#endif
