/*
** err.h - the one way a function reports that it failed.
**
** A function that can fail returns an enum err_code (0 is success) and
** takes a caller-owned struct err, filled only on failure. Codes are the
** program's exit codes, so no table translates them. The text is one line,
** lower case, without a final stop: "what: why (remedy)".
*/
#ifndef BASE_ERR_H
#define BASE_ERR_H

enum err_code {
    ERR_OK = 0,
    ERR_RUN = 1,          /* the run failed: I/O, memory of the host, a rank */
    ERR_USAGE = 2,        /* unknown command, option or value */
    ERR_INPUT = 3,        /* a bad input file of any kind */
    ERR_CHECK = 4,        /* a check failed */
    ERR_DEVICE = 5,       /* device not available */
    ERR_OOM = 6,          /* the workload ran out of device memory */
    ERR_WRONG = 7,        /* wrong numbers */
    ERR_INTERRUPTED = 130
};

struct err {
    enum err_code code;
    char text[1024];
};

#define ERR_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define MUST_CHECK __attribute__((warn_unused_result))

/* Sets code and text; returns the code, so "return err_set(...)" reads well.
** e may be NULL: then only the code is returned. */
int err_set(struct err *e, enum err_code code, const char *fmt, ...)
    ERR_PRINTF(3, 4);

/* Puts "prefix: " before the text that is there; returns its code. */
int err_wrap(struct err *e, const char *fmt, ...) ERR_PRINTF(2, 3);

/* The error for a failed host allocation. */
int err_nomem(struct err *e);

#endif
