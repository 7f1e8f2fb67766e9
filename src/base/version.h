/*
** version.h - which build of peakproof this is, and where it will lie. The
** Makefile gives both when it compiles version.c, and makes that one file
** anew when either changes.
*/
#ifndef BASE_VERSION_H
#define BASE_VERSION_H

extern const char peakproof_version[];  /* as "git describe" says it */
extern const char peakproof_release[];  /* "1.0.0", of CHANGELOG.md */
extern const char peakproof_prefix[];   /* of "make install" */

#endif
